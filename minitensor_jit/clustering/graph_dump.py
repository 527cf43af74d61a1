"""Writes the graph before and after each phase of the clustering to the folder that `MT_DUMP_GRAPH_PREFIX` names.

For `--clustering_debug`: `PHASE.txt` for people and `PHASE.dot` for Graphviz; of the graphs that come later,
`PHASE_1.txt`, and so on, with one number for all phases of a graph. Without the variable the texts go to stderr.
"""

from __future__ import annotations

import itertools
import os

from minitensor_jit.clustering.graph import Graph
from minitensor_jit.clustering.unclustered_reason import Verdict
from minitensor_jit.inspect.dump import Dumper

ENVIRONMENT_VARIABLE = "MT_DUMP_GRAPH_PREFIX"

_folders: dict[str, tuple[Dumper, itertools.count[int]]] = {}


class GraphDump:
    """Writes the phases of one graph."""

    def __init__(self, folder: str) -> None:
        path = os.path.abspath(folder)
        if path not in _folders:
            _folders[path] = Dumper(path, flag=ENVIRONMENT_VARIABLE), itertools.count()
        self._dumper, numbers = _folders[path]
        number = next(numbers)
        self._suffix = f"_{number}" if number else ""

    def write(self, phase: str, text: str, dot: str) -> None:
        """Write one phase; a disk that is full is a warning, once."""
        self._dumper.write(f"{phase}{self._suffix}.txt", text)
        self._dumper.write(f"{phase}{self._suffix}.dot", dot)


def graph_dump() -> GraphDump | None:
    """Where the next graph is to be written, if the environment names a folder; DumpError if it can't be used."""
    folder = os.environ.get(ENVIRONMENT_VARIABLE, "")
    return GraphDump(folder) if folder else None


def annotated(graph: Graph, verdicts: dict[int, Verdict]) -> str:
    """The marked graph with the verdict on each op under it, and what would change it."""
    lines = [f"graph {graph.name} {{"]
    for node in graph:
        lines.append(f"  {node.text()}")
        verdict = verdicts.get(node.id)
        if node.is_op and verdict is not None:
            lines.append(f"    -> {verdict.text}{f'; {verdict.fix}' if verdict.fix else ''}")
    return "\n".join([*lines, "}"]) + "\n"
