// What every page does a little better with JavaScript: times that age, copy buttons, messages that go away.
(() => {
  const language = document.documentElement.lang;
  const relative = new Intl.RelativeTimeFormat(language, { numeric: "always", style: "short" });
  const STEPS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 7], ["week", 4.35], ["month", 12], ["year", Infinity]];

  // "3 min. ago", as the server says it; the exact time on hover in the reader's own zone.
  const age = (element) => {
    const moment = new Date(element.dateTime);
    element.title = moment.toLocaleString(language, { dateStyle: "medium", timeStyle: "medium" });
    let apart = (moment - Date.now()) / 1000;
    if (Math.abs(apart) < 5) return;
    for (const [unit, size] of STEPS) {
      if (Math.abs(apart) < size * 1.5 || size === Infinity) {
        element.textContent = relative.format(Math.round(apart), unit);
        return;
      }
      apart /= size;
    }
  };
  // How long something runs already: <time class="since" datetime=start>.
  const run = (element) => {
    const whole = Math.max(0, Math.round((Date.now() - new Date(element.dateTime)) / 1000));
    const two = (value) => String(value).padStart(2, "0");
    const [hours, minutes, seconds] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    element.textContent = hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
  };
  const each = (selector, work, root = document) => root.querySelectorAll(selector).forEach(work);
  const refresh = () => { each("time.since", run); };
  each("time.ago", age);
  refresh();
  setInterval(refresh, 1000);
  setInterval(() => each("time.ago", age), 15000);
  document.addEventListener("htmx:after:swap", () => { each("time.ago", age); refresh(); });

  // What changes while a fragment is asked for may not be in the answer, and htmx forgets the event that would ask again
  // with the element that the answer replaces.
  const heard = {}, known = {};  // by source: its last event, and how many there were; by fragment: those before its request
  let isRepeated = false;
  for (const name of ["changed", "status", "done", "gone"]) {
    document.addEventListener(name, ({ target }) => {
      if (!isRepeated) heard[target.id] = { name, count: (heard[target.id]?.count ?? 0) + 1 };
    }, true);
  }
  const source = (element) => /from:#([\w-]+)/.exec(element.getAttribute?.("hx-trigger"))?.[1];
  document.addEventListener("htmx:before:request", ({ target }) => { known[target.id] = heard[source(target)]?.count; });
  document.addEventListener("htmx:after:request", ({ target }) => {
    const id = source(target), last = heard[id];
    if (known[target.id] === last?.count) return;
    setTimeout(() => {
      isRepeated = true;
      document.getElementById(id)?.dispatchEvent(new Event(last.name));
      isRepeated = false;
    }, 500);  // the answer has replaced the fragment by then
  });

  const toast = (text, kind = "") => {
    const made = document.createElement("div");
    made.className = `toast ${kind}`;
    made.textContent = text;
    document.getElementById("toasts").append(made);
    setTimeout(() => made.remove(), 5000);
  };
  window.modelmill = { toast };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await copy(button.dataset.copy);
    toast(button.dataset.copied);
  });
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {  // over plain http the clipboard interface is not offered
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  // A form that takes a while is sent once.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-once]")) return;
    event.target.querySelectorAll("button:not([type=button])").forEach((button) => {
      setTimeout(() => { button.disabled = true; });
    });
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) each("[data-once] button", (button) => { button.disabled = false; });
  });

  // Who signs out asks for nothing more: the answer would be to sign in, and would lead there by a way of its own.
  let isLeaving = false;
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-leaves]")) return;
    isLeaving = true;
    each("[hx-trigger]", (element) => element.dispatchEvent(new Event("htmx:abort")));
  });
  document.addEventListener("htmx:before:request", (event) => { if (isLeaving) event.preventDefault(); });
  window.addEventListener("pageshow", () => { isLeaving = false; });

  // A refused form: the reader begins at the first field to change.
  const wrong = document.querySelector('main [aria-invalid="true"]');
  if (wrong && document.activeElement === document.body) {
    const panel = wrong.closest("details");
    if (panel) panel.open = true;
    wrong.focus();
  }

  // A message of the page before (?note=...) is shown once, not at every reload.
  const url = new URL(location);
  if (url.searchParams.has("note")) {
    url.searchParams.delete("note");
    history.replaceState(history.state, "", url);
  }
})();
