// The new-conversion form. What is dropped or chosen is told apart: models, each with its weights, and pictures; of
// several models the first is the form's and the rest go with it as a batch. Files go to /uploads/resumable by tus (the browser streams them from disk), with progress,
// speed, time left, pause, cancel and retry; after a broken line or a closed tab they go on where they stood. Several
// files become one zip on the way. Without this script the same form sends its files itself.
(() => {
  const form = document.getElementById("new-form");
  if (!form) return;
  form.classList.add("js");
  const SAMPLES = /\.(zip|npy|npz|jpe?g|png|bmp|webp|ppm|gif|tiff?|avif|hei[cf])$|^labels\.(csv|json)$/i;
  const submits = form.querySelectorAll("[data-submit]");
  const area = (part) => document.getElementById(`${part}-area`);
  const refresh = (...parts) => [...parts, "foot"].forEach((part) => window.htmx.trigger(area(part), "refresh"));
  const { say, pace, droppable } = window.modelmill.sending;
  const busy = new Set();
  const settle = () => { for (const button of submits) button.disabled = busy.size > 0; };

  class Upload {
    constructor(card) {
      this.card = card;
      this.part = card.dataset.upload;
      this.find = (selector) => card.querySelector(selector);
      for (const input of card.querySelectorAll('.drop input[type="file"]')) {
        input.removeAttribute("name");  // sent by us, not by the form
        input.addEventListener("change", () => { this.send([...input.files]); input.value = ""; });
      }
      this.find("[data-cancel]").addEventListener("click", () => { this.further = []; this.cancel(true); });
      this.find("[data-pause]").addEventListener("click", () => this.pause());
      this.find("[data-retry]").addEventListener("click", () => this.sendOne(this.files));
      this.further = [];
    }

    // All files of this part: several models are sent one after the other.
    send(files) {
      if (!files.length) return;
      const [first, ...further] = this.part === "model" ? models(files) : [samples(files)];
      if (this.part === "model") this.find("[data-more]").value = "";
      else forgetReport();
      this.isFurther = false;
      this.sendOne(first);
      this.further = further;
    }

    async sendOne(chosen) {
      this.cancel(false);
      this.files = chosen;
      this.show(chosen.length === 1 ? chosen[0].name : say(form.dataset.several, { count: chosen.length }));
      if (!chosen.length) { this.fail(form.dataset.skipped, false); return; }
      busy.add(this.part);
      settle();
      const turn = this.turn = {};  // another choice meanwhile is another turn
      const isOne = chosen.length === 1 && (this.part === "model" || /\.zip$/i.test(chosen[0].name));
      let body = chosen[0];
      try {
        if (!isOne) body = await zip(chosen);
      } catch (error) {
        if (this.turn === turn) this.fail(error.message, true);
        return;
      }
      if (this.turn !== turn) return;
      this.upload = new window.tus.Upload(body, {
        endpoint: "/uploads/resumable",
        metadata: { field: this.part, filename: isOne ? chosen[0].name : `${this.part}.zip` },
        fingerprint: async () => ["modelmill", this.part, ...chosen.map((file) => `${pathOf(file)}:${file.size}:${file.lastModified}`)].join("|"),
        retryDelays: [0, 1000, 3000, 5000, 10000, 20000],
        removeFingerprintOnSuccess: true,
        onShouldRetry: (error) => { const status = statusOf(error); return !status || status >= 500 || [408, 409, 423, 429].includes(status); },
        onProgress: (loaded, total) => this.tell(loaded, total),
        onAfterResponse: (_, response) => { this.key = response.getHeader("Upload-Key") || this.key; },
        onError: (error) => this.refused(error),
        onSuccess: () => this.done(),
      });
      const earlier = await this.upload.findPreviousUploads();
      if (this.turn !== turn) return;
      if (earlier.length) this.upload.resumeFromPreviousUpload(earlier[0]);
      this.key = "";
      this.begin();
    }

    begin() {
      this.began = performance.now();
      this.from = null;
      this.isPaused = false;
      this.find("[data-pause]").hidden = false;
      this.find("[data-pause]").textContent = form.dataset.pause;
      this.upload.start();
    }

    pause() {
      if (this.isPaused) { this.begin(); return; }
      this.upload.abort();
      this.isPaused = true;
      this.find("[data-pause]").textContent = form.dataset.resume;
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

    tell(loaded, total) {
      this.from ??= loaded;  // what was there before does not count as speed
      const values = pace(loaded, total, this.began, this.from);
      this.find("progress").value = total ? (100 * loaded) / total : 0;
      const text = loaded >= total ? form.dataset.stored : values.seconds > 0.5 ? form.dataset.progress : form.dataset.begun;
      this.find("[data-told]").textContent = say(text, values);
    }

    refused(error) {
      const status = statusOf(error);
      let told = { message: form.dataset.failed };
      try { if (status) told = JSON.parse(error.originalResponse.getBody()).error; } catch { /* a proxy's page */ }
      this.fail([told.message, told.hint].filter(Boolean).join(" "), !status || status >= 500 || status === 429);
    }

    done() {
      this.upload = null;
      const name = this.files.length === 1 || this.part === "model" ? this.files[0].name : "";
      if (this.isFurther) this.find("[data-more]").value += `${this.key}\t${name}\n`;
      else [this.find("[data-key]").value, this.find("[data-name]").value] = [this.key, name];
      if (this.further.length) {
        this.isFurther = true;
        this.sendOne(this.further.shift());
        return;
      }
      this.find("progress").removeAttribute("value");
      this.find("[data-cancel]").hidden = true;
      this.find("[data-pause]").hidden = true;
      this.find("[data-interrupted]").hidden = true;
      busy.delete(this.part);
      settle();
      const ours = area(this.part);
      // A model is looked at first: its recognized preprocessing is then selected in the options.
      ours.addEventListener("htmx:finally:request", () => {
        this.hide();
        if (this.part === "model") refresh("options", ...(form.elements.quant_key.value ? ["images"] : []));
      }, { once: true });
      if (this.part === "model") window.htmx.trigger(ours, "refresh");
      else refresh(this.part);
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
      this.find("[data-pause]").hidden = true;
      this.find("progress").classList.add("bad");
      this.find("[data-told]").textContent = text;
      this.find("[data-told]").classList.add("error");
      this.find("[data-retry]").hidden = !canRetry;
    }

    // isFinal: what came is deleted, too; else it can be continued by choosing the same file again.
    cancel(isFinal) {
      this.turn = null;
      if (this.upload) this.upload.abort(isFinal).catch(() => {});
      this.upload = null;
      busy.delete(this.part);
      settle();
      this.hide();
    }
  }

  const statusOf = (error) => (error.originalResponse ? error.originalResponse.getStatus() : 0);
  const pathOf = (file) => file.inner || file.webkitRelativePath || file.name;
  const zip = async (files) => {
    const { downloadZip } = await import(form.dataset.zip);
    const taken = new Map();
    const free = (name) => {
      const count = (taken.get(name) || 0) + 1;
      taken.set(name, count);
      return count === 1 ? name : name.replace(/(\.[^.\/]*)?$/, ` (${count})$1`);
    };
    return downloadZip(files.map((file) => ({ name: free(pathOf(file)), input: file, lastModified: file.lastModified }))).blob();
  };

  const MODEL = /\.(onnx|tflite|pt2|zip)$/i;
  // Each model with its weights: the files whose names begin like its own, else the first's.
  const models = (files) => {
    const alone = files.filter((file) => MODEL.test(file.name)).map((file) => [file]);
    if (!alone.length) return [files];
    for (const file of files.filter((file) => !MODEL.test(file.name))) {
      (alone.find(([model]) => file.name.startsWith(model.name.replace(/\.\w+$/, ""))) || alone[0]).push(file);
    }
    return alone;
  };
  const samples = (files) => files.filter((file) => SAMPLES.test(file.name) && !file.name.startsWith("."));

  const uploads = Object.fromEntries([...form.querySelectorAll("[data-upload]")].map((card) => [card.dataset.upload, new Upload(card)]));

  // One area for everything. A zip with a model in it is a model: its directory, at its end, holds the names.
  const WEIGHTS = /\.(onnx|tflite|pt2|data|bin|weights?|onnx_data)$/i;
  const holdsModel = async (file) => /\.onnx/i.test(await file.slice(-(1 << 20)).text());
  const sort = async (files) => {
    const sorted = { model: [], images: [], neither: [] };
    const visible = files.filter((file) => !file.name.startsWith("."));
    for (const file of visible) {
      const isModel = /\.zip$/i.test(file.name) ? await holdsModel(file) : WEIGHTS.test(file.name);
      sorted[isModel ? "model" : SAMPLES.test(file.name) ? "images" : "neither"].push(file);
    }
    return sorted;
  };
  const take = async (files) => {
    const { model, images, neither } = await sort(files);
    const told = form.querySelector("[data-unsorted-files]");
    told.hidden = !files.length || model.length + images.length > 0;
    told.textContent = say(form.dataset.unsorted, { names: neither.slice(0, 5).map((file) => file.name).join(", ") });
    uploads.model.send(model);
    uploads.images.send(images);
  };
  droppable(form, take);
  for (const id of ["file-any", "folder-any"]) {
    const input = document.getElementById(id);
    input.addEventListener("change", () => { take([...input.files]); input.value = ""; });
  }

  // Pictures to report on go into a folder of the zip of the reference pictures, which is sent anew with them.
  const REPORT = "report";
  const report = document.getElementById("file-report");
  const reportProblem = form.querySelector("[data-report-problem]");
  const reportFolder = (value) => {
    const field = form.elements["quantization.report_images"];
    if (field) field.value = value;
    refresh("options");
  };
  const forgetReport = () => {
    reportProblem.hidden = true;
    if (report.hasFiles) reportFolder("");
    report.hasFiles = false;
  };
  report.removeAttribute("name");
  report.addEventListener("change", () => {
    const reference = (uploads.images.files || []).filter((file) => !pathOf(file).startsWith(`${REPORT}/`));
    const chosen = samples([...report.files]).map((file) => Object.assign(file, { inner: `${REPORT}/${file.name}` }));
    report.value = "";
    reportProblem.hidden = reference.length > 0 && chosen.length > 0 && ![...reference, ...chosen].some((file) => /\.zip$/i.test(file.name));
    if (!reportProblem.hidden) return;
    report.hasFiles = true;
    reportFolder(REPORT);
    uploads.images.sendOne([...reference, ...chosen]);
  });

  // A suggestion: its fields are filled in, and the server looks at the form again.
  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-apply]");
    if (!button) return;
    event.preventDefault();
    for (const [name, value] of Object.entries(JSON.parse(button.value))) {
      const control = form.elements[name];
      const boxes = control instanceof RadioNodeList ? [...control].filter((each) => each.type === "checkbox") : [];
      if (boxes.length) boxes.forEach((box) => { box.checked = value === "1"; });
      else if (control) control.value = value;
    }
    for (const { card, find } of Object.values(uploads)) card.classList.toggle("is-filled", Boolean(find("[data-key]").value));
    refresh("model", "options", "images");
  });

  // What a closed tab or a broken line left: the same file, chosen again, goes on where it stood.
  const DAY_MS = 86400000;
  window.tus.defaultOptions.urlStorage.findAllUploads().then((uploads) => {
    for (const { metadata, creationTime } of uploads) {
      const told = metadata && form.querySelector(`[data-upload="${CSS.escape(metadata.field || "")}"] [data-interrupted]`);
      if (!told || Date.now() - new Date(creationTime) > DAY_MS) continue;
      told.textContent = say(form.dataset.interrupted, { name: metadata.filename });
      told.hidden = false;
    }
  });

  // A refused form without a wrong field (see app.js): the reader begins at the part to change.
  const wrong = !form.querySelector('[aria-invalid="true"]') && form.querySelector('.error a, [role="alert"]');
  const target = wrong && wrong.closest("section, fieldset, .upload");
  if (target) {
    target.tabIndex = -1;
    const panel = target.closest("details");
    if (panel) panel.open = true;
    target.focus();
  }
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
    if (/^(preset|also\.|pre|quantization\.|kneron\.|preprocess\.)/.test(name)) refresh("options");
    if (/^(pre$|preprocess\.|shape\.|allow_damaged)/.test(name) && form.elements.quant_key.value) refresh("images");
    if (/^(pre$|preprocess\.|each_pre)/.test(name) && form.elements.model_key.value) refresh("model");
    if (/^(name$|tags$|shape\.)/.test(name)) refresh();
  });
  form.addEventListener("toggle", (event) => {
    const panel = event.target.dataset.panel;
    if (panel) form.elements[panel].value = event.target.open ? "1" : "";
  }, true);

  const once = (button, text) => { button.disabled = true; if (text) button.textContent = text; };
  form.addEventListener("submit", () => submits.forEach((button) => once(button, form.dataset.checking)));
  document.querySelectorAll("[data-once]").forEach((button) => {
    button.form.addEventListener("submit", () => once(button, form.dataset.checking));
  });
  // Back from the job's page by the browser's cache: the buttons work again.
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
})();
