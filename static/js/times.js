// Puts each <time data-t> into the reader's zone and lets ages tick. Shapes: age, ago, till, left, clock, due, second, moment.
// What time it is, the database says: the page carries its clock (data-now), and a wrong clock here changes nothing.
// On hover: the exact moment here and in UTC. The server writes the same words in UTC for readers without script.

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const lang = document.documentElement.lang;
const locale = lang === "en" ? "en-GB" : lang || undefined; // day before month, as the server writes it
const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", year: "numeric" });
const toSecond = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const exact = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "long" });

const age = (seconds) => {
  const s = Math.max(0, Math.floor(seconds));
  if (s < MINUTE) return `${s} s`;
  if (s < HOUR) return `${Math.floor(s / MINUTE)} min`;
  if (s < DAY) return `${Math.floor(s / HOUR)} h`;
  return `${Math.floor(s / DAY)} d`;
};

// What a countdown shows: seconds alone under a minute, and the two largest units from an hour on.
const span = (seconds) => {
  const s = Math.max(0, Math.floor(seconds));
  if (s < HOUR) return age(s);
  const small = s >= DAY ? Math.floor((s % DAY) / HOUR) * HOUR : Math.floor((s % HOUR) / MINUTE) * MINUTE;
  return small ? `${age(s)} ${age(small)}` : age(s);
};

const [opened] = performance.getEntriesByType("navigation");
const arrived = Date.now() - performance.now() + (opened?.responseStart ?? 0); // by the clock of this machine
const told = Date.parse(document.body.dataset.now ?? "");
// A page that the browser kept from before says what the time was then.
const skew = Number.isNaN(told) || opened?.type === "back_forward" ? 0 : told - arrived;
const clockNow = () => new Date(Date.now() + skew);

const at = (moment, now) => {
  if (moment.toDateString() === now.toDateString()) return clock.format(moment);
  return `${(moment.getFullYear() === now.getFullYear() ? day : dayOfYear).format(moment)} ${clock.format(moment)}`;
};

const words = {
  age: (moment, now) => age((now - moment) / 1000),
  ago: (moment, now) => `${age((now - moment) / 1000)} ago`,
  till: (moment, now) => (moment > now ? `in ${age((moment - now) / 1000)}` : `${age((now - moment) / 1000)} late`),
  left: (moment, now) => (moment > now ? `${span((moment - now) / 1000)} left` : "its time is up"),
  clock: at,
  due: (moment, now) => (moment > now ? `due ${at(moment, now)}` : `overdue ${age((now - moment) / 1000)}`),
  second: (moment) => toSecond.format(moment),
  moment: (moment) => exact.format(moment),
};

function tell(time, now) {
  const moment = new Date(time.dateTime);
  const shape = words[time.dataset.t];
  if (!shape || Number.isNaN(moment.getTime())) return;
  const text = (time.dataset.prefix ?? "") + shape(moment, now);
  if (time.textContent !== text) time.textContent = text;
  if (time.dataset.t === "due" || time.dataset.t === "left") time.closest("[data-due]")?.classList.toggle("is-over", moment <= now);
  time.title ||= `${exact.format(moment)}\n${moment.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC")}`;
}

export function tellAll(root = document) {
  const now = clockNow();
  if (root.matches?.("time[data-t]")) tell(root, now);
  for (const time of root.querySelectorAll("time[data-t]")) tell(time, now);
}

tellAll();
new MutationObserver((changes) => {
  for (const change of changes) {
    for (const node of change.addedNodes) if (node.nodeType === Node.ELEMENT_NODE) tellAll(node);
  }
}).observe(document.body, { childList: true, subtree: true });
setInterval(() => { if (!document.hidden) tellAll(); }, 5000);
setInterval(() => {
  if (document.hidden) return;
  for (const time of document.querySelectorAll('time[data-t="left"]')) tell(time, clockNow());
}, 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) tellAll(); });
