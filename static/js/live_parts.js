// Parts that read themselves again when told: `data-live-task`, `-run`, `-flow`, `-needs`, `-home`, `-process` say what of,
// `hx-trigger="live:changed"` does it. Hints are folded and jittered: many pages show the same thing.
import { isBusy, putOff } from "./live_guard.js";

const GAP = 400;
const JITTER = 200;
const NEEDS_JITTER = 60; // a row leaves every other page within a second; the server paces it
const PARTS = "[data-live-task],[data-live-run],[data-live-flow],[data-live-needs],[data-live-home],[data-live-process]";
let told = none();
let timer = 0;
let due = Infinity;
let lastAt = 0;

function none() {
  return { tasks: new Set(), runs: new Set(), flows: new Set(), words: new Set() };
}

/** `changed`: {tasks: [ids], runs: [ids], flows: [ids], needs, home, process, all}. */
export function hint({ tasks = [], runs = [], flows = [], ...words }) {
  for (const id of tasks) told.tasks.add(id);
  for (const id of runs) told.runs.add(String(id));
  for (const id of flows) told.flows.add(String(id));
  for (const word of Object.keys(words)) told.words.add(word);
  plan();
}

function plan() {
  if (document.hidden) return; // hidden pages read nothing; they are told when they are seen
  const soon = told.words.has("needs");
  const wait = soon ? Math.random() * NEEDS_JITTER : Math.max(lastAt + GAP - Date.now(), 0) + Math.random() * JITTER;
  if (timer && due <= Date.now() + wait) return;
  clearTimeout(timer);
  due = Date.now() + wait;
  timer = setTimeout(tellAll, wait);
}

function tellAll() {
  timer = 0;
  due = Infinity;
  lastAt = Date.now();
  const now = told;
  told = none();
  for (const part of document.querySelectorAll(PARTS)) if (concerns(part.dataset, now)) tell(part);
}

function concerns(part, { tasks, runs, flows, words }) {
  return (
    words.has("all") ||
    tasks.has(part.liveTask) ||
    runs.has(part.liveRun) ||
    flows.has(part.liveFlow) ||
    (words.has("needs") && "liveNeeds" in part) ||
    (words.has("home") && "liveHome" in part) ||
    (words.has("process") && "liveProcess" in part)
  );
}

// To the part alone: an event that rises would reach every part that listens further up.
function tell(part) {
  const target = targetOf(part);
  if (target && isBusy(target)) putOff(target.id, () => { if (part.isConnected) tell(part); });
  else part.dispatchEvent(new CustomEvent("live:changed"));
}

/** What its answer replaces; null where the answer finds its own places, which ask for themselves. */
function targetOf(part) {
  if (part.getAttribute("hx-swap") === "none") return null;
  const named = part.getAttribute("hx-target") ?? "this";
  return named === "this" ? part : document.querySelector(named);
}

document.addEventListener("visibilitychange", () => { if (told.tasks.size || told.runs.size || told.flows.size || told.words.size) plan(); });
