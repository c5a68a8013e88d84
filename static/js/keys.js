// Single keys, the same on every page: a page offers what its keys do, one list (`?`) shows them all, and a key that has
// nothing to do here says so. They never fire in a field, with a modifier, under a dialog or an open menu, nor where the
// reader switched them off (WCAG 2.1.4; the switch stands in the list). On the sentence of a refusal one only moves on:
// what is typed there was meant as words.

const help = document.getElementById("keys");
const toggle = help?.querySelector("[data-keys-on]");
const offered = new Map();
const REPEATS = /^(j|k|Arrow.*)$/; // held down, these go on; any other key acts once for each press

const isOn = () => { try { return localStorage.getItem("single-keys") !== "off"; } catch { return true; } };

if (toggle) {
  toggle.checked = isOn();
  toggle.addEventListener("change", () => {
    try { localStorage.setItem("single-keys", toggle.checked ? "on" : "off"); } catch { /* good until the page closes */ }
  });
}

/**
 * What keys do on this page: {key: act}. An act answers nothing when it is done, false where it has nothing to act on
 * (then the next one that offers the key is asked), or a sentence for the reader.
 */
export function offer(acts) {
  for (const [key, act] of Object.entries(acts)) offered.set(key, [...(offered.get(key) ?? []), act]);
}

document.addEventListener("keydown", (event) => {
  if (!isFree(event) || (event.repeat && !REPEATS.test(event.key))) return;
  if (event.key === "?" && help) {
    event.preventDefault();
    open();
  } else if (isOn()) press(event);
});

function press(event) {
  const told = [...help?.querySelectorAll("[data-keys]") ?? []].find((line) => keysOf(line).includes(event.key));
  let answer = false;
  for (const act of offered.get(event.key) ?? []) {
    answer = act(event);
    if (answer !== false) break;
  }
  if (answer === false && !told?.dataset.none) return; // no key of ours, or one that the browser has a use for
  event.preventDefault();
  if (answer === false) say(told.dataset.none);
  else if (typeof answer === "string") say(answer);
}

function isFree(event) {
  const typing = event.target.closest?.("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable], [role=menu]");
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  const refused = event.target.closest?.("[data-wrong]") && !REPEATS.test(event.key) && event.key !== "?";
  return !typing && !refused && !modified && !event.defaultPrevented && !document.querySelector("dialog[open], details[data-menu][open]");
}

const keysOf = (line) => line.dataset.keys.split(" ");

function open() {
  for (const line of help.querySelectorAll("[data-keys]")) {
    const here = !line.dataset.none || keysOf(line).some((key) => offered.has(key));
    for (const part of [line, line.nextElementSibling]) part.classList.toggle("is-off", !here);
  }
  help.showModal();
}

document.addEventListener("click", (event) => { if (event.target.closest?.("[data-keys-help]")) open(); });
for (const button of document.querySelectorAll("[data-keys-help]")) button.hidden = false;

/** A short word for the reader, on the shelf where acts answer. One at a time: a key held down is no storm. */
function say(text) {
  for (const old of document.querySelectorAll("#toasts [data-of-keys]")) old.remove();
  document.dispatchEvent(new CustomEvent("toast", { detail: { text, tone: "key" } }));
}

// What every page has in the same way: a field to search in, and an answer that may be taken back.
const visible = (element) => Boolean(element?.offsetParent);
const search = () => [...document.querySelectorAll("[data-search]")].find(visible);
if (document.querySelector("[data-search]")) {
  offer({ "/": () => { const field = search(); if (!field) return false; field.focus(); field.select(); } });
}
offer({ u: () => { const undo = [...document.querySelectorAll("[data-undo]")].filter(visible).pop(); if (!undo) return false; undo.click(); } });
