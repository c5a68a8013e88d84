// How much waits on the reader, on every page: the number in the frame, "(3)" before the title, the mark of the tab.

const shown = document.getElementById("needs-count");
const icon = document.getElementById("favicon");

const dot = document.getElementById("needs-dot");

/** `count` is of what blocks work; `reads` is of what only wants to be read, and shows as a dot. */
export function setCount(count, reads = 0) {
  if (dot) {
    dot.hidden = reads === 0;
    dot.dataset.n = reads;
    dot.title = dot.querySelector("[data-reads]").textContent = dot.dataset.words.replace("{n}", reads);
  }
  if (shown) {
    shown.hidden = count === 0;
    shown.dataset.n = count;
    const digits = [...shown.childNodes].find((node) => node.nodeType === Node.TEXT_NODE);
    digits.textContent = String(count);
  }
  document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
  const mark = icon?.dataset[count ? "you" : "calm"];
  if (mark && icon.getAttribute("href") !== mark) icon.href = mark;
}
