// Brings a list up to date by key: what left goes, what is new comes, what changed is replaced; a form that is open or
// being typed in stays exactly as it is. `<div data-keyed-into="id">` fetches; its answer holds the list of that id.

import { focusRow, neighbour } from "./answer.js";

document.addEventListener("htmx:afterRequest", ({ detail: { elt, xhr, successful } }) => {
  const into = elt.dataset?.keyedInto;
  if (!into || !successful || xhr.status !== 200) return;
  const old = document.getElementById(into);
  const fresh = new DOMParser().parseFromString(xhr.responseText, "text/html").getElementById(into);
  if (old && fresh) update(old, fresh);
});

function update(old, fresh) {
  const still = new Set([...fresh.querySelectorAll("[data-key]")].map((child) => child.dataset.key));
  for (const open of old.querySelectorAll("[data-open]")) { // an open row keeps its place, whatever section it is in now
    const copy = fresh.querySelector(`[data-key="${CSS.escape(open.dataset.key)}"]`);
    if (copy && sectionOf(copy) !== sectionOf(open)) copy.remove();
  }
  bring(old, fresh, still);
}

const sectionOf = (row) => row.parentElement.closest("[data-key]")?.dataset.key;

function bring(old, fresh, still) {
  const wanted = [...fresh.children].filter((child) => child.dataset.key);
  const keys = new Set(wanted.map((child) => child.dataset.key));
  const have = new Map([...old.children].map((child) => [child.dataset.key, child]));
  for (const [key, child] of have) if (key && !keys.has(key)) leave(child, still);
  let before = null;
  for (const want of wanted) {
    let here = have.get(want.dataset.key);
    if (here) here = change(here, want, still);
    else htmx.process(here = document.importNode(want, true));
    const place = before ? before.nextElementSibling : old.firstElementChild;
    if (place !== here && !here.contains(document.activeElement)) old.insertBefore(here, place);
    before = here;
  }
}

function change(here, want, still) {
  const inner = here.querySelector(":scope > [data-keyed]");
  if (inner) {
    const count = here.querySelector("[data-count]");
    if (count) count.textContent = want.querySelector("[data-count]").textContent;
    bring(inner, want.querySelector(":scope > [data-keyed]"), still);
    return here;
  }
  if (here.dataset.rev === want.dataset.rev || here.matches("[data-open]")) return here;
  if (isTyping(here)) {
    if (want.matches(".answered")) tell(here);
    return here;
  }
  const focused = here.contains(document.activeElement);
  const made = document.importNode(want, true);
  const [was, now] = [here, made].map((row) => row.querySelector(".row-pick"));
  if (was && now) now.checked = was.checked;
  here.replaceWith(made);
  htmx.process(made);
  if (focused) focusRow(made);
  return made;
}

function leave(child, still) {
  const inner = child.querySelector(":scope > [data-keyed]");
  if (inner) {
    for (const row of [...inner.children]) leave(row, still);
    if (!inner.children.length) child.remove();
  } else if (child.matches(".answered")) {
    return; // the reader's own answer stays to be read
  } else if (child.matches("[data-open]") && still.has(child.dataset.key)) {
    return;
  } else if (isTyping(child)) {
    tell(child);
  } else {
    const refocus = child.contains(document.activeElement);
    const next = refocus ? neighbour(child) : null;
    child.remove();
    if (refocus) focusRow(next);
  }
}

function isTyping(box) {
  const fields = [...box.querySelectorAll("textarea, input:not([type=hidden], .row-pick)")];
  return fields.some((field) => field === document.activeElement || (field.type === "radio" ? field.checked : field.value !== field.defaultValue));
}

// Somebody else was faster while this one was being written: say who, and keep every word.
function tell(box) {
  const state = box.querySelector("[data-state]");
  const place = box.querySelector(".ask-result");
  if (state && place && !box.querySelector("[data-closed]")) htmx.ajax("GET", state.dataset.state, { target: place, swap: "innerHTML" });
}
