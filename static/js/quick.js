// The quick line: `c` goes there, Enter files, several pasted lines are offered as several tasks.
import { offer } from "./keys.js";

const line = () => document.getElementById("quick-line");

offer({
  c: () => {
    if (!line()) return false;
    line().focus();
    line().scrollIntoView({ block: "nearest" });
  },
});

document.addEventListener("keydown", (event) => {
  if (event.target !== line() || event.defaultPrevented) return;
  if (event.key === "Escape") line().blur();
  if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
  if (lines(event.target).length > 1 && !event.ctrlKey && !event.metaKey) return; // several lines: a new one, or a button
  event.preventDefault();
  event.target.form.requestSubmit(event.target.form.querySelector("[data-quick-one]"));
});

document.addEventListener("input", (event) => { if (event.target === line()) fit(event.target); });

function fit(field) {
  const many = lines(field);
  const each = field.form.querySelector("[data-quick-each]");
  each.hidden = many.length < 2;
  each.querySelector("[data-n]").textContent = many.length;
  field.form.querySelector(".wrong")?.remove(); // what was wrong was about the text before
  field.form.querySelector(".is-wrong")?.classList.remove("is-wrong");
  field.ariaInvalid = null;
  field.rows = Math.min(8, Math.max(1, field.value.split("\n").length));
}

const lines = (field) => field.value.split("\n").filter((text) => text.trim());
