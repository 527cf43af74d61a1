"""Stand-ins for values: what is done with one becomes nodes of a graph."""

from __future__ import annotations

import operator
import sys
from typing import Any

from minitensor import _C
from minitensor.fx.code import INPLACE, MAGIC, REFLECTED
from minitensor.fx.graph import Graph
from minitensor.fx.node import Node, map_aggregate
from minitensor.overrides import is_tensor_method_or_property

__all__ = ["Attribute", "Proxy", "TraceError", "TracerBase"]


_PLAIN = (Node, str, int, float, bool, complex, bytes, range, _C.dtype, _C.device, type(None), type(...))


class TraceError(ValueError):
    """The program does something with a value that isn't there while it is traced."""


class TracerBase:
    """What makes nodes for proxies."""

    graph: Graph
    record_stack_traces: bool = False
    trace_asserts: bool = False

    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None
    ) -> Node:
        """Put a node into the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """What stands for the node's value."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Proxy:  # fmt: skip
        """Put a node into the graph whose arguments may have proxies, and return what stands for its value."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn is not None else self.proxy(node)

    def create_arg(self, a: Any) -> Any:
        """An argument as nodes have it; NotImplementedError for what a node can't have."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if isinstance(
            a, (Node, str, int, float, bool, complex, bytes, range, _C.dtype, _C.device, type(None), type(...))
        ):
            return a
        if callable(a) and hasattr(a, "__name__") and not isinstance(a, _C.Tensor):
            return a
        if type(a).__module__.startswith("minitensor") and not isinstance(a, _C.Tensor):
            return a  # layouts, memory formats, generators
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of a value, which isn't known: TraceError."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Any:
        """The items of a value, if the program says how many: it unpacks them into names."""
        count = _unpacked(sys._getframe(2))
        if count is not None:
            return (operator.getitem(obj, i) for i in range(count))  # type: ignore[arg-type, call-overload]
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """The keys of a value, as a value."""
        return Attribute(obj, "keys")()


def _unpacked(frame: Any) -> int | None:
    """Into how many names a frame's present instruction unpacks."""
    import dis

    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


class Proxy:
    """Stands for the value of a node. Operators, methods, attributes and functions of tensors on it become nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        """`tracer`: what makes the nodes; by default one for the node's graph."""
        if tracer is None:
            tracer = TracerBase()
            tracer.graph = node.graph
        self.tracer, self.node = tracer, node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        """An attribute of the value."""
        if k.startswith("__") and k.endswith("__") and k != "__call__":
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """A call of the value."""
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Any:
        """Its items, where they are unpacked."""
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Its keys."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def __contains__(self, item: Any) -> bool:
        return bool(self.tracer.iter(self))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call of a function or method of tensors, as a node."""
        kwargs = kwargs or {}
        tracers: dict[int, TracerBase] = {}

        def find(a: Any) -> None:
            if isinstance(a, Proxy):
                tracers[id(a.tracer)] = a.tracer

        map_aggregate(args, find)
        map_aggregate(kwargs, find)
        if len(tracers) != 1:
            found = list(tracers.values())
            raise RuntimeError(f"Found multiple different tracers {found} while trying to trace {func}")
        (tracer,) = tracers.values()
        if is_tensor_method_or_property(func):
            if getattr(func, "__name__", "") == "__get__":
                return tracer.create_proxy("call_function", getattr, (args[0], func.__self__.__name__), {})
            return tracer.create_proxy("call_method", func.__name__, args, kwargs)
        return tracer.create_proxy("call_function", func, args, kwargs)


class Attribute(Proxy):
    """An attribute of a proxy: a method that is about to be called, or a value."""

    def __init__(self, root: Proxy, attr: str) -> None:
        """The node is made when the value is wanted."""
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of the value."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """A call of the method."""
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _operator(name: str, reflected: bool) -> Any:
    target = getattr(operator, name)

    def call(self: Proxy, *others: Any) -> Proxy:
        args = (others[0], self) if reflected else (self, *others)
        return self.tracer.create_proxy("call_function", target, args, {})

    return call


for _name in (*MAGIC, *INPLACE, "getitem"):
    setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name, False))
for _name in REFLECTED:
    setattr(Proxy, f"__r{_name.strip('_')}__", _operator(_name, True))
setattr(Proxy, "__abs__", _operator("abs", False))  # noqa: B010
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
