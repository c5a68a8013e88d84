// The keys of Needs you. They do nothing while the reader types, holds a modifier, or has a dialog open, and can be
// switched off (WCAG 2.1.4). "a" and "r" press a button of the row that is open, so its draft has been on the screen.

import { focusRow } from "./answer.js";

const dialog = document.getElementById("needs-keys");
const toggle = dialog.querySelector("[data-keys-on]");
const stored = () => { try { return localStorage.getItem("single-keys") !== "off"; } catch { return true; } };
toggle.checked = stored();
toggle.addEventListener("change", () => {
  try { localStorage.setItem("single-keys", toggle.checked ? "on" : "off"); } catch { /* good until the page closes */ }
});

const rows = () => [...document.querySelectorAll("#needs-list li.row")];
const focused = () => document.activeElement?.closest?.("#needs-list li.row");
const openRow = () => document.querySelector("#needs-list li.row[data-open]");
const current = () => focused() ?? openRow() ?? rows()[0];

function step(by) {
  const all = rows();
  const from = focused();
  focusRow(all[from ? all.indexOf(from) + by : 0] ?? from);
}

function press(key) {
  const row = current();
  if (row?.matches("[data-open]")) row.querySelector(`button[data-does="${key}"]`)?.click();
  else row?.querySelector("[data-open-row]")?.click();
}

function note() {
  const row = current();
  if (row?.matches("[data-open]")) row.querySelector("textarea")?.focus();
  else row?.querySelector("[data-open-row]")?.click();
}

function choose(number) {
  const option = openRow()?.querySelectorAll("input[type=radio]")[number - 1];
  option?.click();
  option?.focus();
}

const acts = {
  j: () => step(1),
  k: () => step(-1),
  a: () => press("a"),
  r: () => press("r"),
  n: note,
  u: () => [...document.querySelectorAll("[data-undo]")].pop()?.click(),
  x: () => focused()?.querySelector(".row-pick")?.click(),
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => dialog.showModal(),
};

// Out of a note back to its row, by Escape: what was typed stays.
document.addEventListener("keydown", (event) => {
  const row = event.key === "Escape" && event.target.matches?.("textarea") ? focused() : null;
  if (!row || event.defaultPrevented) return;
  event.preventDefault();
  focusRow(row);
});

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest?.("input:not([type=radio]), textarea, select, [contenteditable], dialog, [role=menu]")) return;
  if (document.querySelector("dialog[open]") || (!stored() && event.key !== "?")) return;
  const act = acts[event.key] ?? (/^[1-6]$/.test(event.key) ? () => choose(Number(event.key)) : null);
  if (!act) return;
  event.preventDefault();
  act();
});

// One row is open at a time: opening another folds the first, whose note is kept as a draft.
document.addEventListener("htmx:load", ({ detail: { elt } }) => {
  if (!elt.matches("#needs-list li.row[data-open]")) return;
  for (const other of document.querySelectorAll("#needs-list li.row[data-open]")) {
    if (other !== elt) htmx.ajax("GET", other.dataset.fold, { target: other, swap: "outerHTML" });
  }
  elt.focus();
});

// A link that opens a question leads to it, wherever it stands in the list.
if (new URLSearchParams(location.search).has("open")) openRow()?.scrollIntoView({ block: "start" });
