// What pages cannot do without a script, and can do without.
"use strict";

// A link of a mail has its code after #, where no server sees it. The code goes into the field and out of
// the address.
const coded = document.querySelector("[data-from-fragment]");
if (coded && location.hash.length > 1) {
  coded.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
}

// A button with data-copy copies the text of the element of that id.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  event.preventDefault();
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy it";
  }
  setTimeout(() => { button.textContent = said; }, 2000);
});

// What asks for a passkey is shown when the browser knows passkeys. The passkey's answer goes into the form. Its
// data-passkey says what for.
for (const part of document.querySelectorAll("[data-passkey]")) {
  part.hidden = !(window.PublicKeyCredential && PublicKeyCredential.parseRequestOptionsFromJSON);
  part.querySelector("button").addEventListener("click", async (event) => {
    const form = event.target.form, purpose = part.dataset.passkey, trouble = part.querySelector(".fault");
    const replaced = [form.elements.password, form.elements.code].filter(Boolean);
    for (const field of replaced) field.required = false;
    if (!form.reportValidity()) return;
    trouble.hidden = true;
    try {
      let answer;
      if (purpose === "register") {
        const options = PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(part.dataset.options));
        answer = await navigator.credentials.create({ publicKey: options });
      } else {
        const at = purpose === "step_up" ? document.body.dataset.at : "";
        const asked = await fetch(at + "/passkey/challenge", { method: "POST", body: new URLSearchParams({ for: purpose }) });
        if (!asked.ok) throw new Error(asked.statusText);
        const options = PublicKeyCredential.parseRequestOptionsFromJSON(await asked.json());
        answer = await navigator.credentials.get({ publicKey: options });
      }
      form.elements.passkey.value = JSON.stringify(answer.toJSON());
      form.requestSubmit();
    } catch {
      trouble.hidden = false;
      for (const field of replaced) field.required = true;
    }
  });
}

// A button with data-confirm asks before its form is sent.
document.addEventListener("submit", (event) => {
  const question = event.submitter && event.submitter.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});

// A link with data-preview shows the color of the field of that id, before it is saved.
document.addEventListener("input", (event) => {
  const link = document.querySelector(`[data-preview="${event.target.id}"]`);
  if (link) link.search = new URLSearchParams({ color: event.target.value.slice(1) });
});

// A time with data-countdown counts down to it.
function countDown() {
  for (const element of document.querySelectorAll("time[data-countdown]")) {
    const left = Math.round((Date.parse(element.dateTime) - Date.now()) / 1000);
    const pad = (n) => String(n).padStart(2, "0");
    element.textContent = left <= 0 ? "now" :
      left < 3600 ? `in ${Math.floor(left / 60)}:${pad(left % 60)}` :
      `in ${Math.floor(left / 3600)}:${pad(Math.floor(left / 60) % 60)}:${pad(left % 60)}`;
  }
}
setInterval(countDown, 1000);
document.addEventListener("DOMContentLoaded", countDown);
document.addEventListener("htmx:afterSettle", countDown);

// A part of a page that comes anew every few seconds does not while nobody
// looks, nor while somebody is about to do something in it.
document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.detail.elt;
  if (!(part.getAttribute("hx-trigger") || "").startsWith("every")) return;
  const at = document.activeElement;
  const marked = getSelection();
  const busy = (part.contains(at) && !at.id) || part.querySelector(".confirm[open]") ||
    (!marked.isCollapsed && part.contains(marked.anchorNode));
  if (document.hidden || busy) event.preventDefault();
});

// On a phone the sections are a row that scrolls: the one that is shown is in sight.
document.addEventListener("DOMContentLoaded", () => {
  const row = document.querySelector(".sections"), here = row && row.querySelector("[aria-current]");
  if (here) row.scrollLeft = here.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
});

// What was unfolded or scrolled in it stays so.
let asItWas = [];
document.addEventListener("htmx:beforeSwap", (event) => {
  asItWas = [...event.detail.target.querySelectorAll("details[id][open], .scroll[id]")].map((e) => [e.id, e.scrollLeft]);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const [id, left] of asItWas) {
    const element = document.getElementById(id);
    if (!element) continue;
    if (element.tagName === "DETAILS") element.open = true;
    element.scrollLeft = left;
  }
  asItWas = [];
});

// Rows that are new, or show something else than before, are marked.
let shown = new Map();
document.addEventListener("htmx:beforeSwap", () => {
  shown = new Map(Array.from(document.querySelectorAll("tr[data-version]"), (row) => [row.id, row.dataset.version]));
});
document.addEventListener("htmx:afterSettle", () => {
  for (const row of document.querySelectorAll("tr[data-version]")) {
    row.classList.toggle("fresh", shown.get(row.id) !== row.dataset.version);
  }
});
