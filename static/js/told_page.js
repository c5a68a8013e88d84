// The page of notifications: asks this browser for its permission, on a click and never else, says what it answered,
// and proposes the reader's own time zone.

const state = document.querySelector("[data-told-state]");
const words = state?.querySelector("[data-told-words]");
const ask = state?.querySelector("[data-told-ask]");

function show() {
  if (!state) return;
  const answer = "Notification" in window && window.isSecureContext ? Notification.permission : "none";
  words.textContent = state.dataset[answer] ?? "";
  ask.hidden = answer !== "default";
  state.hidden = false;
}

async function request() {
  if ("Notification" in window && Notification.permission === "default") await Notification.requestPermission();
  show();
}

ask?.addEventListener("click", request);
document.querySelector("[data-told-browser]")?.addEventListener("click", (event) => { if (event.target.checked) request(); });
show();

const zone = document.querySelector("[data-told-zone]");
const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && [...zone.options].some((option) => option.value === here)) zone.value = here;
