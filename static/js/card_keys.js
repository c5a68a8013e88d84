// From card to card on a board with columns: arrows go to the neighbours, j and k down and up. Which columns and cards a
// board has is its own; nothing here acts on a card.

import { offer } from "./keys.js";

/** Offer the keys for the cards (`cards`) in the columns (`columns`) of a page; `isOff` says when they have to rest. */
export function offerCards(columns, cards, isOff = () => false) {
  const all = () => [...document.querySelectorAll(columns)];
  const cardsOf = (column) => [...(column?.querySelectorAll(cards) ?? [])];
  const current = () => document.activeElement?.closest?.(`${columns} ${cards}`);
  const columnOf = (card) => card.closest(columns);
  const focusOn = (card) => { card?.querySelector(".card-title a")?.focus(); };

  function down(by) {
    const card = current();
    if (!card) return first();
    const mates = cardsOf(columnOf(card));
    focusOn(mates[mates.indexOf(card) + by]);
  }

  // To the card at the same height of the next column that has any.
  function across(by) {
    const card = current();
    if (!card) return first();
    const lanes = all();
    const row = cardsOf(columnOf(card)).indexOf(card);
    for (let at = lanes.indexOf(columnOf(card)) + by; lanes[at]; at += by) {
      const there = cardsOf(lanes[at]);
      if (!there.length) continue;
      focusOn(there[Math.min(row, there.length - 1)]);
      lanes[at].scrollIntoView({ block: "nearest", inline: "nearest" });
      return;
    }
  }

  function first() {
    const card = all().flatMap(cardsOf)[0];
    if (!card) return false;
    focusOn(card);
  }

  const onBoard = (act) => () => (isOff() ? false : act());
  // Arrows scroll, unless a card or the row of columns holds the focus.
  const arrow = (act) => onBoard(() => (current() || document.activeElement?.matches?.("[data-columns]") ? act() : false));
  offer({
    j: onBoard(() => down(1)),
    k: onBoard(() => down(-1)),
    ArrowDown: arrow(() => down(1)),
    ArrowUp: arrow(() => down(-1)),
    ArrowRight: arrow(() => across(1)),
    ArrowLeft: arrow(() => across(-1)),
  });
  return current;
}
