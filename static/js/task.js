// The page of a task and its drawer: parts that read themselves again, and acts whose refusal stands in place.
// Everything is bound by data- attributes and by delegation, so a part that is swapped in needs no set-up.
// Drafts of texts are kept and put back by drafts.js; here they are forgotten once they were taken.

import { forget } from "./drafts.js";
import { isBusy, putOff } from "./live_guard.js";
import { goOn } from "./refused.js";
import "./task_views.js";

const on = (event, handle) => document.addEventListener(event, handle);
const within = (event, selector) => (event.target instanceof Element ? event.target.closest(selector) : null);
const readAgain = () => document.body.dispatchEvent(new CustomEvent("task:changed"));

// What the page has already, so that the server sends only newer lines and events.
on("htmx:configRequest", ({ target, detail }) => {
  if (!target.matches?.("[data-parts]")) return;
  const newest = document.getElementById("task-attempts")?.dataset.newest;
  const lines = document.querySelectorAll(`#lines-${newest} > [data-line]`);
  detail.parameters.attempt = newest ?? "0";
  if (!document.getElementById(`lines-${newest}`)) detail.parameters.folded = "1";
  detail.parameters.seen = lines[lines.length - 1]?.dataset.line ?? "0";
  detail.parameters.events = document.querySelector("#event-list > [data-event]")?.dataset.event ?? "0";
});

// A part stays while somebody is in it, selects in it, or has typed into it; then it is read again. What has an id
// gets its focus back from htmx, unless it is a field. What is folded open stays open.
on("htmx:oobBeforeSwap", (event) => {
  const { target, fragment } = event.detail;
  if (target.id === "event-list") return foldInto(target, fragment);
  if (!target.id?.startsWith("task-")) return;
  if (isTyped(target) || (isBusy(target) && !comesBack(document.activeElement, fragment))) {
    event.detail.shouldSwap = false;
    later(target);
    return;
  }
  const newest = fragment.querySelector("#task-attempts")?.dataset.newest;
  if (newest && newest !== target.dataset.newest) return; // a new attempt is what one looks at now
  for (const details of fragment.querySelectorAll("details[id]")) {
    const shown = document.getElementById(details.id);
    if (shown) details.open = shown.open;
  }
});

// A line that counts goes where its newest stands, and its older self goes.
function foldInto(list, fragment) {
  for (const { dataset } of fragment.querySelectorAll("[data-fold]")) list.querySelector(`[data-fold="${dataset.fold}"]`)?.remove();
}

const later = (part) => putOff(part.id, () => (isTyped(part) ? later(part) : readAgain()));
const comesBack = (active, fragment) =>
  active.id && !active.matches("input, textarea, select") && fragment.querySelector(`#${CSS.escape(active.id)}`);
const isTyped = (part) =>
  [...part.querySelectorAll("textarea, input:not([type=hidden])")].some((field) =>
    field.matches("[type=checkbox], [type=radio]") ? field.checked !== field.defaultChecked : field.value !== field.defaultValue,
  );

// An act: on success its form is empty again and the focus goes to the title; a refusal stands in the form.
// Somebody who typed on while it was under way keeps text and focus.
const sent = new WeakMap();
const textOf = (form) => JSON.stringify([...new FormData(form)]);
on("htmx:beforeRequest", ({ detail }) => { if (detail.elt.matches("form[data-act]")) sent.set(detail.elt, textOf(detail.elt)); });

on("htmx:afterRequest", ({ detail }) => {
  const form = detail.elt;
  if (form.matches("[data-ask-form]") && detail.successful) readAgain();
  if (!form.matches("form[data-act]")) return;
  if (!detail.successful) {
    say(form, sentenceOf(detail.xhr));
    return goOn(form, form.querySelector("[data-wrong]"), detail.xhr.status);
  }
  say(form, "");
  if (textOf(form) !== sent.get(form)) return;
  forget(form);
  form.reset();
  form.closest("details.act")?.removeAttribute("open");
  document.getElementById("task-title")?.focus({ preventScroll: true });
});

// A result that was left empty is asked about; handing back needs none.
on("htmx:confirm", (event) => {
  const { elt, triggeringEvent, issueRequest } = event.detail;
  const question = elt.dataset?.asksEmpty;
  if (!question || triggeringEvent?.submitter?.hasAttribute("formaction")) return;
  if (elt.querySelector("textarea").value.trim()) return;
  event.preventDefault();
  if (confirm(question)) issueRequest(true);
});

function say(form, sentence) {
  const wrong = form.querySelector("[data-wrong]");
  wrong.textContent = sentence;
  wrong.hidden = !sentence;
}

function sentenceOf(xhr) {
  try {
    return JSON.parse(xhr.getResponseHeader("HX-Trigger")).toast.text;
  } catch {
    return "This could not be sent. What you typed is still here: try again.";
  }
}
