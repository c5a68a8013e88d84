// What this browser was told, kept in its database. A turn reads and writes in one transaction, which is one page's
// alone in whatever process the pages run. Where nothing can be kept it is good until the page closes.

const NAME = "orchestra";
const STORE = "told";
let mine = null;

/** Runs `act` on what is kept, or null; what it answers is kept. False where the database failed before that. */
export async function turn(key, act) {
  const base = await open();
  if (!base) return one(null, act);
  return new Promise((done) => {
    let ran = false;
    const work = base.transaction(STORE, "readwrite");
    const read = work.objectStore(STORE).get(key);
    read.onsuccess = () => {
      ran = one(read.result ?? null, act);
      if (mine) work.objectStore(STORE).put(mine, key);
    };
    work.oncomplete = work.onabort = () => { base.close(); done(ran); };
  });
}

function one(kept, act) {
  mine = act(kept ?? mine) ?? kept ?? mine;
  return true;
}

function open() {
  return new Promise((done) => {
    try {
      const asked = indexedDB.open(NAME, 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
      asked.onsuccess = () => done(asked.result);
      asked.onerror = () => done(null);
    } catch { done(null); } // switched off
  });
}
