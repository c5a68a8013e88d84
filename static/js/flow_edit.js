// The editor of a flow: line numbers, problems that lead to their line, and a text that outlives the page until saved.
const form = document.querySelector("[data-edits]");
const owner = document.body.dataset.user;
const keyOf = (flow) => `flow:${owner}:${flow}`;
const field = () => document.getElementById("f-text");

function stored(flow) {
  try { return JSON.parse(localStorage.getItem(keyOf(flow))); } catch { return null; }
}
function forget(flow) {
  try { localStorage.removeItem(keyOf(flow)); } catch { /* nothing was kept */ }
}
function keep() {
  const kept = { text: field().value, at: Date.now(), basedOn: form.dataset.basedOn };
  try { localStorage.setItem(keyOf(form.dataset.edits), JSON.stringify(kept)); } catch { /* no storage */ }
}

function number() {
  const gutter = form.querySelector("[data-gutter]");
  const lines = field().value.split("\n").length;
  while (gutter.children.length < lines) gutter.append(document.createElement("li"));
  while (gutter.children.length > lines) gutter.lastChild.remove();
  field().rows = lines;
  const wrong = new Set([...form.querySelectorAll(".problems:not(.problems--remarks) [data-line]")].map((link) => Number(link.dataset.line)));
  [...gutter.children].forEach((item, place) => item.classList.toggle("is-wrong", wrong.has(place + 1)));
}

function goTo(line) {
  const text = field();
  const starts = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  const ends = text.value.indexOf("\n", starts);
  text.focus({ preventScroll: true });
  text.setSelectionRange(starts, ends < 0 ? text.value.length : ends);
  form.querySelector("[data-gutter]").children[line - 1]?.scrollIntoView({ block: "center" });
}

// An answer is about the text as it was sent. What was typed since, in the text or in a field, is never swapped away: the
// parts that were made of one text stay together, and the next answer brings them all.
const PARTS = new Set(["text-pane", "f-base", "flow-form"]);
let sent = { text: "", isCheck: false };
const isTyping = () => document.activeElement?.matches?.("#flow-form :is(textarea, input:not([type=checkbox]))");

// Asked once for an answer, before its first part is in: after that the text is another.
let isOld = false;
const judge = () => { isOld = field().value !== sent.text || (sent.isCheck && isTyping()); };

function guard(event) {
  if (isOld && PARTS.has(event.detail.target?.id)) event.detail.shouldSwap = false;
}

function offer() {
  const kept = stored(form.dataset.edits);
  if (!kept || kept.text === field().value || form.hasAttribute("data-posted")) return;
  const bar = document.getElementById("kept");
  const time = bar.querySelector("[data-kept-at]");
  time.dateTime = new Date(kept.at).toISOString();
  time.textContent = new Date(kept.at).toLocaleString();
  bar.hidden = false;
  bar.querySelector("[data-kept-take]").addEventListener("click", () => {
    field().value = kept.text;
    bar.hidden = true;
    number();
    field().focus();
    field().dispatchEvent(new Event("input", { bubbles: true }));
  });
  bar.querySelector("[data-kept-drop]").addEventListener("click", () => { forget(form.dataset.edits); bar.hidden = true; });
}

if (form) {
  form.addEventListener("input", ({ target }) => {
    if (target !== field()) return;
    keep();
    number();
  });
  form.addEventListener("click", (event) => {
    const link = event.target.closest("[data-line]");
    if (!link || link.dataset.line === "0") return;
    event.preventDefault();
    goTo(Number(link.dataset.line));
  });
  // A kind has fields of its own, so the form is drawn anew after it was chosen.
  form.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.triggeringEvent?.target?.hasAttribute?.("data-redraws")) detail.parameters.redraw = "1";
  });
  form.addEventListener("htmx:beforeRequest", ({ detail }) => { sent = { text: field().value, isCheck: detail.elt === field() }; });
  form.addEventListener("htmx:beforeOnLoad", judge);
  document.addEventListener("htmx:oobBeforeSwap", guard);
  document.addEventListener("htmx:afterSettle", () => { if (field()) { number(); if (field().value !== field().defaultValue) keep(); } });
  document.addEventListener("htmx:oobAfterSwap", ({ detail }) => { if (detail.target?.id === "text-pane") keep(); });
  form.querySelector("[role=alert]")?.focus();
  if (form.hasAttribute("data-posted")) keep();
  offer();
}

// It was saved: what was kept of it is not wanted any more.
const saved = document.querySelector("[data-saved]");
if (saved) { forget(saved.dataset.saved); forget("+new"); }
