// The light in the frame: Live, Reconnecting, or Stale since 14:02. Forty seconds without a word are stale.
// Its words may stand on the light itself (data-live, data-re, data-stale, data-signed-out, data-no-right).

const SILENCE = 40_000;
const light = document.getElementById("live-light");
const banner = document.getElementById("live-stale");
const banners = { text: banner?.querySelector("[data-stale-text]"), retry: banner?.querySelector("[data-live-retry]") };
const usual = banners.text?.textContent;
const words = {
  live: "Live",
  re: "Reconnecting",
  stale: "Stale since",
  "signed-out": "Signed out",
  "no-right": "Stopped",
};
const sentences = {
  "signed-out": "You are signed out, so this page no longer changes. Sign in to go on; what you typed stays here.",
  "no-right": "You can no longer see this, so the page no longer changes.",
};
let heardAt = Date.now();
let state = "";
let reopenedAt = 0;
let reopen = () => {};

/** `again` opens a new socket: by the button, and when the old one has gone silent. */
export function watch(again) {
  reopen = again;
  banners.retry?.addEventListener("click", again);
  setInterval(look, 5_000);
  for (const [where, event] of [[document, "visibilitychange"], [window, "online"], [window, "pageshow"]]) {
    where.addEventListener(event, look);
  }
}

export function heard() {
  heardAt = Date.now();
  if (state === "stale") show("re");
}

export function beat() {
  light?.classList.remove("is-beat");
  requestAnimationFrame(() => light?.classList.add("is-beat"));
}

export function show(now) {
  if (now === state || (state === "stale" && now === "re" && isSilent()) || sentences[state]) return;
  state = now;
  if (light) {
    light.className = `light${now === "live" ? "" : now === "re" ? " light--re" : " light--stale"}`;
    light.textContent = (light.dataset[camel(now)] ?? words[now]) + (now === "stale" ? ` ${clock(heardAt)}` : "");
  }
  if (!banner) return;
  banner.hidden = now === "live" || now === "re";
  banners.text.textContent = sentences[now] ?? usual;
  if (banners.retry) banners.retry.hidden = now !== "stale";
  if (now === "signed-out") banners.text.after(signIn());
}

const isSilent = () => Date.now() - heardAt > SILENCE;

// A line that has gone silent is not trusted again: a new one is opened, and another when that stays silent too.
function look() {
  if (document.hidden || !isSilent() || sentences[state]) return;
  show("stale");
  if (Date.now() - reopenedAt < SILENCE) return;
  reopenedAt = Date.now();
  reopen();
}

const camel = (name) => name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase());
const clock = (moment) =>
  new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(moment);

function signIn() {
  const link = document.createElement("a");
  link.className = "btn btn--small";
  link.href = `/sign-in/?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = light?.dataset.signIn ?? "Sign in";
  return link;
}
