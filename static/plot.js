// Charts with a cursor that all of a page share, zoom (drag; double-click for all) and marks of what happened. They stand
// over the server's SVG, whose values they show, and take its new values when a page renews itself.
(() => {
  const charts = new Map();  // by id: a zoom outlives the renewal
  const toneOf = (frame, kind) => {
    const line = frame.querySelector(`.line-${kind}`);
    return line ? getComputedStyle(line).stroke : getComputedStyle(frame).color;
  };
  const gridOf = (frame) => {
    const line = frame.querySelector(".chart-grid");
    return line ? getComputedStyle(line).stroke : "transparent";
  };
  const widthOf = (frame) => Math.max(frame.clientWidth, 240);
  const isLow = (frame) => heightOf(frame) < 200;  // no room for what the x axis is: the legend says it
  const phone = window.matchMedia("(max-width: 640px)");
  const heightOf = (frame) => (phone.matches ? Math.max(Number(frame.dataset.height) * 0.6, 112) : Number(frame.dataset.height));

  const wordsOf = (kind) => document.querySelector(`.key-${CSS.escape(kind)}`)?.textContent.trim() || kind;  // of the page's legend

  const marksOf = (chart) => chart.frame.plotValues.marks.filter(([at]) => at >= chart.scales.x.min && at <= chart.scales.x.max);
  const drawMarks = (chart) => {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = getComputedStyle(chart.frame).color;
    ctx.globalAlpha = 0.5;
    ctx.setLineDash([4, 6]);
    for (const [at] of marksOf(chart)) {
      const x = Math.round(chart.valToPos(at, "x", true));
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };
  const NEAR_PX = 8;
  const hintOf = (frame) => (frame === document.querySelector(".plot-frame[data-plot]") ? frame.dataset.reset : "");  // once on a page
  const tellMark = (chart) => {
    const { left } = chart.cursor;
    chart.root.classList.toggle("is-pointed", left >= 0);
    const near = left < 0 ? [] : marksOf(chart).filter(([at]) => Math.abs(chart.valToPos(at, "x") - left) <= NEAR_PX);
    chart.tip.textContent = near.length ? near.map(([, text]) => text).join(" · ") : hintOf(chart.frame);
  };

  const optionsOf = (frame, values) => {
    const style = getComputedStyle(frame);
    const axis = { stroke: style.color, grid: { stroke: gridOf(frame), width: 1 }, ticks: { show: false }, font: `12px ${style.fontFamily}`, labelFont: `12px ${style.fontFamily}` };
    const short = (value) => (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) ? value.toExponential().replace("e+", "e") : `${value}`);
    const label = (value) => (value == null ? "–" : `${short(+value.toPrecision(4))}${values.ending}`);
    return {
      width: widthOf(frame),
      height: heightOf(frame),
      cursor: { sync: { key: "page" }, drag: { x: true, y: false } },
      scales: { x: { time: false }, y: values.high == null ? {} : { range: [0, values.high] } },
      axes: [isLow(frame) ? { ...axis, size: 24 } : { ...axis, label: frame.dataset.x, labelSize: 18 }, { ...axis, size: 52, values: (_, ticks) => ticks.map(label) }],
      series: [{ label: frame.dataset.x, value: (_, value) => label(value) }, ...values.kinds.map((kind) => ({ label: wordsOf(kind), stroke: toneOf(frame, kind), width: 1.75, spanGaps: false, points: { show: false }, value: (_, value) => label(value) }))],
      hooks: { draw: [drawMarks], setCursor: [tellMark] },
    };
  };

  const show = (frame) => {
    const text = frame.dataset.plot;
    const known = charts.get(frame.id);
    if (known && known.frame === frame && known.root.isConnected) {
      if (known.text === text) return;
      frame.plotValues = JSON.parse(text);
      if (frame.plotValues.kinds.join() === known.kinds) {
        known.text = text;
        const { min, max } = known.scales.x;
        const isZoomed = known.isZoomed();
        known.setData([frame.plotValues.x, ...frame.plotValues.y], !isZoomed);
        if (isZoomed) known.setScale("x", { min, max });
        return;
      }
    }
    if (known) known.destroy();
    frame.querySelectorAll(".uplot, .plot-tip").forEach((old) => old.remove());
    const values = frame.plotValues = JSON.parse(text);
    if (values.x.length < 2) return;
    frame.classList.remove("is-live");  // the SVG's colours are read
    const options = optionsOf(frame, values);
    frame.classList.add("is-live");
    const chart = new window.uPlot(options, [values.x, ...values.y], (made, start) => {
      made.frame = frame;
      made.tip = Object.assign(document.createElement("p"), { className: "plot-tip", textContent: hintOf(frame) });
      made.root.setAttribute("role", "img");
      made.root.setAttribute("aria-label", frame.dataset.title);
      frame.append(made.root, made.tip);
      start();
    });
    chart.text = text;
    chart.kinds = values.kinds.join();
    chart.isZoomed = () => chart.scales.x.min > chart.data[0][0] || chart.scales.x.max < chart.data[0].at(-1);
    charts.set(frame.id, chart);
  };
  const showAll = () => {
    document.querySelectorAll("[data-plot]").forEach(show);
    for (const [id, chart] of charts) if (!chart.frame.isConnected) { chart.destroy(); charts.delete(id); }
  };
  document.addEventListener("htmx:after:swap", showAll);
  window.addEventListener("resize", () => charts.forEach((chart) => chart.setSize({ width: widthOf(chart.frame), height: heightOf(chart.frame) })));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { charts.forEach((chart) => chart.destroy()); charts.clear(); showAll(); });
  showAll();
})();
