// Choosing several cards: the bar says how many, and its button opens one menu for all of them.
const form = document.getElementById("picked");
const count = form.querySelector("[data-picked-count]");
const told = form.querySelector("[data-picked]");
const none = form.querySelector("[type=reset]");

const boxes = () => [...document.querySelectorAll("#columns .pick input")];

function show() {
  const chosen = boxes().filter((box) => box.checked);
  for (const box of boxes()) box.closest(".run-card").classList.toggle("is-picked", box.checked);
  document.body.classList.toggle("is-picking", chosen.length > 0);
  told.hidden = none.hidden = !chosen.length;
  const number = String(chosen.length);
  if (count.textContent !== number) count.textContent = number; // else the observer below would never rest
}

document.addEventListener("change", (event) => { if (event.target.closest?.(".pick")) show(); });
form.addEventListener("reset", () => setTimeout(show));
new MutationObserver(show).observe(document.getElementById("main"), { childList: true, subtree: true });
// What was acted on is no longer chosen; others stay so, whatever else changes.
document.addEventListener("flow:acted", ({ detail }) => {
  for (const box of boxes()) if (detail.runs.includes(box.value)) box.checked = false;
  show();
});
show();
