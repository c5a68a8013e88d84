// Shows what an act answered. The server names it in the HX-Trigger header as {"toast": {text, tone, href, link}};
// it is read here from the answer itself, because the element that asked may be gone from the page by then.
// Anything may also dispatch a "toast" event with that detail on document.

const shelf = document.getElementById("toasts");
const STAY = 7000;
const NO_ANSWER = "The server did not answer. Nothing you typed is lost; try again.";

document.addEventListener("htmx:afterRequest", (event) => {
  const { xhr } = event.detail;
  const told = toastOf(xhr);
  if (told) { if (!standsThere(told, event)) show(told); }
  else if (xhr.status >= 400 && !tellsItself(event)) show({ text: problem(xhr.status), tone: "error" });
});
for (const failure of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(failure, (event) => { if (!tellsItself(event)) show({ text: NO_ANSWER, tone: "error" }); });
}
// An act of a task shows its refusal where it was pressed; a toast adds only a way on that the form has not.
const standsThere = ({ tone, href }, { detail }) => tone === "error" && !href && detail.requestConfig?.elt?.matches?.("form[data-act]");
// A form marked `data-tells` shows its own failures where they belong; what a page reads by itself fails in silence,
// because the light says already that the page is not live.
const tellsItself = ({ detail: { requestConfig } }) =>
  Boolean(requestConfig?.elt?.closest?.("[data-tells]")) || isByItself(requestConfig);
const isByItself = (request) =>
  request?.triggeringEvent?.type === "live:changed" || (!request?.triggeringEvent && request?.elt?.matches?.("[hx-trigger*='every ']"));
document.addEventListener("toast", (event) => { if (event.target === document) show(event.detail); });

for (const toast of shelf.querySelectorAll(".toast")) settle(toast, toast.classList.contains("toast--error"));

function toastOf(xhr) {
  try { return JSON.parse(xhr.getResponseHeader("HX-Trigger") ?? "null")?.toast; } catch { return null; }
}

function problem(status) {
  if (status === 401) return "You are signed out. Sign in again.";
  if (status === 403) return "The page is too old to act. Load it again.";
  if (status === 404) return "This is not here any more.";
  if (status === 429) return "That was too fast. Wait a moment and try again.";
  return `The server could not do this (${status}). Nothing you typed is lost; try again.`;
}

export function show({ text, tone = "ok", href, link, undo, seconds }) {
  const toast = document.createElement("div");
  toast.className = `toast${tone === "error" ? " toast--error" : ""}`;
  if (tone === "key") toast.dataset.ofKeys = "";
  toast.append(icon({ error: "stuck", key: "key" }[tone] ?? "ok"), span(text));
  if (href) toast.append(way(href, link));
  if (undo) toast.append(takeBack(toast, undo, seconds));
  for (const old of [...shelf.children].slice(0, -2)) old.remove();
  shelf.append(toast);
  settle(toast, tone === "error");
}

// The way back from an act: a button for as long as the server takes it back.
function takeBack(toast, url, seconds) {
  const button = document.createElement("button");
  Object.assign(button, { className: "btn btn--small", type: "button", textContent: shelf.dataset.undoLabel });
  button.dataset.undo = "";
  button.addEventListener("click", () => {
    button.disabled = true;
    htmx.ajax("POST", url, { swap: "none", source: shelf }).then(() => toast.remove());
  });
  setTimeout(() => { button.remove(); document.dispatchEvent(new Event("settled")); }, seconds * 1000);
  return button;
}

function settle(toast, stays) {
  if (stays) {
    const close = document.createElement("button");
    close.className = "btn btn--small btn--icon";
    close.type = "button";
    close.ariaLabel = shelf.dataset.dismiss;
    close.append(icon("x"));
    close.addEventListener("click", () => toast.remove());
    toast.append(close);
  }
  // A toast under the pointer, or with focus in it, is being read.
  const leave = () => (toast.matches(":hover, :focus-within") ? setTimeout(leave, 1500) : toast.remove());
  setTimeout(leave, stays ? STAY * 2 : STAY);
}

function way(href, text) {
  const a = document.createElement("a");
  Object.assign(a, { className: "btn btn--small", href, textContent: text });
  return a;
}

function span(text) {
  const element = document.createElement("span");
  element.dir = "auto";
  element.textContent = text;
  return element;
}

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "i");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}
