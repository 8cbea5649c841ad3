// Zones are drawn on the picture: a click is a point, points can be dragged. What counts is the text of the field.
(() => {
  const timezone = document.getElementById("field-timezone");
  if (timezone && !timezone.value) timezone.value = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const frame = document.querySelector(".zone-picture");
  const field = document.getElementById("field-points");
  if (!frame || !field) return;
  const svg = frame.querySelector("svg");
  const draft = svg.querySelector(".zone-draft");
  const width = Number(frame.dataset.width);
  const height = Number(frame.dataset.height);
  const NEAR_PX = 14;
  let dragged = -1;

  const points = () => field.value.trim().split(/\s+/).map((pair) => pair.split(",").map(Number))
    .filter((pair) => pair.length === 2 && pair.every((share) => share >= 0 && share <= 1));
  const write = (list) => {
    field.value = list.map(([x, y]) => `${x.toFixed(3)},${y.toFixed(3)}`).join(" ");
    draw();
  };
  const draw = () => {
    const list = points();
    draft.setAttribute("points", list.map(([x, y]) => `${x * width},${y * height}`).join(" "));
    svg.querySelectorAll(".zone-point").forEach((dot) => dot.remove());
    list.forEach(([x, y], number) => {
      const dot = document.createElementNS("http://www.w3.org/2000/svg", "ellipse");
      const box = svg.getBoundingClientRect();
      const radius = number ? 5 : 7;
      for (const [name, value] of Object.entries({ cx: x * width, cy: y * height, rx: radius * width / box.width, ry: radius * height / box.height })) dot.setAttribute(name, value);
      dot.setAttribute("class", "zone-point");
      svg.append(dot);
    });
  };
  const shareOf = (event) => {
    const box = svg.getBoundingClientRect();
    const within = (value) => Math.min(1, Math.max(0, value));
    return [within((event.clientX - box.left) / box.width), within((event.clientY - box.top) / box.height)];
  };
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const gaps = points().map(([x, y]) => Math.hypot(box.left + x * box.width - event.clientX, box.top + y * box.height - event.clientY));
    const least = Math.min(...gaps);
    return least <= NEAR_PX ? gaps.indexOf(least) : -1;
  };

  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    event.preventDefault();
    const list = points();
    dragged = nearest(event);
    if (dragged < 0) dragged = list.push(shareOf(event)) - 1;
    svg.setPointerCapture(event.pointerId);
    write(list);
  });
  svg.addEventListener("pointermove", (event) => {
    if (dragged < 0) return;
    const list = points();
    list[dragged] = shareOf(event);
    write(list);
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { dragged = -1; });
  document.querySelector("[data-zone-back]")?.addEventListener("click", () => write(points().slice(0, -1)));
  field.addEventListener("input", draw);
  frame.classList.add("is-live");
  draw();
})();
