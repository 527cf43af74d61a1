"""Draws a graph that was written for Graphviz: `python -m minitensor_jit.tools.dot FILE -o x.svg`, or `.png`.

Graphviz itself draws, compiled to WebAssembly, where `pip install minitensor[report]` has brought it; else the boxes
are laid out by a simple method of our own, without the frames around groups. PNG needs that extra in any case.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from minitensor_jit.inspect.report_page import graphviz
from minitensor_jit.inspect.report_page.dot_text import DotError, svg_of

__all__ = ["draw", "main"]


def draw(dot: str, form: str = "svg") -> bytes:
    """A graph as SVG or PNG. ValueError for what is no graph, ImportError for PNG without the extra."""
    svg = graphviz.picture(dot, "svg") if graphviz.available() else svg_of(dot).encode()
    if form == "svg":
        return svg
    try:
        import resvg_py
    except ImportError:
        raise ImportError("PNG needs the package resvg_py: pip install minitensor[report]") from None
    fonts = {f"{kind.replace('-', '_')}_family": _font(kind) for kind in ("sans-serif", "serif", "monospace")}
    kind = {True: 'font-family="monospace"', False: 'font-family="sans-serif"'}
    text = re.sub(r'font-family="([^"]*)"', lambda found: kind["mono" in found[1].lower()], svg.decode())
    return bytes(resvg_py.svg_to_bytes(svg_string=text, background="white", dpi=96, **fonts))


def _font(kind: str) -> str:
    """The font that this machine has for a kind: the renderer draws no text in one that isn't there."""
    try:
        found = subprocess.run(["fc-match", "-f", "%{family}", kind], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "DejaVu Sans Mono" if kind == "monospace" else "DejaVu Sans"
    return found.stdout.partition(",")[0] or "DejaVu Sans"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; return its exit status: 2 for what can't be read, drawn or written."""
    parser = argparse.ArgumentParser(prog="python -m minitensor_jit.tools.dot", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a graph in Graphviz's language; - for standard input")
    parser.add_argument("-o", "--output", metavar="PICTURE", help="x.svg or x.png (default: FILE.svg)")
    options = parser.parse_args(argv)
    output = Path(options.output or (f"{options.file}.svg" if options.file != "-" else "graph.svg"))
    form = output.suffix.removeprefix(".").lower()
    if form not in ("svg", "png"):
        print(f"{output}: expected a name that ends in .svg or .png", file=sys.stderr)
        return 2
    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
        output.write_bytes(draw(text, form))
    except (OSError, DotError, ValueError, ImportError) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
