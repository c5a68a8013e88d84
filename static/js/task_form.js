// The form of a task: one more field for a dependency as the last is filled, due times in the reader's own clock. What
// was written is forgotten when it was filed: here for a form in the drawer, in drafts.js for one of its own page.
import { forget } from "./drafts.js";

document.addEventListener("input", ({ target }) => {
  const fields = target.closest?.("[data-grow]");
  if (!fields || !target.value || target !== fields.lastElementChild) return;
  const next = target.cloneNode();
  next.value = "";
  fields.append(next);
  htmx.process(next);
});

// A stored due time comes in UTC; the field shows the reader's clock, as `tz_offset` says to the server.
function toOwnClock(root) {
  for (const field of root.querySelectorAll("input[data-utc]")) {
    field.removeAttribute("data-utc");
    if (!field.value) continue;
    const moment = new Date(`${field.value}Z`);
    field.value = new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
    field.form.querySelector("input[data-tz-offset]").value = moment.getTimezoneOffset();
  }
}
toOwnClock(document);
document.addEventListener("htmx:load", ({ detail }) => toOwnClock(detail.elt));

document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (detail.elt.matches("form[data-filing]") && detail.xhr.status === 204) forget(detail.elt);
});
