"""Graphs and modules at each stage, as a report has them: rows that are written once, and where each is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor_jit.inspect.graph_record import GraphRecord, NodeRow
from minitensor_jit.inspect.module_record import ComputationRow, InstructionRow, ModuleRecord
from minitensor_jit.inspect.report_page import graphviz
from minitensor_jit.inspect.report_page.layout import Box, Layout, lay_out
from minitensor_jit.inspect.report_page.table import Table

__all__ = ["Drawings"]

_MOST_NODES = 60_000
"""Nodes that are laid out for one report; what there is beyond that is listed, but not drawn."""
_LONGEST_TEXT = 3_000_000
"""Characters of LLVM IR or assembly of one module that are kept."""
_CHARACTER, _LINE = 6.7, 14.0
_LONGEST_LABEL = 34


class Drawings:
    """Makes what the page needs to list and draw graphs. `files` numbers the files of the program."""

    def __init__(self, files: Table[str], *, with_graphviz: bool | None = None) -> None:
        self.files = files
        self.with_graphviz = graphviz.available() if with_graphviz is None else with_graphviz
        self._left = _MOST_NODES
        self._known: dict[tuple[tuple[Box, ...], tuple[tuple[int, int], ...]], Layout] = {}

    # ---- recorded graphs

    def graph(self, record: GraphRecord) -> dict[str, Any]:
        """A recorded graph after each phase of the clustering."""
        rows: Table[NodeRow] = Table()
        phases = []
        for name, nodes, seconds in record.phases:
            numbers = [rows(node) for node in nodes]
            phases.append({"name": name, "seconds": seconds, "rows": numbers, "layout": self._nodes(nodes)})
        verdicts = {
            id: [verdict.text, verdict.fix] for id, verdict in record.verdicts.items() if verdict.cluster is None
        }
        return {
            "kind": "graph",
            "name": record.name,
            "phases": phases,
            "rows": [self._node(row) for row in rows.values],
            "verdicts": verdicts,
            "clusters": record.clusters,
        }

    def _node(self, row: NodeRow) -> list[Any]:
        id, op, params, operands, results, cluster, source, waits = row
        file, line = (self.files(source.file), source.line) if source is not None else (-1, 0)
        return [id, op, params, operands, results, cluster, file, line, list(waits)]

    def _nodes(self, nodes: Sequence[NodeRow]) -> dict[str, Any] | None:
        shown = [k for k, node in enumerate(nodes) if node[1] != "_Const"]
        number = {nodes[k][0]: n for n, k in enumerate(shown)}
        boxes = [_box(nodes[k][1], nodes[k][4], group=nodes[k][5]) for k in shown]
        edges = [(number[a], n) for n, k in enumerate(shown) for a in nodes[k][7] if a in number]
        return self._layout(shown, boxes, edges)

    # ---- modules

    def module(self, record: ModuleRecord) -> dict[str, Any]:
        """A module at each stage, and the code that came of it."""
        rows: Table[InstructionRow] = Table()
        places: Table[tuple[str, int, int]] = Table()
        layouts: list[dict[str, Any] | None] = []
        known: dict[tuple[int, ...], int] = {}
        # The first and the last stage are drawn before there is no room any more.
        order = [0, len(record.stages) - 1, *range(1, len(record.stages) - 1)] if record.stages else []
        drawn: dict[int, list[Any]] = {}
        for number in dict.fromkeys(order):
            computations = []
            for name, entry, root, instructions in record.stages[number].computations:
                numbers = tuple(rows(row) for row in instructions)
                if numbers not in known:
                    known[numbers] = len(layouts)
                    layouts.append(self._computation(instructions, entry))
                computations.append([name, entry, root, numbers, known[numbers]])
            drawn[number] = computations
        stages = [
            {"name": stage.name, "seconds": stage.seconds, "rules": dict(stage.rules), "computations": drawn[number]}
            for number, stage in enumerate(record.stages)
        ]
        return {
            "kind": "module",
            "name": record.name,
            "stages": stages,
            "rows": [self._instruction(row, places) for row in rows.values],
            "places": places.values,
            "layouts": layouts,
            "passes": [[name, changed, seconds] for name, changed, _, seconds in record.passes],
            "texts": {kind: _cut(text) for kind, text in record.texts.items() if kind != "ir-with-opt.ll"},
            "text": record.text() or None,
        }

    def _instruction(self, row: InstructionRow, places: Table[tuple[str, int, int]]) -> list[Any]:
        name, opcode, shape, operands, calls, text, op, file, line = row
        return [name, opcode, shape, operands, calls, text, places((op, self.files(file) if file else -1, line))]

    def _computation(self, instructions: Sequence[InstructionRow], entry: bool) -> dict[str, Any] | None:
        if not entry and len(instructions) < 4:
            return None  # how two numbers are added
        shown = [k for k, row in enumerate(instructions) if row[1] != "constant" or row[2][-2:] != "[]"]
        number = {instructions[k][0]: n for n, k in enumerate(shown)}
        boxes = [_box(instructions[k][0], instructions[k][2]) for k in shown]
        edges = [
            (number[a], n)
            for n, k in enumerate(shown)
            for a in dict.fromkeys(instructions[k][3].split())
            if a in number
        ]
        return self._layout(shown, boxes, edges)

    # ----

    def _layout(
        self, shown: Sequence[int], boxes: Sequence[Box], edges: Sequence[tuple[int, int]]
    ) -> dict[str, Any] | None:
        key = (tuple(boxes), tuple(edges))
        drawn = self._known.get(key)
        if drawn is None:
            if not boxes or len(boxes) > self._left:
                return None
            self._left -= len(boxes)
            drawn = self._known[key] = _drawn(boxes, edges, self.with_graphviz)
        return {
            "size": [round(drawn.width), round(drawn.height)],
            "nodes": [
                [k, round(x), round(y), round(box.width), round(box.height)]
                for k, (x, y), box in zip(shown, drawn.nodes, boxes, strict=True)
            ],
            "edges": [
                [a, b, *(round(value) for point in points for value in point)]
                for (a, b), points in zip(edges, drawn.edges, strict=True)
            ],
            "groups": [[name, *map(round, place)] for name, *place in drawn.groups],
            "curved": drawn.curved,
        }


def _drawn(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], with_graphviz: bool) -> Layout:
    if with_graphviz and len(boxes) <= graphviz.MOST_NODES:
        return graphviz.lay_out(boxes, edges)
    return lay_out(boxes, edges)


def _box(*lines: str, group: str = "") -> Box:
    longest = max(min(len(line), _LONGEST_LABEL) for line in lines)
    return Box(round(longest * _CHARACTER + 18), len(lines) * _LINE + 10, group)


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    end = text.rfind("\n", 0, _LONGEST_TEXT) + 1
    return f"{text[:end]}... {len(text) - end:,} characters more\n"


def rows_of(computations: Sequence[ComputationRow]) -> int:
    """How many instructions a stage has."""
    return sum(len(rows) for _, _, _, rows in computations)
