// The menu of one card or of those that are chosen, and what came of an act: two dialogs, filled by the server, which
// decides. Without this module the same links and forms lead to pages.
import { release } from "./live_guard.js";

const menu = document.getElementById("run-menu");
const results = document.getElementById("run-results");
const narrow = matchMedia("(max-width: 40rem)");
let opener = null;

document.addEventListener("click", (event) => {
  const way = event.target.closest?.("a[data-run-menu]");
  if (!way || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  open(way.href, way.closest(".run-card") ?? way);
});

document.getElementById("picked").addEventListener("submit", (event) => {
  event.preventDefault();
  const chosen = new URLSearchParams(new FormData(event.target));
  if (chosen.size) open(`${event.target.action}?${chosen}`, event.submitter ?? event.target);
});

/** Open the menu of a card. */
export const openFor = (card) => open(card.querySelector("a[data-run-menu]").href, card);

async function open(address, by) {
  opener = by.id || by;
  await htmx.ajax("GET", address, { source: document.body, target: menu, swap: "innerHTML" });
  if (!menu.querySelector("form")) return; // refused: the toast says why
  menu.showModal();
  put(by);
  menu.querySelector("button:not([disabled])")?.focus();
}

// Beside what opened it, and wholly on the screen; on a phone the stylesheet lets it rise from below.
function put(by) {
  menu.style.inset = "";
  if (narrow.matches) return;
  const at = by.getBoundingClientRect(), own = menu.getBoundingClientRect();
  const below = at.bottom + own.height < innerHeight ? at.bottom + 2 : Math.max(8, innerHeight - own.height - 8);
  menu.style.inset = `${below}px auto auto ${Math.max(8, Math.min(at.left, innerWidth - own.width - 8))}px`;
}

const home = () => (typeof opener === "string" ? document.getElementById(opener)?.querySelector(".card-title a") : opener);

for (const dialog of [menu, results]) {
  dialog.addEventListener("click", (event) => {
    const close = event.target.closest?.("[data-close]");
    if (close) event.preventDefault();
    if (close || event.target === dialog) dialog.close(); // a click beside it
  });
  dialog.addEventListener("close", () => home()?.focus({ preventScroll: true }));
  dialog.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-menu-form]")) return;
    event.preventDefault();
    const values = new FormData(event.target, event.submitter);
    const address = event.submitter?.getAttribute("formaction") ?? event.target.action;
    dialog.close();
    send(address, values);
  });
}

// The number of a step chooses it; arrows go up and down, as in any menu.
menu.addEventListener("keydown", (event) => {
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  const items = [...menu.querySelectorAll("button:not([disabled]), summary")].filter((item) => item.offsetParent);
  const at = items.indexOf(document.activeElement);
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by) items[(at + by + items.length) % items.length]?.focus();
  else if (/^[1-9]$/.test(event.key)) menu.querySelector(`button[data-n="${event.key}"]:not([disabled])`)?.click();
  else return;
  event.preventDefault();
});

/** Do an act and show what came of it: a toast, or a line for each run. */
export async function send(address, values) {
  const runs = values.getAll("run");
  for (const number of runs) {
    const card = document.querySelector(`.run-card[data-run="${CSS.escape(number)}"]`);
    if (card) release(card.id);
  }
  results.replaceChildren();
  await htmx.ajax("POST", address, { source: document.body, target: results, swap: "innerHTML", values: plain(values) });
  document.dispatchEvent(new CustomEvent("flow:acted", { detail: { runs } }));
  if (results.querySelector("h2")) results.showModal();
}

function plain(values) {
  const told = {};
  for (const name of new Set(values.keys())) {
    const all = values.getAll(name);
    if (name !== "csrfmiddlewaretoken") told[name] = all.length > 1 ? all : all[0];
  }
  return told;
}
