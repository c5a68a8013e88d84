// An open board: cards that an answer brings find their place, counts stay right, and Skip… asks for its reason.
// What the socket brings is placed by live_pieces.js in the same way.
import { markMine, place, recount } from "./cards.js";

const statuses = [...document.querySelectorAll("[data-lane].lane-cards")].map((lane) => lane.dataset.lane);

for (const card of document.querySelectorAll(".card[data-you]")) markMine(card);

document.addEventListener("htmx:afterSwap", () => {
  for (const brought of document.querySelectorAll("template[data-place]")) {
    for (const card of [...brought.content.children]) arrive(document.importNode(card, true));
    brought.remove();
  }
});

function arrive(card) {
  const placed = place(card);
  if (placed) { htmx.process(placed); freshen(placed); }
  recount(card.dataset.lane);
}
document.addEventListener("htmx:afterSwap", () => statuses.forEach(recount));

function freshen(card) {
  card.classList.add("is-fresh");
  card.addEventListener("animationend", () => card.classList.remove("is-fresh"), { once: true });
}

// Skip…: a small dialog, since cards hold no fields.
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
  dialog.returnValue = "";
  await htmx.ajax("POST", address, { source: skipping.isConnected ? skipping : document.body, swap: "none", values: { reason: reason.value } });
  (card.isConnected ? card : document.getElementById(card.id))?.querySelector("a")?.focus();
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (detail.successful && detail.pathInfo.requestPath === skipping?.dataset.skip) dialog.querySelector("textarea").value = "";
});
