// The sections beside the graphs and the code: what was left out, compilations, kernels, memory, timeline, environment.

const Left = {
  title: "Left out, and not fused",
  open(main) {
    const { account } = R, groups = [...account.eager].map((group) => ({ ...group, count: group.ops.reduce((n, row) => n + row.count, 0) })).sort((a, b) => b.count - a.count);
    add(main, heading("Left eager", `${number(account.ops.eager)} of ${count(account.ops.total, "recorded op")}`));
    if (!groups.length) add(main, h("p", {}, account.ops.total ? "Nothing: all that was recorded was compiled." : why()));
    for (const group of groups) add(main, h("section", { class: "card" },
      h("h3", {}, count(group.count, "op"), h("span", { class: "tag" }, group.code)), h("p", {}, group.reason), group.fix ? h("p", { class: "fix" }, prose(group.fix)) : null,
      table([["line", (row) => place(row.file, row.line)], ["op", (row) => h("code", {}, row.op)], ["times", (row) => number(row.count), (row) => row.count, "n"]], group.ops, { sort: 2, limit: 12 })));
    const refusals = account.clusters.flatMap((cluster) => cluster.refusals.map((row) => ({ ...row, cluster: cluster.names[0], runs: cluster.runs })));
    add(main, heading("Not fused, or not in place", "by the bytes that pass through memory because of it in each run"));
    add(main, refusals.length ? table([
      ["bytes", (row) => row.bytes ? bytes(row.bytes) : "none", (row) => row.bytes, "n"],
      ["in all runs", (row) => row.bytes ? bytes(row.bytes * row.runs) : "none", (row) => row.bytes * row.runs, "n"],
      ["what", (row) => [h("code", {}, row.op), " ", place(row.file, row.line), row.into ? [" and ", h("code", {}, row.into.op), " ", place(row.into.file, row.into.line)] : null, row.count > 1 ? h("span", { class: "note" }, ` ${number(row.count)} times`) : null]],
      ["cluster", (row) => clusterLink(row.cluster), (row) => row.cluster],
      ["pass", (row) => h("code", {}, row.pass), (row) => row.pass],
      ["why, and what would change it", (row) => [row.reason, " ", h("span", { class: "tag" }, row.code), h("div", { class: "fix" }, prose(row.fix))]],
    ], refusals, { sort: 1, limit: 40 }) : h("p", {}, "Nothing was refused."));
    if (account.copies.length) add(main, heading("Copies of shared memory"), h("p", { class: "fix" }, prose(account.copies[0].fix)), table([
      ["bytes", (row) => bytes(row.bytes), (row) => row.bytes, "n"], ["copies", (row) => number(row.count), (row) => row.count, "n"], ["line", (row) => place(row.file, row.line)]], account.copies, { sort: 0 }));
    if (account.flushes.length) add(main, heading("Flushes", "where recorded ops had to run, since a value was needed"), table([
      ["times", (row) => number(row.count), (row) => row.count, "n"], ["why", (row) => row.reason], ["line", (row) => place(row.file, row.line)]], account.flushes, { sort: 0 }));
  },
};

