// Small things of the task page: the two views of a result (what changed, the whole), and the link to copy.
const prepare = (root) => {
  for (const button of root.querySelectorAll("[data-copy-link]")) button.hidden = !navigator.clipboard;
  for (const sheet of root.querySelectorAll("[data-switch]")) show(sheet, "changes");
};
document.addEventListener("htmx:load", ({ detail }) => prepare(detail.elt.parentElement ?? document));
prepare(document);

function show(sheet, which) {
  sheet.querySelector(".group").hidden = false;
  for (const part of sheet.querySelectorAll("[data-shown]")) part.hidden = part.dataset.shown !== which;
  for (const button of sheet.querySelectorAll("[data-shows]")) button.ariaPressed = String(button.dataset.shows === which);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-shows]");
  if (button) show(button.closest("[data-switch]"), button.dataset.shows);
  if (!event.target.closest?.("[data-copy-link]")) return;
  await navigator.clipboard.writeText(location.href.split("#")[0]);
  document.dispatchEvent(new CustomEvent("toast", { detail: { text: "Link copied.", tone: "ok" } }));
});
