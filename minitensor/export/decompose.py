"""Graphs with other calls in the place of some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import nn
from minitensor._C import Tensor
from minitensor.fx.graph import Graph
from minitensor.fx.node import Node, map_arg
from minitensor.fx.proxy import Proxy
from minitensor.fx.tracer import Tracer

__all__ = ["decomposed"]


def decomposed(program: Any, table: dict[Any, Callable[..., Any]]) -> Graph:
    """The program's graph, where calls of the table's functions are those that their replacements make on proxies."""
    tracer = Tracer()
    graph = tracer.graph = Graph()
    tracer.root = nn.Module()
    tracer._constants, tracer._paths = {}, {}
    values: dict[Node, Any] = {}
    for node in program.graph.nodes:
        function = node.target if node.op == "call_function" else None
        if node.op == "call_method":
            function = getattr(Tensor, node.target, None)
        replacement = table.get(function) if function is not None else None
        if replacement is None:
            values[node] = graph.node_copy(node, lambda n: values[n])
            continue
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: Proxy(values[n], tracer))
        result = replacement(*args, **kwargs)
        made = tracer.create_arg(result)
        if not isinstance(made, Node):
            raise RuntimeError(f"run_decompositions: the replacement of {node.target} gives no single tensor")
        made.meta.update({key: value for key, value in node.meta.items() if key not in made.meta})
        values[node] = made
    graph.lint()
    return graph
