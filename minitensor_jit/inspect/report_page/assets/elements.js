// Elements, numbers in words, and lists that draw only what is seen.

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  return filled(element, attributes, children);
}

function s(tag, attributes, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const number = (n) => n.toLocaleString("en-US", { maximumFractionDigits: 0 });
const percent = (part, whole) => {
  if (!whole) return "0 %";
  const value = Math.round(1000 * part / whole) / 10;
  return `${value === 100 && part !== whole ? 99.9 : value === 0 && part ? 0.1 : value} %`;
};
const count = (n, noun) => `${number(n)} ${noun}${n === 1 ? "" : /(s|sh|ch)$/.test(noun) ? "es" : "s"}`;

// Three digits, as 1.25, 12.5 or 125.
function digits(value) {
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.max(value, 1e-9)) + 1e-9));
  return String(Number(value.toFixed(Math.min(places, 3))));
}

function scaled(value, units) {
  for (const [unit, size] of units) if (value >= size * 0.9995) return `${digits(value / size)} ${unit}`.trim();
  const [unit, size] = units[units.length - 1];
  return `${value ? Number((value / size).toPrecision(2)) : 0} ${unit}`.trim();
}
const seconds = (t) => scaled(t, [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]]);
const bytes = (n) => scaled(n, [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]]);
const rate = (n, what) => scaled(n, [[`T${what}`, 1e12], [`G${what}`, 1e9], [`M${what}`, 1e6], [`k${what}`, 1e3], [what, 1]]);

const basename = (path) => path.slice(path.lastIndexOf("/") + 1);

// Appends what there is, as `h` does.
const add = (element, ...children) => filled(element, {}, children);

// A place in the program, as what leads to its line.
function place(file, line) {
  if (file === null || file === undefined || file < 0 || file === "") return h("span", { class: "dim" }, "unknown place");
  const path = typeof file === "number" ? R.files[file] : file;
  const known = R.files.indexOf(path);
  const label = `${basename(path)}:${line}`;
  if (!(known in R.sources)) return h("span", { class: "mono", title: path }, label);
  return h("button", { class: "link mono", title: path, onclick: () => show("lines", { file: known, line }) }, label);
}

function clusterLink(name) {
  if (!(name in R.module_of)) return h("span", { class: "mono" }, name);
  return h("button", { class: "link mono", onclick: () => show("panes", { module: R.module_of[name] }) }, name);
}

function heading(text, note) {
  return h("h2", {}, text, note ? h("span", { class: "note" }, note) : null);
}

// Text in which `this` is code, as the account writes it.
const prose = (text) => text.split("`").map((part, k) => k % 2 ? h("code", {}, part) : part);

function bar(share, kind, title) {
  const width = Math.max(share > 0 ? 2 : 0, Math.round(100 * share));
  return h("span", { class: "bar", title }, h("span", { class: `fill ${kind}`, style: `width:${width}%` }));
}

// A table: columns are [title, how a row's cell is made, how it is sorted, class].
function table(columns, rows, { limit = 200, sort = null } = {}) {
  let order = [...rows], shown = limit, by = sort, down = true;
  const body = h("tbody"), more = h("p"), heads = [];
  const fill = () => {
    body.replaceChildren(...order.slice(0, shown).map((row) =>
      h("tr", {}, columns.map(([, cell, , kind]) => h("td", { class: kind }, cell(row))))));
    more.replaceChildren(...(order.length > shown
      ? [h("button", { onclick: () => { shown += 500; fill(); } }, `${number(order.length - shown)} more`)] : []));
  };
  const arrange = (column) => {
    down = by === column ? !down : true;
    by = column;
    const key = columns[column][2];
    order = [...rows].sort((a, b) => {
      const x = key(a), y = key(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    heads.forEach((head, k) => head.setAttribute("aria-sort", k === by ? (down ? "descending" : "ascending") : "none"));
    fill();
  };
  columns.forEach(([title, , key, kind], k) => heads.push(h("th", { class: kind, scope: "col" },
    key ? h("button", { class: "sort", onclick: () => arrange(k) }, title) : title)));
  if (sort !== null) { by = null; arrange(sort); } else fill();
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), body), more);
}

// A list of lines of one height, of which only those that are seen are elements. `line(k)` makes one.
class Lines {
  constructor({ label, height = 18, line, onpick }) {
    Object.assign(this, { height, line, onpick, count: 0, active: -1, first: 0, last: 0 });
    this.space = h("div", { class: "space" });
    this.element = h("div", {
      class: "lines", tabindex: "0", role: "listbox", "aria-label": label,
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event),
      onclick: (event) => {
        const row = event.target.closest("[data-k]");
        if (row) this.pick(Number(row.dataset.k));
      },
    }, this.space);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  fill(count) {
    this.count = count;
    this.active = -1;
    this.space.style.height = `${count * this.height}px`;
    this.element.scrollTop = 0;
    this.draw(true);
  }

  draw(anew = false) {
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.height) - 10);
    const last = Math.min(this.count, Math.ceil((this.element.scrollTop + this.element.clientHeight) / this.height) + 10);
    if (!anew && first === this.first && last === this.last) return;
    [this.first, this.last] = [first, last];
    const rows = [];
    for (let k = first; k < last; k++) {
      const row = this.line(k);
      row.dataset.k = k;
      row.id ||= `${this.name ||= `list${Lines.made = (Lines.made || 0) + 1}`}-${k}`;
      row.setAttribute("role", "option");
      row.classList.toggle("active", k === this.active);
      row.setAttribute("aria-selected", k === this.active);
      row.style.top = `${k * this.height}px`;
      rows.push(row);
    }
    this.space.replaceChildren(...rows);
    if (this.active >= first && this.active < last) this.element.setAttribute("aria-activedescendant", `${this.name}-${this.active}`);
  }

  pick(k, quietly = false) {
    if (k < 0 || k >= this.count) return;
    this.active = k;
    this.see(k);
    this.draw(true);
    if (!quietly) this.onpick?.(k);
  }

  see(k) {
    const top = k * this.height, view = this.element;
    if (top < view.scrollTop || top + this.height > view.scrollTop + view.clientHeight)
      view.scrollTop = Math.max(0, top - view.clientHeight / 3);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count }[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.pick(Math.max(0, Math.min(this.count - 1, this.active + step)));
  }
}

function copied(text, label) {
  const button = h("button", { onclick: async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = "copied"; }
    catch { button.textContent = "select it, and copy"; }
  } }, label || "copy");
  return button;
}

function download(name, text) {
  return h("button", { onclick: () => {
    const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: "text/plain" })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  } }, `save ${name}`);
}
