// Light or dark: what the reader chose, else what the system says. Runs before the first paint, so nothing flashes.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const read = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const write = (theme) => { try { localStorage.setItem("theme", theme); } catch { /* private mode: for this page only */ } };
  const chosen = read();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  root.classList.add("js");

  document.addEventListener("DOMContentLoaded", () => {
    const toggle = document.querySelector("[data-theme-toggle]");
    if (!toggle) return;
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      const now = root.dataset.theme ?? (system.matches ? "dark" : "light");
      root.dataset.theme = now === "dark" ? "light" : "dark";
      write(root.dataset.theme);
    });
  });
})();
