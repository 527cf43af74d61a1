// What became of the program at a glance, and its lines.

function why() {
  if (R.account.ops.total === 0)
    return "No ops were recorded: nothing asked for compiling. Set MT_JIT_FLAGS=\"--auto_jit=2 --cpu_global_jit\", or use function(jit_compile=True).";
  return "The section Left out says why.";
}

// How it ended, in a sentence, and whether that is good.
function ending() {
  const end = R.end, status = "status" in end ? end.status : null;
  if (end.kind === "exception") return [`It ended with ${end.type}: ${end.message}`, "bad"];
  if (end.signal) return [`It was ended by ${end.signal}`, "bad"];
  if (status) return [`It exited with status ${status}`, "bad"];
  return [status === 0 ? "It exited with status 0" : "It ran to its end", "good"];
}

// What costs most and can be changed, the most costly first.
function advice() {
  const found = [];
  for (const group of R.account.eager) {
    const ops = group.ops.reduce((sum, row) => sum + row.count, 0);
    if (group.fix && ops) found.push({ weight: ops / Math.max(1, R.account.ops.total), what: `${count(ops, "op")} ran eagerly: ${group.reason}`, fix: group.fix, at: group.ops[0], section: "left" });
  }
  const moved = R.profile.clusters.reduce((sum, cluster) => sum + cluster.kernels.reduce((n, one) => n + one.bytes_per_run * one.runs, 0), 0);
  const apart = new Map();
  for (const cluster of R.account.clusters) {
    for (const row of cluster.refusals) {
      if (!row.bytes || row.fix.startsWith("nothing")) continue;
      const key = [row.code, row.op, row.line, row.into?.op, row.into?.line].join();
      const one = apart.get(key) || { row, traffic: 0, clusters: [] };
      one.traffic += row.bytes * cluster.runs;
      one.clusters.push(cluster.names[0]);
      apart.set(key, one);
    }
  }
  for (const { row, traffic, clusters } of apart.values())
    found.push({ weight: traffic / Math.max(1, moved, traffic), what: `${bytes(traffic)} passed through memory in ${clusters.length > 1 ? count(clusters.length, "cluster") : clusters[0]}, ${percent(traffic, Math.max(moved, traffic))} of all that kernels moved: ${row.op}${row.into ? ` and ${row.into.op}` : ""} ${row.into ? "are" : "is"} not fused, since ${row.reason}`, fix: row.fix, at: row, section: "left" });
  const again = R.compiles.filter((one) => one.why !== "first use" && !one.why.startsWith("first use,"));
  if (again.length) found.push({ weight: again.length / Math.max(1, R.compiles.length), what: `${count(again.length, "compilation")} more of the same ops: ${again[0].why}`, fix: "keep shapes and numbers that are part of the code the same", at: null, section: "compiles" });
  for (const copy of R.account.copies) found.push({ weight: copy.bytes / Math.max(1, moved + copy.bytes), what: `${bytes(copy.bytes)} of memory that is shared were copied in ${count(copy.count, "copy")}: ${copy.reason}`, fix: copy.fix, at: copy, section: "left" });
  return found.sort((a, b) => b.weight - a.weight).slice(0, 6);
}

