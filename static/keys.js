// The palette (Ctrl K or ⌘K) and the keys of lists: j and k move, Enter opens, x ticks, / filters, ? shows them all.
(() => {
  const palette = document.getElementById("palette");
  if (!palette) return;
  const text = document.getElementById("palette-text");
  const results = document.getElementById("palette-results");
  const help = document.getElementById("keys-help");

  // --- the palette: the field keeps the focus, the chosen option is told by aria-activedescendant
  const options = () => [...results.querySelectorAll('[role="option"]')];
  const choose = (option) => {
    options().forEach((other, at) => {
      other.id ||= `palette-option-${at}`;
      other.setAttribute("aria-selected", String(other === option));
    });
    if (option) {
      text.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    } else {
      text.removeAttribute("aria-activedescendant");
    }
  };
  const move = (step) => {
    const all = options();
    const at = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
    if (all.length) choose(all[(at + step + all.length) % all.length]);
  };
  const open = () => {
    if (palette.open) return;
    palette.showModal();
    text.select();
    window.htmx.ajax("GET", `/ui/search/results?q=${encodeURIComponent(text.value)}`, { target: results, swap: "innerHTML" });
  };
  const link = document.querySelector("[data-palette-open]");
  link.addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  const hint = document.querySelector("[data-palette-key]");
  hint.hidden = false;
  if (!/Mac|iPhone|iPad/.test(navigator.platform)) hint.textContent = "Ctrl K";
  document.addEventListener("htmx:after:swap", () => {
    if (palette.open && !results.querySelector('[aria-selected="true"]')) choose(options()[0]);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      const chosen = results.querySelector('[aria-selected="true"]');
      if (!chosen) return;
      event.preventDefault();
      chosen.click();
    }
  });
  palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });

  // --- lists: the rows of tables whose links are marked
  const links = () => [...document.querySelectorAll("[data-row-link]")];
  const row = (at) => at?.closest("tr, li");
  const here = () => links().findIndex((one) => row(one)?.classList.contains("is-here"));
  const go = (step) => {
    const all = links();
    if (!all.length) return;
    const from = here();
    const to = all[Math.min(Math.max(from + step, 0), all.length - 1)];
    all.forEach((one) => row(one)?.classList.toggle("is-here", one === to));
    to.focus({ preventScroll: true });
    row(to)?.scrollIntoView({ block: "nearest" });
  };
  const isWriting = (element) => element.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
  const KEYS = {
    j: () => go(1),
    k: () => go(-1),
    x: () => row(links()[here()])?.querySelector("input[type=checkbox]")?.click(),
    "/": () => {
      const filter = document.querySelector("[data-filter]");
      filter?.focus();
      filter?.setSelectionRange(filter.value.length, filter.value.length);
    },
    "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey || palette.open || help.open || isWriting(event.target)) return;
    const work = KEYS[event.key];
    if (!work) return;
    event.preventDefault();
    work();
  });
})();
