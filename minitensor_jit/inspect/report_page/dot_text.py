"""Graphs in Graphviz's language, as this project writes them, drawn without Graphviz: boxes, edges, nested groups."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from itertools import pairwise

from minitensor_jit.inspect.report_page.layout import Box, lay_out

__all__ = ["DotError", "svg_of"]

_TOKEN = re.compile(r'\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/|("(?:[^"\\]|\\.)*"|->|--|[{}\[\];,=]|-?[\w.]+)', re.DOTALL)
_PUNCTUATION = {"->", "--", *"{}[],;="}
_CHARACTER, _LINE = 7.2, 15.0


class DotError(ValueError):
    """A text is not in the part of the language that is drawn here."""


@dataclass
class _Graph:
    labels: dict[str, str] = field(default_factory=dict)
    fills: dict[str, str] = field(default_factory=dict)
    dashed: list[bool] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    """By node: the group that it is in."""


def svg_of(dot: str) -> str:
    """A directed graph as SVG. DotError where it can't be read."""
    graph = _Parser(dot).parse()
    names = _ordered(graph)
    number = {name: k for k, name in enumerate(names)}
    labels = [graph.labels.get(name, name).replace("\\l", "\\n").split("\\n") for name in names]
    boxes = [
        Box(max(map(len, lines)) * _CHARACTER + 20, len(lines) * _LINE + 10, graph.groups.get(name, ""))
        for name, lines in zip(names, labels, strict=True)
    ]
    edges = [(number[a], number[b]) for a, b in graph.edges]
    layout = lay_out(boxes, [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{layout.width + 20:.0f}" height="{layout.height + 20:.0f}" '
        f'viewBox="-10 -10 {layout.width + 20:.0f} {layout.height + 20:.0f}" font-family="monospace" font-size="12">',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    lines_of_edges = iter(layout.edges)
    for (a, b), dashed in zip(edges, graph.dashed, strict=True):
        if a == b:
            line = _around(boxes[a], layout.nodes[a])
        else:
            points = next(lines_of_edges)[:: 1 if a < b else -1]
            line = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        parts.append(f'<path d="{line}" fill="none" stroke="#888"{dash} marker-end="url(#a)"/>')
    for name, lines, box, (x, y) in zip(names, labels, boxes, layout.nodes, strict=True):
        left, top = x - box.width / 2, y - box.height / 2
        fill = html.escape(graph.fills.get(name, "#ffffff"))
        group = f"<title>{html.escape(box.group)}</title>" if box.group else ""
        parts.append(
            f'<g>{group}<rect x="{left:.0f}" y="{top:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="4" '
            f'fill="{fill}" stroke="#444"/>'
        )
        for at, text in enumerate(lines):
            below = y + (at - (len(lines) - 1) / 2) * _LINE + 4
            parts.append(f'<text x="{x:.0f}" y="{below:.0f}" text-anchor="middle">{html.escape(text)}</text>')
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _around(box: Box, middle: tuple[float, float]) -> str:
    """From a node to itself: around its lower right corner."""
    right, bottom = middle[0] + box.width / 2, middle[1] + box.height / 2
    return f"M{right - 8:.0f} {bottom:.0f}v6h14v-14h-6"


def _ordered(graph: _Graph) -> list[str]:
    """The nodes, what an edge leaves before what it enters; where edges go round, in the order of the text."""
    left = dict.fromkeys(graph.labels, 0)
    below: dict[str, list[str]] = {name: [] for name in graph.labels}
    for a, b in graph.edges:
        left[b] += 1
        below[a].append(b)
    waiting = list(graph.labels)
    order: list[str] = []
    done: set[str] = set()
    ready = [name for name in waiting if not left[name]]
    while len(order) < len(waiting):
        if not ready:
            ready.append(next(name for name in waiting if name not in done))
        name = ready.pop(0)
        if name in done:
            continue
        done.add(name)
        order.append(name)
        for after in below[name]:
            left[after] -= 1
            if left[after] == 0:
                ready.append(after)
    return order


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise DotError(f"line {text.count(chr(10), 0, at) + 1}: can't read {text[at : at + 20]!r}")
            if found[1]:
                self._tokens.append(found[1])
            at = found.end()
        self._at = 0
        self._graph = _Graph()

    def parse(self) -> _Graph:
        if self._peek() == "strict":
            self._next()
        if self._next() != "digraph":
            raise DotError("expected a digraph")
        if self._peek() != "{":
            self._next()
        self._body("")
        return self._graph

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise DotError("it ends in the middle")
        self._at += 1
        return self._tokens[self._at - 1]

    def _body(self, group: str) -> None:
        if self._next() != "{":
            raise DotError("expected {")
        while self._peek() != "}":
            self._statement(group)
        self._next()

    def _statement(self, group: str) -> None:
        word = self._next()
        if word == ";":
            return
        if word == "subgraph":
            name = _plain(self._next()) if self._peek() != "{" else group
            self._body(name)
            return
        if word == "{":
            self._at -= 1
            self._body(group)
            return
        if word in ("node", "edge", "graph") and self._peek() == "[":
            self._attributes()
            return
        if self._peek() == "=":
            self._next()
            self._next()
            return
        name = _name(word)
        self._graph.labels.setdefault(name, name)
        if group:
            self._graph.groups.setdefault(name, group)
        chain = [name]
        while self._peek() == "->":
            self._next()
            other = _name(self._next())
            self._graph.labels.setdefault(other, other)
            chain.append(other)
        attributes = self._attributes() if self._peek() == "[" else {}
        if len(chain) == 1:
            self._graph.labels[name] = attributes.get("label", self._graph.labels[name])
            if "fillcolor" in attributes:
                self._graph.fills[name] = attributes["fillcolor"]
        for a, b in pairwise(chain):
            self._graph.edges.append((a, b))
            self._graph.dashed.append(attributes.get("style") == "dashed")

    def _attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self._next()
        while (word := self._next()) != "]":
            if word in (",", ";"):
                continue
            if self._next() != "=":
                raise DotError(f"expected = after {word}")
            found[_plain(word)] = _plain(self._next())
        return found


def _name(word: str) -> str:
    if word in _PUNCTUATION:
        raise DotError(f"expected a node, not {word}")
    return _plain(word)


def _plain(word: str) -> str:
    return word[1:-1].replace('\\"', '"').replace("\\\\", "\\") if word.startswith('"') else word
