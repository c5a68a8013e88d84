// Cards are dragged with the pointer, between columns and within one. A finger scrolls and swipes: there the menu moves.
// Nothing on the page is moved by the drop itself; the server decides, and the columns are read again.
import { send } from "./flow_menu.js";

const NEAR = 6; // pixels before a press is a drag
const EDGE = 48; // of the scrollers, where they begin to scroll
const says = document.getElementById("flow-says");
let drag = null;

document.addEventListener("pointerdown", (event) => {
  const card = event.target.closest?.("#columns .run-card");
  if (!card || event.button || event.pointerType === "touch" || !document.body.classList.contains("may-act")) return;
  if (event.target.closest(".pick, .card-more, .card-ask")) return;
  drag = { card, x: event.clientX, y: event.clientY, ghost: null, id: event.pointerId };
});

document.addEventListener("pointermove", (event) => {
  if (!drag || event.pointerId !== drag.id) return;
  if (!drag.ghost) {
    if (Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < NEAR) return;
    lift();
  }
  event.preventDefault();
  drag.ghost.style.translate = `${event.clientX - drag.x}px ${event.clientY - drag.y}px`;
  drag.at = { x: event.clientX, y: event.clientY };
  mark();
});

document.addEventListener("pointerup", (event) => { if (drag && event.pointerId === drag.id) drop(); });
document.addEventListener("pointercancel", () => end());
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !drag?.ghost) return;
  event.preventDefault();
  says.textContent = "Not moved.";
  end();
}, true);
addEventListener("blur", () => end());
document.addEventListener("dragstart", (event) => { if (event.target.closest?.(".run-card")) event.preventDefault(); });
document.addEventListener("selectstart", (event) => { if (drag?.ghost) event.preventDefault(); });

function lift() {
  const { card } = drag;
  const box = card.getBoundingClientRect();
  drag.ghost = card.cloneNode(true);
  drag.ghost.removeAttribute("id");
  drag.ghost.classList.add("run-ghost");
  drag.ghost.inert = true;
  drag.ghost.setAttribute("aria-hidden", "true");
  Object.assign(drag.ghost.style, { left: `${box.left}px`, top: `${box.top}px`, width: `${box.width}px` });
  document.body.append(drag.ghost);
  card.classList.add("is-dragging");
  document.body.classList.add("is-moving");
  drag.timer = setInterval(scroll, 16);
}

// Where it would fall: the column under the pointer, and the card there that it would come before.
function mark() {
  const column = document.elementFromPoint(drag.at.x, drag.at.y)?.closest?.("[data-column]");
  if (column !== drag.column) {
    drag.column?.classList.remove("is-target");
    column?.classList.add("is-target");
    drag.column = column;
  }
  const mates = column ? [...column.querySelectorAll(".run-card:not(.is-dragging, [data-over])")] : [];
  const next = mates.find((card) => {
    const box = card.getBoundingClientRect();
    return drag.at.y < box.top + box.height / 2;
  });
  if (next === drag.before) return;
  drag.before?.classList.remove("is-before");
  next?.classList.add("is-before");
  drag.before = next;
}

function scroll() {
  if (!drag?.at) return;
  const lanes = document.getElementById("columns");
  for (const [box, axis, size] of [[lanes, "x", "scrollLeft"], [drag.column, "y", "scrollTop"]]) {
    if (!box) continue;
    const edge = box.getBoundingClientRect();
    const [from, to] = axis === "x" ? [edge.left, edge.right] : [edge.top, edge.bottom];
    if (drag.at[axis] < from + EDGE) box[size] -= 12;
    else if (drag.at[axis] > to - EDGE) box[size] += 12;
    else continue;
    mark();
  }
}

function drop() {
  const { card, ghost, column, before } = drag;
  const values = new FormData();
  if (ghost && column) {
    values.set("run", card.dataset.run);
    values.set("step", column.dataset.column);
    values.set(`visit.${card.dataset.run}`, card.dataset.visit);
    values.set("before", before?.dataset.run ?? "0");
  }
  const stays = !column || isThere(card, column, before);
  if (ghost) addEventListener("click", swallow, { capture: true, once: true });
  setTimeout(() => removeEventListener("click", swallow, { capture: true }));
  end();
  if (!ghost || stays) return;
  says.textContent = `${card.dataset.name}: ${column.querySelector("h2").textContent.trim()}`;
  send(`${document.getElementById("main").dataset.flowUrl}runs/move`, values);
}

// The press that dragged is no click on the card.
function swallow(event) {
  event.preventDefault();
  event.stopImmediatePropagation();
}

function isThere(card, column, before) {
  if (!column.contains(card)) return false;
  const mates = [...column.querySelectorAll(".run-card:not([data-over])")];
  return card.matches("[data-over]") || mates[mates.indexOf(card) + 1] === before;
}

function end() {
  if (!drag) return;
  clearInterval(drag.timer);
  drag.ghost?.remove();
  drag.column?.classList.remove("is-target");
  drag.before?.classList.remove("is-before");
  drag.card.classList.remove("is-dragging");
  document.body.classList.remove("is-moving");
  const { card } = drag;
  drag = null;
  card.dispatchEvent(new Event("dragend", { bubbles: true })); // what was put off may come now
}
