// Tells of new rows in this browser, by a notification and a sound where the reader wants them. The page's own socket
// says that something changed; what it is, is asked of the server. Of several open pages one tells: they share what
// was told, in storage, one at a time. Without storage the page tells what comes while it is open.

const { told, toldAs, news } = document.body.dataset;
const NAME = `told:${toldAs}`;
const SEEN = 300;
const ONE_BY_ONE = 3; // more at once are told in one
const GAP = 1_000;
const wants = new Set((told ?? "").split(" "));
let kept = null;
let timer = 0;
let lastAt = 0;

function plan(wait = 0) {
  timer ||= setTimeout(look, Math.max(wait, lastAt + GAP - Date.now(), 0));
}

async function look() {
  timer = 0;
  lastAt = Date.now();
  if (!navigator.locks) return ask();
  await navigator.locks.request(NAME, { ifAvailable: true }, (lock) => (lock ? ask() : plan(GAP)));
}

async function ask() {
  const before = load();
  const since = before ? `?since=${encodeURIComponent(before.at)}` : "";
  let found;
  try {
    const answer = await fetch(news + since, { cache: "no-store", headers: { Accept: "application/json" } });
    if (!answer.ok || answer.redirected) return;
    found = await answer.json();
  } catch { return; } // the server is away: the next change asks again
  if (found.quiet) return;
  const seen = new Set(before?.seen);
  const fresh = found.rows.filter((row) => !seen.has(row.key));
  store({ at: found.at, seen: [...seen, ...fresh.map((row) => row.key)].slice(-SEEN) });
  if (before && fresh.length) tell(fresh); // who asks for the first time hears of what comes from now on
}

function load() {
  try { return JSON.parse(localStorage.getItem(NAME)) ?? kept; } catch { return kept; }
}

function store(state) {
  kept = state;
  try { localStorage.setItem(NAME, JSON.stringify(state)); } catch { /* good until the page closes */ }
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
setInterval(() => { if (document.hidden) plan(); }, 60_000); // a hidden page hears its count alone, and that may stay the same
plan();
