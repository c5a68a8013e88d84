// How many rows of Needs you are selected; the button that acts on them waits until one is.

const form = document.querySelector("[data-bulk]");
const picks = () => document.querySelectorAll(".row-pick:checked").length;

function tell() {
  const count = picks();
  form.querySelector("[data-picked]").hidden = count === 0;
  form.querySelector("[data-picked-count]").textContent = count;
  form.querySelector("[data-picked-go]").disabled = count === 0;
}

document.addEventListener("change", (event) => { if (event.target.matches?.(".row-pick")) tell(); });
document.addEventListener("htmx:afterRequest", tell); // rows come and go
tell();
