// The frame: which section is shown, keys, and the search.

let R = null;

const SECTIONS = [
  ["overview", "Overview", Overview], ["lines", "Lines", SourceLines], ["panes", "Code", Panes], ["stages", "Graphs", Stages], ["left", "Left out", Left],
  ["compiles", "Compiles", Compiles], ["kernels", "Kernels", Kernels], ["memory", "Memory", Memory], ["timeline", "Timeline", Timeline], ["environment", "Environment", Environment],
];
const KEYS = [
  ["1 … 9, 0", "the sections, in their order"], ["/", "search ops, instructions, kernels, lines"], ["?", "this list"], ["Esc", "close what is open; back to the section"],
  ["↑ ↓ PgUp PgDn Home End", "go through a list; panes and stages follow"], ["← →", "the next pane of the code"], ["Backspace", "what was shown before"],
  ["in a graph: arrows, + −, f", "move, zoom, fit"], ["in a graph: n p, Enter", "from node to node, and choose"], ["in a timeline: ← →, + −, f", "move, zoom, all"], ["Tab", "everything can be reached by it"],
];

let trail = [], shown = 0;

async function show(name, state = {}, remember = true) {
  const [, , section] = SECTIONS.find(([one]) => one === name);
  if (remember) trail.push([name, state]);
  const turn = ++shown, main = document.getElementById("main");
  for (const link of document.querySelectorAll("nav [data-section]")) link.dataset.section === name ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  const fresh = h("main", { id: "main", tabindex: "-1", class: `section-${name}`, "aria-label": section.title });
  main.replaceWith(fresh);
  try {
    await section.open(fresh, state);
  } catch (error) {
    fresh.append(h("p", { class: "bad" }, `This can't be shown: ${error.message}`));
    throw error;
  }
  if (turn !== shown) return;
  if (!fresh.contains(document.activeElement)) fresh.focus({ preventScroll: true });
  try { history.replaceState(null, "", `#${name}`); } catch { /* in a notebook's frame there is none */ }
}

function back() {
  if (trail.length < 2) return;
  trail.pop();
  const [name, state] = trail[trail.length - 1];
  show(name, state, false);
}

