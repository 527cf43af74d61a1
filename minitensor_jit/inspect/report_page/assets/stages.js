// Graphs: the clustering phase by phase, and a module after each pass that changed it.

const Stages = {
  title: "Graphs, stage by stage",
  async open(main, { part: chosen = null, stage = null } = {}) {
    const all = [...R.graphs.map((one) => ({ ...one, what: "graph" })), ...R.modules.map((one) => ({ ...one, what: "module" }))];
    if (!all.length) { add(main, heading("Graphs"), h("p", {}, "Nothing was recorded, so there are no graphs. ", why())); return; }
    const about = all.find((one) => one.part === chosen) || all.find((one) => one.what === "module" && one.name === R.account.clusters[0]?.names[0]) || all[0];
    const data = await part(about.part);
    const select = h("select", { "aria-label": "graph or module", onchange: () => show("stages", { part: Number(select.value) }) },
      [["Recorded graphs", "graph"], ["Modules", "module"]].map(([title, what]) => h("optgroup", { label: title },
        all.filter((one) => one.what === what).map((one) => h("option", { value: one.part, selected: one.part === about.part },
          what === "graph" ? `${one.name}${one.alike ? ` and ${number(one.alike)} more` : ""}: ${count(one.nodes, "op")}` : `${one.name}: ${one.instructions[0] ?? 0} to ${one.instructions[one.instructions.length - 1] ?? 0} instructions`)))));
    add(main, h("div", { class: "bar-top" }, heading("Graphs"), select, h("span", { class: "legend" },
      about.what === "module" ? [h("span", { class: "swatch new" }), " new or changed in this stage"] : [h("span", { class: "swatch eager" }), " stays eager"])));
    if (about.what === "graph") graphStages(main, data, stage); else moduleStages(main, data, stage);
  },
};

function stageList(names, onpick) {
  const list = new Lines({ label: "stages: arrow keys go through them", height: 22, line: (k) => h("div", { class: "line stage" }, names[k]), onpick });
  list.fill(names.length);
  return list;
}

function graphStages(main, data, stage) {
  const view = new GraphView((k) => tell(k)), side = h("div", { class: "detail" });
  let current = 0;
  const tell = (k) => {
    const [id, op, params, operands, results, cluster, file, line] = data.rows[data.phases[current].rows[k]];
    const verdict = data.verdicts[id];
    side.replaceChildren(h("h3", {}, h("code", {}, `%${id} ${op}`)), h("p", {}, h("code", {}, results)), h("p", {}, params ? h("code", {}, params) : "", " ", operands ? h("span", { class: "dim mono" }, `reads ${operands}`) : ""), h("p", {}, place(file, line)),
      cluster ? h("p", {}, "In ", clusterLink(cluster), " ", cluster in R.module_of && !op.startsWith("_") ? h("button", { onclick: () => show("panes", { module: R.module_of[cluster], op: id }) }, "follow it to the code") : "") : "",
      verdict && op !== "_Arg" && op !== "_Const" ? h("div", { class: "reason" }, h("p", {}, verdict[0]), h("p", { class: "fix" }, prose(verdict[1] || ""))) : "");
  };
  const NOTES = {
    recorded: "The graph as the program recorded it.",
    mark_for_compilation: "Each op has a verdict: a cluster, or why it stays eager.",
    partially_decluster: "Views of inputs that only the outside reads are taken out of clusters.",
    encapsulate_subgraphs: "Each cluster is one node, with its graph inside.",
    build_launch_ops: "Clusters are launches: _JitLaunch, or _JitCompile and _JitRun, which can fall back to the ops.",
  };
  const pick = (k) => {
    current = k;
    const phase = data.phases[k], before = new Set(k ? data.phases[k - 1].rows : phase.rows);
    const changed = phase.rows.filter((row) => !before.has(row)).length, gone = [...before].filter((row) => !phase.rows.includes(row)).length;
    view.fill(phase.layout, (n) => {
      const [id, op, , , results, cluster] = data.rows[phase.rows[n]];
      const eager = op !== "_Arg" && !cluster && phase.name !== "recorded";
      return { lines: [op, results], kind: op === "_Arg" ? "argument" : cluster ? "clustered" : eager ? "left" : "plain", title: `%${id} = ${op}: ${results}${cluster ? `, in ${cluster}` : ""}` };
    });
    side.replaceChildren(h("h3", {}, phase.name), h("p", {}, NOTES[phase.name] || ""), h("p", { class: "note" }, `${count(phase.rows.length, "node")}; ${k ? `${number(changed)} new or changed, ${number(gone)} gone, in ${seconds(phase.seconds)}` : "as recorded"}`));
  };
  const list = stageList(data.phases.map((phase) => phase.name), pick);
  add(main, h("div", { class: "stages" }, list.element, view.element, side));
  list.pick(stage === null ? Math.min(1, data.phases.length - 1) : stage);
  list.element.focus({ preventScroll: true });
}

