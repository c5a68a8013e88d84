// The keys of a board's cards. While a task stands in the drawer its questions have them (ask_keys.js).
import { offerCards } from "./card_keys.js";

offerCards("#lanes .lane-cards", ".card", () => !document.getElementById("drawer").hidden);