const Search = {
  async find(text) {
    const wanted = text.toLowerCase(), found = [];
    const add = (kind, label, note, open) => { if (found.length < 200) found.push({ kind, label, note, open }); };
    const has = (value) => value.toLowerCase().includes(wanted);
    for (const line of R.lines) for (const op of Object.keys(line.ops)) if (has(op)) add("op", op, line.file >= 0 ? `${basename(R.files[line.file])}:${line.line}` : "unknown place", () => show("lines", { file: line.file in R.sources ? line.file : null, line: line.file in R.sources ? line.line : null }));
    for (const cluster of R.account.clusters) for (const name of cluster.names) if (has(name) && name in R.module_of) add("cluster", name, `${number(cluster.runs)} runs`, () => show("panes", { module: R.module_of[name] }));
    for (const cluster of R.profile.clusters) for (const kernel of cluster.kernels) if (has(kernel.name)) add("kernel", kernel.name, cluster.name, () => show("panes", { module: R.module_of[cluster.name] ?? 0, instruction: `/${kernel.name}` }));
    for (const [file, lines] of Object.entries(R.sources)) lines.forEach((line, k) => { if (has(line)) add("line", line.trim(), `${basename(R.files[file])}:${k + 1}`, () => show("lines", { file: Number(file), line: k + 1 })); });
    for (let k = 0; k < R.modules.length && found.length < 200; k++) {
      const module = R.modules[k], data = await part(module.part), last = data.stages[data.stages.length - 1];
      for (const [name, entry, , rows] of last?.computations || [])
        for (const row of rows) if (has(data.rows[row][0]) || has(data.rows[row][1])) add("HLO", data.rows[row][0], `${module.name}: ${data.rows[row][2]}`, () => show("panes", { module: k, instruction: `${entry ? "" : kernelOf(data, data.stages.length - 1, name)}/${data.rows[row][0]}` }));
    }
    for (const graph of R.graphs) {
      if (found.length >= 200) break;
      const data = await part(graph.part);
      data.phases[0].rows.forEach((row) => { const [id, op, , , results, cluster] = data.rows[row]; if (has(`%${id} ${op}`) && op[0] !== "_") add("recorded op", `%${id} ${op}`, `${graph.name}: ${results}`, () => show("stages", { part: graph.part, stage: 0 })); });
    }
    return found;
  },

  box() {
    const results = h("div", { class: "results", hidden: true });
    let found = [], turn = 0, wait = 0;
    const list = new Lines({ label: "results", height: 24, line: (k) => h("div", { class: "line" }, h("span", { class: "tag" }, found[k].kind), " ", h("span", { class: "mono" }, found[k].label.slice(0, 80)), h("span", { class: "note" }, ` ${found[k].note}`)), onpick: (k) => { status.textContent = found[k].label; } });
    const status = h("p", { class: "note", "aria-live": "polite" });
    const go = () => { const one = found[Math.max(0, list.active)]; if (one) { close(); one.open(); } };
    const close = () => { results.hidden = true; };
    const input = h("input", { id: "search", type: "search", placeholder: "Search  ( / )", autocomplete: "off", "aria-label": "search ops, instructions, kernels, lines", role: "combobox", "aria-expanded": "false",
      oninput: () => { clearTimeout(wait); wait = setTimeout(look, 80); },
      onkeydown: (event) => {
        if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); list.pick(Math.max(0, list.active + (event.key === "ArrowDown" ? 1 : -1))); }
        else if (event.key === "Enter") { clearTimeout(wait); if (results.hidden || stale) look().then(go); else go(); }
        else if (event.key === "Escape") { close(); input.value = ""; document.getElementById("main").focus(); event.stopPropagation(); }
      } });
    let stale = false;
    const look = async () => {
      const mine = ++turn, text = input.value.trim();
      if (!text) { close(); return; }
      stale = true;
      const next = await Search.find(text);
      if (mine !== turn) return;
      stale = false;
      found = next;
      results.hidden = false;
      input.setAttribute("aria-expanded", "true");
      status.textContent = found.length ? `${found.length >= 200 ? "the first " : ""}${count(found.length, "result")}: arrow keys, Enter` : "nothing of that name";
      list.element.style.height = `${Math.min(14, found.length) * 24}px`;
      list.fill(found.length);
    };
    list.element.addEventListener("click", () => go());
    results.append(list.element, status);
    document.addEventListener("click", (event) => { if (!box.contains(event.target)) close(); });
    const box = h("div", { class: "search" }, input, results);
    return box;
  },
};

function help() {
  const dialog = h("dialog", { "aria-label": "keys", onclose: () => dialog.remove() }, h("h2", {}, "Keys"), h("table", {}, h("tbody", {}, KEYS.map(([key, what]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, what))))), h("form", { method: "dialog" }, h("button", {}, "close")));
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
  const digit = "1234567890".indexOf(event.key);
  if (event.key.length === 1 && digit >= 0 && SECTIONS[digit]) show(SECTIONS[digit][0]);
  else if (event.key === "/") document.getElementById("search").focus();
  else if (event.key === "?") help();
  else if (event.key === "Backspace") back();
  else if (event.key === "Escape") document.getElementById("main").focus();
  else return;
  event.preventDefault();
});

async function start() {
  R = await part(0);
  R.end = JSON.parse(document.getElementById("end").textContent);
  const [text, mood] = ending();
  document.getElementById("app").replaceWith(
    h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); document.getElementById("main").focus(); } }, "to the content"),
    h("header", {}, h("h1", {}, R.title, h("span", { class: `dot-state ${mood}`, title: text })), h("span", { class: "note mono command-line", title: R.command }, R.command), Search.box(), h("button", { onclick: help, "aria-label": "keys" }, "?")),
    h("nav", { "aria-label": "sections" }, SECTIONS.map(([name, label], k) => h("button", { "data-section": name, onclick: () => show(name) }, h("kbd", {}, (k + 1) % 10), label))),
    h("main", { id: "main", tabindex: "-1" }));
  const asked = location.hash.slice(1);
  await show(SECTIONS.some(([name]) => name === asked) ? asked : "overview");
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => { document.body.prepend(`This report can't be shown: ${error.message}`); throw error; });
