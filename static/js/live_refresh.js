// Reads the lanes again when more changed than is worth telling one by one, and brings the page up to date card by card:
// the same guards hold, and what is typed on the page stays. Answers the cursor from which the page goes on, or null on
// a page without lanes.
import { apply, recountAll, remove } from "./live_pieces.js";

const GAP = 2_000;
const HEADS = "[id^=count-], [id^=age-], [id^=more-], #board-sum";
let lastAt = 0;
let running = null;

export function refresh() {
  running ??= untilRead().finally(() => { running = null; });
  return running;
}

async function untilRead() {
  const main = document.querySelector("main[data-board-url]");
  if (!main || !document.getElementById("lanes")) return null; // other pages read their parts again
  for (;;) {
    await new Promise((resume) => { setTimeout(resume, Math.max(lastAt + GAP - Date.now(), 0) + Math.random() * 300); });
    lastAt = Date.now();
    const fresh = await read(main).catch(() => null); // the server is away: again, until it is back
    if (!fresh) continue;
    bring(fresh);
    return fresh.getElementById("lanes").dataset.cursor;
  }
}

async function read(main) {
  const filter = main.dataset.liveFilter;
  const address = main.dataset.boardUrl + (filter ? `?${filter}` : "");
  const answer = await fetch(address, { headers: { "HX-Request": "true" }, cache: "no-store" });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  return answer.ok && filter === main.dataset.liveFilter && fresh.getElementById("lanes") ? fresh : null;
}

function bring(fresh) {
  const kept = new Set();
  for (const card of fresh.querySelectorAll(".lane-cards > .card[id]")) {
    kept.add(card.id);
    apply(document.importNode(card, true));
  }
  for (const card of document.querySelectorAll(".lane-cards > .card[id]")) if (!kept.has(card.id)) remove(card.id);
  for (const head of fresh.querySelectorAll(HEADS)) apply(document.importNode(head, true));
  recountAll();
}
