"""The page `index.html` of a folder of dumps: what was compiled, stage by stage, with links to the files.

It grows by a section for each graph and each module, so that it is there whatever ends the program. HTML needs no
closing tags for that.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence

__all__ = ["HEAD", "graph_section", "instructions", "module_section"]

HEAD = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>minitensor: compilations</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em }
body { color: #222; background: #fff }
h2 { font-size: 1.1em; margin: 2em 0 .3em } p { margin: .3em 0 } code { font-size: .93em }
table { border-collapse: collapse } td, th { padding: .1em 1.2em .1em 0; text-align: left; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } a { color: #8bf } }
</style>
<h1>What was compiled</h1>
<p>Graphs are what clustering saw and made. A module is one cluster: its HLO at each stage, then its code.
<code>python NAME.repro.py</code> runs it alone, on the inputs that it first had.</p>
"""

# What a file is, by the end of its name.
_KINDS = (
    (".ir-no-opt.ll", "LLVM IR"),
    (".ir-with-opt.ll", "LLVM IR as LLVM took it"),
    (".s", "assembly"),
    (".ptx", "PTX"),
    ("-buffer-assignment.txt", "where every array lives"),
    (".before_optimizations.txt", "HLO as lowered"),
    (".after_optimizations.txt", "HLO that code is made of"),
    (".dot", "picture, for Graphviz"),
    (".repro.py", "runs it alone"),
    (".failure.txt", "how it failed"),
)
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = ", re.MULTILINE)


def instructions(text: str) -> int:
    """How many instructions a module's text has, those of its fusions with it."""
    return len(_INSTRUCTION.findall(text))


def _what(file: str) -> str:
    if (found := re.search(r"\.\d+\.after_(.+)\.(txt|dot)$", file)) is not None:
        return f"after {found[1]}" + (", picture" if found[2] == "dot" else "")
    return next((what for end, what in _KINDS if file.endswith(end)), "")


def _link(file: str) -> str:
    return f'<a href="{html.escape(file)}">{html.escape(file)}</a>'


def graph_section(title: str, phases: Mapping[str, str], picture: str | None) -> str:
    """The section of a graph: `phases` are its files after each phase of the clustering."""
    lines = [f'<h2 id="{html.escape(title)}">{html.escape(title)}</h2>', "<table>"]
    lines += [f"<tr><td>{html.escape(phase)}<td>{_link(file)}" for phase, file in phases.items()]
    if picture is not None:
        lines.append(f"<tr><td>picture, for Graphviz<td>{_link(picture)}")
    return "\n".join([*lines, "</table>", ""])


def module_section(
    title: str, files: Sequence[tuple[str, int | None]], inputs: str, summary: str, sources: Sequence[str]
) -> str:
    """The section of a module.

    `files` are its files in the order in which they were written, with the number of instructions where they are HLO;
    `sources` the lines of the program that it comes from. `inputs` may be there later.
    """
    lines = [f'<h2 id="{html.escape(title)}">{html.escape(title)}</h2>', f"<p>{html.escape(summary)}</p>"]
    if sources:
        lines.append("<p>From " + ", ".join(f"<code>{html.escape(one)}</code>" for one in sources) + "</p>")
    lines += ["<table>", '<tr><th>stage<th class="n">instructions<th>file']
    for file, count in files:
        lines.append(f'<tr><td>{_what(file)}<td class="n">{"" if count is None else f"{count:,}"}<td>{_link(file)}')
    lines.append(f'<tr><td>what it first ran on<td class="n"><td>{_link(inputs)}')
    return "\n".join([*lines, "</table>", ""])
