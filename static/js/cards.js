// Where a card belongs on an open board. Pure: it holds no state, so that whoever gets a card may place it.
// A card names its lane (data-lane), its place there (data-sort, ascending) and its revision (data-rev).

const isCard = (element) => element?.classList?.contains("card") && element.dataset.lane;

/** Put `card` where it belongs, in the place of an older one of the same id. Answers the card on the page, or null. */
export function place(card) {
  const there = document.getElementById(card.id);
  if (there && there !== card) {
    if (isNewer(there, card)) return there;
    there.replaceWith(card);
  }
  const lane = document.getElementById(`lane-${card.dataset.lane}`);
  if (!lane) { card.remove(); return null; }
  const next = [...lane.children].find((other) => other !== card && isCard(other) && other.dataset.sort > card.dataset.sort);
  if (!next && isBeyond(lane, card)) { card.remove(); return null; }
  const stands = card.parentElement === lane && nextCard(card) === (next ?? null);
  if (!stands) lane.insertBefore(card, next ?? null);
  markMine(card);
  return card;
}

/** Whether the card on the page has seen more than the one that arrives. */
export const isNewer = (there, arriving) => Number(there.dataset.rev) > Number(arriving.dataset.rev);

/** A card is filled marigold when it waits on the reader: the server does not know who reads a live fragment. */
export function markMine(card) {
  if (card.dataset.you) card.classList.toggle("is-mine", card.dataset.you === document.body.dataset.user);
}

/** What stands under a lane, after cards came or went: how many more there are than the page shows. */
export function recount(status) {
  const more = document.getElementById(`more-${status}`);
  const count = Number(document.getElementById(`count-${status}`)?.textContent ?? 0);
  const shown = document.querySelectorAll(`#lane-${status} > .card`).length;
  if (!more) return;
  more.hidden = count <= shown || shown === 0;
  more.querySelector("[data-left]").textContent = Math.max(0, count - shown);
}

// Behind the last card of a lane that is not shown to its end stand cards that the page does not have.
function isBeyond(lane, card) {
  const more = document.getElementById(`more-${card.dataset.lane}`);
  const others = [...lane.children].some((other) => other !== card && isCard(other));
  return Boolean(others && more && !more.hidden);
}

function nextCard(card) {
  let next = card.nextElementSibling;
  while (next && !isCard(next)) next = next.nextElementSibling;
  return next;
}
