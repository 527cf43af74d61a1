"""Tracing: a module or function is run on proxies, and what it did is its graph."""

from __future__ import annotations

import builtins
import inspect
import math
import sys
import types
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from minitensor import nn
from minitensor._C import Tensor
from minitensor.fx.graph import Graph
from minitensor.fx.graph_module import GraphModule
from minitensor.fx.node import map_aggregate
from minitensor.fx.proxy import Proxy, TracerBase

__all__ = ["Tracer", "symbolic_trace", "wrap"]

_WRAPPED: dict[tuple[int, str], dict[str, Any]] = {}


def wrap(fn_or_name: Any) -> Any:
    """Make a function of the calling module a leaf: calls of it with proxies become nodes instead of running.

    At module level, by name (`wrap("len")`) or as a decorator. RuntimeError for what is neither.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _WRAPPED[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


def _proxy_in(args: Any, kwargs: Any) -> Proxy | None:
    found: list[Proxy] = []
    map_aggregate((args, kwargs), lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found[0] if found else None


def _leaf(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_in(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", function, args, kwargs)

    call.__name__ = getattr(function, "__name__", "call")
    call._fx_leaf_of = function  # type: ignore[attr-defined]
    return call


def _is_plain(function: Any) -> bool:
    """Whether PyTorch traces the function itself, and not a wrapper that takes a list: so it has its annotations."""
    code = getattr(function, "__code__", None)
    return code is not None and not (
        code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    )


class Tracer(TracerBase):
    """Traces modules and functions. Subclasses say which modules are leaves, and how arguments become nodes."""

    def __init__(
        self, autowrap_modules: tuple[Any, ...] = (math,), autowrap_functions: tuple[Any, ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        """`autowrap_modules`: modules whose functions are leaves; `autowrap_functions`: more such functions."""
        functions = [f for m in autowrap_modules for f in vars(m).values() if callable(f)]
        self._leaves = {id(f) for f in functions if not isinstance(f, type)}
        self._leaves |= {id(f) for f in autowrap_functions}
        self.param_shapes_constant = param_shapes_constant
        self.root: Any = None

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a module's call is one node: those of `nn` are, but containers."""
        return type(m).__module__.startswith("minitensor.nn") and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: Any) -> str:
        """The name of a submodule; NameError if it is none."""
        if mod in self._paths:
            return self._paths[mod]
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Any, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call of a submodule: a node, or what its forward gives."""
        path = self.path_of_module(m)
        if not self.is_leaf_module(m, path):
            return forward(*args, **kwargs)
        return self.create_proxy("call_module", path, args, kwargs)

    def create_arg(self, a: Any) -> Any:
        """An argument as nodes have it: parameters and buffers are attributes, other tensors become such."""
        return map_aggregate(a, self._argument)

    def _argument(self, a: Any) -> Any:
        if isinstance(a, nn.Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if not isinstance(a, Tensor):
            return self._leaf(a)
        for name, tensor in (*self.root.named_parameters(), *self.root.named_buffers()):
            if tensor is a:
                return self.create_node("get_attr", name, (), {})
        name = self._constants.get(id(a))
        if name is None:
            n = 0
            while hasattr(self.root, f"_tensor_constant{n}"):
                n += 1
            name = self._constants[id(a)] = f"_tensor_constant{n}"
            setattr(self.root, name, a)
        return self.create_node("get_attr", name, (), {})

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function; `concrete_args` gives values to arguments that are no inputs."""
        is_module = isinstance(root, nn.Module)
        self.root = root if is_module else nn.Module()
        function = type(root).forward if is_module else root
        self.graph = Graph(tracer_cls=type(self))
        self._paths = {m: name for name, m in self.root.named_modules()}
        self._constants: dict[int, str] = {}
        args, kwargs = self._inputs(function, is_module, concrete_args or {})
        with self._patched(function):
            result = function(*((root,) if is_module else ()), *args, **kwargs)
        kind = function.__annotations__.get("return") if _is_plain(function) else None
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=kind)
        return self.graph

    def _inputs(self, function: Any, is_module: bool, concrete: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        parameters = list(inspect.signature(function).parameters.values())[1 if is_module else 0 :]
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for p in parameters:
            if p.name in concrete:
                value = concrete[p.name]
            elif p.kind is p.VAR_POSITIONAL:
                args.append(self.create_proxy("placeholder", f"*{p.name}", (), {}))
                continue
            elif p.kind is p.VAR_KEYWORD:
                kwargs[p.name] = self.create_proxy("placeholder", f"**{p.name}", (), {})
                continue
            else:
                default = () if p.default is p.empty else (p.default,)
                kind = None if p.annotation is p.empty else p.annotation
                value = self.create_proxy("placeholder", p.name, default, {}, type_expr=kind)
            if p.kind is p.KEYWORD_ONLY:
                kwargs[p.name] = value
            else:
                args.append(value)
        return args, kwargs

    @contextmanager
    def _patched(self, function: Any) -> Any:
        """While it is traced, calls of modules are seen, and leaves among functions don't run on proxies."""
        module_call = nn.Module.__call__
        inherited = "__call__" not in vars(nn.Module)
        tracer = self

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*a: Any, **k: Any) -> Any:
                tracer._patch_globals(type(module).forward, undo)
                return module_call(module, *a, **k)

            return tracer.call_module(module, forward, args, kwargs)

        undo: list[tuple[dict[str, Any], str, Any]] = []
        nn.Module.__call__ = call  # type: ignore[method-assign, assignment]
        try:
            for (_, name), space in _WRAPPED.items():
                missing = object()
                kept = space.get(name, missing)
                original = getattr(builtins, name) if kept is missing else kept
                if hasattr(original, "_fx_leaf_of"):
                    continue
                undo.append((space, name, None if kept is missing else kept))
                space[name] = _leaf(original)
            self._patch_globals(function, undo)
            yield
        finally:
            if inherited:
                del nn.Module.__call__
            else:
                nn.Module.__call__ = module_call  # type: ignore[method-assign]
            for space, name, kept in reversed(undo):
                if kept is None:
                    space.pop(name, None)
                else:
                    space[name] = kept

    def _patch_globals(self, function: Any, undo: list[tuple[dict[str, Any], str, Any]]) -> None:
        space = getattr(function, "__globals__", None)
        if space is None or space.get("__name__", "").startswith("minitensor."):
            return
        for name, value in list(space.items()):
            if id(value) in self._leaves and not hasattr(value, "_fx_leaf_of"):
                undo.append((space, name, value))
                space[name] = _leaf(value)
            elif isinstance(value, types.ModuleType) and value is math:
                undo.append((space, name, value))
                space[name] = _LeafModule(value)


class _LeafModule:
    """A module whose functions are leaves."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return _leaf(found) if callable(found) else found


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module or function as a module with a graph, by running it on proxies."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)
