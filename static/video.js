// A live picture rests while nobody sees the page, and what has a say in the rest of a form renews it at once.
(() => {
  // What a reader has opened or closed stays so while the page around it is kept current.
  window.htmx.config.morphIgnore.push("open");
  const apply = () => {
    const picture = document.querySelector("img[data-live]");
    if (!picture) return;
    const wanted = document.hidden ? picture.dataset.still : picture.dataset.live;
    if (picture.getAttribute("src") !== wanted) picture.setAttribute("src", wanted);
  };
  document.addEventListener("visibilitychange", apply);
  document.addEventListener("htmx:after:swap", apply);

  // Where the live picture does not come, the last snapshot stands in for it.
  document.addEventListener("error", (event) => {
    const { live, still } = event.target.dataset ?? {};
    if (live && event.target.getAttribute("src") === live) event.target.setAttribute("src", still);
  }, true);

  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-refreshes]")) return;
    const form = event.target.form;
    form.requestSubmit(form.querySelector("button[value=preview]"));
  });
})();
