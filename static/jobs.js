// The list: what can be done to the ticked jobs, once some are.
(() => {
  const form = document.querySelector("[data-selection]");
  if (!form) return;
  const all = form.querySelector("[data-tick-all]");
  const text = form.querySelector("[data-selected-text]");
  const tag = form.querySelector("[data-tag]");
  const empty = text.textContent;
  const boxes = () => [...form.querySelectorAll('input[name="id"]')];
  const show = () => {
    const count = boxes().filter((box) => box.checked).length;
    text.textContent = count === 0 ? empty : count === 1 ? text.dataset.one : text.dataset.many.replace("#", count);
    form.querySelector("[data-selected-tools]").classList.toggle("is-open", count > 0);
    form.querySelectorAll("[data-needs]").forEach((button) => {
      button.disabled = count < Number(button.dataset.needs) || (button.value === "compare" && count > 8)
        || ("needsTag" in button.dataset && !tag.value.trim());
    });
    all.checked = count > 0 && count === boxes().length;
    all.indeterminate = count > 0 && !all.checked;
  };
  all.hidden = false;
  all.addEventListener("change", () => { boxes().forEach((box) => { box.checked = all.checked; }); show(); });
  form.addEventListener("change", show);
  tag?.addEventListener("input", show);
  window.addEventListener("pageshow", show);  // after "back" the browser restores the ticks
  show();
})();
