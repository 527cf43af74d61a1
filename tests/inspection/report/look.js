// Runs in a report's page, and leaves what it found in an attribute of the document.
"use strict";
const problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
const errors = console.error;
console.error = (...words) => { problems.push(words.join(" ")); errors(...words); };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const press = (key, target) => (target || document.activeElement || document.body).dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
async function until(test) { for (let k = 0; k < 200 && !test(); k++) await sleep(20); return Boolean(test()); }
const found = {};
async function look() {
  await until(() => document.documentElement.dataset.ready);
  found.title = document.title;
  found.sections = {};
  found.cut = {};
  found.raw = [];
  for (const [name] of SECTIONS) {
    await show(name);
    await sleep(50);
    const main = document.getElementById("main");
    found.sections[name] = main.textContent.length + main.querySelectorAll("svg *").length;
    for (const table of main.querySelectorAll(".scroll")) found.cut[name] = Math.max(found.cut[name] || 0, table.scrollWidth - table.clientWidth);
    for (const fix of main.querySelectorAll(".fix")) if (fix.textContent.includes("`")) found.raw.push(fix.textContent);
  }
  press("3", document.body);
  found.key3 = await until(() => document.querySelector(".pane-asm .line"));
  await show("panes", {});
  await until(() => document.querySelector(".pane-fused .line"));
  const click = (name, text) => {
    const list = Panes.lists[name];
    let k = 0;
    while (k < list.count && !list.line(k).textContent.includes(text)) k++;
    list.see(k);
    list.draw(true);
    const line = list.element.querySelector(`[data-k="${k}"]`);
    line.click();
    return line.textContent;
  };
  click("source", "# compiled");
  await sleep(50);
  found.followed = Object.fromEntries(PANES.map((name) => [name, document.querySelectorAll(`.pane-${name} .same`).length]));
  found.kernel = click("fused", " fusion(");
  await sleep(50);
  found.code = document.querySelector(".pane-asm .same, .pane-asm .related")?.textContent || "";
  click("fused", "exponential(");
  await sleep(50);
  found.exact = ["llvm", "asm"].map((name) => document.querySelectorAll(`.pane-${name} .same`).length);
  const ops = document.querySelector(".pane-ops .lines");
  ops.focus();
  press("Home"); press("ArrowDown");
  await sleep(50);
  found.arrow = ops.querySelector(".active")?.dataset.k;
  press("ArrowRight");
  found.right = document.activeElement.getAttribute("aria-label");
  await show("stages");
  await until(() => document.querySelector(".graph .node"));
  const stages = document.querySelector(".stages .lines");
  stages.focus();
  press("Home");
  await sleep(50);
  found.firstStage = document.querySelector(".detail h3").textContent;
  const graph = document.querySelector(".graph");
  graph.focus();
  press("n"); press("n");
  found.node = document.querySelector(".node.chosen title")?.textContent || "";
  press("/", document.body);
  const input = document.getElementById("search");
  found.searching = document.activeElement === input;
  input.value = "softmax";
  input.dispatchEvent(new Event("input"));
  found.results = await until(() => document.querySelector(".results .line"));
  found.hit = document.querySelector(".results .line")?.textContent || "";
  press("Enter", input);
  found.went = await until(() => document.querySelector("main.section-lines .source-line.active"));
  found.wentTo = document.querySelector("main.section-lines .source-line.active")?.textContent || "";
  press("?", document.body);
  found.help = document.querySelector("dialog[open]")?.textContent || "";
  document.querySelector("dialog").close();
  press("Backspace", document.body);
  found.back = await until(() => document.querySelector("main.section-stages"));
  found.unlabelled = [...document.querySelectorAll("button, select, input")].filter(
    (one) => !(one.textContent.trim() || one.getAttribute("aria-label"))).length;
  // The way of browsers without DecompressionStream.
  const packed = Uint8Array.from(atob(document.getElementById("part-0").textContent), (c) => c.charCodeAt(0));
  const data = JSON.parse(new TextDecoder().decode(gunzip(packed)));
  found.inflated = data.title === R.title && JSON.stringify(data.lines) === JSON.stringify(R.lines);
  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  for (const [packed, plain] of TESTS) found.inflated &&= String(gunzip(bytesOf(packed))) === String(bytesOf(plain));
}
look().catch((error) => problems.push(String(error.stack))).then(() => {
  document.documentElement.dataset.found = JSON.stringify({ ...found, problems });
});
