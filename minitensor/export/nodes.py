"""Nodes of graphs as JSON, and back: calls of minitensor's own functions, methods and operators only."""

from __future__ import annotations

import math
import operator
from typing import Any

import minitensor
from minitensor import _C, overrides
from minitensor._C import Tensor, device, dtype
from minitensor._functions.offered import add
from minitensor.autograd import set_grad_enabled
from minitensor.composite.layout import layout, memory_format
from minitensor.export.sizes import guard
from minitensor.fx.graph import Graph
from minitensor.fx.node import Node, qualified_name

__all__ = ["decode", "decode_graph", "encode", "encode_graph"]

_OPS = (_C.Op, type(add))
_OWN = {"guard": guard, "getattr": getattr, "minitensor.set_grad_enabled": set_grad_enabled}
_OPERATORS = frozenset({
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge", "getitem", "setitem",
    "neg",
})  # fmt: skip
_ENUMS = {"memory_format": memory_format, "layout": layout}


def encode(value: Any) -> Any:
    """A value as JSON. RuntimeError for what has no form there."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, tuple):
        return {"tuple": [encode(x) for x in value]}
    if isinstance(value, list):
        return [encode(x) for x in value]
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, slice):
        return {"slice": [encode(x) for x in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, dtype):
        return {"dtype": value.name}
    if isinstance(value, device):
        return {"device": str(value)}
    for name, kind in _ENUMS.items():
        if isinstance(value, kind):
            return {name: str(value).rpartition(".")[2]}
    if value in (bool, int, float):
        return {"type": value.__name__}
    raise RuntimeError(f"save: the program has a {type(value).__name__} among its arguments, which files can't hold")


def decode(given: Any, nodes: dict[str, Node] | None = None) -> Any:
    """The value of some JSON. ValueError for what is none."""
    if isinstance(given, list):
        return [decode(x, nodes) for x in given]
    if not isinstance(given, dict):
        return given
    ((kind, value),) = given.items()
    if kind == "node" and nodes is not None:
        return nodes[value]
    if kind == "float":
        return float(value)
    if kind == "complex":
        return complex(*map(float.fromhex, value))
    if kind == "tuple":
        return tuple(decode(x, nodes) for x in value)
    if kind == "dict":
        return {decode(k, nodes): decode(v, nodes) for k, v in value}
    if kind == "slice":
        return slice(*(decode(x, nodes) for x in value))
    if kind == "ellipsis":
        return Ellipsis
    if kind == "dtype":
        found = getattr(_C, value)
        if isinstance(found, dtype):
            return found
    if kind == "device":
        return device(value)
    if kind in _ENUMS and isinstance(found := getattr(minitensor, value), _ENUMS[kind]):
        return found
    if kind == "type":
        return {"bool": bool, "int": int, "float": float}[value]
    raise ValueError(f"unknown value {given!r}")


def _target(node: Node) -> str:
    if isinstance(node.target, str):
        return node.target
    for name, function in _OWN.items():
        if node.target is function:
            return name
    name = qualified_name(node.target)
    try:
        found = _found(name)
    except ValueError:
        found = None
    if found is not node.target:
        raise RuntimeError(f"save: the program calls {name}, which is no public function of minitensor")
    return name


def _found(name: str) -> Any:
    """A function by its name. ValueError for anything but an op, a composed function or an operator."""
    if name in _OWN:
        return _OWN[name]
    package, _, rest = name.partition(".")
    if package == "operator" and rest in _OPERATORS:
        return getattr(operator, rest)
    found: Any = minitensor if package == "minitensor" else None
    for part in rest.split("."):
        found = None if part.startswith("_") else getattr(found, part, None)
    if isinstance(found, _OPS):
        return found
    raise ValueError(f"{name} is no function that a program may call")


def encode_graph(graph: Graph) -> list[Any]:
    """The nodes in order."""
    return [
        [n.op, n.name, _target(n), [encode(x) for x in n.args], {k: encode(v) for k, v in n.kwargs.items()}, _notes(n)]
        for n in graph.nodes
    ]


def _notes(node: Node) -> Any:
    stack = node.meta.get("nn_module_stack")
    return None if not stack else [[key, path] for key, path, _ in stack]


def decode_graph(given: list[Any]) -> Graph:
    """A graph of such nodes. ValueError for a node that calls what it may not."""
    graph = Graph()
    nodes: dict[str, Node] = {}
    for op, name, target, args, kwargs, stack in given:
        if op not in ("placeholder", "call_function", "call_method", "output"):
            raise ValueError(f"unknown node {op!r}")
        if op == "call_method" and not _is_method(target):
            raise ValueError(f"{target!r} is no method of tensors")
        function = _found(target) if op == "call_function" else target
        arguments = tuple(decode(x, nodes) for x in args)
        if function is getattr and not (len(arguments) == 2 and arguments[1] in _ATTRIBUTES):
            raise ValueError(f"{arguments[1:]} is no attribute of tensors")
        node = graph.create_node(op, function, arguments, {k: decode(v, nodes) for k, v in kwargs.items()}, name)
        if node.name != name:
            raise ValueError(f"two nodes are named {name}")
        if stack is not None:
            node.meta["nn_module_stack"] = [(key, path, None) for key, path in stack]
        nodes[name] = node
    return graph


def _is_method(name: str) -> bool:
    known = overrides._attributes().get(name)
    return isinstance(known, (*_OPS, type(Tensor.dim), type(Tensor.__add__)))


_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad"})
