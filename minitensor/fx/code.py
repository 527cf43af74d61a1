"""A graph as a function of Python."""

from __future__ import annotations

import keyword
import math
import operator
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import minitensor
from minitensor.fx.node import Node, map_arg, package, qualified_name, shown_name

if TYPE_CHECKING:
    from minitensor.fx.graph import Graph

__all__ = ["INPLACE", "MAGIC", "REFLECTED", "PythonCode", "generate"]

REFLECTED = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}",
    "or_": "{} | {}", "xor": "{} ^ {}", "matmul": "{} @ {}",
}  # fmt: skip
MAGIC = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}", **REFLECTED,
}  # fmt: skip
INPLACE = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}",
}  # fmt: skip


@dataclass
class PythonCode:
    """The text, and the names that it reads beside its own."""

    src: str
    globals: dict[str, Any] = field(default_factory=dict)


class _Globals(dict[str, Any]):
    def of_function(self, function: Any) -> str:
        name = qualified_name(function)
        if name.startswith("builtins."):
            return name.removeprefix("builtins.")
        if name.startswith("minitensor.") and _found(name) is function:
            return shown_name(function)
        short = "".join(c if c.isalnum() else "_" for c in name)
        base, n = short, 0
        while short in self and self[short] is not function:
            n += 1
            short = f"{base}_{n}"
        self[short] = function
        return short


def _found(name: str) -> Any:
    value: Any = minitensor
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def _argument(value: Any, names: _Globals) -> str:
    if isinstance(value, Node):
        return repr(value)
    if type(value) is tuple:
        inner = ", ".join(_argument(v, names) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) is list:
        return "[" + ", ".join(_argument(v, names) for v in value) + "]"
    if type(value) is dict:
        return "{" + ", ".join(f"{k!r}: {_argument(v, names)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({', '.join(_argument(v, names) for v in (value.start, value.stop, value.step))})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if value is None or value is Ellipsis or type(value) in (bool, int, float, complex, str, bytes, range):
        return repr(value)
    if isinstance(value, minitensor.dtype):
        return repr(value)
    if callable(value) and hasattr(value, "__name__"):
        return names.of_function(value)
    base = f"_{type(value).__name__}"
    name, n = base, 0
    while name in names and names[name] is not value:
        n += 1
        name = f"{base}_{n}"
    names[name] = value
    return name


def _annotation(kind: Any, names: _Globals) -> str:
    """A parameter's class; other annotations are left out, since they would have to be read from the text again."""
    plain = isinstance(kind, type) and not isinstance(kind, types.GenericAlias)
    return f" : {names.of_function(kind)}" if plain else ""


def _call(args: Any, kwargs: Any, names: _Globals) -> str:
    given = [_argument(a, names) for a in args]
    return ", ".join(given + [f"{key} = {_argument(a, names)}" for key, a in kwargs.items()])


def _attribute(base: str, path: str) -> str:
    for part in path.split("."):
        plain = part.isidentifier() and not keyword.iskeyword(part)
        base = f"{base}.{part}" if plain else f'getattr({base}, "{part}")'
    return base


def _expression(node: Node, root: str, names: _Globals) -> str:
    if node.op == "get_attr":
        return _attribute(root, node.target)
    if node.op == "call_module":
        return f"{_attribute(root, node.target)}({_call(node.args, node.kwargs, names)})"
    if node.op == "call_method":
        return f"{_argument(node.args[0], names)}.{node.target}({_call(node.args[1:], node.kwargs, names)})"
    target = node.target
    name = getattr(target, "__name__", "")
    if getattr(operator, name, None) is target and not node.kwargs:
        given = [_argument(a, names) for a in node.args]
        if name in MAGIC:
            return MAGIC[name].format(*given)
        if name == "getitem":
            return f"{given[0]}[{given[1]}]"
    if target is getattr and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
        return f"{_argument(node.args[0], names)}.{node.args[1]}"
    return f"{names.of_function(target)}({_call(node.args, node.kwargs, names)})"


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """For each node those that nothing reads after it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}

    def note(n: Node, user: Node) -> None:
        if n not in seen:
            seen.add(n)
            found.setdefault(user, []).append(n)

    for node in reversed(list(graph.nodes)):
        map_arg((node.args, node.kwargs), lambda n, user=node: note(n, user))  # type: ignore[misc]
    return found


def generate(graph: Graph, root: str = "self") -> PythonCode:
    """The text of `forward(root, *placeholders)`."""
    names = _Globals({package(): minitensor})
    last = _last_uses(graph)
    parameters, body = [root], []
    result, returned = "None", ""
    for node in graph.nodes:
        if node.op == "placeholder":
            default = f" = {_argument(node.args[0], names)}" if node.args else ""
            parameter = node.target if node.target.startswith("*") else node.name
            parameters.append(f"{parameter}{_annotation(node.type, names)}{default}")
            if node.target.startswith("*") and node.name != node.target.strip("*"):
                body.append(f"{node.name} = {node.target.strip('*')}")
            continue
        if node.op == "output":
            result = _argument(node.args[0], names)
            returned = _annotation(node.type, names).replace(" : ", " -> ", 1)
            continue
        name = getattr(node.target, "__name__", "")
        if node.op == "call_function" and name in INPLACE and getattr(operator, name) is node.target:
            given = [_argument(a, names) for a in node.args]
            line = f"{INPLACE[name].format(*given)};  {node.name} = {given[0]}"
        else:
            line = f"{node.name} = {_expression(node, root, names)}"
        dead = [n.name for n in last.get(node, [])] + ([] if node.users else [node.name])
        body.append(line + (f";  {' = '.join(dead)} = None" if dead else ""))
    lines = "\n".join(f"    {line}" for line in [*body, f"return {result}"])
    return PythonCode(f"\n\n\ndef forward({', '.join(parameters)}){returned}:\n{lines}\n    ", dict(names))
