// The keys of a flow's board: m opens the menu of a card, x chooses it, c starts a run.
import { offerCards } from "./card_keys.js";
import { openFor } from "./flow_menu.js";
import { offer } from "./keys.js";

const CARD_FIRST = "Go to a card with j or k first.";
const current = offerCards("#columns [data-column]", ".run-card");

offer({
  m: () => { const card = current(); if (!card) return CARD_FIRST; openFor(card); },
  x: () => { const card = current(); if (!card) return CARD_FIRST; card.querySelector(".pick input")?.click(); },
  c: () => start(),
});

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
