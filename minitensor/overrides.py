"""Who takes calls over: classes with `__torch_function__`, and modes, by PyTorch's protocol and names.

A call of a function, a method, an operator or an attribute of a tensor is taken over

- by the innermost :class:`TorchFunctionMode` that is on, whatever the arguments are, and then
- by each argument whose class has a `__torch_function__`, subclasses before their bases: classes of tensors, and
  others that have nothing to do with tensors. Lists and tuples among the arguments are looked into.

They are given what was called, the classes of those arguments, and the arguments; who answers NotImplemented passes
the call on. Operators are known by the methods they stand for (`x + 1` is `Tensor.add`), attributes by their
`__get__` and `__set__`. Gradients, kernels and rules of the framework's own are not overridden.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import minitensor
from minitensor import _C
from minitensor._functions.offered import add
from minitensor._functions.torch_function import NOT_OVERRIDDEN, bare_functions

__all__ = [
    "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions", "get_ignored_functions",
    "get_overridable_functions", "get_testing_overrides", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "redispatch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip

_PYTHON = frozenset({
    "__abs__", "__add__", "__and__", "__array__", "__bool__", "__contains__", "__deepcopy__", "__dlpack__", "__eq__",
    "__float__", "__floordiv__", "__format__", "__ge__", "__getitem__", "__gt__", "__iadd__", "__iand__",
    "__ifloordiv__", "__ilshift__", "__imod__", "__imul__", "__index__", "__int__", "__invert__", "__ior__",
    "__ipow__", "__irshift__", "__isub__", "__iter__", "__itruediv__", "__ixor__", "__le__", "__len__", "__lshift__",
    "__lt__", "__matmul__", "__mod__", "__mul__", "__ne__", "__neg__", "__or__", "__pos__", "__pow__", "__radd__",
    "__rand__", "__repr__", "__reversed__", "__rfloordiv__", "__rlshift__", "__rmatmul__", "__rmod__", "__rmul__",
    "__ror__", "__rpow__", "__rrshift__", "__rshift__", "__rsub__", "__rtruediv__", "__rxor__", "__setitem__",
    "__sub__", "__truediv__", "__xor__",
})  # fmt: skip
_OP, _FORM = _C.Op, type(add)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the arguments overrides calls, or a mode is on."""
    return bool(_C._has_torch_function(relevant_args))


def has_torch_function_unary(arg: Any) -> bool:
    """Whether the argument overrides calls, or a mode is on."""
    return bool(_C._has_torch_function_variadic(arg))


