// The frame's own small behaviour: menus close, forms are not sent twice, fields that need the reader's clock get it.

// A menu is a <details data-menu>: one open at a time; a click outside or Escape closes it, focus goes back to its head.
const openMenus = () => document.querySelectorAll("details[data-menu][open]");

document.addEventListener("click", (event) => {
  for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of openMenus()) {
    menu.open = false;
    menu.querySelector("summary").focus();
    event.preventDefault(); // whoever else listens for Escape leaves this one alone
  }
}, true);

// A form without htmx is sent once; a page restored by "back" may send again.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "dialog" || form.closest("[hx-post],[hx-get]")) return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "1";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// `datetime-local` names no zone: the form says how far the reader's clock is from UTC.
function fillOffsets(root) {
  for (const field of root.querySelectorAll?.("input[data-tz-offset]") ?? []) field.value = new Date().getTimezoneOffset();
}
fillOffsets(document);
document.addEventListener("htmx:afterSwap", (event) => fillOffsets(event.detail.target ?? document));

// While a request is on its way its buttons are locked as a group: no second answer can follow the first.
document.addEventListener("htmx:beforeRequest", (event) => lock(event.detail.elt, true));
document.addEventListener("htmx:afterRequest", (event) => lock(event.detail.elt, false));

function lock(elt, busy) {
  const group = elt.closest?.("form, [data-acts], .card-do");
  for (const button of group?.querySelectorAll("button") ?? []) button.ariaBusy = busy ? "true" : null;
}
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[aria-busy='true']");
  if (button) { event.preventDefault(); event.stopImmediatePropagation(); }
}, true);
