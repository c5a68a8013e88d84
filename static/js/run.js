// The run page: the transcript follows its end until the reader scrolls up, and links open what they lead to.

import { offer } from "./keys.js";

const NEAR = 48; // pixels from the end that still count as the end

let follows = true;
const log = () => document.querySelector("[data-log]");
const button = () => document.querySelector("[data-follow]");

function toEnd() {
  const box = log();
  if (box && follows) box.scrollTop = box.scrollHeight;
}

function show() {
  const toggle = button();
  if (!toggle) return;
  toggle.hidden = false;
  toggle.setAttribute("aria-pressed", String(follows));
}

function watch() {
  const box = log();
  if (!box || box.dataset.watched) return;
  box.dataset.watched = "1";
  box.addEventListener("scroll", () => {
    follows = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
    show();
  }, { passive: true });
  show();
  toEnd();
}

offer({
  m: () => {
    const way = document.querySelector("[data-move]");
    if (!way) return "This run cannot be moved now. Its acts say why.";
    way.click();
    way.parentElement.querySelector("button")?.focus();
  },
});

watch();
document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-follow]")) {
    follows = !follows;
    show();
    toEnd();
  }
  const opens = event.target.closest?.("[data-opens]");
  const box = opens && document.getElementById(opens.dataset.opens);
  if (box) {
    event.preventDefault(); // following the link would take the focus away again
    box.open = true;
    box.scrollIntoView({ block: "nearest" });
    box.querySelector("input:not([type=hidden]), textarea, select, button")?.focus();
  }
});

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  const box = log();
  if (!box) return;
  watch(); // the panel of another step is a new one
  if (box.contains(detail.elt) || detail.target?.id === "log-tail") toEnd();
});

// The form to start again comes when the run ends, and is never replaced: somebody may be writing in it.
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  if (event.detail.target.id === "run-again" && event.detail.target.querySelector("form")) event.detail.shouldSwap = false;
});
