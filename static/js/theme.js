// Applies the reader's theme before the first paint (this file is loaded in the head, blocking) and stores a new choice.
// "" follows the system. Storage may be refused; then the system decides.
(() => {
  const root = document.documentElement;
  const stored = () => {
    try { return localStorage.getItem("theme") || ""; } catch { return ""; }
  };
  const apply = (theme) => {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    // The browser's own bars follow the frame, which is darker in the dark theme.
    for (const meta of document.querySelectorAll('meta[name="theme-color"]')) {
      meta.dataset.system ??= meta.content;
      meta.content = theme ? (theme === "dark" ? "#141d1a" : "#10302a") : meta.dataset.system;
    }
  };
  apply(stored());

  document.addEventListener("DOMContentLoaded", () => {
    for (const input of document.querySelectorAll("[data-theme-choice] input")) input.checked = input.value === stored();
  });
  document.addEventListener("change", (event) => {
    if (!event.target.closest?.("[data-theme-choice]")) return;
    try { localStorage.setItem("theme", event.target.value); } catch { /* private window: good until it closes */ }
    apply(event.target.value);
  });
  addEventListener("storage", (event) => { if (event.key === "theme") apply(event.newValue || ""); });
})();
