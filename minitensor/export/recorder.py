"""Records the calls of a module on an example as a graph: functions, methods and operators, as the user called them."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minitensor._C import Tensor, is_grad_enabled
from minitensor._functions.offered import empty
from minitensor.amp.state import is_autocast_enabled
from minitensor.autograd import set_grad_enabled
from minitensor.export.errors import UserError
from minitensor.export.sizes import SymFloat, SymInt, guard, made, node_of, plain
from minitensor.fx.graph import Graph
from minitensor.fx.node import Node, map_aggregate
from minitensor.overrides import TorchFunctionMode, resolve_name

__all__ = ["DivergedError", "Recorder"]

_METADATA = frozenset({
    "size", "dim", "numel", "nelement", "ndimension", "stride", "storage_offset", "element_size", "get_device",
    "__len__", "data_ptr", "type", "__hash__", "result_type", "can_cast", "promote_types", "dim_order",
    "untyped_storage",
    "storage", "__repr__", "__format__", "__reduce_ex__", "register_hook", "retain_grad",
})  # fmt: skip
_OPERATORS: dict[str, Any] = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}
_SIZES = {"shape", "numel", "nelement", "size", "__len__", "stride", "storage_offset"}


class DivergedError(Exception):
    """Two examples of different sizes do not make the same calls."""


class Recorder(TorchFunctionMode):
    """Sees the calls of one run. `other` is the log of a run with other sizes; what differs there varies."""

    def __init__(self, other: list[Any] | None = None, draft: bool = False) -> None:
        """`draft`: whether values may be read, and become parts of the program."""
        self.graph = Graph()
        self.log: list[Any] = []
        self.reads: list[str] = []
        self.mutated: list[Any] = []  # what the run wrote to: kind, name, tensor
        self._other, self._draft = other, draft
        # By the id of a tensor: the tensor, its node, where it is in the node's result, whether it follows from inputs.
        self._known: dict[int, tuple[Any, Node, tuple[int, ...], bool]] = {}
        self._guards: set[str] = set()
        self._sizes: dict[Any, Node] = {}
        self.constants: dict[str, tuple[Node, Any]] = {}
        self._names: dict[int, str] = {}
        self.first_input: Node | None = None
        self.stack: list[tuple[str, str, type]] = []
        self._calls: dict[str, int] = {}
        self._grad = is_grad_enabled()
        self._autocast = is_autocast_enabled("cpu")

    # ---- what is known before

    def enter(self, name: str, value: Any, derived: bool = True) -> Node:
        """A placeholder for a tensor."""
        node = self.graph.placeholder(name)
        if isinstance(value, Tensor):
            node.meta["val"] = _shadow(value)
            self._known.setdefault(id(value), (value, node, (), derived))
        return node

    def name_constants(self, named: dict[int, str]) -> None:
        """By the id of a tensor that is an attribute of a module: its path."""
        self._names = named

    @contextmanager
    def module(self, path: str, module: Any) -> Iterator[None]:
        """A call of a submodule."""
        count = self._calls[path] = self._calls.get(path, -1) + 1
        self.stack.append((path if not count else f"{path}@{count}", path, type(module)))
        try:
            yield
        finally:
            self.stack.pop()

    # ---- calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a call, and note it."""
        kwargs = kwargs or {}
        name = (resolve_name(func) or "").removeprefix("torch.")
        short = name.rpartition(".")[2] or getattr(func, "__name__", "")
        if short == "__get__":
            short = name.split(".")[-2]
        if short == "__iter__" and args:
            return iter(self.__torch_function__(Tensor.unbind, types, (args[0], 0)))
        if short == "backward":
            raise UserError("export: backward() within a module can't be exported")
        if is_autocast_enabled("cpu") != self._autocast:
            raise UserError("export: autocast within a module is no part of a graph; use it around the export")
        result = func(*map_aggregate(args, plain), **map_aggregate(kwargs, plain))
        found = _tensors(result)
        number = self._noted(func, short, args, kwargs, result, found)
        if not found and short not in ("__setitem__", "__set__"):
            return self._without_tensors(name, short, args, kwargs, result, number)
        self._record(func, name, short, args, kwargs, result, found)
        return result

    def _noted(self, func: Any, short: str, args: Any, kwargs: Any, result: Any, found: Any) -> int:
        number = len(self.log)
        outcome: Any = [tuple(t.shape) for t, _ in found] if found else result
        flat: list[Any] = []
        map_aggregate((args, kwargs), lambda x: flat.append(_constant(x)))
        self.log.append((short, flat, outcome))
        if self._other is not None:
            if number >= len(self._other) or self._other[number][0] != short:
                raise DivergedError(f"the call of {short} (call {number + 1}) is not made with other sizes")
            theirs = self._other[number][1]
            for ours, other in zip(flat, theirs, strict=True) if len(flat) == len(theirs) else [(1, 2)]:
                if ours is not _VARIES and (type(ours) is not type(other) or ours != other):
                    raise DivergedError(f"{short} gets {ours!r} with these sizes and {other!r} with others")
        return number

    def _derived(self, args: Any, kwargs: Any) -> bool:
        seen: list[bool] = []
        map_aggregate((args, kwargs), lambda x: seen.append(id(x) in self._known and self._known[id(x)][3]))
        return any(seen)

    def _without_tensors(self, name: str, short: str, args: Any, kwargs: Any, result: Any, number: int) -> Any:
        metadata = name.endswith("__get__") or short in _METADATA or (short.startswith("is_") and short != "is_nonzero")
        if not metadata and self._derived(args, kwargs) and result is not None:
            where = f"{short} reads the value of a tensor that follows from the inputs"
            if not self._draft:
                raise UserError(
                    f"Could not guard on data-dependent expression: {where}, so that the program would be one for this "
                    "example only. Compute with tensors instead, as minitensor.where does, or use draft_export()."
                )
            self.reads.append(where)
        if self._other is None or short not in _SIZES:
            return result
        other = self._other[number][2]
        if result == other:
            return result
        tensor = args[0]
        node, shown = self._node(tensor), self._shown(tensor)
        if isinstance(result, tuple):
            method = "stride" if short == "stride" else "size"
            sizes = [
                n if n == m else self._size(node, method, (d,), n, f"{shown}.{method}()[{d}]")
                for d, (n, m) in enumerate(zip(result, other, strict=True))
            ]
            return type(result)(sizes)
        if short == "__len__":
            return result  # Python makes an int of it: where it matters, the runs differ
        return self._size(node, short, tuple(args[1:]), result, f"{shown}.{short}({', '.join(map(str, args[1:]))})")

    def _size(self, node: Node, method: str, args: tuple[Any, ...], value: int, text: str) -> Any:
        key = (node, method, tuple(map(plain, args)))
        if key not in self._sizes:
            self._sizes[key] = self.number(method, (node, *map(node_of, args)))
        return made(value, self._sizes[key], text, self)

    def _shown(self, tensor: Any) -> str:
        return self._node(tensor).name

    def _record(self, func: Any, name: str, short: str, args: Any, kwargs: Any, result: Any, found: Any) -> None:
        self._follow_grad_mode()
        derived = self._derived(args, kwargs)
        given, named = self._arguments(args), self._arguments(kwargs)
        if name.endswith(".__get__"):
            node = self.graph.call_function(getattr, (given[0], short), name=short.lower())
        elif short == "__set__":
            raise UserError(f"export: to set {name.split('.')[-2]} of a tensor can't be exported")
        elif short in _OPERATORS:
            node = self.graph.call_function(_OPERATORS[short], given, named)
        elif name.startswith("Tensor.") and getattr(Tensor, short, None) is func:
            node = self.graph.call_method(short, given, named)
        else:
            node = self.graph.call_function(func, given, named)
        node.meta["nn_module_stack"] = list(self.stack)
        if short == "__setitem__":
            self._known[id(args[0])] = (args[0], *self._known[id(args[0])][1:])
            return
        node.meta["val"] = map_aggregate(result, lambda x: _shadow(x) if isinstance(x, Tensor) else x)
        for tensor, path in found:
            self._known[id(tensor)] = (tensor, node, path, derived)

    def _follow_grad_mode(self) -> None:
        if is_grad_enabled() != self._grad:
            self._grad = is_grad_enabled()
            node = self.graph.call_function(set_grad_enabled, (self._grad,))
            node.meta["nn_module_stack"] = list(self.stack)

    # ---- arguments

    def _arguments(self, value: Any) -> Any:
        return map_aggregate(value, self._argument)

    def _argument(self, value: Any) -> Any:
        return self._node(value) if isinstance(value, Tensor) else node_of(value)

    def _node(self, tensor: Any) -> Node:
        """The node that a tensor is the result of; a constant's is made by its first use."""
        known = self._known.get(id(tensor))
        if known is None:
            return self._lifted(tensor)
        _, node, path, derived = known
        for index in path:
            value = node.meta.get("val")
            stack = node.meta.get("nn_module_stack", [])
            with self.graph.inserting_after(node):
                node = self.graph.call_function(operator.getitem, (node, index))
            node.meta["nn_module_stack"] = stack
            if value is not None:
                node.meta["val"] = value[index]
        if path:
            self._known[id(tensor)] = (tensor, node, (), derived)
        return node

    def _lifted(self, tensor: Any) -> Node:
        target = self._names.get(id(tensor)) or f"lifted_tensor_{len(self.constants)}"
        with self.graph.inserting_before(self.first_input):
            node = self.enter("c_" + target.replace(".", "_"), tensor, False)
        self.constants[target] = (node, tensor.detach() if tensor.requires_grad else tensor)
        return node

    # ---- numbers that vary

    def number(self, function: Any, args: tuple[Any, ...]) -> Node:
        """A node of a size, or of arithmetic with sizes."""
        call = self.graph.call_method if isinstance(function, str) else self.graph.call_function
        node = call(function, args)
        node.meta.update(nn_module_stack=list(self.stack), size=True)
        return node

    def decided(self, node: Node, value: bool, text: str) -> None:
        """Python went one way because of sizes: a program checks that they lead there."""
        if text not in self._guards:
            self._guards.add(text)
            check = self.graph.call_function(guard, (node, value, text))
            check.meta["nn_module_stack"] = list(self.stack)

    def finish(self, outputs: list[Any]) -> list[Any]:
        """The nodes of the results; the graph ends with them. Sizes that nobody used are taken out."""
        if is_grad_enabled() != self._grad:
            self._follow_grad_mode()
        given = [self._argument(x) for x in outputs]
        if self._other is not None and len(self.log) != len(self._other):
            raise DivergedError("with other sizes there are more calls")
        self.graph.output(tuple(given))
        for node in reversed(list(self.graph.nodes)):
            if node.meta.get("size") and not node.users:
                self.graph.erase_node(node)
        return given


class _Varies:
    """Stands for a number that varies, in a log."""


_VARIES = _Varies()


def _constant(value: Any) -> Any:
    if isinstance(value, (SymInt, SymFloat)):
        return _VARIES
    return value if isinstance(value, (bool, int, float, complex, str, type(None))) else type(value).__name__


def _tensors(result: Any, path: tuple[int, ...] = ()) -> list[tuple[Any, tuple[int, ...]]]:
    """The tensors in a result, with their places."""
    if isinstance(result, Tensor):
        return [(result, path)]
    if isinstance(result, (tuple, list)):
        return [found for i, item in enumerate(result) for found in _tensors(item, (*path, i))]
    return []


def _shadow(value: Any) -> Any:
    return empty(tuple(value.shape), dtype=value.dtype, device="meta")
