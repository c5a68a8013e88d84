// When a single key may act: not in a field, not with a modifier, not under a dialog, and not where the reader switched
// such keys off (WCAG 2.1.4; the switch is in the key help of Needs you).

/** Whether `event` is a press of a single key that a page may take as a command. */
export function isCommand(event) {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  return !typing && !modified && !event.defaultPrevented && !document.querySelector("dialog[open]") && isOn();
}

function isOn() {
  try { return localStorage.getItem("single-keys") !== "off"; } catch { return true; }
}