const Overview = {
  title: "Overview",
  open(main) {
    const { total, compiled } = R.account.ops, [text, mood] = ending();
    const kernels = R.profile.seconds, compiling = R.compiles.reduce((sum, one) => sum + one.milliseconds, 0) / 1e3;
    const eager = R.lines.reduce((sum, line) => sum + line.eager_seconds, 0);
    const tile = (value, label, section, note) => h("button", { class: "tile", onclick: () => show(section) },
      h("span", { class: "value" }, value), h("span", { class: "label" }, label), note ? h("span", { class: "note" }, note) : null);
    add(main, 
      h("p", { class: `end ${mood}` }, text, h("span", { class: "note" }, ` after ${seconds(R.seconds)}, ${R.date}`)),
      R.end.traceback ? h("details", { open: true }, h("summary", {}, "Traceback"), h("pre", {}, R.end.traceback)) : null,
      Object.keys(R.left_out).length ? h("p", { class: "bad" }, "Not all is in this report, for want of room: ",
        Object.entries(R.left_out).map(([kind, n]) => `${number(n)} ${kind}`).join(", "), " were left out.") : "",
      h("div", { class: "tiles" },
        tile(total ? percent(compiled, total) : "none", "of the recorded ops compiled", "left", `${number(compiled)} of ${number(total)}`),
        tile(seconds(kernels), "in compiled code", "kernels", `${count(R.account.clusters.reduce((sum, one) => sum + one.runs, 0), "run")} of ${count(R.account.clusters.length, "cluster")}`),
        tile(seconds(eager), "in eager ops", "lines", count(R.lines.filter((line) => line.eager_seconds > 0).length, "line")),
        tile(seconds(compiling), "to compile", "compiles", count(R.compiles.length, "compilation")),
        tile(bytes(R.memory.peak), "at most in tensors", "memory", count(R.memory.samples.length, "sample"))),
      heading("What to do first"),
      advice().length ? h("ol", { class: "advice" }, advice().map((one) => h("li", {},
        one.what, " ", one.at ? [place(one.at.file, one.at.line), " "] : null, h("button", { class: "link", onclick: () => show(one.section) }, "more"),
        h("div", { class: "fix" }, prose(one.fix))))) : h("p", {}, total ? "Nothing stands out: all that was recorded was compiled, and little was left apart." : why()),
      heading("Where the time went", "lines of the program, by the time of their ops"),
      linesTable(R.lines.slice(0, 8)),
      heading("Clusters"),
      clusterTable());
  },
};

function clusterTable() {
  if (!R.account.clusters.length) return h("p", {}, "Nothing was compiled. ", why());
  const time = new Map(R.profile.clusters.map((one) => [one.name, one]));
  return table([
    ["cluster", (one) => [clusterLink(one.names[0]), one.names.length > 1 ? h("span", { class: "note" }, ` and ${one.names.length - 1} more`) : null], (one) => one.names[0]],
    ["ops", (one) => number(one.ops.reduce((n, row) => n + row.count, 0)), (one) => one.ops.length, "n"],
    ["runs", (one) => number(one.runs), (one) => one.runs, "n"],
    ["time", (one) => seconds(sumOf(one, time)), (one) => sumOf(one, time), "n"],
    ["compiles", (one) => number(one.compiles), (one) => one.compiles, "n"],
    ["compile time", (one) => seconds(one.compile_milliseconds / 1e3), (one) => one.compile_milliseconds, "n"],
    ["refusals", (one) => number(one.refusals.reduce((n, row) => n + row.count, 0)), (one) => one.refusals.length, "n"],
    ["lines", (one) => [...new Map(one.ops.map((row) => [`${row.file}:${row.line}`, row])).values()].slice(0, 4).map((row) => [place(row.file, row.line), " "])],
  ], R.account.clusters, { sort: 3 });
}

const sumOf = (cluster, time) => cluster.names.reduce((sum, name) => sum + (time.get(name)?.seconds || 0), 0);

function linesTable(lines) {
  const most = Math.max(1e-12, ...lines.map((line) => line.compiled_seconds + line.eager_seconds));
  return table([
    ["line", (line) => [place(line.file, line.line), " ", h("code", { class: "dim cut" }, (R.sources[line.file]?.[line.line - 1] || "").trim().slice(0, 60))]],
    ["time", (line) => seconds(line.compiled_seconds + line.eager_seconds), (line) => line.compiled_seconds + line.eager_seconds, "n"],
    ["", (line) => h("span", { class: "bars" }, bar(line.compiled_seconds / most, "compiled", `compiled: ${seconds(line.compiled_seconds)}`), bar(line.eager_seconds / most, "eager", `eager: ${seconds(line.eager_seconds)}`))],
    ["compiled", (line) => percent(line.compiled, line.compiled + line.eager), (line) => line.compiled / Math.max(1, line.compiled + line.eager), "n"],
    ["ops", (line) => Object.keys(line.ops).join(", "), null],
  ], lines);
}

