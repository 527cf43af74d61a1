"""Arithmetic on the elements of sparse tensors: what leaves zero zero."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._functions import offered
from minitensor._functions.offered import broadcast_shapes, can_cast, cat, isin, norm, result_type
from minitensor.composite.dims import product
from minitensor.composite.numbers import number
from minitensor.sparse.coalesce import coalesce, coalesced_parts, unflatten
from minitensor.sparse.conversion import as_coo, to_compressed
from minitensor.sparse.dispatch import handler, refuse, replace
from minitensor.sparse.masks import at_places, flat_elements
from minitensor.sparse.places import coo_of, flat_places
from minitensor.sparse.tensor import Pattern, build, elements_of, is_sparse

__all__ = ["add", "add_to_dense_", "multiply"]

Tensor = _C.Tensor

# f(a + b) = f(a) + f(b): elements at the same place may stay apart.
_LINEAR = ("neg", "negative", "deg2rad", "rad2deg", "conj_physical", "positive", "real", "imag", "conj")
_ZERO_TO_ZERO = (
    "abs", "absolute", "angle", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh", "atan", "atanh", "ceil",
    "erf",
    "erfinv", "expm1", "fix", "floor", "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "nan_to_num", "relu",
    "round", "sgn", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
)  # fmt: skip
_OPERATORS = {"__neg__": "neg", "__abs__": "abs", "__pos__": "positive"}


def _unary(name: str, function_name: str, linear: bool) -> None:
    def apply(input: Any, *args: Any, inplace: bool = False, **more: Any) -> Any:
        tensor = input if linear or not input._pattern.is_coo else coalesce(input)
        made = build(tensor._pattern, getattr(offered, function_name)(elements_of(tensor), *args, **more))
        if not inplace:
            return made
        replace(input, made)
        return input

    handler(name)(apply)


for _name in _LINEAR:
    _unary(_name, _name, True)
for _name in _ZERO_TO_ZERO:
    _unary(_name, _name, False)
for _name, _plain in _OPERATORS.items():
    _unary(_name, _plain, _plain != "abs")


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex)) or (
        isinstance(value, Tensor) and not is_sparse(value) and value.ndim == 0
    )


def _same_shape(name: str, a: Any, b: Any) -> None:
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(
            f"{name}: expected 'self' and 'other' to have same size, but self has size {list(a.shape)} while other has "
            f"size {list(b.shape)}"
        )


def _like(tensor: Any, coo: Any) -> Any:
    """A sparse_coo tensor in another one's layout."""
    pattern = tensor._pattern
    return coo if pattern.is_coo else to_compressed(coo, pattern.layout, pattern.block if pattern.block_dims else None)


# ---- sums


@handler("add", "__add__", "__radd__")
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """The sum of two sparse tensors, sparse; or of a dense and a sparse one, dense."""
    _no_out(out)
    alpha = number(alpha, "add", "alpha")
    if not is_sparse(input) and not isinstance(input, Tensor):
        input, other = other, input  # 1 + s
    if is_sparse(input) and not is_sparse(other):
        if isinstance(other, Tensor) and other.ndim and not input._pattern.is_coo:
            return _dense_sum(other, input, 1) if alpha == 1 else _dense_sum(other * alpha, input, 1)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not is_sparse(input):
        return _dense_sum(input, other, alpha)
    _same_shape("add", input, other)
    if input._pattern.dense_dim != other._pattern.dense_dim:
        raise RuntimeError("add: expected 'self' and 'other' to have same number of dense dimensions")
    return _sparse_sum(input, other, alpha)


def _no_out(out: Any) -> None:
    if out is not None:
        raise NotImplementedError("out= is not implemented for tensors in a sparse layout")


def _scaled(values: Any, alpha: Any) -> Any:
    return values if isinstance(alpha, (int, float)) and alpha == 1 else values * alpha


