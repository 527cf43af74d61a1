"""Where the nodes of a graph go when it is drawn, by layers: after K. Sugiyama, S. Tagawa and M. Toda (1981).

Every node stands in a layer below all that it reads; in a layer, nodes are ordered by the middle of their neighbours,
so that few edges cross; then each is moved towards them. Long edges bend around what stands between. `graphviz.py` has
the same interface, and draws better where its package is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Box", "Layout", "lay_out"]

_GAP_X, _GAP_Y = 14.0, 34.0
_SWEEPS = 6
_MOST_BENDS = 6
"""Bends for each node of a graph, at most: beyond that long edges go straight."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node to be placed: its size, and the name of the group that it is drawn in, if any."""

    width: float
    height: float
    group: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawing: the middles of nodes, edges as lines of points, groups as rectangles; y grows downwards."""

    width: float
    height: float
    nodes: list[tuple[float, float]]
    edges: list[list[tuple[float, float]]]
    """For each edge its points; curved means that they are those of cubic Bezier curves."""
    groups: list[tuple[str, float, float, float, float]]
    """Name, left, top, width, height."""
    curved: bool = False


def lay_out(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> Layout:
    """Places nodes, of which every edge's first stands before its second."""
    if not boxes:
        return Layout(0, 0, [], [], [])
    layer = _layers(len(boxes), edges)
    chains = _chains(boxes, edges, layer)
    widths = [box.width for box in boxes] + [2.0] * (len(layer) - len(boxes))
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for node, at in enumerate(layer):
        rows[at].append(node)
    above: list[list[int]] = [[] for _ in layer]
    below: list[list[int]] = [[] for _ in layer]
    for chain in chains:
        for a, b in pairwise(chain):
            below[a].append(b)
            above[b].append(a)
    _order(rows, above, below)
    x = _places(rows, widths, above, below)
    y, top = [0.0] * len(layer), 0.0
    for row in rows:
        tallest = max((boxes[node].height for node in row if node < len(boxes)), default=0.0)
        for node in row:
            y[node] = top + tallest / 2
        top += tallest + _GAP_Y
    lines = [
        [(x[c], y[c] + (boxes[c].height / 2 if c < len(boxes) and k == 0 else 0.0)) for k, c in enumerate(chain[:-1])]
        + [(x[chain[-1]], y[chain[-1]] - boxes[chain[-1]].height / 2)]
        for chain in chains
    ]
    right = max(x[node] + widths[node] / 2 for node in range(len(layer)))
    places = [(x[n], y[n]) for n in range(len(boxes))]
    return Layout(right, max(top - _GAP_Y, 0.0), places, lines, [])


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Each node one below the lowest that it reads; what reads nothing just above its first reader."""
    layer = [0] * count
    reads: list[list[int]] = [[] for _ in range(count)]
    readers: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        reads[b].append(a)
        readers[a].append(b)
    for node in range(count):
        layer[node] = max((layer[a] + 1 for a in reads[node]), default=0)
    for node in range(count):
        if not reads[node] and readers[node]:
            layer[node] = min(layer[b] for b in readers[node]) - 1
    return layer


def _chains(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], layer: list[int]) -> list[list[int]]:
    """The nodes that each edge goes through: bends are added to `layer` where it passes others."""
    spans = sum(layer[b] - layer[a] - 1 for a, b in edges)
    if spans > _MOST_BENDS * len(boxes) + 50:
        return [[a, b] for a, b in edges]
    chains = []
    for a, b in edges:
        chain = [a]
        for at in range(layer[a] + 1, layer[b]):
            chain.append(len(layer))
            layer.append(at)
        chains.append([*chain, b])
    return chains


def _order(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    place: dict[int, float] = {node: float(k) for row in rows for k, node in enumerate(row)}
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for row in rows if down else reversed(rows):
            wanted = {n: sum(place[m] for m in near[n]) / len(near[n]) if near[n] else place[n] for n in row}
            row.sort(key=wanted.__getitem__)
            place.update((node, float(k)) for k, node in enumerate(row))


def _places(
    rows: list[list[int]], widths: Sequence[float], above: list[list[int]], below: list[list[int]]
) -> list[float]:
    x = [0.0] * len(widths)
    for row in rows:
        at = 0.0
        for node in row:
            x[node] = at + widths[node] / 2
            at += widths[node] + _GAP_X
    widest = max(x[row[-1]] + widths[row[-1]] / 2 for row in rows if row)
    for row in rows:
        shift = (widest - (x[row[-1]] + widths[row[-1]] / 2)) / 2 if row else 0.0
        for node in row:
            x[node] += shift
    for sweep in range(_SWEEPS):
        near = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [sum(x[m] for m in near[n]) / len(near[n]) if near[n] else x[n] for n in row]
            _spread(row, wanted, widths, x)
    left = min(x[n] - widths[n] / 2 for row in rows for n in row)
    return [value - left for value in x]


def _spread(row: list[int], wanted: list[float], widths: Sequence[float], x: list[float]) -> None:
    """The nearest places to those wanted that keep the order and the gaps: blocks that touch are moved together."""
    blocks: list[list[float]] = []  # sum of the wanted places of its first node, count, width so far
    starts: list[list[int]] = []
    offset = 0.0
    for node, want in zip(row, wanted, strict=True):
        offset = widths[node] / 2
        blocks.append([want - offset, 1.0, widths[node] + _GAP_X])
        starts.append([node])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] + blocks[-2][2] > blocks[-1][0] / blocks[-1][1]:
            total, count, width = blocks.pop()
            members = starts.pop()
            before = blocks[-1]
            before[0] += total - count * before[2]
            before[1] += count
            before[2] += width
            starts[-1] += members
    for (total, count, _), members in zip(blocks, starts, strict=True):
        at = total / count
        for node in members:
            x[node] = at + widths[node] / 2
            at += widths[node] + _GAP_X
