// The keys of a flow's board: arrows go from card to card, m opens the menu, x chooses, c starts a run. They do nothing
// while the reader types, under a dialog, or where single keys were switched off (keys.js).
import { openFor } from "./flow_menu.js";
import { isCommand } from "./keys.js";

const help = document.getElementById("flow-keys");
const columns = () => [...document.querySelectorAll("#columns [data-column]")];
const cardsOf = (column) => [...(column?.querySelectorAll(".run-card") ?? [])];
const focusOn = (card) => card?.querySelector(".card-title a")?.focus();
const current = () => document.activeElement?.closest?.("#columns .run-card");

function down(card, by) {
  const cards = cardsOf(card.closest("[data-column]"));
  focusOn(cards[cards.indexOf(card) + by]);
}

// To the card at the same height of the next column that has any.
function across(card, by) {
  const all = columns();
  const row = cardsOf(card.closest("[data-column]")).indexOf(card);
  for (let at = all.indexOf(card.closest("[data-column]")) + by; all[at]; at += by) {
    const cards = cardsOf(all[at]);
    if (!cards.length) continue;
    focusOn(cards[Math.min(row, cards.length - 1)]);
    all[at].scrollIntoView({ block: "nearest", inline: "nearest" });
    return;
  }
}

const ofCard = {
  ArrowDown: (card) => down(card, 1),
  ArrowUp: (card) => down(card, -1),
  ArrowRight: (card) => across(card, 1),
  ArrowLeft: (card) => across(card, -1),
  m: openFor,
  x: (card) => card.querySelector(".pick input")?.click(),
};
const ofPage = {
  c: () => start(),
  "/": () => document.querySelector("#run-filter [name=q]").focus(),
  "?": () => help.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (!isCommand(event)) return;
  const card = current();
  const act = (card && ofCard[event.key] && (() => ofCard[event.key](card))) ?? ofPage[event.key] ?? enter(event, card);
  if (!act || document.querySelector("details[data-menu][open]")) return;
  event.preventDefault();
  act();
});

// From the row of columns itself an arrow leads to the first card.
function enter(event, card) {
  const there = !card && document.activeElement?.id === "columns" && /^Arrow(Down|Right)$/.test(event.key);
  return there ? () => focusOn(document.querySelector("#columns .run-card")) : null;
}

/** Open the form that starts a run, in a step where one is named. */
function start(step) {
  const box = document.getElementById("start-run");
  box.open = true;
  const choice = box.querySelector("[name=step]");
  if (step && choice) choice.value = step;
  box.querySelector("form :is(input:not([type=hidden]), textarea, select, button)")?.focus();
}

document.addEventListener("click", (event) => {
  const way = event.target.closest?.("[data-start-in]");
  if (!way) return;
  event.preventDefault();
  event.stopPropagation(); // else the click beside the open form would close it
  start(way.dataset.startIn);
});
if (location.hash === "#start") start(new URLSearchParams(location.search).get("step"));

const button = document.querySelector("[data-flow-keys]");
button.hidden = false;
button.addEventListener("click", () => help.showModal());
