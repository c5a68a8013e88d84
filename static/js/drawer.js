// A task opens in the drawer over its board, under its own address; Escape, the close button and "back" return.
// The drawer has one entry of the history at most, so one step back always shows the board.

const drawer = document.getElementById("drawer");
const veil = document.querySelector("[data-veil]");
const main = document.getElementById("main");
const home = document.title.replace(/^\(\d+\) /, "");
const narrow = matchMedia("(max-width: 40rem)");
let opener = null;

document.addEventListener("click", (event) => {
  const close = event.target.closest?.("[data-drawer-close]");
  if (close && !drawer.hidden) { event.preventDefault(); leave(); return; }
  const link = event.target.closest?.("a[data-drawer]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (drawer.hidden) opener = link;
  open(link.href, { remember: true });
});

addEventListener("popstate", () => {
  if (location.pathname === main.dataset.boardUrl) close();
  else open(location.href, { remember: false });
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || drawer.hidden || document.querySelector("dialog[open]")) return;
  const field = document.activeElement?.closest?.("input, textarea, select");
  if (field && drawer.contains(field)) field.blur(); // first out of the field, then out of the drawer
  else leave();
});
document.addEventListener("drawer:close", leave);

async function open(href, { remember }) {
  const before = drawer.innerHTML;
  await htmx.ajax("GET", href, { source: drawer, target: drawer, swap: "innerHTML" });
  if (drawer.innerHTML === before && drawer.hidden) return; // refused: the toast says why
  if (remember) history[history.state?.drawer ? "replaceState" : "pushState"]({ drawer: true }, "", href);
  show();
}

function show() {
  drawer.hidden = veil.hidden = false;
  main.inert = narrow.matches; // on a phone the drawer covers the board
  drawer.scrollTop = 0;
  const head = drawer.querySelector("[autofocus], h1, h2") ?? drawer;
  if (!head.matches("input, textarea, select, button, a")) head.tabIndex = -1;
  head.focus({ preventScroll: true });
  mark();
}

function leave() {
  if (drawer.hidden) return;
  if (history.state?.drawer) history.back();
  else close();
}

function close() {
  if (drawer.hidden) return;
  const address = [...document.querySelectorAll(".card.is-open a")][0]?.getAttribute("href");
  drawer.hidden = veil.hidden = true;
  drawer.replaceChildren();
  main.inert = false;
  document.title = (document.title.match(/^\(\d+\) /)?.[0] ?? "") + home;
  mark();
  // The card may have been swapped meanwhile: then its successor takes the focus.
  const back = opener?.isConnected ? opener : address && document.querySelector(`.card-title a[href="${CSS.escape(address)}"]`);
  back?.focus();
  opener = null;
}

/** The card of the open task wears a ring, also after it was swapped or moved. */
function mark() {
  for (const card of document.querySelectorAll(".card.is-open")) card.classList.remove("is-open");
  if (drawer.hidden) return;
  document.querySelector(`.card-title a[href="${CSS.escape(location.pathname)}"]`)?.closest(".card").classList.add("is-open");
}
document.addEventListener("htmx:oobAfterSwap", mark);
