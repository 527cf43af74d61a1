"""What functions, methods and attributes are for sparse tensors; the others say that they don't know them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor.sparse.tensor import NAMES, SparseTensor, is_sparse, put

__all__ = ["HANDLERS", "PASSED", "attribute_name", "call", "handler", "refuse"]

Tensor = _C.Tensor

# What C++ knows of every tensor.
PASSED = frozenset((
    "shape", "size", "dim", "ndim", "ndimension", "dtype", "device", "requires_grad", "requires_grad_", "grad",
    "grad_fn", "is_leaf", "retain_grad", "retains_grad", "register_hook", "register_post_accumulate_grad_hook",
    "backward", "is_floating_point", "is_complex", "is_inference", "is_signed", "element_size", "itemsize",
    "output_nr", "detach_", "is_cpu", "is_cuda", "is_meta", "is_mkldnn", "is_quantized", "is_ipu", "is_maia",
    "is_mps", "is_mtia", "is_vulkan", "is_xla", "is_xpu", "name", "volatile", "numel", "nelement", "__len__",
    "get_device",
    "is_tensor", "_base", "is_neg", "is_conj", "__hash__", "_version", "result_type", "can_cast",
    "promote_types", "is_same_size", "storage_offset", "broadcast_shapes", "is_distributed",
))  # fmt: skip

HANDLERS: dict[str, Callable[..., Any]] = {}
_filled = False


def handler(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as what calls of these names are."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            HANDLERS[name] = function
        return function

    return enter


def handlers() -> dict[str, Callable[..., Any]]:
    """All of them."""
    global _filled
    if not _filled:
        from minitensor.sparse import attributes, elementwise, products, reductions, shapes  # noqa: F401

        _filled = True
    return HANDLERS


def _first_sparse(values: Any) -> Any:
    for value in values:
        if is_sparse(value):
            return value
        if isinstance(value, (tuple, list)):
            found = _first_sparse(value)
            if found is not None:
                return found
    return None


def refuse(name: str, tensor: Any) -> NotImplementedError:
    """The error of a function that doesn't know the tensor's layout."""
    pattern = getattr(tensor, "_pattern", None)
    kind = f"layout minitensor.{pattern.layout._name}" if pattern is not None else "a sparse layout without elements"
    return NotImplementedError(f"'{name}' is not implemented for tensors of {kind}; to_dense() gives one that it takes")


def attribute_name(access: Any) -> str:
    """The name of an attribute, by the `__get__` or the like of what stands for it."""
    found = getattr(access.__self__, "__name__", None)
    if found is None:  # a property
        from minitensor.overrides import resolve_name

        found = (resolve_name(access) or "Tensor.?.__get__").split(".")[-2]
    return str(found)


def _checked(known: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
    try:
        return known(*args, **kwargs)
    except AttributeError as error:
        wrong = _wrong_argument(name, args, kwargs, error)
        if wrong is None:
            raise
        raise wrong from None


def _wrong_argument(name: str, args: Any, kwargs: Any, error: AttributeError) -> Exception | None:
    """What to say of an argument that lacks an attribute; None if none does: then it is our mistake."""
    for given in (*args, *kwargs.values()):
        for one in (given, *(given if isinstance(given, (tuple, list)) else ())):
            if one is error.obj and not is_sparse(one):
                if isinstance(one, Tensor):
                    return refuse(f"{name} of strided and sparse tensors", _first_sparse((*args, *kwargs.values())))
                return TypeError(f"{name}(): an argument is a {type(one).__name__}, which it doesn't take")
    return None


def call(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """`func(*args, **kwargs)`, of which an argument is sparse."""
    for kind in types:
        if not issubclass(kind, SparseTensor) and kind is not Tensor and issubclass(SparseTensor, kind) is False:
            return NotImplemented
    name = func.__name__
    access = ""
    if name in ("__get__", "__set__", "__delete__"):
        name, access = attribute_name(func), name
    with _C.DisableTorchFunctionSubclass():
        if access == "__get__":
            name = f"get {name}" if f"get {name}" in handlers() else name
        elif access:
            name = f"set {name}" if f"set {name}" in handlers() else name
        known = handlers().get(name)
        if known is not None:
            return _checked(known, name, args[:1] if access and access != "__set__" else args, kwargs)
        if name in PASSED:
            return func(*args, **kwargs)
        if name.endswith("_") and not name.endswith("__") and name[:-1] in IN_PLACE:
            return _checked(functools.partial(_in_place, name), name, args, kwargs)
        if name.startswith("__i") and name[3:-2] in IN_PLACE:
            return _checked(functools.partial(_in_place, f"{name[3:-2]}_"), name, args, kwargs)
        raise refuse(name, _first_sparse((*args, *kwargs.values())))


IN_PLACE = frozenset((
    "abs", "absolute", "add", "asin", "arcsin", "asinh", "arcsinh", "atan", "arctan", "atanh", "arctanh", "ceil",
    "deg2rad", "div", "divide", "erf", "erfinv", "expm1", "floor", "floor_divide", "log1p", "mul", "multiply",
    "nan_to_num", "neg", "negative", "pow", "rad2deg", "relu", "round", "sgn", "sign", "sin", "sinh", "sqrt", "square",
    "sub", "subtract", "t", "tan", "tanh", "transpose", "true_divide", "trunc", "unsqueeze", "fix", "conj_physical",
    "truediv", "floordiv", "sspaddmm", "addmm",
))  # fmt: skip


def _in_place(name: str, target: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_sparse(target):
        if name in ("add_", "sub_"):
            from minitensor.sparse.elementwise import add_to_dense_

            return add_to_dense_(target, *args, minus=name == "sub_", **kwargs)
        raise refuse(name, _first_sparse((*args, *kwargs.values())))
    if _C.is_grad_enabled() and target.requires_grad and target.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    base = name[:-1]
    base = {"truediv": "div", "floordiv": "floor_divide"}.get(base, base)
    made = handlers()[base](target, *args, **kwargs)
    if base not in ("t", "transpose", "unsqueeze"):
        if made.dtype is not target.dtype:
            raise RuntimeError(
                f"result type {made.dtype.name} can't be cast to the desired output type {target.dtype.name}"
            )
        if tuple(made.shape) != tuple(target.shape):
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(made.shape)}"
            )
    if not is_sparse(made) or made._pattern.layout is not target._pattern.layout:
        raise RuntimeError(f"{name}: the result is not of layout {NAMES[target._pattern.layout]}")
    replace(target, made)
    return target


def replace(target: Any, made: Any) -> None:
    """Give a sparse tensor what another one has, with its history."""
    if made._pattern is target._pattern and made._elements.dtype is target._elements.dtype:
        with _no_grad():
            target._elements.copy_(made._elements)  # its memory may be somebody's
    else:
        put(target, made._pattern, made._elements)
    if made.requires_grad:
        _C.take_history(target, made)


def _no_grad() -> Any:
    from minitensor.autograd import no_grad

    return no_grad()