const SourceLines = {
  title: "Lines of the program",
  open(main, { file = null, line = null } = {}) {
    const files = Object.keys(R.sources).map(Number);
    add(main, heading("Lines", "the time of a kernel is divided among the ops that are fused in it, in equal parts"));
    if (!files.length) { add(main, linesTable(R.lines)); return; }
    const weight = (one) => R.lines.filter((row) => row.file === one).reduce((sum, row) => sum + row.compiled + row.eager, 0);
    files.sort((a, b) => weight(b) - weight(a));
    file = file ?? files[0];
    const about = new Map(R.lines.filter((row) => row.file === file).map((row) => [row.line, row]));
    const most = Math.max(1e-12, ...[...about.values()].map((row) => row.compiled_seconds + row.eager_seconds));
    const detail = h("div", { class: "detail", "aria-live": "polite" });
    const list = new Lines({
      label: `lines of ${R.files[file]}`,
      line: (k) => {
        const row = about.get(k + 1), text = R.sources[file][k];
        return h("div", { class: `line source-line${row ? "" : " dim"}` },
          h("span", { class: "gutter n" }, row ? seconds(row.compiled_seconds + row.eager_seconds) : ""),
          h("span", { class: "gutter bars" }, row ? [bar(row.compiled_seconds / most, "compiled"), bar(row.eager_seconds / most, "eager")] : null),
          h("span", { class: `gutter n ${!row ? "" : row.eager === 0 ? "good" : row.compiled === 0 ? "bad" : "mixed"}` }, row ? percent(row.compiled, row.compiled + row.eager) : ""),
          h("span", { class: "gutter n dim" }, k + 1), colored(text, "source"));
      },
      onpick: (k) => lineDetail(detail, about.get(k + 1), file, k + 1),
    });
    add(main, 
      h("div", { class: "bar-top" }, h("select", { "aria-label": "file", onchange: (event) => show("lines", { file: Number(event.target.value) }) },
        files.map((one) => h("option", { value: one, selected: one === file }, R.files[one]))),
      h("span", { class: "legend" }, h("span", { class: "swatch compiled" }), " compiled ", h("span", { class: "swatch eager" }), " eager")),
      h("div", { class: "split" }, h("div", { class: "listing" },
        h("div", { class: "line source-line head" }, h("span", { class: "gutter n" }, "time"), h("span", { class: "gutter" }), h("span", { class: "gutter n" }, "compiled"), h("span", { class: "gutter n" }, "line")), list.element), detail));
    list.fill(R.sources[file].length);
    const first = line ?? [...about.keys()].reduce((a, b) => {
      const time = (row) => row.compiled_seconds + row.eager_seconds;
      return a && time(about.get(a)) >= time(about.get(b)) ? a : b;
    }, 0);
    if (first) list.pick(first - 1);
    list.element.focus({ preventScroll: true });
  },
};

function lineDetail(box, row, file, line) {
  if (!row) { box.replaceChildren(h("h3", {}, `Line ${line}`), h("p", { class: "note" }, "No ops were called here.")); return; }
  box.replaceChildren(...[
    h("h3", {}, `Line ${line}`, h("span", { class: "note" }, ` ${seconds(row.compiled_seconds)} compiled, ${seconds(row.eager_seconds)} eager`)),
    row.clusters.length ? h("p", {}, "In ", row.clusters.map((name, k) => [k ? ", " : "", name in R.module_of ? h("button", { class: "link mono", onclick: () => show("panes", { module: R.module_of[name], source: { file, line } }) }, name) : name])) : null,
    table([["op", (one) => h("code", {}, one[0])], ["compiled", (one) => number(one[1][0]), (one) => one[1][0], "n"], ["eager", (one) => number(one[1][1]), (one) => one[1][1], "n"]], Object.entries(row.ops)),
    row.reasons.map((k) => h("div", { class: "reason" }, h("p", {}, R.account.eager[k].reason), h("p", { class: "fix" }, prose(R.account.eager[k].fix)))),
    !row.reasons.length && row.eager && !row.clusters.length ? h("p", { class: "reason" }, "These ops were never recorded. ", why()) : null,
  ].flat().filter(Boolean));
}
