// Puts what the socket sends where it belongs: cards by their lane and place, everything else by its id.
// An older revision never overwrites a newer one, and what somebody is working in waits (live_guard.js).
import { isNewer, place, recount } from "./cards.js";
import { focusMark, forget, isBusy, putOff, refocus } from "./live_guard.js";
import { moved } from "./live_say.js";
import { trim } from "./live_trim.js";

const sources = new WeakMap(); // a card on the page -> the text it was made of

export function applyAll(html) {
  const box = document.createElement("template");
  box.innerHTML = html; // inert: scripts in it never run
  for (const piece of [...box.content.children]) apply(piece);
  recountAll();
}

/** Apply one piece, or put it off. */
export function apply(piece) {
  const isGone = piece.getAttribute("hx-swap-oob") === "delete";
  piece.removeAttribute("hx-swap-oob");
  const there = document.getElementById(piece.id);
  if (there && isBusy(there)) return putOff(piece.id, () => { put(piece, isGone); recountAll(); });
  forget(piece.id);
  put(piece, isGone);
}

/** Take a card from the page. */
export function remove(id) {
  const gone = Object.assign(document.createElement("i"), { id });
  gone.setAttribute("hx-swap-oob", "delete");
  apply(gone);
}

function put(piece, isGone) {
  const there = document.getElementById(piece.id);
  if (isGone) there?.remove();
  else if (isCard(piece)) putCard(piece, there);
  else if (there) {
    there.replaceWith(piece);
    htmx.process(piece);
  }
}

function putCard(card, there) {
  const source = card.outerHTML;
  if (there && (isNewer(there, card) || sources.get(there) === source)) return;
  const was = there && { lane: there.dataset.lane, rev: there.dataset.rev, isOpen: there.classList.contains("is-open") };
  const at = focusMark(there);
  if (place(card) !== card) return;
  sources.set(card, source);
  htmx.process(card);
  card.classList.toggle("is-open", Boolean(was?.isOpen));
  refocus(card, at);
  if (was?.rev !== card.dataset.rev) freshen(card);
  if (was && was.lane !== card.dataset.lane) moved();
}

function freshen(card) {
  card.classList.add("is-fresh");
  card.addEventListener("animationend", () => card.classList.remove("is-fresh"), { once: true });
}

const isCard = (piece) => piece.matches("article.card[data-lane]");

export function recountAll() {
  for (const lane of document.querySelectorAll(".lane-cards[data-lane]")) {
    trim(lane);
    recount(lane.dataset.lane);
  }
}
