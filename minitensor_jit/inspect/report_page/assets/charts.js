// Charts: a roofline, curves over time, flames, a timeline. SVG with the page's colours.

function chart(label, width, height) {
  return s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

function roofline() {
  const kernels = R.profile.clusters.flatMap((cluster) => cluster.kernels.map((kernel) => ({ ...kernel, cluster: cluster.name })));
  const machine = R.profile.machine || Object.values(R.profile.gpus)[0];
  if (!machine || !kernels.length) return null;
  const W = 900, H = 420, left = 64, right = 20, top = 16, bottom = 44;
  const slowest = machine.bytes_per_second, fastest = Math.max(slowest, ...(machine.bytes_per_second_of_caches || []));
  const some = kernels.filter((one) => one.flops_per_run && one.bytes_per_run);
  const at = (one) => [one.flops_per_run / one.bytes_per_run, one.flops_per_run / one.fastest_seconds];
  const xs = some.map((one) => at(one)[0]), ys = some.map((one) => at(one)[1]);
  const x0 = Math.min(0.05, ...xs) / 1.5, x1 = Math.max(50, machine.flops_per_second / slowest * 3, ...xs) * 1.2;
  const y1 = machine.flops_per_second * 2, y0 = Math.max(1, Math.min(machine.flops_per_second / 1e3, ...ys) / 3);
  const X = (v) => left + (W - left - right) * Math.log(v / x0) / Math.log(x1 / x0);
  const Y = (v) => H - bottom - (H - top - bottom) * Math.log(v / y0) / Math.log(y1 / y0);
  const svg = chart("roofline: operations in a second over operations for a byte, with every kernel", W, H);
  for (let e = Math.ceil(Math.log10(x0)); 10 ** e <= x1; e++) svg.append(s("line", { x1: X(10 ** e), x2: X(10 ** e), y1: top, y2: H - bottom, class: "rule" }), s("text", { x: X(10 ** e), y: H - bottom + 16, class: "tick middle" }, String(10 ** e > 0.9 ? 10 ** e : Number((10 ** e).toPrecision(1)))));
  for (let e = Math.ceil(Math.log10(y0)); 10 ** e <= y1; e++) svg.append(s("line", { x1: left, x2: W - right, y1: Y(10 ** e), y2: Y(10 ** e), class: "rule" }), s("text", { x: left - 6, y: Y(10 ** e) + 4, class: "tick end" }, rate(10 ** e, "flop/s").replace("flop/s", "")));
  svg.append(s("text", { x: (W + left) / 2, y: H - 8, class: "tick middle" }, "operations for each byte"), s("text", { x: 14, y: H / 2, class: "tick middle", transform: `rotate(-90 14 ${H / 2})` }, "operations in a second"));
  for (const [name, bandwidth, kind] of [["memory", slowest, "roof"], ["caches", fastest, "roof faint"]]) {
    const knee = machine.flops_per_second / bandwidth, from = Math.max(x0, y0 / bandwidth);
    svg.append(s("path", { d: `M${X(from)} ${Y(from * bandwidth)}L${X(knee)} ${Y(machine.flops_per_second)}L${X(x1)} ${Y(machine.flops_per_second)}`, class: kind }),
      s("text", { x: X(from) + 8, y: Y(from * bandwidth) + (kind === "roof" ? 24 : -14), class: "tick" }, `${name}: ${rate(bandwidth, "B/s")}`));
  }
  svg.append(s("text", { x: W - right - 4, y: Y(machine.flops_per_second) - 6, class: "tick end" }, `${rate(machine.flops_per_second, "flop/s")}, ${count(machine.threads || 1, "thread")}`));
  const most = Math.max(...kernels.map((one) => one.seconds));
  for (const one of [...kernels].sort((a, b) => b.seconds - a.seconds)) {
    const plain = one.flops_per_run && one.bytes_per_run, [x, y] = plain ? at(one) : [x0 * 1.2, y0 * 1.3];
    const r = 4 + 10 * Math.sqrt(one.seconds / most);
    const open = () => show("kernels", { kernel: `${one.cluster}/${one.name}` });
    const title = `${one.name} (${one.kind}) of ${one.cluster}: ${seconds(one.fastest_seconds)}, ${percent(one.roofline, 1)} of the roof${plain ? "" : "; it only moves bytes"}`;
    svg.append(s("circle", { cx: X(x), cy: Y(y), r, class: plain ? "dot" : "dot hollow", tabindex: 0, role: "button", "aria-label": title, onclick: open, onkeydown: (event) => { if (event.key === "Enter") open(); } }, s("title", {}, title)));
  }
  return svg;
}

// Curves over time: series are {name, kind, points: [[t, value]]}, and marks single points.
function curves(label, series, { marks = [], end }) {
  const W = 900, H = 300, left = 70, right = 14, top = 14, bottom = 34;
  const most = Math.max(1, ...series.flatMap((one) => one.points.map((p) => p[1])), ...marks.map((m) => m[1])) * 1.08;
  const X = (t) => left + (W - left - right) * t / Math.max(end, 1e-9), Y = (v) => H - bottom - (H - top - bottom) * v / most;
  const svg = chart(label, W, H);
  for (let k = 0; k <= 4; k++) svg.append(s("line", { x1: left, x2: W - right, y1: Y(most * k / 4), y2: Y(most * k / 4), class: "rule" }), s("text", { x: left - 6, y: Y(most * k / 4) + 4, class: "tick end" }, bytes(most * k / 4)), s("text", { x: X(end * k / 4), y: H - bottom + 18, class: `tick ${k === 4 ? "end" : "middle"}` }, seconds(end * k / 4)));
  for (const { kind, points, name } of series) {
    let d = "";
    points.forEach(([t, v], k) => { d += `${k ? `H${X(t).toFixed(1)}V` : `M${X(t).toFixed(1)} `}${Y(v).toFixed(1)}`; });
    svg.append(s("path", { d, class: `curve ${kind}` }, s("title", {}, name)));
  }
  const step = Math.max(1, Math.ceil(marks.length / 600));
  marks.filter((_, k) => k % step === 0).forEach(([t, v, title, kind]) => svg.append(s("circle", { cx: X(t), cy: Y(v), r: 2.5, class: `mark ${kind || ""}` }, s("title", {}, title))));
  return svg;
}

// What lies where in a module's scratch memory, from step to step.
function memoryMap(lives, steps, size) {
  const W = 900, H = 220, left = 70, right = 14, top = 10, bottom = 30;
  const X = (k) => left + (W - left - right) * k / Math.max(1, steps), Y = (v) => H - bottom - (H - top - bottom) * v / Math.max(1, size);
  const svg = chart("scratch memory: each array from the step that writes it to the one that reads it last", W, H);
  for (let k = 0; k <= 4; k++) svg.append(s("line", { x1: left, x2: W - right, y1: Y(size * k / 4), y2: Y(size * k / 4), class: "rule" }), s("text", { x: left - 6, y: Y(size * k / 4) + 4, class: "tick end" }, bytes(size * k / 4)));
  for (const [from, to, shape, first, last] of lives) svg.append(s("rect", { x: X(first) + 0.5, width: Math.max(1, X(last + 1) - X(first) - 1), y: Y(to), height: Math.max(1, Y(from) - Y(to) - 0.5), class: "life" }, s("title", {}, `${shape}: bytes ${number(from)} to ${number(to)}, steps ${first} to ${last}`)));
  svg.append(s("text", { x: (W + left) / 2, y: H - 8, class: "tick middle" }, `${count(steps, "step")} of the module, in order`));
  return svg;
}

// Boxes over time that can be zoomed: rows of {name, begin, took, depth, kind, title, open}.
class Flames {
  constructor(label, boxes, { rows }) {
    this.boxes = boxes;
    this.rows = rows;
    this.begin = Math.min(...boxes.map((box) => box.begin));
    this.whole = this.span = Math.max(1e-9, Math.max(...boxes.map((box) => box.begin + box.took)) - this.begin);
    this.start = this.begin;
    this.svg = s("svg", { class: "flames", tabindex: "0", role: "application", "aria-label": `${label}: left and right move, plus and minus zoom, f shows all`, height: rows * 22 + 26,
      onkeydown: (event) => this.key(event), onwheel: (event) => { if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaY) > 0 && document.activeElement !== this.svg) return; event.preventDefault(); this.zoom(Math.exp(event.deltaY / 400), (event.clientX - this.svg.getBoundingClientRect().left) / this.svg.clientWidth); } });
    this.note = h("p", { class: "note", "aria-live": "polite" }, "Click a box to zoom to it; + and - zoom, arrow keys move, f shows all. The wheel zooms once it has the focus.");
    this.element = h("div", {}, this.svg, this.note);
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  draw() {
    const W = this.svg.clientWidth;
    if (!W) return;
    const scale = W / this.span, drawn = [], last = new Map();
    for (let k = 0; k <= 4; k++) drawn.push(s("text", { x: Math.min(W - 2, k * W / 4 + 2), y: 12, class: `tick ${k === 4 ? "end" : ""}` }, seconds(this.start - this.begin + this.span * k / 4)));
    for (const box of this.boxes) {
      const x = (box.begin - this.start) * scale, w = box.took * scale;
      if (x + w < 0 || x > W) continue;
      // Of boxes narrower than can be seen, one for each place.
      if (w < 1) { const key = `${box.row}:${Math.round(x)}`; if (last.has(key)) continue; last.set(key, 1); }
      const from = Math.max(-2, x), wide = Math.max(1, Math.min(W + 2, x + w) - from);
      drawn.push(s("g", { class: `box ${box.kind}`, onclick: () => this.choose(box) }, s("rect", { x: from, y: 20 + box.row * 22, width: wide, height: 20, rx: 2 }),
        wide > 34 ? s("text", { x: from + 4, y: 34 + box.row * 22 }, box.name.length * 6.4 > wide - 8 ? `${box.name.slice(0, Math.max(1, Math.floor((wide - 14) / 6.4)))}…` : box.name) : null, s("title", {}, box.title)));
    }
    this.svg.replaceChildren(...drawn);
  }

  choose(box) {
    this.note.replaceChildren(box.title, " ", box.more ? box.more() : "");
    this.start = box.begin - box.took * 0.05;
    this.span = Math.max(box.took * 1.1, 1e-8);
    this.draw();
    this.svg.focus();
  }

  zoom(by, at) {
    const middle = this.start + this.span * at;
    this.span = Math.min(this.whole * 1.05, Math.max(1e-8, this.span * by));
    this.start = Math.max(this.begin - this.span * 0.5, middle - this.span * at);
    this.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") this.start -= this.span / 8;
    else if (event.key === "ArrowRight") this.start += this.span / 8;
    else if (event.key === "+" || event.key === "=") { this.zoom(0.7, 0.5); }
    else if (event.key === "-") this.zoom(1.4, 0.5);
    else if (event.key === "f") [this.start, this.span] = [this.begin, this.whole];
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.draw();
  }
}