const Compiles = {
  title: "Compilations",
  open(main) {
    add(main, heading("Compilations", `${number(R.compiles.length)}, ${seconds(R.compiles.reduce((n, one) => n + one.milliseconds, 0) / 1e3)}`));
    add(main, R.compiles.length ? table([
      ["at", (one) => seconds(Math.max(0, one.at)), (one) => one.at, "n"], ["took", (one) => seconds(one.milliseconds / 1e3), (one) => one.milliseconds, "n"],
      ["cluster", (one) => clusterLink(one.cluster), (one) => one.cluster],
      ["why", (one) => [h("span", { class: one.why.startsWith("first use") ? "" : "mixed" }, one.why)], (one) => one.why],
      ["the program was at", (one) => one.stack.length ? h("details", {}, h("summary", {}, place(one.stack[0][0], one.stack[0][1]), ` in ${one.stack[0][2]}`),
        h("ol", { class: "stack" }, one.stack.map(([file, line, fn]) => h("li", {}, place(file, line), " ", h("code", {}, fn))))) : "unknown"],
    ], R.compiles, { sort: null }) : h("p", {}, "Nothing was compiled. ", why()));
    if (!R.spans.length) return;
    add(main, heading("Where compile time went", "one after the other; what is blank are imports, the first time, and the report's own work"));
    const threads = [...new Set(R.spans.map((span) => span[4]))];
    // One compilation after the other, without the time between them; threads compile one at a time.
    const outer = R.spans.filter((span) => span[3] === 0).sort((a, b) => a[1] - b[1]);
    const starts = [];
    let end = 0, idle = 0;
    for (const [, begin, took] of outer) { if (begin > end) idle += begin - end; starts.push([begin, idle]); end = Math.max(end, begin + took); }
    const idleBefore = (t) => { let low = 0, high = starts.length; while (low < high) { const k = low + high >> 1; if (starts[k][0] <= t + 1e-9) low = k + 1; else high = k; } return low ? starts[low - 1][1] : 0; };
    const boxes = R.spans.map(([name, begin, took, depth]) => ({ name, begin: begin - idleBefore(begin), took, row: depth, kind: /^pass /.test(name) ? "pass" : /^(emit|llvm|load)$/.test(name) ? "codegen" : "phase", title: `${name}: ${seconds(took)}` }));
    const sums = new Map();
    for (const box of boxes) { const name = box.name.replace(/ of .*|compiling .*/, (text) => text.startsWith("compiling") ? "compiling" : ""); const one = sums.get(name) || { name, took: 0, times: 0 }; one.took += box.took; one.times++; sums.set(name, one); }
    add(main, new Flames("compile time", boxes, { rows: Math.max(...boxes.map((box) => box.row)) + 1 }).element,
      threads.length > 1 ? h("p", { class: "note" }, `Compiled on ${threads.length} threads.`) : "",
      table([["part", (one) => h("code", {}, one.name || "plan")], ["time", (one) => seconds(one.took), (one) => one.took, "n"], ["times", (one) => number(one.times), (one) => one.times, "n"]], [...sums.values()], { sort: 1, limit: 40 }));
  },
};

