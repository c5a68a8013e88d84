// Tells screen readers, now and then and politely, that cards moved by themselves. Each move alone would be noise; moves
// that the reader made are told by whoever made them.

const EVERY = 20_000;
const region = document.createElement("div");
region.className = "sr";
region.setAttribute("aria-live", "polite");
document.body.append(region);
let count = 0;
let timer = 0;

export function moved() {
  count += 1;
  timer ||= setTimeout(say, EVERY);
}

function say() {
  timer = 0;
  region.textContent = document.hidden ? "" : count === 1 ? "1 card moved." : `${count} cards moved.`;
  count = 0;
}
