// Answers to questions: notes keep their drafts, a refusal stands in its own form and leads back to what one writes
// there, and what was decided hands the focus on. Nothing but a press of a button (or its key) ever answers; Escape and leaving do not.

import "./ask_keys.js";
import { forget, restore } from "./drafts.js";
import { goOn } from "./refused.js";

const NO_ANSWER = "The server did not answer. Nothing you wrote is lost; try again.";
const FAILED = "The server could not take this. Nothing you wrote is lost; try again.";

// What arrives: drafts are put back; a question that was closed meanwhile locks the form that still stands open.
document.addEventListener("htmx:load", ({ detail: { elt } }) => {
  restore(elt);
  const wrong = elt.querySelector("[data-form-swaps] [aria-invalid], [data-form-swaps] [data-wrong]");
  if (wrong) wrong.focus();
  const closed = elt.matches("[data-closed]") ? elt : elt.querySelector("[data-closed]");
  const form = closed?.closest("form");
  if (form) lock(form);
});

function lock(form) {
  for (const group of form.querySelectorAll("fieldset")) group.disabled = true;
  for (const field of form.querySelectorAll("textarea, input")) field.readOnly = true;
}

const formOf = (elt) => elt?.closest?.("[data-ask-form]");
let next = null; // the row that takes the focus once the answered one has gone
let told = false; // whether the answer that arrived carries its own sentence

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const asked = detail.requestConfig?.elt;
  const form = formOf(asked);
  const again = detail.xhr.status === 422 && asked?.matches("[data-form-swaps]"); // the form, with a sentence at each field
  told = form ? detail.serverResponse.includes("data-wrong") : false;
  if (again || (told && detail.xhr.status >= 400)) { detail.shouldSwap = true; detail.isError = false; }
  if (form) next = neighbour(form.closest("li.row"));
});

// The element that asked may be gone by now, so it is taken from the request, not from the event.
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  const asked = detail.requestConfig?.elt;
  const form = formOf(asked);
  if (!form) {
    if (asked?.matches("[data-row-act]") && detail.successful) {
      focusRow(asked.closest("li.row")); // its button was locked and lost the focus
      refresh();
    }
    return;
  }
  if (detail.xhr.status >= 200 && detail.xhr.status < 300) return decided(form);
  const live = document.getElementById(form.id) ?? form; // a changed draft came with a form of its own
  if (!told) say(live, detail.xhr.status ? FAILED : NO_ANSWER);
  told = false;
  const place = live.querySelector("[data-wrong]") ?? live.closest("li")?.querySelector("[data-wrong]");
  if (live.closest("li, section")?.querySelector("[data-closed]")) lock(live);
  goOn(live, place, detail.xhr.status);
});

function decided(form) {
  forget(form);
  const answered = document.getElementById(`ask-${form.dataset.askForm}`);
  if (answered) answered.focus();
  else focusRow(next);
  refresh();
}

function say(form, sentence) {
  const wrong = document.createElement("p");
  Object.assign(wrong, { className: "wrong", tabIndex: -1, textContent: sentence });
  wrong.dataset.wrong = "";
  wrong.setAttribute("role", "alert");
  (form.querySelector(".ask-result") ?? form.closest("li")?.querySelector(".ask-result") ?? form).replaceChildren(wrong);
}

document.addEventListener("click", (event) => {
  const box = event.target.closest?.("[data-drop]")?.closest("li.row, section.ask");
  if (!box) return;
  forget(box);
  next = neighbour(box);
  box.remove();
  focusRow(next);
});

export function neighbour(row) {
  const rows = [...document.querySelectorAll("li.row")];
  const at = rows.indexOf(row);
  return rows[at + 1] ?? rows[at - 1] ?? null;
}

export function focusRow(row) {
  const place = row?.matches("[data-open]") ? row : row?.querySelector("h3 a");
  (place ?? document.getElementById("needs-body"))?.focus();
}

document.body.addEventListener("hold:undone", () => refresh());
document.addEventListener("settled", () => refresh());

const refresh = () => { const live = document.getElementById("needs-live"); if (live) htmx.trigger(live, "live:changed"); };
