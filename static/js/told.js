// Tells of new rows in this browser, by a notification and a sound where the reader wants them. The page's own socket
// says that something changed; what it is, is asked of the server. Of several open pages one tells: they share what
// was told, one at a time. A row is told in the turn that keeps it: a page that goes away in between tells it not or
// twice, and nothing is kept that nobody was told of.
import { turn } from "./told_kept.js";

const { told, toldAs, news } = document.body.dataset;
const NAME = `told:${toldAs}`;
const SEEN = 300;
const ONE_BY_ONE = 3; // more at once are told in one
const GAP = 1_000;
const MINUTE = 60_000;
const PATIENCE = 30_000; // who asks keeps the others waiting
const wants = new Set((told ?? "").split(" "));
let timer = 0;
let dueAt = Infinity;
let lastAt = -Infinity;
let failures = 0;

/** Look so long from now, but not twice in a second; what is planned for sooner stays. */
function plan(wait = 0) {
  const now = performance.now(); // the clock of the machine may be set back
  const at = Math.max(now + wait, lastAt + GAP);
  if (at >= dueAt) return;
  clearTimeout(timer);
  dueAt = at;
  timer = setTimeout(look, at - now);
}

async function look() {
  dueAt = Infinity;
  lastAt = performance.now();
  if (!navigator.locks) return ask();
  await navigator.locks.request(NAME, { ifAvailable: true }, (lock) => (lock ? ask() : plan(GAP)));
}

async function ask() {
  let at;
  await turn(NAME, (before) => { at = before?.at; });
  const found = await answer(at ? `?since=${encodeURIComponent(at)}` : "");
  if (found?.quiet) return plan(MINUTE); // their end is no change that anybody would say
  if (found && !await turn(NAME, (before) => take(found, before))) again();
}

async function answer(since) {
  try {
    const signal = AbortSignal.timeout(PATIENCE);
    const got = await fetch(news + since, { cache: "no-store", headers: { Accept: "application/json" }, signal });
    if (got.redirected || (got.status >= 400 && got.status < 500 && got.status !== 429)) return null; // signed out
    const found = got.ok ? await got.json() : null;
    if (found) failures = 0;
    else again();
    return found;
  } catch { return again(); } // the server is away
}

function again() {
  plan(Math.min(GAP * 2 ** failures++, MINUTE));
  return null;
}

function take(found, before) {
  const seen = new Set(before?.seen);
  const fresh = found.rows.filter((row) => !seen.has(row.key));
  if (before && fresh.length) tell(fresh); // who asks for the first time hears of what comes from now on
  return { at: found.at, seen: [...seen, ...fresh.map((row) => row.key)].slice(-SEEN) };
}

function tell(rows) {
  if (wants.has("sound")) sound();
  if (!wants.has("browser") || !("Notification" in window) || Notification.permission !== "granted") return;
  if (document.hasFocus() && document.getElementById("needs-live")) return; // the list itself is being read
  if (rows.length <= ONE_BY_ONE) for (const row of rows) notify(row.title, row.body, row.key, row.href);
  else notify(`${rows.length} things wait on you`, rows.slice(0, 3).map((row) => row.title).join("\n"), NAME, "/needs-you/");
}

function notify(title, body, tag, href) {
  try {
    const shown = new Notification(title, { body, tag, icon: document.getElementById("favicon")?.dataset.you });
    shown.addEventListener("click", () => { window.focus(); location.assign(href); shown.close(); });
  } catch { /* some phones show none from a page */ }
}

// Two soft tones, made here: no file is loaded. A browser lets a page sound only after a touch or a key.
let audio = null;
for (const touch of ["pointerdown", "keydown"]) addEventListener(touch, () => { if (wants.has("sound")) wake(); }, { passive: true });

function wake() {
  const Audio = window.AudioContext;
  audio ??= Audio ? new Audio() : null;
  if (audio?.state === "suspended") audio.resume();
}

// The page that tells may be one that was never touched: then it asks the others, and one of them sounds.
const others = new BroadcastChannel(NAME);
others.addEventListener("message", () => {
  if (audio?.state !== "running") return;
  if (!navigator.locks) return ring();
  navigator.locks.request(`${NAME}:sound`, { ifAvailable: true }, (lock) => lock && new Promise((free) => { ring(); setTimeout(free, GAP); }));
});

function sound() {
  if (audio?.state === "running") ring();
  else others.postMessage("sound");
}

function ring() {
  for (const [pitch, after] of [[660, 0], [880, 0.12]]) {
    const tone = audio.createOscillator();
    const loud = audio.createGain();
    const at = audio.currentTime + after;
    tone.frequency.value = pitch;
    loud.gain.setValueAtTime(0.0001, at);
    loud.gain.exponentialRampToValueAtTime(0.12, at + 0.02);
    loud.gain.exponentialRampToValueAtTime(0.0001, at + 0.3);
    tone.connect(loud).connect(audio.destination);
    tone.start(at);
    tone.stop(at + 0.32);
  }
}

document.addEventListener("needs:changed", () => plan());
setInterval(() => { if (document.hidden) plan(); }, MINUTE); // a hidden page hears its count alone, and that may stay the same
plan();
