"""Finding parts of a graph that look like a pattern, and putting others in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minitensor.fx.graph import Graph
from minitensor.fx.graph_module import GraphModule
from minitensor.fx.node import Node, map_aggregate
from minitensor.fx.tracer import Tracer

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """One place where a pattern was found."""

    anchor: Node
    """The node that gives the pattern's result."""
    nodes_map: dict[Node, Any]
    """For each node of the pattern that of the graph, or the value for an input."""


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Put a replacement in the place of each part of a graph that is the pattern's, and return these.

    Pattern and replacement are functions with the same inputs, or modules. Parts don't overlap, and what the pattern
    computes on the way may not be used elsewhere.
    """
    wanted, put = _graph(pattern), _graph(replacement)
    matches: list[Match] = []
    used: set[Node] = set()
    (end,) = wanted.output_node().args
    for node in list(gm.graph.nodes):
        found: dict[Node, Any] = {}
        if not isinstance(end, Node) or not _fits(end, node, found) or not _closed(end, found, used):
            continue
        inner = [n for p, n in found.items() if p.op != "placeholder"]
        used.update(inner)
        matches.append(Match(node, found))
    replaced: dict[Node, Any] = {}
    for match in matches:
        _replace(gm, wanted, put, match, replaced)
    gm.recompile()
    return matches


def _graph(given: Any) -> Graph:
    return given.graph if isinstance(given, GraphModule) else Tracer().trace(given)


def _same(pattern: Any, value: Any, found: dict[Node, Any]) -> bool:
    if isinstance(pattern, Node):
        return _fits(pattern, value, found)
    if isinstance(pattern, (tuple, list)):
        return (
            isinstance(value, (tuple, list))
            and len(pattern) == len(value)
            and all(_same(p, v, found) for p, v in zip(pattern, value, strict=True))
        )
    return type(pattern) is type(value) and bool(pattern == value)


def _fits(pattern: Node, value: Any, found: dict[Node, Any]) -> bool:
    if pattern in found:
        return found[pattern] is value or (not isinstance(value, Node) and found[pattern] == value)
    if pattern.op == "placeholder":
        found[pattern] = value
        return True
    if not isinstance(value, Node) or pattern.op != value.op or pattern.target != value.target:
        return False
    if set(pattern.kwargs) != set(value.kwargs):
        return False
    found[pattern] = value
    return _same(pattern.args, value.args, found) and all(
        _same(p, value.kwargs[key], found) for key, p in pattern.kwargs.items()
    )


def _closed(end: Node, found: dict[Node, Any], used: set[Node]) -> bool:
    inner = {n for p, n in found.items() if p.op != "placeholder"}
    if inner & used:
        return False
    return all(set(n.users) <= inner for p, n in found.items() if p.op != "placeholder" and p is not end)


def _replace(gm: GraphModule, wanted: Graph, put: Graph, match: Match, replaced: dict[Node, Any]) -> None:
    inputs = [n for n in wanted.nodes if n.op == "placeholder"]
    places = [n for n in put.nodes if n.op == "placeholder"]
    if len(inputs) != len(places):
        raise ValueError(f"the pattern has {len(inputs)} inputs, the replacement {len(places)}")
    values: dict[Node, Any] = {}
    for p, place in zip(inputs, places, strict=True):
        value = match.nodes_map.get(p)
        values[place] = replaced.get(value, value) if isinstance(value, Node) else value
    with gm.graph.inserting_before(match.anchor):
        for node in put.nodes:
            if node.op not in ("placeholder", "output"):
                values[node] = gm.graph.node_copy(node, lambda n: values[n])
    result = map_aggregate(put.output_node().args[0], lambda n: values[n] if isinstance(n, Node) else n)
    match.anchor.replace_all_uses_with(result)
    replaced[match.anchor] = result
    for p in reversed(list(wanted.nodes)):
        found: Any = match.nodes_map.get(p)
        if p.op != "placeholder" and isinstance(found, Node) and not found.users and not found._erased:
            gm.graph.erase_node(found)
