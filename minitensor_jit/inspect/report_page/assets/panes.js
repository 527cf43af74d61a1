// Linked panes: the program's lines, recorded ops, HLO, fused HLO, LLVM IR and assembly of one module.
// What a line stands for is known by metadata: an op by the number of its node, an instruction by its kernel and name.

const PANES = ["source", "ops", "hlo", "fused", "llvm", "asm"];
const PANE_NAMES = { source: "Source", ops: "Recorded ops", hlo: "HLO as lowered", fused: "HLO as compiled", llvm: "LLVM IR", asm: "Assembly" };

const idOf = (opName) => { const at = opName.lastIndexOf("_"); return at < 0 || opName === "" ? -1 : Number(opName.slice(at + 1)); };

// The lines of each pane of a module: {text, ops, instruction}.
async function paneLines(number) {
  const about = R.modules[number], data = await part(about.part);
  const graphAbout = R.graphs.find((graph) => graph.clusters.includes(about.name));
  const graph = graphAbout ? await part(graphAbout.part) : null;
  const found = { source: [], ops: [], hlo: [], fused: [], llvm: [], asm: [] };
  const inCluster = new Set(graph ? graph.clusters[about.name] : []);
  const opsAt = new Map();
  if (graph) {
    for (const k of graph.phases[0].rows) {
      const [id, op, params, operands, results, , file, line] = graph.rows[k];
      if (!inCluster.has(id)) continue;
      const where = file >= 0 ? `  ${basename(R.files[file])}:${line}` : "";
      found.ops.push({ text: `%${id} = ${op}${params ? `[${params}]` : ""}(${operands}) : ${results}${where}`, ops: [id], instruction: null });
      const key = `${file}:${line}`;
      if (!opsAt.has(key)) opsAt.set(key, []);
      opsAt.get(key).push(id);
    }
  }
  const files = [...new Set([...opsAt.keys()].map((key) => Number(key.split(":")[0])))].filter((file) => file in R.sources);
  for (const file of files) {
    if (files.length > 1) found.source.push({ text: `── ${R.files[file]}`, ops: [], instruction: null, kind: "dim" });
    R.sources[file].forEach((text, k) => {
      const ops = opsAt.get(`${file}:${k + 1}`) || [];
      found.source.push({ text: `${String(k + 1).padStart(4)}  ${text}`, ops, instruction: null, kind: ops.length ? "" : "dim" });
    });
  }
  const stages = data.stages;
  if (stages.length) {
    found.hlo = hloLines(data, stages[0]).lines;
    const { lines, kernels, names } = hloLines(data, stages[stages.length - 1]);
    found.fused = lines;
    found.llvm = codeLines(data.texts["ir-no-opt.ll"] || "", "  ; ", /^define .*@"?([^"(]+)"?\(/, /^}/, kernels, names);
    found.asm = codeLines(data.texts.s || data.texts.ptx || "", "\t# ", /^"?((?!\.L)[\w.$-]+)"?:/, /^\t\.size/, kernels, names);
  }
  return found;
}

function hloLines(data, stage) {
  const lines = [], kernels = new Map(), names = new Map();
  const idsOf = new Map();
  const bodyOf = new Map(stage.computations.map((computation) => [computation[0], computation]));
  const idsIn = (name) => {
    if (idsOf.has(name)) return idsOf.get(name);
    idsOf.set(name, []);
    const ids = new Set();
    for (const k of bodyOf.get(name)?.[3] || []) {
      const id = idOf(data.places[data.rows[k][6]][0]);
      if (id >= 0) ids.add(id);
    }
    idsOf.set(name, [...ids]);
    return idsOf.get(name);
  };
  const callers = new Map();
  for (const [, , , rows] of stage.computations)
    for (const k of rows) for (const called of data.rows[k][4].split(" ")) if (called) callers.set(called, data.rows[k][0]);
  for (const [name, entry, root, rows] of stage.computations) {
    const kernel = entry ? "" : callers.get(name) || name;
    lines.push({ text: `${entry ? "ENTRY " : ""}${name} {`, ops: idsIn(name), instruction: entry ? null : `/${kernel}`, kind: "title" });
    rows.forEach((k, n) => {
      const [instruction, opcode, , , calls, text, at] = data.rows[k];
      const id = idOf(data.places[at][0]);
      const inside = opcode === "fusion" ? calls.split(" ").flatMap(idsIn) : [];
      const ops = inside.length ? [...new Set([...inside, ...(id >= 0 ? [id] : [])])] : id >= 0 ? [id] : [];
      const key = `${kernel}/${instruction}`;
      // Results of a kernel that are taken out of a tuple have names like those of functions.
      if (entry && !/^(get-tuple-element|tuple|parameter|constant)$/.test(opcode)) kernels.set(instruction, ops);
      names.set(key, ops);
      lines.push({ text: `  ${n === root ? "ROOT " : ""}${text}`, ops, instruction: key });
    });
    lines.push({ text: "}", ops: [], instruction: null }, { text: "", ops: [], instruction: null });
  }
  return { lines, kernels, names };
}

