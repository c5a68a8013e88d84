// Keeps a lane that grows by itself from growing for ever: what is far below is given up, and "Show more" brings it back.
import { isBusy } from "./live_guard.js";

const MOST = 300;
const KEPT = 200;

export function trim(lane) {
  const cards = [...lane.querySelectorAll(":scope > .card")];
  const more = document.getElementById(`more-${lane.dataset.lane}`);
  if (cards.length <= MOST || !more) return;
  const seen = (card) => card.getBoundingClientRect().top < innerHeight * 2;
  while (cards.length > KEPT && !seen(cards.at(-1)) && !isBusy(cards.at(-1))) cards.pop().remove();
  goOnFrom(more, cards.at(-1).dataset.sort);
}

function goOnFrom(more, place) {
  for (const name of ["href", "hx-get"]) {
    const address = new URL(more.getAttribute(name), location.href);
    address.searchParams.set("after", place);
    more.setAttribute(name, address.pathname + address.search);
  }
  more.hidden = false;
  htmx.process(more);
}