def _sparse_sum(a: Any, b: Any, alpha: Any) -> Any:
    first, second = a._pattern, b._pattern
    if first is second or (first.layout is second.layout and first.indices[-1] is second.indices[-1]):
        return build(first, elements_of(a) + _scaled(elements_of(b), alpha))
    x, y = as_coo(a), as_coo(b)
    if x._pattern.sparse_dim != y._pattern.sparse_dim:
        raise RuntimeError("add: expected 'self' and 'other' to have same number of sparse dimensions")
    left, right = elements_of(x), _scaled(elements_of(y), alpha)
    dtype = result_type(left, right)
    values = cat([left.to(dtype), right.to(dtype)])
    pattern = Pattern(x._pattern.layout, first.size, (cat([x._pattern.indices[0], y._pattern.indices[0]], 1),))
    made = build(pattern, values)
    if not first.is_coo or (x._pattern.coalesced and y._pattern.coalesced):
        made = coalesce(made)
    return _like(a, made)


def _flat_view(dense: Any, pattern: Pattern) -> Any:
    sparse = coo_of(pattern).sparse_dim
    return dense.reshape(product(dense.shape[:sparse]), *dense.shape[sparse:])


def _dense_sum(dense: Any, sparse: Any, alpha: Any) -> Any:
    if tuple(broadcast_shapes(tuple(dense.shape), tuple(sparse.shape))) != tuple(dense.shape):
        if dense.ndim == 0:
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        dense = dense.expand(broadcast_shapes(tuple(dense.shape), tuple(sparse.shape)))
    if tuple(dense.shape) != tuple(sparse.shape):
        raise RuntimeError(
            f"add: Expected 'self' to have the size of 'other', but self has size {list(dense.shape)} while other has "
            f"size {list(sparse.shape)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    dtype = result_type(dense, sparse._elements)
    pattern = sparse._pattern
    values = _scaled(flat_elements(pattern, elements_of(sparse)), alpha).to(dtype)
    rows = _flat_view(dense.to(dtype), pattern)
    return rows.index_add(0, flat_places(pattern), values).reshape(dense.shape)


def add_to_dense_(target: Any, other: Any, *, alpha: Any = 1, minus: bool = False) -> Any:
    """Add a sparse tensor to a dense one, in place."""
    if is_sparse(alpha):
        raise TypeError("alpha must be a number")
    _same_shape("add_", target, other)
    pattern = other._pattern
    values = _scaled(flat_elements(pattern, elements_of(other)), -alpha if minus else alpha)
    if not can_cast(values.dtype, target.dtype):
        raise RuntimeError(
            f"result type {values.dtype.name} can't be cast to the desired output type {target.dtype.name}"
        )
    if target.is_contiguous():
        sparse = coo_of(pattern).sparse_dim
        rows = target.view(product(target.shape[:sparse]), *target.shape[sparse:])
        rows.index_add_(0, flat_places(pattern), values.to(target.dtype))
        return target
    return target.copy_(_dense_sum(target, other, -alpha if minus else alpha))


@handler("sub", "subtract", "__sub__")
def _sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    _no_out(out)
    if is_sparse(input) and not is_sparse(other) and (not isinstance(other, Tensor) or input._pattern.is_coo):
        raise RuntimeError("sub(sparse, dense) is not supported. Use sub(dense, sparse) instead.")
    if is_sparse(input) and not is_sparse(other):
        return add(build(input._pattern, elements_of(input)), -other if alpha == 1 else other * -alpha)
    return add(input, other, alpha=-alpha)


@handler("rsub", "__rsub__")
def _rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if not isinstance(other, Tensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    return _sub(other, input, alpha=alpha)


# ---- products


@handler("mul", "multiply", "__mul__", "__rmul__")
def multiply(input: Any, other: Any, *, out: Any = None) -> Any:
    """The product with a number, a dense tensor, or another sparse one: there where both are, sparse."""
    _no_out(out)
    if not is_sparse(input):
        input, other = other, input
    if not is_sparse(other):
        if _is_number(other):
            return build(input._pattern, elements_of(input) * other)
        return _times_dense(input, other)
    _same_shape("mul", input, other)
    if input._pattern is other._pattern:
        pattern = input._pattern
        if not pattern.is_coo or pattern.coalesced:
            return build(pattern, elements_of(input) * elements_of(other))
        input = coalesce(input)
        other = coalesce(other)
        return build(input._pattern, elements_of(input) * elements_of(other))
    a, b = coalesce(as_coo(input)), coalesce(as_coo(other))
    if a._pattern.sparse_dim != b._pattern.sparse_dim:
        raise RuntimeError("mul: expected 'self' and 'other' to have same number of sparse dimensions")
    there, values = coalesced_parts(a)
    others = flat_places(b._pattern)
    both = isin(there, others)
    kept = both.nonzero().reshape(-1)
    size = a._pattern.size[: a._pattern.sparse_dim]
    pattern = Pattern(a._pattern.layout, a._pattern.size, (unflatten(there[kept], size),), True)
    return _like(input, build(pattern, values.index_select(0, kept) * at_places(b, pattern)))


def _times_dense(sparse: Any, dense: Any) -> Any:
    shape = tuple(broadcast_shapes(tuple(sparse.shape), tuple(dense.shape)))
    if shape != tuple(sparse.shape):
        raise RuntimeError(
            f"mul: a sparse tensor of size {list(sparse.shape)} is not broadcast to {list(shape)}, the size of its "
            "product with a dense one"
        )
    pattern = sparse._pattern
    if dense.ndim == len(shape) and tuple(dense.shape) == shape:
        return build(pattern, elements_of(sparse) * at_places(dense, pattern))
    coo = coo_of(pattern)
    flat_places(pattern)  # which checks the indices
    factor = dense.expand(shape)[tuple(coo.indices[0][: coo.sparse_dim])]
    values = flat_elements(pattern, elements_of(sparse)) * factor
    return build(pattern, values if pattern.is_coo else values.reshape(pattern.values_shape))


def _divide(name: str, input: Any, other: Any, **more: Any) -> Any:
    if not is_sparse(input):
        raise refuse(name, other)
    if not _is_number(other):
        shape = f" (got shape {list(other.shape)} for divisor)" if isinstance(other, Tensor) else ""
        raise RuntimeError(f"Sparse division requires a scalar or zero-dim dense tensor divisor{shape}")
    linear = name == "div" and more.get("rounding_mode") is None
    tensor = input if linear or not input._pattern.is_coo else coalesce(input)
    return build(tensor._pattern, getattr(offered, name)(elements_of(tensor), other, **more))


@handler("div", "divide", "true_divide", "__truediv__")
def _div(input: Any, other: Any, *, rounding_mode: Any = None, out: Any = None) -> Any:
    _no_out(out)
    return _divide("div", input, other, rounding_mode=rounding_mode)


@handler("floor_divide", "__floordiv__")
def _floor_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    _no_out(out)
    return _divide("floor_divide", input, other)


@handler("pow", "__pow__")
def _pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    _no_out(out)
    if not is_sparse(input) or isinstance(exponent, Tensor):
        raise refuse("pow", input if is_sparse(input) else exponent)
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    tensor = coalesce(input) if input._pattern.is_coo else input
    return build(tensor._pattern, elements_of(tensor) ** exponent)


@handler("threshold_backward")
def _threshold_backward(grad: Any, output: Any, threshold: Any) -> Any:
    return multiply(grad, build(output._pattern, (output._elements > threshold).to(grad.dtype)))


@handler("norm", "native_norm")
def _norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if dim is not None or keepdim:
        raise refuse("norm with dim", input)
    tensor = coalesce(input) if input._pattern.is_coo else input
    return norm(elements_of(tensor).reshape(-1), 2 if p == "fro" else p, dtype=dtype)


@handler("any")
def _any(input: Any) -> Any:
    return elements_of(coalesce(as_coo(input))).any()
