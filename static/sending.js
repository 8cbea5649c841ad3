// What every page that sends files says and does alike: sizes, times, texts with places for values, dropped folders.
(() => {
  const say = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const size = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; bytes >= 999.5 && unit < units.length - 1; unit += 1) bytes /= 1024;
    return `${bytes >= 99.95 || unit === 0 ? bytes.toFixed(0) : bytes.toFixed(1)} ${units[unit]}`;
  };
  const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

  // {done} of {total} at {speed}, {left}: since `began`, a performance.now(); `from` bytes were there before.
  const pace = (loaded, total, began, from = 0) => {
    const seconds = (performance.now() - began) / 1000;
    const speed = (loaded - from) / Math.max(seconds, 0.001);
    return { seconds, done: size(loaded), total: size(total), speed: size(speed), left: clock((total - loaded) / Math.max(speed, 1)) };
  };

  // Every file below a dropped folder, with its path in file.inner; readEntries gives at most a hundred at a time.
  const walk = async (entry, found) => {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      found.push(Object.assign(file, { inner: entry.fullPath.slice(1) }));
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const inner of some) await walk(inner, found);
    }
  };
  const dropped = async (transfer) => {
    const entries = [...transfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
    const plain = [...transfer.files];
    if (!entries.some((entry) => entry && entry.isDirectory)) return plain;
    const found = [];
    for (const entry of entries) if (entry) await walk(entry, found);
    return found;
  };

  // Marks `card` while files are held over it, and gives those that are dropped to `take`.
  const droppable = (card, take) => {
    const over = (event, isOver) => {
      event.preventDefault();
      if (event.type === "dragleave" && card.contains(event.relatedTarget)) return;
      card.classList.toggle("is-over", isOver);
    };
    for (const name of ["dragenter", "dragover"]) card.addEventListener(name, (event) => over(event, true));
    for (const name of ["dragleave", "drop"]) card.addEventListener(name, (event) => over(event, false));
    card.addEventListener("drop", async (event) => take(await dropped(event.dataTransfer)));
    // A file dropped beside a card must not replace the page.
    for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  };
  window.modelmill.sending = { say, pace, droppable };
})();
