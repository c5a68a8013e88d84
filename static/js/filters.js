// The filter bar: what is narrowed stands in the address, and the page's live parts are told.
// Cards that nobody touched read differently when a drain comes or goes: then the lanes are read again.

const form = document.getElementById("filters");
const main = document.getElementById("main");
const clear = form.querySelector("[data-clear]");
let signature = document.getElementById("presence")?.dataset.signature;

form.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt !== form) return;
  for (const [name, value] of [...event.detail.formData.entries()]) if (!value) event.detail.formData.delete(name);
});

form.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.elt !== form || !event.detail.successful) return;
  const { filter, cursor } = document.getElementById("lanes").dataset;
  if (location.pathname === main.dataset.boardUrl) history.replaceState(history.state, "", location.pathname + (filter && `?${filter}`));
  const changed = main.dataset.liveFilter !== filter;
  Object.assign(main.dataset, { liveFilter: filter, cursor });
  clear.hidden = !filter;
  form.querySelector("select").toggleAttribute("data-on", Boolean(form.elements.assignee.value));
  if (changed) main.dispatchEvent(new CustomEvent("board:filtered", { bubbles: true, detail: { filter, cursor } }));
});

clear.addEventListener("click", (event) => {
  event.preventDefault();
  form.elements.q.value = form.elements.assignee.value = "";
  form.elements.mine.checked = false;
  htmx.trigger(form, "submit");
  form.elements.q.focus();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target === form.elements.q) form.elements.q.blur();
});

document.addEventListener("htmx:afterSettle", () => {
  const now = document.getElementById("presence")?.dataset.signature;
  if (now === undefined || now === signature) return;
  signature = now;
  htmx.trigger(form, "submit");
});
