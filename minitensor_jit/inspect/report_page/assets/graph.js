// A graph that was laid out while the report was written: drawn where it is seen, moved by mouse and keys.

class GraphView {
  // `onpick(k)` is told which node was chosen; nodes are numbered as in the layout.
  constructor(onpick) {
    this.onpick = onpick;
    this.scene = s("g");
    this.svg = s("svg", {
      class: "graph", tabindex: "0", role: "application",
      "aria-label": "graph: arrow keys move, plus and minus zoom, f fits, n and p go from node to node, enter chooses",
      onkeydown: (event) => this.key(event), onwheel: (event) => this.wheel(event),
      onpointerdown: (event) => this.press(event), onclick: (event) => {
        const node = event.target.closest("[data-n]");
        if (node && !this.moved) this.choose(Number(node.dataset.n));
      },
    }, s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
      s("path", { d: "M0 0L8 4L0 8z", class: "arrow" }))), this.scene);
    this.element = h("div", { class: "graph-box" }, this.svg, this.status = h("p", { class: "note", "aria-live": "polite" }));
    new ResizeObserver(() => { if (this.layout && !this.touched) this.fit(); else this.draw(); }).observe(this.svg);
  }

  // Labels and kinds are asked for node by node: {lines, kind, title}.
  fill(layout, about) {
    this.layout = layout;
    this.about = about;
    this.chosen = -1;
    this.touched = false;
    this.status.textContent = "";
    if (!layout) {
      this.scene.replaceChildren();
      this.status.textContent = "This graph was too large to be laid out in the report; its instructions are listed beside it.";
      return;
    }
    // By bands of y, so that looking for what is seen does not go through all.
    this.bands = new Map();
    layout.nodes.forEach(([, , y], n) => {
      const band = Math.floor(y / 400);
      if (!this.bands.has(band)) this.bands.set(band, []);
      this.bands.get(band).push(n);
    });
    this.edges = layout.edges.map((edge) => {
      let top = Infinity, bottom = -Infinity;
      for (let k = 3; k < edge.length; k += 2) { top = Math.min(top, edge[k]); bottom = Math.max(bottom, edge[k]); }
      return [top, bottom];
    });
    this.fit();
  }

  fit() {
    const box = this.svg.getBoundingClientRect();
    if (!this.layout || !box.width) return;
    const [w, hh] = this.layout.size;
    // Not smaller than can be read: then it begins at its top.
    this.zoom = Math.min(1.1, Math.max(0.35, Math.min((box.width - 32) / w, (box.height - 32) / hh)));
    this.x = (box.width - w * this.zoom) / 2;
    this.y = Math.max(16, (box.height - hh * this.zoom) / 2);
    if (hh * this.zoom > box.height) this.y = 16;
    if (w * this.zoom > box.width) this.x = Math.min(16, box.width / 2 - this.layout.nodes.reduce((sum, n) => sum + n[1], 0) / this.layout.nodes.length * this.zoom);
    this.draw();
  }

  draw() {
    if (!this.layout) return;
    const box = this.svg.getBoundingClientRect();
    const left = -this.x / this.zoom, top = -this.y / this.zoom;
    const right = left + box.width / this.zoom, bottom = top + box.height / this.zoom;
    const drawn = [];
    for (const [name, x, y, w, hh] of this.layout.groups) {
      drawn.push(s("rect", { x, y, width: w, height: hh, rx: 8, class: "group" }),
        s("text", { x: x + 8, y: y + 13, class: "group-name" }, name));
    }
    let lines = 0;
    this.layout.edges.forEach((edge, k) => {
      const [low, high] = this.edges[k];
      if (high < top || low > bottom || lines > 3000) return;
      lines++;
      const near = edge[0] === this.chosen || edge[1] === this.chosen;
      drawn.push(s("path", { d: path(edge, this.layout.curved), class: near ? "edge near" : "edge", "marker-end": "url(#arrow)" }));
    });
    const text = this.zoom > 0.3;
    for (let band = Math.floor(top / 400) - 1; band <= Math.floor(bottom / 400) + 1; band++) {
      for (const n of this.bands.get(band) || []) {
        const [k, x, y, w, hh] = this.layout.nodes[n];
        if (x + w / 2 < left || x - w / 2 > right || y + hh / 2 < top || y - hh / 2 > bottom) continue;
        const { lines: label, kind, title } = this.about(k);
        drawn.push(s("g", { class: `node ${kind}${n === this.chosen ? " chosen" : ""}`, "data-n": n, transform: `translate(${x} ${y})` },
          s("rect", { x: -w / 2, y: -hh / 2, width: w, height: hh, rx: 4 }),
          text ? label.map((line, i) => s("text", { y: (i - (label.length - 1) / 2) * 14 + 4, class: i ? "second" : "" }, shorter(line))) : null,
          s("title", {}, title)));
      }
    }
    this.scene.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.zoom})`);
    this.scene.replaceChildren(...drawn);
  }

  choose(n, quietly = false) {
    if (!this.layout || n < 0 || n >= this.layout.nodes.length) return;
    this.chosen = n;
    const [k, x, y] = this.layout.nodes[n], box = this.svg.getBoundingClientRect();
    const px = x * this.zoom + this.x, py = y * this.zoom + this.y;
    if (px < 40 || px > box.width - 40 || py < 30 || py > box.height - 30) {
      this.x = box.width / 2 - x * this.zoom;
      this.y = box.height / 2 - y * this.zoom;
      this.touched = true;
    }
    this.draw();
    this.status.textContent = this.about(k).title;
    if (!quietly) this.onpick?.(k);
  }

  // The node of a row, whatever its number in the layout.
  chooseRow(k) { if (this.layout) this.choose(this.layout.nodes.findIndex((node) => node[0] === k), true); }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.layout) return;
    const step = 60, moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (event.key in moves) { this.x += moves[event.key][0]; this.y += moves[event.key][1]; this.touched = true; this.draw(); }
    else if (event.key === "+" || event.key === "=") this.scale(1.25);
    else if (event.key === "-") this.scale(0.8);
    else if (event.key === "f") { this.touched = false; this.fit(); }
    else if (event.key === "n") this.choose((this.chosen + 1) % this.layout.nodes.length);
    else if (event.key === "p") this.choose((this.chosen + this.layout.nodes.length - 1) % this.layout.nodes.length);
    else if (event.key === "Enter" && this.chosen >= 0) this.onpick?.(this.layout.nodes[this.chosen][0]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  scale(by, x, y) {
    const box = this.svg.getBoundingClientRect();
    [x, y] = [x ?? box.width / 2, y ?? box.height / 2];
    const zoom = Math.min(4, Math.max(0.02, this.zoom * by));
    this.x = x - (x - this.x) * zoom / this.zoom;
    this.y = y - (y - this.y) * zoom / this.zoom;
    this.zoom = zoom;
    this.touched = true;
    this.draw();
  }

  wheel(event) {
    if (!this.layout) return;
    event.preventDefault();
    const box = this.svg.getBoundingClientRect();
    this.scale(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }

  press(event) {
    this.moved = false;
    if (!this.layout || event.button) return;
    const from = [event.clientX - this.x, event.clientY - this.y], start = [event.clientX, event.clientY];
    const move = (e) => {
      if (Math.abs(e.clientX - start[0]) + Math.abs(e.clientY - start[1]) < 4) return;
      this.moved = this.touched = true;
      [this.x, this.y] = [e.clientX - from[0], e.clientY - from[1]];
      this.draw();
    };
    const up = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", up); };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
  }
}

const shorter = (text) => text.length > 34 ? `${text.slice(0, 32)}…` : text;

function path(edge, curved) {
  let d = `M${edge[2]} ${edge[3]}`;
  const points = (edge.length - 2) / 2;
  if (curved && points >= 4) {
    for (let k = 4; k + 5 < edge.length; k += 6) d += `C${edge.slice(k, k + 6).join(" ")}`;
    return d;
  }
  for (let k = 4; k < edge.length; k += 2) {
    const [x0, y0, x, y] = edge.slice(k - 2, k + 2), middle = (y0 + y) / 2;
    d += `C${x0} ${middle} ${x} ${middle} ${x} ${y}`;
  }
  return d;
}
