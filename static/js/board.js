// An open board: cards that arrive find their place, counts stay right, and Skip… asks for its reason.
import { isNewer, markMine, place, recount } from "./cards.js";

const statuses = [...document.querySelectorAll("[data-lane].lane-cards")].map((lane) => lane.dataset.lane);
const isCard = (element) => element?.matches?.("article.card[data-lane]");

for (const card of document.querySelectorAll(".card[data-you]")) markMine(card);

// Cards that an answer brings along find their own places.
document.addEventListener("htmx:afterSwap", () => {
  for (const brought of document.querySelectorAll("template[data-place]")) {
    for (const card of [...brought.content.children]) arrive(document.importNode(card, true));
    brought.remove();
  }
});
// A card on the socket whose id is not on the page yet is reported as an error by htmx; it is no error here.
document.addEventListener("htmx:oobErrorNoTarget", (event) => { if (isCard(event.detail.content)) arrive(event.detail.content); });

function arrive(card) {
  const placed = place(card);
  if (placed) { htmx.process(placed); freshen(placed); }
  recount(card.dataset.lane);
}
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const arriving = event.detail.fragment.firstElementChild;
  if (isCard(event.target) && isCard(arriving) && isNewer(event.target, arriving)) event.detail.shouldSwap = false;
});
document.addEventListener("htmx:oobAfterSwap", (event) => {
  const card = document.getElementById(event.detail.target.id);
  if (isCard(card) && place(card)) freshen(card);
  statuses.forEach(recount);
});
document.addEventListener("htmx:afterSwap", () => statuses.forEach(recount));

function freshen(card) {
  card.classList.add("is-fresh");
  card.addEventListener("animationend", () => card.classList.remove("is-fresh"), { once: true });
}

// Skip… : a small dialog, since cards hold no fields.
const dialog = document.getElementById("skip");
let skipping = null;

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-skip]");
  if (!button) return;
  skipping = button;
  dialog.querySelector("[data-title]").textContent = button.closest(".card").querySelector(".card-title a").lastChild.textContent;
  dialog.showModal();
});
dialog.addEventListener("close", async () => {
  const reason = dialog.querySelector("textarea");
  const address = skipping?.dataset.skip;
  if (dialog.returnValue !== "skip" || !address) return; // Escape and Keep it: the words stay for the next time
  const card = skipping.closest(".card");
  await htmx.ajax("POST", address, { source: skipping.isConnected ? skipping : document.body, swap: "none", values: { reason: reason.value } });
  reason.value = "";
  dialog.returnValue = "";
  card?.querySelector("a")?.focus();
});
