// Questions and results that stand on a page of their own kind (a task, its drawer, a run) are answered with the same keys
// as in Needs you. A key presses a button of the question that holds the focus, or of the only one there is; one that is
// not on the screen is brought there first, so nothing is decided unread.

import { offer } from "./keys.js";

const SEVERAL = "Several questions wait here. Go to one with j or k first.";
const READ = "Here it is. Read it, then press the key once more.";

const drawer = () => document.querySelector("#drawer:not([hidden])");
const boxes = () => [...(drawer() ?? document).querySelectorAll("section.ask")];
const focused = () => document.activeElement?.closest?.("section.ask");

/** Press the button of `box` that a key stands for; false where it has none. */
export function pressIn(box, key) {
  const button = box?.querySelector(`button[data-does="${key}"]`);
  if (!button) return false;
  button.click();
}

/** Go to the note of `box`; false where it takes none. */
export function noteIn(box) {
  const note = box?.querySelector("textarea");
  if (!note) return false;
  note.focus();
}

/** Choose the option of that number; false where there is none. */
export function chooseIn(box, number) {
  const option = box?.querySelectorAll("input[type=radio]")[number - 1];
  if (!option) return false;
  option.click();
  option.focus();
}

function one(act, wanted) {
  const found = focused() ?? only(wanted);
  if (typeof found === "string") return found;
  if (!found) return false;
  return isOnScreen(found) || found.contains(document.activeElement) ? act(found) : show(found);
}

function only(wanted) {
  const able = boxes().filter((box) => box.querySelector(wanted));
  return able.length > 1 ? SEVERAL : able[0];
}

function isOnScreen(box) {
  const { top, bottom } = box.querySelector("h2, h3")?.getBoundingClientRect() ?? box.getBoundingClientRect();
  return top < innerHeight && bottom > 0;
}

function show(box) {
  box.scrollIntoView({ block: "start" });
  box.focus({ preventScroll: true });
  return READ;
}

function step(by) {
  const all = boxes();
  if (!all.length) return false;
  const at = all.indexOf(focused());
  const next = all[at < 0 ? 0 : at + by];
  next?.scrollIntoView({ block: "nearest" });
  next?.focus({ preventScroll: true });
}

const numbers = Object.fromEntries([1, 2, 3, 4, 5, 6].map((n) => [n, () => one((box) => chooseIn(box, n), "input[type=radio]")]));
offer({
  j: () => step(1),
  k: () => step(-1),
  a: () => one((box) => pressIn(box, "a"), '[data-does="a"]'),
  r: () => one((box) => pressIn(box, "r"), '[data-does="r"]'),
  n: () => one(noteIn, "textarea"),
  ...numbers,
});

// Out of a note back to its question, by Escape: what was typed stays.
document.addEventListener("keydown", (event) => {
  const field = event.key === "Escape" ? event.target.closest?.("textarea, input[type=radio]") : null;
  const box = field?.closest("section.ask");
  if (!box || event.defaultPrevented) return;
  event.preventDefault();
  box.focus();
});
