// The socket of htmx's ws extension, and who decides when it comes back: this module, by the code it was closed with.
// 4012 the server restarts, 4401 signed out, 4403 no right. A refused handshake says nothing: then a small page is asked.

const RETRIED = [1006, 1011, 1012, 1013]; // the extension comes back by itself after these
const LONGEST = 10_000;
let element = null;
let socket = null;
let serial = 0;
let attempts = 0; // since it was last open
let timer = 0;
let tell = () => {};

/** Open the socket of this page; `onState` hears "re", "signed-out" and "no-right". */
export function start(onState) {
  tell = onState;
  htmx.config.wsReconnectDelay = delay;
  htmx.createWebSocket = create;
  document.addEventListener("htmx:wsOpen", (event) => { if (event.target === element) attempts = 0; });
  document.addEventListener("htmx:wsClose", (event) => { if (event.target === element) closed(event.detail.event.code); });
  open();
}

/** Leave the socket there is, if any, and open one for what the page shows now. */
export function open() {
  leave();
  element = document.createElement("div");
  element.hidden = true;
  element.setAttribute("hx-ext", "ws");
  element.setAttribute("ws-connect", `/ws/?${subscription()}&serial=${serial}`);
  document.body.append(element);
  htmx.process(element);
}

export const isOpen = () => socket?.readyState === WebSocket.OPEN;

export function say(words) {
  if (isOpen()) socket.send(JSON.stringify(words));
}

// What the page shows, by ids. Everything else is decided on the server.
function subscription() {
  const lanes = document.querySelector("main[data-live-board]");
  const task = document.querySelector("[data-live-task][data-live-board]");
  const names = new URLSearchParams({ lang: document.documentElement.lang });
  const named = lanes
    ? { board: lanes.dataset.liveBoard, q: lanes.dataset.liveFilter ?? "", partition: lanes.dataset.livePartition ?? "" }
    : task ? { board: task.dataset.liveBoard, task: task.dataset.liveTask } : {};
  for (const [name, value] of Object.entries(named)) names.set(name, value);
  const run = document.querySelector("[data-live-run]");
  if (run) names.set("run", run.dataset.liveRun);
  const flow = document.querySelector("[data-live-flow]");
  if (flow) names.set("flow", flow.dataset.liveFlow);
  if (document.querySelector("[data-live-home]")) names.set("home", "1");
  return names;
}

// The extension cannot be told to give up a retry that it has planned: one of an element that was left gets a socket
// that does nothing. The serial number is ours alone.
const nothing = { readyState: WebSocket.CLOSED, addEventListener() {}, close() {}, send() {} };

function create(url) {
  const address = new URL(url);
  if (Number(address.searchParams.get("serial")) !== serial) return { ...nothing };
  address.searchParams.delete("serial");
  return (socket = new WebSocket(address));
}

function leave() {
  clearTimeout(timer);
  serial += 1;
  element?.remove();
  socket?.close();
  element = socket = null;
}

// Jitter: after a restart not everybody comes at once.
function delay() {
  return Math.random() * Math.min(LONGEST, 500 * 2 ** attempts);
}

function closed(code) {
  if (code === 4401) return stop("signed-out");
  if (code === 4403) return stop("no-right");
  attempts += 1;
  tell("re");
  if (!RETRIED.includes(code)) timer = setTimeout(open, delay());
  if (attempts % 2 === 0) askWhy();
}

async function askWhy() {
  try {
    const answer = await (await fetch(`/live/status?${subscription()}`, { cache: "no-store" })).json();
    if (!answer.signed_in) stop("signed-out");
    else if (!answer.allowed) stop("no-right");
  } catch { /* the server is away: the socket is tried again */ }
}

function stop(why) {
  leave();
  tell(why);
}