const Kernels = {
  title: "Kernels under the roof",
  open(main, { kernel = null } = {}) {
    const kernels = R.profile.clusters.flatMap((cluster) => cluster.kernels.map((one) => ({ ...one, cluster: cluster.name })));
    add(main, heading("Kernels", "each is a circle, as large as its share of the time; the lines are what this machine can do"));
    if (!kernels.length) { add(main, h("p", {}, "No compiled code ran. ", why())); return; }
    add(main, roofline() || "");
    const rows = table([
      ["kernel", (one) => h("button", { class: "link mono cut", title: one.name, onclick: () => one.cluster in R.module_of ? show("panes", { module: R.module_of[one.cluster], instruction: `/${one.name}` }) : null }, one.name), (one) => one.name],
      ["kind", (one) => one.kind, (one) => one.kind], ["cluster", (one) => clusterLink(one.cluster), (one) => one.cluster],
      ["time", (one) => seconds(one.seconds), (one) => one.seconds, "n"], ["runs", (one) => number(one.runs), (one) => one.runs, "n"], ["fastest", (one) => seconds(one.fastest_seconds), (one) => one.fastest_seconds, "n"],
      ["bytes", (one) => bytes(one.bytes_per_run), (one) => one.bytes_per_run, "n"], ["", (one) => rate(one.bytes_per_run / one.fastest_seconds, "B/s"), (one) => one.bytes_per_run / one.fastest_seconds, "n"],
      ["operations", (one) => scaled(one.flops_per_run, [["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]]), (one) => one.flops_per_run, "n"], ["", (one) => rate(one.flops_per_run / one.fastest_seconds, "flop/s"), (one) => one.flops_per_run / one.fastest_seconds, "n"],
      ["of the roof", (one) => [bar(Math.min(1, one.roofline), "compiled"), h("span", { class: "share" }, percent(Math.min(1, one.roofline), 1))], (one) => one.roofline, "n"],
      ["lines", (one) => {
        const places = [...new Map(one.ops.map((row) => [`${row.file}:${row.line}`, row])).values()], others = places.slice(1).map((row) => `${basename(R.files[row.file] || "?")}:${row.line}`);
        return h("span", { class: "once" }, places.length ? place(places[0].file, places[0].line) : "", others.length ? h("span", { class: "note", title: others.join("\n") }, ` +${others.length}`) : null);
      }],
    ], kernels, { sort: 3 });
    add(main, rows);
    if (kernel) {
      const chosen = [...rows.querySelectorAll("tbody tr")].find((row) => `${row.children[2].textContent}/${row.children[0].textContent}` === kernel);
      if (chosen) { chosen.classList.add("chosen"); chosen.scrollIntoView({ block: "center" }); chosen.querySelector("button")?.focus({ preventScroll: true }); }
    }
  },
};

const Memory = {
  title: "Memory",
  async open(main) {
    const { samples, launches, predicted, peak } = R.memory, end = Math.max(R.seconds, ...samples.map((one) => one[0]));
    add(main, heading("Memory over time", `at most ${bytes(peak)} in tensors; what NumPy owns is not in it`));
    const named = (name) => predicted[name] ? predicted[name].results + predicted[name].scratch : 0;
    const marks = launches.flatMap(([name, at, allocated]) => [[at, allocated, `${name}: ${bytes(allocated)} allocated while it ran`, "measured"], [at, named(name), `${name}: ${bytes(named(name))} predicted for its results and scratch memory`, "predicted"]]);
    add(main, curves("bytes allocated, reserved and predicted over time", [
      { name: "reserved from the system", kind: "reserved", points: samples.map((one) => [one[0], one[2]]) }, { name: "allocated by tensors", kind: "allocated", points: samples.map((one) => [one[0], one[1]]) }], { marks, end }),
    h("p", { class: "legend" }, h("span", { class: "swatch curve-allocated" }), " allocated  ", h("span", { class: "swatch curve-reserved" }), " reserved  ", h("span", { class: "swatch mark-measured" }), " allocated at a launch  ", h("span", { class: "swatch mark-predicted" }), " predicted for a launch: its results and scratch memory"));
    if (samples.some((one) => one[3])) add(main, h("details", {}, h("summary", {}, `The whole process: at most ${bytes(Math.max(...samples.map((one) => one[3])))} resident`), curves("resident memory of the process", [{ name: "resident", kind: "allocated", points: samples.map((one) => [one[0], one[3]]) }], { end })));
    const rows = Object.entries(predicted).map(([name, one]) => ({ name, ...one, measured: Math.max(0, ...launches.filter((launch) => launch[0] === name).map((launch) => launch[2])) }));
    if (!rows.length) { add(main, h("p", {}, "No compiled code ran. ", why())); return; }
    add(main, heading("Clusters"), table([
      ["cluster", (one) => clusterLink(one.name), (one) => one.name], ["parameters", (one) => bytes(one.parameters), (one) => one.parameters, "n"], ["results", (one) => bytes(one.results), (one) => one.results, "n"], ["scratch", (one) => bytes(one.scratch), (one) => one.scratch, "n"],
      ["predicted", (one) => bytes(one.results + one.scratch), (one) => one.results + one.scratch, "n"], ["allocated while it ran", (one) => one.measured ? bytes(one.measured) : "not known", (one) => one.measured, "n"]], rows, { sort: 4 }));
    const map = h("div");
    const draw = async (k) => {
      const data = await part(R.modules[k].part), text = data.texts["buffer-assignment.txt"] || "";
      const lives = [...text.matchAll(/^ {2}\[([\d,]+), ([\d,]+)\): (.*), from step (\d+) to step (\d+)$/gm)].map(([, a, b, shape, first, last]) => [Number(a.replace(/,/g, "")), Number(b.replace(/,/g, "")), shape, Number(first), Number(last)]);
      const steps = (text.split("\nsteps\n")[1] || "").split("\n").filter((line) => /^ {2}\d+:/.test(line)).length;
      map.replaceChildren(lives.length ? memoryMap(lives, steps, R.modules[k].summary.scratch || 1) : h("p", { class: "note" }, "It needs no scratch memory."), text ? h("details", {}, h("summary", {}, "Buffer assignment"), h("pre", {}, text)) : "");
    };
    if (!R.modules.length) return;
    add(main, h("div", { class: "bar-top" }, heading("Scratch memory, step by step"), h("select", { "aria-label": "module", onchange: (event) => draw(Number(event.target.value)) }, R.modules.map((one, k) => h("option", { value: k }, one.name)))), map);
    await draw(0);
  },
};

const Timeline = {
  title: "Timeline",
  open(main, { window: which = "last" } = {}) {
    const { first, last, names, threads } = R.timeline, rows = which === "first" || !last.length ? first : last;
    add(main, h("div", { class: "bar-top" }, heading("Timeline", `${number(rows.length)} of ${count(R.timeline.count, "event")}`),
      last.length ? ["first", "last"].map((one) => h("button", { class: "toggle", "aria-pressed": String(one === which), onclick: () => show("timeline", { window: one }) }, `the ${one}`)) : null,
      h("span", { class: "legend" }, h("span", { class: "swatch compiled" }), " launch ", h("span", { class: "swatch eager" }), " eager op ", h("span", { class: "swatch kernel" }), " kernel ", h("span", { class: "swatch copy" }), " copy")));
    if (!rows.length) { add(main, h("p", {}, "No op ran.")); return; }
    const boxes = [];
    for (const [name, kind, begin, took, thread, file, line, nbytes, kernels] of rows) {
      boxes.push({ name: names[name], begin: begin / 1e6, took: took / 1e6, row: 2 * thread, kind: ["eager", "compiled", "copy"][kind], title: `${names[name]}: ${seconds(took / 1e6)}, ${bytes(nbytes)}`, more: () => place(file, line) });
      for (const [kernel, at, lasted, moved] of kernels || []) boxes.push({ name: names[kernel], begin: at / 1e6, took: lasted / 1e6, row: 2 * thread + 1, kind: "kernel", title: `${names[kernel]}: ${seconds(lasted / 1e6)}, ${bytes(moved)}` });
    }
    const flames = new Flames("timeline", boxes, { rows: 2 * threads });
    add(main, flames.element, h("p", { class: "note" }, "The kernels of a launch are known of the last launch of each cluster in a tenth of a second."));
    const list = new Lines({ label: "events", line: (k) => {
      const [name, kind, begin, took, , file, line] = rows[k];
      return h("div", { class: "line event" }, h("span", { class: "gutter n" }, seconds(begin / 1e6)), h("span", { class: "gutter n" }, seconds(took / 1e6)), h("span", { class: `swatch ${["eager", "compiled", "copy"][kind]}` }), ` ${names[name]}`, file >= 0 ? h("span", { class: "dim" }, `  ${basename(R.files[file])}:${line}`) : null);
    }, onpick: (k) => { flames.start = rows[k][2] / 1e6 - rows[k][3] / 1e6; flames.span = Math.max(1e-7, rows[k][3] * 3 / 1e6); flames.draw(); } });
    add(main, h("div", { class: "events" }, list.element));
    list.fill(rows.length);
  },
};

const Environment = {
  title: "Environment, and how to run it again",
  async open(main) {
    add(main, heading("The program"), h("pre", {}, `cd ${R.folder}\n${R.flags ? `MT_JIT_FLAGS='${R.flags}' ` : ""}${R.command}`), copied(`cd ${R.folder} && MT_JIT_FLAGS='${R.flags}' ${R.command}`));
    add(main, heading("Modules", "each can be compiled and run alone, from this file, on random inputs"));
    const file = decodeURIComponent(basename(location.pathname)) || "report.html";
    add(main, R.modules.length ? table([
      ["module", (one) => clusterLink(one.name), (one) => one.name],
      ["command", (one) => one.whole ? h("code", { class: "command" }, replay(one, file)) : "its constants are too large to be kept here: run the program with --dump_to=DIR"],
      ["", (one) => one.whole ? [copied(replay(one, file)), " ", h("button", { onclick: async (event) => { const data = await part(one.part); event.target.replaceWith(download(`${one.name}.hlo`, data.text)); } }, "HLO")] : ""],
      ["kernels", (one) => number(one.summary.kernels || 0), (one) => one.summary.kernels, "n"],
    ], R.modules, { limit: 60 }) : h("p", {}, "Nothing was compiled."));
    add(main, heading("Environment"), table([["", (row) => row[0]], ["", (row) => h("code", { class: "wrap" }, row[1])]], Object.entries(R.environment)));
  },
};

const replay = (one, file) => `${one.flags ? `MT_JIT_FLAGS='${one.flags}' ` : ""}python -m minitensor_jit.tools.run_hlo_module '${file}#${one.name}'`;
