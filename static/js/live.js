// The page's live side: one socket, what it says is applied, and the light says whether the page can be trusted.
// A message is `<!--{head}-->` with ready pieces behind it, or the head alone. The cursor says where the page stands.
import { beat, heard, show, watch } from "./live_light.js";
import { setCount } from "./live_needs.js";
import { hint } from "./live_parts.js";
import { applyAll } from "./live_pieces.js";
import { refresh } from "./live_refresh.js";
import { isOpen, open, say, start } from "./live_socket.js";

const cursorOf = (selector) => document.querySelector(selector)?.dataset.cursor;
let cursor = cursorOf("#lanes") ?? cursorOf("main") ?? cursorOf("body") ?? "";
let isLive = false;
let wasLive = false;
let owesRefresh = false; // the lanes have to be read again: until then no cursor is true of them

function take(text) {
  heard();
  const end = text.startsWith("<!--") ? text.indexOf("-->") : -1;
  const head = JSON.parse(end < 0 ? text : text.slice(4, end));
  if (head.beat) return beat();
  if (end >= 0) applyAll(text.slice(end + 3));
  if (head.needs !== undefined) setCount(head.needs, head.reads);
  if (head.refresh) readAgain();
  if (head.changed) hint(head.changed);
  if (head.needs !== undefined || head.changed?.needs || head.changed?.all) document.dispatchEvent(new Event("needs:changed"));
  if (head.cursor) arrived(head.cursor);
}

function arrived(now) {
  cursor = now;
  if (wasLive && !isLive) hint({ process: true }); // who works beats without being logged
  isLive = wasLive = true;
  show("live");
}

// What came after the lanes were read is told from the cursor that they came with.
async function readAgain() {
  owesRefresh = true;
  const fresh = await refresh();
  owesRefresh = false;
  if (fresh === null) return;
  cursor = fresh;
  catchUp();
}

/** Tell the server where this page stands; it answers with what was missed. */
function catchUp() {
  if (isOpen() && !document.hidden) say({ cursor: owesRefresh ? "" : cursor });
}

// Everything that comes is taken here: beats are swallowed, and pieces have to ask before they take somebody's focus.
document.addEventListener("htmx:wsBeforeMessage", (event) => {
  event.preventDefault();
  take(event.detail.message);
});
document.addEventListener("htmx:wsOpen", () => { isLive = false; heard(); catchUp(); });

document.addEventListener("visibilitychange", () => {
  if (document.hidden) say({ visible: false });
  else catchUp();
});
document.addEventListener("board:filtered", (event) => { cursor = event.detail.cursor; open(); });
addEventListener("pageshow", (event) => { if (event.persisted) open(); });

if (document.body.dataset.user) {
  watch(open);
  start(show);
}
