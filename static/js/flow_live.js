// A flow's board, live: the columns are read again when runs change, and put in card by card, so that nothing takes the
// focus, an open menu or a drag (live_guard.js). What a card says is compared by its print; unchanged ones stay.
import { focusMark, forget, isBusy, putOff, refocus } from "./live_guard.js";
import { moved } from "./live_say.js";

const main = document.getElementById("main");
const live = document.getElementById("flow-live");
const shown = new Map(); // column -> how many of its cards the reader asked for
const columns = () => document.getElementById("columns");
const column = (key) => columns().querySelector(`[data-column="${CSS.escape(key)}"]`);

/** Read the columns again, now. */
export const refresh = () => htmx.trigger(live, "live:changed");

live.addEventListener("htmx:configRequest", ({ detail }) => {
  const asked = new URLSearchParams(columns().dataset.filter);
  for (const [key, count] of shown) asked.set(`n.${key}`, count);
  for (const [name, value] of asked) detail.parameters[name] = value;
});

live.addEventListener("htmx:afterRequest", ({ detail: { xhr, successful } }) => {
  if (!successful || xhr.status !== 200) return;
  const fresh = new DOMParser().parseFromString(xhr.responseText, "text/html");
  const now = fresh.getElementById("columns");
  if (!now || now.dataset.filter !== columns().dataset.filter) return; // of an older filter
  swapText("flow-sum", fresh.getElementById("flow-sum"));
  if (now.dataset.shape === columns().dataset.shape) bring(now);
  else whole(now);
});

// Steps came or went with a new version.
function whole(now) {
  const old = columns();
  if (isBusy(old)) return putOff("columns", refresh);
  old.replaceWith(document.importNode(now, true));
}

function bring(now) {
  const wanted = new Set([...now.querySelectorAll(".run-card")].map((card) => card.id));
  for (const card of columns().querySelectorAll(".run-card")) if (!wanted.has(card.id)) leave(card);
  for (const part of now.querySelectorAll("[data-cards], [data-line]")) order(part);
  for (const name of ["head", "foot"]) for (const piece of now.querySelectorAll(`[id^="${name}-"]`)) swapText(piece.id, piece);
  columns().dataset.cursor = now.dataset.cursor;
}

function leave(card) {
  if (isBusy(card)) putOff(card.id, () => leave(card));
  else card.remove();
}

// The cards of one column, or of its line, in their order. One that somebody is at work in stays where it is for now.
function order(part) {
  const name = part.matches("[data-cards]") ? "cards" : "line";
  const place = column(part.closest("[data-column]").dataset.column)?.querySelector(`[data-${name}]`);
  let before = null;
  for (const want of part.children) {
    const here = document.getElementById(want.id);
    if (here && isBusy(here) && (here.parentElement !== place || here.dataset.print !== want.dataset.print)) {
      putOff(want.id, refresh);
      if (here.parentElement === place) before = here;
      continue;
    }
    const card = take(here, want, place);
    const next = before ? before.nextElementSibling : place.firstElementChild;
    if (next !== card && !isBusy(card)) place.insertBefore(card, next);
    before = card;
  }
}

function take(here, want, place) {
  if (here && here.dataset.print === want.dataset.print && here.parentElement === place) return here;
  const card = document.importNode(want, true);
  const at = here && focusMark(here);
  const isChosen = here?.querySelector(".pick input")?.checked;
  if (here) {
    forget(here.id);
    if (here.parentElement !== place) { moved(); here.remove(); place.append(card); }
    else here.replaceWith(card);
  } else place.append(card);
  card.classList.toggle("is-mine", card.dataset.you === document.body.dataset.user);
  if (isChosen) card.querySelector(".pick input").checked = true;
  if (at) refocus(card, at);
  freshen(card);
  return card;
}

function freshen(card) {
  card.classList.add("is-fresh");
  card.addEventListener("animationend", () => card.classList.remove("is-fresh"), { once: true });
}

function swapText(id, fresh) {
  const there = document.getElementById(id);
  if (!there || !fresh || there.outerHTML === fresh.outerHTML) return;
  if (isBusy(there)) return putOff(id, refresh);
  there.replaceWith(document.importNode(fresh, true));
}

// "Show 42 more" reads a longer column into the same page.
document.addEventListener("click", (event) => {
  const more = event.target.closest?.("[data-more]");
  if (!more || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  shown.set(more.dataset.more, Number(more.dataset.shown));
  refresh();
});

// The filter stands in the address, and is kept while the page is open.
const form = document.getElementById("run-filter");
const clear = form.querySelector("[data-clear]");
let timer = 0;

function filter() {
  clearTimeout(timer);
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) asked.set(name, value);
  const text = asked.toString();
  if (text === columns().dataset.filter) return;
  columns().dataset.filter = text;
  history.replaceState(history.state, "", main.dataset.flowUrl + (text && `?${text}`));
  clear.hidden = !text;
  shown.clear();
  refresh();
}

form.addEventListener("submit", (event) => { event.preventDefault(); filter(); });
form.addEventListener("change", filter);
form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(filter, 200); });
clear.addEventListener("click", (event) => {
  event.preventDefault();
  for (const field of form.elements) { if (field.type === "checkbox") field.checked = false; else if (field.name) field.value = ""; }
  filter();
  form.elements.q.focus();
});

// Where not all columns fit, the page opens on one with something in it: what waits on its reader, else the first run.
function openOn(card) {
  if (!card) return;
  const [all, one] = [columns(), card.closest("[data-column]")].map((part) => part.getBoundingClientRect());
  const gap = parseFloat(getComputedStyle(columns()).scrollPaddingLeft) || 0;
  if (one.right > all.right || one.left < all.left) columns().scrollBy({ left: one.left - all.left - gap, behavior: "instant" });
}

openOn(columns().querySelector(".run-card.is-mine") ?? columns().querySelector(".run-card:not([data-over])"));
