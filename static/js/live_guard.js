// Nothing that arrives takes somebody's focus, text, open menu, selection or drag: it waits until they are done.

const late = new Map(); // what waits, by the id of the element it is for
const released = new Map(); // cards whose own button was just pressed, until when
const RELEASED_FOR = 5_000;

/** Whether somebody is at work inside `element`. */
export function isBusy(element) {
  if ((released.get(element.id) ?? 0) > Date.now()) return false;
  return (
    (document.activeElement !== document.body && element.contains(document.activeElement) && document.hasFocus()) ||
    element.matches(".is-dragging, [data-dragging]") ||
    Boolean(element.querySelector(".is-dragging, [data-dragging], details[data-menu][open], dialog[open], [aria-expanded=true]")) ||
    holdsSelection(element)
  );
}

function holdsSelection(element) {
  const selection = getSelection();
  return Boolean(selection && !selection.isCollapsed && element.contains(selection.anchorNode));
}

/** Do `act` once nobody is at work in the element of that id; a later act for it takes the earlier one's place. */
export function putOff(id, act) {
  late.set(id, act);
}

/** What waited for the element is no longer wanted: something newer stands there. */
export const forget = (id) => late.delete(id);

/** The card's own button was pressed and answered: what comes now is what its reader waits for. */
export function release(id) {
  released.set(id, Date.now() + RELEASED_FOR);
  flush();
}

/** Give the focus to what stands where it stood before the swap; `mark` is what `focusMark` answered. */
export function refocus(element, mark) {
  if (mark === null) return;
  const same = [...element.querySelectorAll("a, button, summary")];
  (same.find((one) => one.getAttribute("href") === mark.href && one.textContent === mark.text) ?? same[0])?.focus({ preventScroll: true });
}

export function focusMark(element) {
  const at = document.activeElement;
  if (!element?.contains(at)) return null;
  return { href: at.getAttribute("href"), text: at.textContent };
}

function flush() {
  for (const [id, act] of [...late]) {
    const element = document.getElementById(id);
    if (element && isBusy(element)) continue;
    late.delete(id);
    act();
  }
}

// The focus has moved on when these are handled, not yet when they are sent.
for (const event of ["focusout", "toggle", "close", "dragend", "drop"]) {
  document.addEventListener(event, () => setTimeout(flush), true);
}
document.addEventListener("selectionchange", () => { if (late.size) setTimeout(flush); });
addEventListener("blur", () => setTimeout(flush)); // who is in another window works nowhere in this one

document.addEventListener("htmx:afterRequest", ({ detail }) => {
  const card = detail.elt.closest?.("[data-rev][id]");
  if (card && detail.successful) release(card.id);
});
