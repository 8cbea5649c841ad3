// Uploads into a folder of the data home: each file goes to the API as it is, with progress; folders are made on the
// way. Without this script the same form sends its files itself.
(() => {
  const card = document.querySelector("[data-uploader]");
  if (!card) return;
  const { say, pace, droppable } = window.modelmill.sending;
  const find = (selector) => card.querySelector(selector);
  const form = find(".upload-form");
  const input = form.elements.file;
  let queue = [], request = null, done = 0, all = 0, isCancelled = false;

  const ask = (method, url, body, headers, began) => new Promise((resolve, reject) => {
    request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries({ Accept: "application/json", ...headers })) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => began && tell(event, began));
    request.addEventListener("load", () => resolve(request));
    request.addEventListener("error", () => reject(new Error(card.dataset.failed)));
    request.addEventListener("abort", () => reject(new Error("")));
    request.send(body);
  });
  const problem = (answer) => {
    let error = { message: `${answer.status} ${answer.statusText}` };
    try { error = JSON.parse(answer.responseText).error; } catch { /* a proxy's page: told by its status */ }
    return new Error([error.message, error.hint].filter(Boolean).join(" "));
  };
  const tell = (event, began) => {
    find("progress").value = event.total ? (100 * event.loaded) / event.total : 0;
    find("[data-told]").textContent = say(card.dataset.progress, pace(event.loaded, event.total, began));
  };

  // The folders above a file, made once each.
  const made = new Set();
  const makeFolders = async (inner) => {
    const names = inner.split("/").slice(0, -1);
    for (let count = 1; count <= names.length; count += 1) {
      const path = [card.dataset.folder, ...names.slice(0, count)].join("/");
      if (made.has(path)) continue;
      const answer = await ask("POST", "/api/v2/files/folders", JSON.stringify({ path }), { "Content-Type": "application/json" });
      if (answer.status !== 201 && answer.status !== 409) throw problem(answer);
      made.add(path);
    }
  };
  const sendOne = async (file) => {
    const inner = file.inner || file.webkitRelativePath || file.name;
    await makeFolders(inner);
    find("[data-file]").textContent = inner;
    find("[data-count]").textContent = all > 1 ? say(card.dataset.sent, { count: done + 1, all }) : "";
    const path = encodeURIComponent(`${card.dataset.folder}/${inner}`);
    const headers = { "Content-Type": "application/octet-stream" };
    if (!form.elements.replace.checked) headers["If-None-Match"] = "*";
    const answer = await ask("PUT", `/api/v2/files/content?path=${path}`, file, headers, performance.now());
    if (answer.status !== 201 && answer.status !== 200) throw problem(answer);
  };

  const show = (isSending) => {
    find("[data-sending]").hidden = false;
    find("[data-send]").disabled = isSending;
    find("[data-cancel]").hidden = !isSending;
    find("[data-failed-tools]").hidden = isSending;
    find("progress").classList.toggle("bad", !isSending);
    find("[data-told]").classList.toggle("error", !isSending);
  };
  const run = async () => {
    if (!queue.length) return;
    isCancelled = false;
    show(true);
    try {
      while (queue.length && !isCancelled) {
        await sendOne(queue[0]);
        queue.shift();
        done += 1;
      }
    } catch (error) {
      if (isCancelled) return;
      show(false);
      find("[data-told]").textContent = error.message;
      return;
    }
    if (isCancelled) return;
    find("[data-told]").textContent = card.dataset.stored;
    const url = new URL(location.pathname, location);
    url.searchParams.set("note", "uploaded");
    url.searchParams.set("count", done);
    location.assign(url);
  };
  const send = (files) => {
    if (!files.length) return;
    queue.push(...files);
    all = done + queue.length;
    if (queue.length === files.length) run();
  };
  const cancel = () => {
    isCancelled = true;
    queue = [];
    if (request) request.abort();
    if (done) { location.reload(); return; }
    find("[data-sending]").hidden = true;
    find("[data-send]").disabled = false;
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send([...input.files]);
    input.value = "";
  });
  droppable(card, send);
  find("[data-cancel]").addEventListener("click", cancel);
  find("[data-retry]").addEventListener("click", run);
})();
