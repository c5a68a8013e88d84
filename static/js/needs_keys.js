// The keys of Needs you. "a" and "r" press a button of the row that is open, so its draft has been on the screen; on a row
// that is closed they open it first.

import { focusRow } from "./answer.js";
import { chooseIn, noteIn, pressIn } from "./ask_keys.js";
import { offer } from "./keys.js";

const OTHER = "This row is not answered with yes or no. Enter opens it, its buttons act.";
const NO_OPTIONS = "Open a question with options first.";
const ROW_FIRST = "Go to a row with j or k first.";

const rows = () => [...document.querySelectorAll("#needs-list li.row")];
const focused = () => document.activeElement?.closest?.("#needs-list li.row");
const openRow = () => document.querySelector("#needs-list li.row[data-open]");
const current = () => focused() ?? openRow() ?? rows()[0];

function step(by) {
  const all = rows();
  if (!all.length) return false;
  const from = focused();
  focusRow(all[from ? all.indexOf(from) + by : 0] ?? from);
}

// Do something in the row that is open; a closed one is opened, and the key acts the next time.
function inOpen(act) {
  const row = current();
  if (!row) return false;
  if (row.matches("[data-open]")) return act(row) === false ? OTHER : undefined;
  const way = row.querySelector("[data-open-row]");
  if (!way) return OTHER;
  way.click();
}

function select() {
  if (!rows().length) return false;
  const pick = focused()?.querySelector(".row-pick");
  if (!pick) return focused() ? "An open row is not selected. Go to a closed one." : ROW_FIRST;
  pick.click();
}

const choose = (number) => () => (chooseIn(openRow(), number) === false ? rows().length > 0 && NO_OPTIONS : undefined);

offer({
  j: () => step(1),
  k: () => step(-1),
  a: () => inOpen((row) => pressIn(row, "a")),
  r: () => inOpen((row) => pressIn(row, "r")),
  n: () => inOpen(noteIn),
  x: select,
  ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((number) => [number, choose(number)])),
});

// Out of a note back to its row, by Escape: what was typed stays.
document.addEventListener("keydown", (event) => {
  const row = event.key === "Escape" && event.target.matches?.("textarea") ? focused() : null;
  if (!row || event.defaultPrevented) return;
  event.preventDefault();
  focusRow(row);
});

// One row is open at a time: opening another folds the first, whose note is kept as a draft.
document.addEventListener("htmx:load", ({ detail: { elt } }) => {
  if (!elt.matches("#needs-list li.row[data-open]")) return;
  for (const other of document.querySelectorAll("#needs-list li.row[data-open]")) {
    if (other !== elt) htmx.ajax("GET", other.dataset.fold, { target: other, swap: "outerHTML" });
  }
  elt.focus();
});

// A link that opens a row leads to it, wherever it stands in the list.
if (new URLSearchParams(location.search).has("open")) openRow()?.scrollIntoView({ block: "start" });
