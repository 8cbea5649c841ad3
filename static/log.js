// The log of a stage, live: asks for what is new from an offset in bytes, follows the end, finds text.
(() => {
  const SHOWN_LINES = 5000;
  const EVERY_MS = 1500;

  const watch = (box) => {
    const gone = new AbortController();
    const find = (name) => box.querySelector(`[data-log-${name}]`);
    const [text, search, hits, follow, wrap, download, cut] =
      ["text", "search", "hits", "follow", "wrap", "download", "cut"].map(find);
    const tabs = [...box.querySelectorAll("[data-log-stage]")];
    const live = () => document.getElementById(box.dataset.live);
    const logs = new Map();  // stage → { lines, rest, offset, isComplete, isCut, decoder }
    let open = box.dataset.open;
    let chosenByHand = false;
    let timer = 0;
    let at = -1;

    const logOf = (stage) => {
      if (!logs.has(stage)) {
        logs.set(stage, { lines: [], rest: "", offset: 0, isComplete: false, isCut: false, decoder: new TextDecoder() });
      }
      return logs.get(stage);
    };

    const take = (log, chunk) => {
      const parts = (log.rest + chunk).split("\n");
      log.rest = parts.pop();
      log.lines.push(...parts);
      if (log.lines.length > SHOWN_LINES) {
        log.lines.splice(0, log.lines.length - SHOWN_LINES);
        log.isCut = true;
      }
    };

    const draw = () => {
      const log = logOf(open);
      const whole = [...log.lines, ...(log.rest ? [log.rest] : [])].join("\n");
      const wanted = search.value.toLowerCase();
      text.classList.toggle("is-empty", whole === "");
      cut.hidden = !log.isCut;
      text.replaceChildren(...(wanted ? marked(whole, wanted) : [whole || text.dataset.empty]));
      const found = text.querySelectorAll("mark").length;
      hits.textContent = wanted ? String(found) : "";
      if (follow.checked && !wanted) text.scrollTop = text.scrollHeight;
    };

    const marked = (whole, wanted) => {
      const lower = whole.toLowerCase();
      const parts = [];
      let from = 0;
      for (let to = lower.indexOf(wanted); to >= 0; to = lower.indexOf(wanted, from)) {
        const mark = document.createElement("mark");
        mark.textContent = whole.slice(to, to + wanted.length);
        parts.push(whole.slice(from, to), mark);
        from = to + wanted.length;
      }
      parts.push(whole.slice(from));
      return parts;
    };

    const goTo = (step) => {
      const marks = [...text.querySelectorAll("mark")];
      if (!marks.length) return;
      at = (at + step + marks.length) % marks.length;
      marks.forEach((mark, index) => mark.classList.toggle("is-here", index === at));
      marks[at].scrollIntoView({ block: "center", inline: "nearest" });
      hits.textContent = `${at + 1}/${marks.length}`;
    };

    const load = async () => {
      clearTimeout(timer);
      const stage = open;
      const log = logOf(stage);
      if (!log.isComplete && !document.hidden) {
        try {
          const answer = await fetch(`${box.dataset.log}${stage}?offset=${log.offset}`);
          if (answer.ok) {
            const bytes = await answer.arrayBuffer();
            log.offset = Number(answer.headers.get("X-Log-Next-Offset"));
            log.isComplete = answer.headers.get("X-Log-Complete") === "true";
            take(log, log.decoder.decode(bytes, { stream: true }));
            if (stage === open && (bytes.byteLength || log.offset === 0 || log.isComplete)) draw();
          } else if (answer.status === 404) {
            return;  // the job is gone; its page says so
          }
        } catch { /* the server is away: ask again later */ }
      }
      clearTimeout(timer);
      if (!logOf(open).isComplete) timer = setTimeout(load, EVERY_MS);
    };

    const show = (stage) => {
      open = stage;
      at = -1;
      tabs.forEach((tab) => {
        if (tab.dataset.logStage === stage) tab.setAttribute("aria-current", "true");
        else tab.removeAttribute("aria-current");
      });
      download.href = `${box.dataset.log}${stage}`;
      download.download = `${stage}.log`;
      draw();
      load();
    };

    tabs.forEach((tab) => tab.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      chosenByHand = true;
      show(tab.dataset.logStage);
    }));
    search.addEventListener("input", () => { at = -1; draw(); });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); goTo(event.shiftKey ? -1 : 1); }
      if (event.key === "Escape") { search.value = ""; draw(); }
    });
    wrap.addEventListener("change", () => text.classList.toggle("is-wrapped", wrap.checked));
    follow.addEventListener("change", draw);
    text.addEventListener("wheel", (event) => { if (event.deltaY < 0) follow.checked = false; }, { passive: true });
    document.addEventListener("visibilitychange", load, { signal: gone.signal });
    // When the job goes on to its next stage, so does the log, unless the reader has chosen one.
    document.addEventListener("htmx:after:swap", () => {
      if (!box.isConnected) {  // another tab of the page is open
        clearTimeout(timer);
        gone.abort();
        return;
      }
      const stage = live()?.dataset.stage;
      if (follow.checked && !chosenByHand && stage && stage !== open && live().dataset.ended === "false") show(stage);
    }, { signal: gone.signal });
    load();
  };

  const begin = () => {
    const box = document.querySelector("[data-log]:not([data-watched])");
    if (!box) return;
    box.dataset.watched = "true";
    watch(box);
  };
  begin();
  document.addEventListener("htmx:after:swap", begin);
})();
