// The new-conversion form: files go to /uploads as they are (the browser streams them from disk), with progress, speed,
// time left, cancel and retry. Without this script the same form sends its files itself.
(() => {
  const form = document.getElementById("new-form");
  if (!form) return;
  form.classList.add("js");
  const SAMPLES = /\.(zip|npy|npz|jpe?g|png|bmp|webp|ppm|gif|tiff?|avif|hei[cf])$/i;
  const submit = form.querySelector("[data-submit]");
  const area = (part) => document.getElementById(`${part}-area`);
  const refresh = (...parts) => parts.forEach((part) => window.htmx.trigger(area(part), "refresh"));
  const { say, pace, droppable } = window.modelmill.sending;
  const busy = new Set();
  const settle = () => { submit.disabled = busy.size > 0; };

  class Upload {
    constructor(card) {
      this.card = card;
      this.part = card.dataset.upload;
      this.find = (selector) => card.querySelector(selector);
      for (const input of card.querySelectorAll('input[type="file"]')) {
        input.removeAttribute("name");  // sent by us, not by the form
        input.addEventListener("change", () => { this.send([...input.files]); input.value = ""; });
      }
      this.find("[data-cancel]").addEventListener("click", () => this.cancel());
      this.find("[data-retry]").addEventListener("click", () => this.send(this.files));
      droppable(card, (files) => this.send(files));
    }

    send(files) {
      if (!files.length) return;
      const chosen = this.part === "model" ? modelFirst(files) : samples(files);
      this.cancel();
      this.files = chosen;
      this.show(chosen.length === 1 ? chosen[0].name : say(form.dataset.several, { count: chosen.length }));
      if (!chosen.length) { this.fail(form.dataset.skipped, false); return; }
      const body = new FormData();
      chosen.forEach((file, place) => body.append(this.part === "model" && place ? "weights" : this.part, file, file.name));
      const request = this.request = new XMLHttpRequest();
      const began = performance.now();
      request.upload.addEventListener("progress", (event) => this.tell(event, began));
      request.addEventListener("load", () => this.done(request));
      request.addEventListener("error", () => this.fail(form.dataset.failed, true));
      request.open("POST", "/uploads");
      request.setRequestHeader("Accept", "application/json");
      busy.add(this.part);
      settle();
      request.send(body);
    }

    show(name) {
      this.card.classList.add("is-sending");
      this.find("[data-sending]").hidden = false;
      this.find("[data-file]").textContent = name;
      this.find("[data-retry]").hidden = true;
      this.find("[data-told]").textContent = "";
      this.find("[data-told]").classList.remove("error");
      this.find("progress").classList.remove("bad");
      this.find("progress").value = 0;
    }

    tell(event, began) {
      const values = pace(event.loaded, event.total, began);
      this.find("progress").value = event.total ? (100 * event.loaded) / event.total : 0;
      const text = event.loaded >= event.total ? form.dataset.stored : values.seconds > 0.5 ? form.dataset.progress : form.dataset.begun;
      this.find("[data-told]").textContent = say(text, values);
    }

    done(request) {
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* a proxy's page: told by its status */ }
      if (request.status !== 201) {
        const error = answer.error || { message: `${request.status} ${request.statusText}` };
        this.fail([error.message, error.hint].filter(Boolean).join(" "), request.status >= 500 || request.status === 429);
        return;
      }
      this.find("[data-key]").value = this.part === "model" ? answer.model_key : answer.quant_key;
      this.find("[data-name]").value = this.files.length === 1 || this.part === "model" ? this.files[0].name : "";
      this.find("progress").removeAttribute("value");
      this.find("[data-cancel]").hidden = true;
      busy.delete(this.part);
      settle();
      const ours = area(this.part);
      ours.addEventListener("htmx:finally:request", () => this.hide(), { once: true });
      refresh(this.part);
      if (this.part === "model" && document.querySelector('[name="quant_key"]').value) refresh("images");
    }

    hide() {
      this.card.classList.remove("is-sending");
      this.card.classList.toggle("is-filled", Boolean(this.find("[data-key]").value));
      this.find("[data-sending]").hidden = true;
      this.find("[data-cancel]").hidden = false;
    }

    fail(text, canRetry) {
      busy.delete(this.part);
      settle();
      this.request = null;
      this.find("progress").classList.add("bad");
      this.find("[data-told]").textContent = text;
      this.find("[data-told]").classList.add("error");
      this.find("[data-retry]").hidden = !canRetry;
    }

    cancel() {
      if (this.request) this.request.abort();
      this.request = null;
      busy.delete(this.part);
      settle();
      this.hide();
    }
  }

  const modelFirst = (files) => [...files].sort((one, other) => /\.onnx$/i.test(other.name) - /\.onnx$/i.test(one.name));
  const samples = (files) => files.filter((file) => SAMPLES.test(file.name) && !file.name.startsWith("."));

  form.querySelectorAll("[data-upload]").forEach((card) => new Upload(card));
  for (const name of ["htmx:response:error", "htmx:error"]) {
    form.addEventListener(name, () => window.modelmill.toast(form.dataset.unlooked, "bad"));
  }

  // Morphing keeps what was clicked; here the server has the last word.
  area("options").addEventListener("htmx:after:swap", () => {
    area("options").querySelectorAll("[type=radio], [type=checkbox]").forEach((box) => { box.checked = box.defaultChecked; });
  });

  form.addEventListener("change", (event) => {
    const name = event.target.name || "";
    if (/^(toolchain|platform)$/.test(name)) refresh("model", "options");
    if (/^(preset|pre|quantization\.|kneron\.|preprocess\.)/.test(name)) refresh("options");
    if (/^(pre$|preprocess\.|shape\.|allow_damaged)/.test(name) && form.elements.quant_key.value) refresh("images");
  });
  form.addEventListener("toggle", (event) => {
    const panel = event.target.dataset.panel;
    if (panel) form.elements[panel].value = event.target.open ? "1" : "";
  }, true);

  const once = (button, text) => { button.disabled = true; if (text) button.textContent = text; };
  form.addEventListener("submit", () => once(submit, form.dataset.checking));
  document.querySelectorAll("[data-once]").forEach((button) => {
    button.form.addEventListener("submit", () => once(button, form.dataset.checking));
  });
  // Back from the job's page by the browser's cache: the buttons work again.
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
})();
