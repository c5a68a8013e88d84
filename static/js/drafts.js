// What is being written in `<textarea data-draft="name">` survives leaving, a reload and a closed tab, per reader and
// browser, until it is sent. Storage may be refused; then the text lives as long as the page.

const keyOf = (field) => `draft:${document.body.dataset.user}:${field.dataset.draft}`;

function keep(field) {
  try {
    if (field.value) localStorage.setItem(keyOf(field), field.value);
    else localStorage.removeItem(keyOf(field));
  } catch { /* no storage */ }
}

function read(field) {
  try { return localStorage.getItem(keyOf(field)); } catch { return null; }
}

/** Put back what was written in the fields of `root`, unless the server sent words of its own. */
export function restore(root) {
  for (const field of root.querySelectorAll("textarea[data-draft]")) {
    const kept = read(field);
    if (kept && !field.defaultValue) field.value = kept;
  }
}

/** The words of `root` were sent, or are not wanted any more. */
export function forget(root) {
  for (const field of root.querySelectorAll("[data-draft]")) {
    try { localStorage.removeItem(keyOf(field)); } catch { /* nothing was kept */ }
  }
}

// What a page before this one sent and the server took: it says so, with the head of the drafts' names. Nothing else does:
// a form that was refused, or that never arrived, keeps what was written.
function forgetTaken(head) {
  try {
    const taken = `draft:${document.body.dataset.user}:${head.replace(/^draft:/, "")}`;
    for (const key of Object.keys(localStorage)) if (key.startsWith(taken)) localStorage.removeItem(key);
  } catch { /* nothing was kept */ }
}

document.addEventListener("input", (event) => { if (event.target.dataset?.draft) keep(event.target); });
for (const { dataset } of document.querySelectorAll("[data-taken]")) forgetTaken(dataset.taken);
restore(document.body);
