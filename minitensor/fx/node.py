"""Nodes of a graph: one call, input or result each."""

from __future__ import annotations

import builtins
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minitensor import float32

if TYPE_CHECKING:
    from minitensor.fx.graph import Graph

__all__ = [
    "Node",
    "has_side_effect",
    "map_aggregate",
    "map_arg",
    "package",
    "qualified_name",
    "shown_name",
    "type_text",
]

_IMPURE: set[Any] = set()


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Say that calls of a function do something even if nobody uses the result; a decorator."""
    _IMPURE.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """The same tuples, lists, dicts and slices with `fn(x)` in the place of what is in them."""
    if isinstance(a, tuple):
        items = [map_aggregate(x, fn) for x in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return [map_aggregate(x, fn) for x in a]
    if isinstance(a, dict):
        return {key: map_aggregate(x, fn) for key, x in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`map_aggregate` of a function of nodes; what is no node stays."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def qualified_name(function: Any) -> str:
    """Where a function is found, such as `minitensor.relu` or `operator.add`."""
    own: str = getattr(function, "__name__", "")
    for module in (operator, builtins):
        if getattr(module, own, None) is function:
            return f"{module.__name__.strip('_')}.{own}"
    from minitensor.overrides import resolve_name

    known = resolve_name(function)
    if known is not None:
        return "minitensor" + known.removeprefix("torch")
    home = getattr(function, "__module__", None)
    if home == package():  # types that say PyTorch's name where this package stands for it
        home = "minitensor"
    name: str = getattr(function, "__qualname__", None) or own or repr(function)
    return f"{home}.{name}" if home else name


def package() -> str:
    """What programs call minitensor: its name, or `torch` where it stands for that."""
    return repr(float32).partition(".")[0]


def shown_name(function: Any) -> str:
    """The qualified name as a program would write it."""
    name = qualified_name(function)
    return package() + name.removeprefix("minitensor") if name.startswith("minitensor.") else name


def type_text(kind: Any) -> str:
    """A parameter's annotation as it is printed."""
    if not isinstance(kind, type) or isinstance(kind, types.GenericAlias):
        return repr(kind).replace("minitensor.", f"{package()}.")
    return kind.__qualname__ if kind.__module__ == "builtins" else shown_name(kind)


class Node:
    """One step of a graph.

    `op` is one of placeholder, get_attr, call_function, call_method, call_module and output; `target` says which
    input, attribute, function, method or module; `args` and `kwargs` have other nodes and values. `users` are the nodes
    that have this one among their arguments; `meta` is for notes of passes.
    """

    def __init__(
        self, graph: Graph, name: str, op: str, target: Any, args: Any, kwargs: Any, return_type: Any = None
    ) -> None:
        """Graphs make nodes: `Graph.create_node`."""
        wanted = "Callable" if op == "call_function" else "str"
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a {wanted} is "
                "expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._set(args, kwargs)

    @property
    def next(self) -> Node:
        """The next node of the graph."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self._prev

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments by place."""
        return self._args

    @args.setter
    def args(self, given: Any) -> None:
        self._set(given, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, given: Any) -> None:
        self._set(self._args, given)

    def _set(self, args: Any, kwargs: Any) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs = tuple(args), dict(kwargs)
        self._input_nodes = {}
        map_arg((self._args, self._kwargs), lambda n: self._input_nodes.setdefault(n))
        for node in self._input_nodes:
            node.users.setdefault(self)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments."""
        return list(self._input_nodes)

    @property
    def stack_trace(self) -> str | None:
        """Where the call was traced, if it was noted."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def prepend(self, x: Node) -> None:
        """Move a node of this graph before this one."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move a node of this graph behind this one."""
        self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def update_arg(self, idx: int, arg: Any) -> None:
        """Set one argument by its place."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put an argument before that of a place."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set one argument by its name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
        propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """Put another node in its place wherever it is used, and return those users."""
        if propagate_meta:
            replace_with.meta.update({k: v for k, v in self.meta.items() if k not in replace_with.meta})
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Put another node in the place of one among the arguments."""
        self._set(*map_arg((self._args, self._kwargs), lambda n: new_input if n is old_input else n))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it does something even if nobody uses its result: inputs, outputs, writes, random numbers."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            schema = getattr(self.target, "_schema", None)
            if schema is not None and any(p.written for p in schema.parameters):
                return True
            if self.target in _IMPURE or self.target in (setattr, operator.setitem, operator.delitem):
                return True
            row = getattr(self.target, "row", None)
            if impure_random and (name in _RANDOM or getattr(row, "kind", None) == "random"):
                return True
            return (name.endswith("_") and not name.endswith("__")) or bool(self.kwargs.get("out"))
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        if self.op == "call_module":
            if self.graph.owning_module is None:
                return False
            module = self.graph.owning_module.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def __repr__(self) -> str:
        return self.name

    def _target_text(self) -> str:
        return self.target if isinstance(self.target, str) else shown_name(self.target)

    def format_node(self, *_: Any, **__: Any) -> str:
        """The node as it is printed in its graph."""
        if self.op == "output":
            return f"return {self.args[0]}"
        kind = "" if self.type is None else f"{type_text(self.type)} "
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self._target_text()}]"
        if self.op == "placeholder":
            return head + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_percent(self.args)}, kwargs = {_percent(self.kwargs)})"


_RANDOM = frozenset(
    ("rand", "randn", "randint", "randperm", "bernoulli", "normal", "multinomial", "poisson", "dropout", "rand_like",
     "randn_like", "randint_like")
)  # fmt: skip


def _percent(value: Any) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(map(_percent, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return "[" + ", ".join(map(_percent, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_percent(item)}" for key, item in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({_percent(value.start)}, {_percent(value.stop)}, {_percent(value.step)})"
    return f"%{value.name}" if isinstance(value, Node) else str(value)