function moduleStages(main, data, stage) {
  if (!data.stages.length) { add(main, h("p", {}, "This module has no stages.")); return; }
  const view = new GraphView((k) => tell(k)), side = h("div", { class: "detail" });
  let current = 0, body = null;
  const trail = h("p", { class: "trail" });
  const computation = () => data.stages[current].computations.find((one) => body === null ? one[1] : one[0] === body);
  const tell = (k) => {
    const [name, opcode, shape, , calls, text, at] = data.rows[computation()[3][k]];
    const [op, file, line] = data.places[at];
    const called = calls.split(" ").filter((one) => data.stages[current].computations.some((c) => c[0] === one && data.layouts[c[4]]));
    side.replaceChildren(h("h3", {}, h("code", {}, name)), h("pre", { class: "wrap" }, text), h("p", {}, op ? [h("code", {}, op), " "] : "", place(file, line)),
      called.map((one) => h("p", {}, h("button", { onclick: () => { body = one; draw(); } }, `look inside ${one}`))),
      h("p", {}, h("button", { onclick: () => {
        const module = R.modules.findIndex((one) => one.name === data.name);
        show("panes", { module, instruction: `${body === null ? "" : kernelOf(data, current, body)}/${name}`, op: current === data.stages.length - 1 || idOf(op) < 0 ? null : idOf(op) });
      } }, "follow it to the code")));
  };
  const draw = () => {
    const now = data.stages[current], before = current ? data.stages[current - 1] : null;
    const one = computation() || now.computations.find((c) => c[1]);
    if (one[1]) body = null;
    const known = new Set(before ? before.computations.flatMap((c) => c[3]) : one[3]);
    view.fill(data.layouts[one[4]], (k) => {
      const [name, opcode, shape] = data.rows[one[3][k]];
      return { lines: [name, shape], kind: `${known.has(one[3][k]) ? kindOf(opcode) : `${kindOf(opcode)} new`}${k === one[2] ? " root" : ""}`, title: `${name} = ${shape} ${opcode}` };
    });
    const drawable = now.computations.filter((c) => !c[1] && data.layouts[c[4]]);
    trail.replaceChildren(...(body === null ? [h("b", {}, "ENTRY")] : [h("button", { class: "link", onclick: () => { body = null; draw(); } }, "ENTRY"), " › ", h("b", {}, body)]),
      ...(drawable.length ? [h("select", { "aria-label": "computation", onchange: (event) => { body = event.target.value || null; draw(); } },
        h("option", { value: "" }, `the entry, or one of ${drawable.length} inside`), drawable.map((c) => h("option", { value: c[0], selected: c[0] === body }, `${c[0]}: ${c[3].length} instructions`)))] : []));
    const names = (stage) => new Map(stage.computations.flatMap((c) => c[3].map((k) => [`${c[1] ? "" : c[0]}/${data.rows[k][0]}`, k])));
    const here = names(now), there = before ? names(before) : here;
    const added = [...here].filter(([name]) => !there.has(name)), gone = [...there].filter(([name]) => !here.has(name));
    const changed = [...here].filter(([name, k]) => there.has(name) && there.get(name) !== k);
    const rules = Object.entries(now.rules).sort((a, b) => b[1] - a[1]);
    const fold = (title, rows, open) => rows.length ? h("details", { open }, h("summary", {}, `${number(rows.length)} ${title}`), h("ul", { class: "mono small" }, rows.slice(0, 300).map(([, k]) => h("li", { title: data.rows[k][5] }, `${data.rows[k][0]} ${data.rows[k][2]}`)), rows.length > 300 ? h("li", {}, "...") : null)) : null;
    side.replaceChildren(...[
      h("h3", {}, now.name), h("p", { class: "note" }, `${number(here.size)} instructions${before ? `, ${number(there.size)} before; ${seconds(now.seconds)}` : ""}`),
      rules.length ? [h("h4", {}, "Rules"), table([["rule", ([name]) => h("code", {}, name)], ["applied", ([, n]) => number(n), ([, n]) => n, "n"]], rules)] : null,
      fold("new", added, true), fold("changed", changed, false), fold("gone", gone, false),
    ].flat().filter(Boolean));
  };
  const list = stageList(data.stages.map((one) => `${String(one.computations.reduce((n, c) => n + c[3].length, 0)).padStart(5)}  ${one.name}${Object.keys(one.rules).length ? ` ×${number(Object.values(one.rules).reduce((a, b) => a + b, 0))}` : ""}`), (k) => { current = k; draw(); });
  add(main, h("div", { class: "stages" }, list.element, h("div", { class: "graph-column" }, trail, view.element), side));
  list.pick(stage ?? data.stages.length - 1);
  list.element.focus({ preventScroll: true });
}

function kernelOf(data, stage, body) {
  for (const [, , , rows] of data.stages[stage].computations)
    for (const k of rows) if (data.rows[k][4].split(" ").includes(body)) return data.rows[k][0];
  return body;
}

function kindOf(opcode) {
  if (opcode === "parameter") return "argument";
  if (opcode === "fusion") return "fusion";
  if (/^(dot|convolution|custom-call|kernel-call)/.test(opcode)) return "product";
  if (/^(reduce|sort|scan)/.test(opcode)) return "reduction";
  if (/^(broadcast|reshape|transpose|slice|iota|concatenate|pad|gather|scatter|copy|bitcast|dynamic|reverse|tuple|get-tuple)/.test(opcode)) return "movement";
  return "plain";
}