// Code whose lines have the name of an instruction behind them; in assembly a name holds until the next one.
function codeLines(text, mark, begins, ends, kernels, names) {
  const lines = [], holds = mark[0] === "\t";
  let kernel = "", key = null, ops = [];
  const lookup = (name) => {
    if (kernels.has(name)) return [`/${name}`, kernels.get(name)];
    const inside = `${kernel}/${name}`;
    return names.has(inside) ? [inside, names.get(inside)] : kernel ? [`/${kernel}`, kernels.get(kernel) || []] : [null, []];
  };
  for (const line of text.split("\n")) {
    const begun = begins.exec(line);
    if (begun) {
      kernel = begun[1].replace(/"/g, "");
      while (kernel && !kernels.has(kernel)) kernel = kernel.includes(".") ? kernel.slice(0, kernel.lastIndexOf(".")) : "";
      [key, ops] = kernel ? [`/${kernel}`, kernels.get(kernel)] : [null, []];
      lines.push({ text: line, ops, instruction: key, kind: "title" });
      continue;
    }
    const at = line.lastIndexOf(mark);
    if (at >= 0) [key, ops] = lookup(line.slice(at + mark.length));
    else if (!holds || ends.test(line)) [key, ops] = [null, []];
    lines.push({ text: holds ? line.replace(/\t/g, "    ") : line, ops, instruction: key });
  }
  return lines;
}

const Panes = {
  title: "Code, linked",
  async open(main, { module = R.module_of[R.account.clusters[0]?.names[0]] ?? 0, op = null, source = null, instruction = null } = {}) {
    if (!R.modules.length) {
      add(main, heading("Code"), h("p", {}, "Nothing was compiled, so there is no code to show. ", why()));
      return;
    }
    const chosen = h("select", { "aria-label": "module", onchange: () => show("panes", { module: Number(chosen.value) }) },
      R.modules.map((one, k) => h("option", { value: k, selected: k === module }, `${one.name}${one.failure ? " (failed)" : ""}`)));
    const panes = {}, boxes = {};
    const status = h("span", { class: "note", "aria-live": "polite" });
    const toggles = PANES.map((name) => {
      const button = h("button", { class: "toggle", "aria-pressed": "true", onclick: () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", on);
        boxes[name].hidden = !on;
      } }, PANE_NAMES[name]);
      return button;
    });
    const grid = h("div", { class: "panes" });
    add(main, h("div", { class: "bar-top" }, heading("Code"), chosen, toggles, status), grid);
    const lines = await paneLines(module);
    if (R.modules[module].failure) main.insertBefore(h("p", { class: "bad" }, R.modules[module].failure), grid);
    let selected = { ops: new Set(), instruction: null };
    for (const name of PANES) {
      const list = panes[name] = new Lines({
        label: PANE_NAMES[name],
        line: (k) => {
          const one = lines[name][k];
          const same = one.instruction !== null && one.instruction === selected.instruction;
          const related = !same && one.kind !== "title" && one.ops.length < 200 && one.ops.some((id) => selected.ops.has(id));
          const exact = selected.instruction === null || !["fused", "llvm", "asm"].includes(name);
          return h("div", { class: `line ${one.kind || ""}${same || (related && exact) ? " same" : related ? " related" : ""}` }, colored(one.text, name));
        },
        onpick: (k) => pick(name, k),
      });
      boxes[name] = h("section", { class: `pane pane-${name}` }, h("h3", {}, PANE_NAMES[name],
        h("span", { class: "note" }, lines[name].length ? ` ${number(lines[name].length)} lines` : " none")), list.element);
      grid.append(boxes[name]);
    }
    const pick = (from, k) => {
      const one = lines[from][k];
      const exact = ["fused", "llvm", "asm"].includes(from) && one.instruction;
      selected = { ops: new Set(one.ops), instruction: exact ? one.instruction : null };
      status.textContent = one.ops.length ? ` ${count(one.ops.length, "op")}${selected.instruction ? `, ${selected.instruction.replace(/^\//, "")}` : ""}` : " nothing is known of this line";
      for (const name of PANES) {
        if (name !== from) {
          const list = lines[name];
          let at = selected.instruction === null ? -1 : list.findIndex((other) => other.instruction === selected.instruction);
          if (at < 0) at = list.findIndex((other) => other.kind !== "title" && other.ops.some((id) => selected.ops.has(id)));
          if (at >= 0) panes[name].see(at);
        }
        panes[name].draw(true);
      }
    };
    grid.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const open = PANES.filter((name) => !boxes[name].hidden);
      const at = open.findIndex((name) => boxes[name].contains(event.target));
      const next = open[at + (event.key === "ArrowRight" ? 1 : -1)];
      if (next) { panes[next].element.focus(); event.preventDefault(); }
    });
    for (const name of PANES) panes[name].fill(lines[name].length);
    const start = (name, test) => { const at = lines[name].findIndex(test); if (at >= 0) panes[name].pick(at); return at >= 0; };
    if (op !== null) start("ops", (one) => one.ops.includes(op));
    else if (instruction !== null) start("fused", (one) => one.instruction === instruction) || start("hlo", (one) => one.instruction === instruction);
    else if (source !== null) {
      const text = R.sources[source.file]?.[source.line - 1];
      start("source", (one) => one.text === `${String(source.line).padStart(4)}  ${text}`);
    } else start("source", (one) => one.ops.length > 0);
    Panes.lists = panes;
  },
};

// The least of colour: names that are defined, comments, the program's keywords.
function colored(text, pane) {
  if (pane === "source") {
    const comment = text.indexOf("#");
    return comment >= 0 ? [text.slice(0, comment), h("span", { class: "comment" }, text.slice(comment))] : text;
  }
  const mark = pane === "llvm" ? text.indexOf("  ; ") : pane === "asm" ? text.indexOf("# ") : -1;
  if (mark >= 0) return [text.slice(0, mark), h("span", { class: "comment" }, text.slice(mark))];
  const equals = pane === "hlo" || pane === "fused" || pane === "ops" ? text.indexOf(" = ") : -1;
  if (equals > 0) {
    const lead = /^\s*(ROOT )?/.exec(text)[0].length;
    return [text.slice(0, lead), h("b", {}, text.slice(lead, equals)), text.slice(equals)];
  }
  return text;
}
