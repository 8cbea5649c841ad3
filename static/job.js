// The page of a job: the icon of its tab says how it stands, and whoever wants it is told when it ends.
(() => {
  const live = () => document.querySelector(".job-head[data-icon]");
  const shown = document.querySelector("[data-state-icon]");
  const asked = new Set();
  let hasEnded = live()?.dataset.ended === "true";

  const look = () => {
    const head = live();
    if (!head) return;
    if (shown && shown.getAttribute("href") !== head.dataset.icon) shown.setAttribute("href", head.dataset.icon);
    if (!hasEnded && head.dataset.ended === "true") {
      hasEnded = true;
      if (asked.size && Notification.permission === "granted") new Notification(document.title);
    }
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-notify]");
    if (!button) return;
    const answer = "Notification" in window ? await Notification.requestPermission() : "denied";
    if (answer === "granted") {
      asked.add(button.dataset.notify);
      button.disabled = true;
    }
    window.modelmill.toast(answer === "granted" ? button.dataset.agreed : button.dataset.refused);
  });
  document.addEventListener("htmx:after:swap", look);

  // A drawing begins where its first node is, not at its empty corner; one that is linked to shows the linked node.
  const begin = () => {
    document.querySelectorAll(".graph-scroll:not([data-begun])").forEach((frame) => {
      frame.dataset.begun = "true";
      const first = frame.querySelector(".node rect");
      if (first && !frame.querySelector(".node:target")) {
        frame.scrollLeft = first.x.baseVal.value + first.width.baseVal.value / 2 - frame.clientWidth / 2;
      }
    });
  };
  begin();
  document.addEventListener("htmx:after:swap", begin);
  // A link to a row or a node of a part that htmx has put in: the browser has looked for it already.
  document.addEventListener("htmx:after:swap", () => {
    if (location.hash.length > 1) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView({ block: "center" });
  });
})();