def has_torch_function_variadic(*args: Any) -> bool:
    """Whether one of the arguments overrides calls, or a mode is on."""
    return bool(_C._has_torch_function_variadic(*args))


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Call `public_api(*args, **kwargs)` by the mode or those of the arguments that override it.

    TypeError if all of them answer NotImplemented.
    """
    return _C._handle_torch_function(public_api, relevant_args, *args, **kwargs)


def redispatch_function(func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Run a call as it is, without asking who overrides it; calls within it are overridden.

    A class of tensors whose `__torch_function__` ends so sees the calls inside of functions that are made of others.
    """
    return _C._redispatch_function(func, types, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function of your own an overridable one: `dispatcher(*args, **kwargs)` gives its relevant arguments."""

    def inner(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return inner


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or has `__torch_function__`."""
    return type(inp) is _C.Tensor or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """The calls whose results the default `__torch_function__` gives as they are."""
    return bare_functions()


@contextmanager
def enable_reentrant_dispatch() -> Any:
    """Do nothing: calls within a handler are taken over whenever a mode or a class is on."""
    yield


class TorchFunctionMode(_C.Context):
    """Sees every call while it is on: a context manager whose `__torch_function__` is a method.

    Within that method the mode is off, so that what it calls is seen by the modes around it.
    """

    inner: TorchFunctionMode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call. A mode has its own of these."""
        raise NotImplementedError

    def _now(self) -> int:
        return _C._len_torch_function_stack()

    def _set(self) -> Any:
        _C._push_on_torch_function_stack(self)
        return self

    def _restore(self, before: int) -> None:
        while _C._len_torch_function_stack() > before:
            _C._pop_torch_function_stack()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Make one of the mode, for `with`; old programs write it so."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call."""
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> Any:
    return _C._get_function_stack_at(-1) if _C._len_torch_function_stack() else None


def _get_current_function_mode_stack() -> list[Any]:
    return [_C._get_function_stack_at(i) for i in range(_C._len_torch_function_stack())]


# ---- what can be overridden


def _namespaces() -> list[tuple[str, Any]]:
    from minitensor import fft, linalg, nn, special

    return [
        ("torch", minitensor), ("torch.nn.functional", nn.functional), ("torch.nn.init", nn.init),
        ("torch.linalg", linalg), ("torch.fft", fft), ("torch.special", special),
    ]  # fmt: skip


def _takes_tensors(function: Any) -> bool:
    if type(function) is _OP:
        return bool(function.row.takes_tensor)
    if type(function) is not _FORM or _C.form_api(function) is None:
        return False
    home = function.__module__
    if not home.startswith("minitensor.") or home == "minitensor.creation" or home == "minitensor.composite.creation":
        return function.__name__.endswith("_like")
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:
        return False
    return bool(names) and names[0] not in ("size", "low", "mean", "n", "end", "high")


def _attributes() -> dict[str, Any]:
    """Of Tensor: each name with what a handler is given for it."""
    found: dict[str, Any] = {}
    for name, value in vars(_C.Tensor).items():
        if name in NOT_OVERRIDDEN or (
            name.startswith("_") and name not in _PYTHON and name not in ("_base", "_version")
        ):
            continue
        if isinstance(value, (property, types.GetSetDescriptorType)):
            found[name] = value.__get__
        elif isinstance(value, (_OP, _FORM, types.MethodDescriptorType, types.WrapperDescriptorType)):
            found[name] = value
    return found


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that can be overridden, by the module or class that has them."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    seen = set()
    for _, module in _namespaces():
        for name in dir(module):
            if name.startswith("_"):
                continue
            function = getattr(module, name)
            if isinstance(function, (_OP, _FORM)) and function not in seen and _takes_tensors(function):
                seen.add(function)
                found.setdefault(module, []).append(function)
    found[_C.Tensor] = list(_attributes().values())
    return found


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """The public functions and methods that never are: those without tensors among their arguments, and the like."""
    overridable = {f for functions in get_overridable_functions().values() for f in functions}
    found = set()
    for _, module in _namespaces():
        for name in dir(module):
            function = getattr(module, name) if not name.startswith("_") else None
            if callable(function) and not isinstance(function, type) and function not in overridable:
                found.add(function)
    found.update(getattr(_C.Tensor, name) for name in NOT_OVERRIDDEN if hasattr(_C.Tensor, name))
    return found


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that can be overridden, one with the same signature that gives -1."""
    found = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            found[function] = _dummy(function)
    return found


def _dummy(function: Any) -> Callable[..., Any]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return lambda *args, **kwargs: -1
    parts: list[str] = []
    star = False
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            star = True
            parts.append(f"*{p.name}")
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}")
        else:
            if p.kind is p.KEYWORD_ONLY and not star:
                star = True
                parts.append("*")
            parts.append(p.name if p.default is p.empty else f"{p.name}=None")
    made: Callable[..., Any] = eval(f"lambda {', '.join(parts)}: -1", {})
    return made


@functools.cache
def _names() -> dict[Any, str]:
    found: dict[Any, str] = {}
    callables = (_OP, _FORM, types.FunctionType, types.BuiltinFunctionType)
    for prefix, module in _namespaces():
        for name in dir(module):
            function = getattr(module, name)
            # Of several names the function's own.
            if isinstance(function, callables) and (function not in found or function.__name__ == name):
                at_home = found.get(function, "").endswith(f".{function.__name__}")
                if not at_home:
                    found[function] = f"{prefix}.{name}"
    for name, value in vars(_C.Tensor).items():
        if isinstance(value, (property, types.GetSetDescriptorType)):
            found[value.__get__] = f"torch.Tensor.{name}.__get__"
            found[value.__set__] = f"torch.Tensor.{name}.__set__"
        elif callable(value):
            known = found.get(value)
            if known is None or getattr(value, "__name__", "") == name:
                found[value] = f"torch.Tensor.{name}"
    return found


def resolve_name(f: Any) -> str | None:
    """The name by which PyTorch's programs reach the function, such as `torch.Tensor.add`; None if it isn't known."""
    if isinstance(f, str):
        return f
    try:
        return _names().get(f)
    except TypeError:
        return None


@functools.cache
def _methods() -> set[Any]:
    # The operators among them: what stands for a function of Tensor's, bound or not.
    return {
        *_attributes().values(),
        *(v for v in vars(_C.Tensor).values() if callable(v) and isinstance(v, (_OP, _FORM))),
    }


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether it is a method of Tensor, or the `__get__` or `__set__` of one of its attributes."""
    if getattr(func, "__name__", "") in ("__get__", "__set__"):
        return True
    try:
        return func in _methods()
    except TypeError:
        return False
