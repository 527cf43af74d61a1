"""Reductions of more forms: extremes, variances, norms, and comparisons of whole tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._functions.named_results import named
from minitensor._warning import warn
from minitensor.composite.dims import is_int, normal_dim
from minitensor.composite.numbers import check_kind, number
from minitensor.composite.registry import autocast, composite, grad_fn, one_node, shortcut
from minitensor.linalg.norms import magnitude_norm, matrix_norm
from minitensor.ops import ROWS
from minitensor.ops.elementwise import row_major, where

__all__: list[str] = []

Tensor = _C.Tensor


def dims_of(input: Any, dim: Any) -> tuple[int, ...]:
    """The dimensions that `dim` names, from 0; all for None and an empty list."""
    one = hasattr(dim, "__index__") and not (isinstance(dim, Tensor) and dim.ndim)
    given = () if dim is None else (dim,) if one else tuple(dim)
    named_dims = tuple(normal_dim(d, input.ndim) for d in given)
    return named_dims if given and input.ndim else tuple(range(input.ndim))


# ---- extremes


def _extreme(which: str, input: Any, dim: Any, keepdim: bool) -> Any:
    if isinstance(dim, Tensor):
        return ROWS[f"{which}imum"].call(input, dim)
    if dim is not None:
        if not is_int(dim):
            raise TypeError(f"{which}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}")
        return named(which, ("values", "indices"))(*ROWS[f"{which}_dim"].call(input, dim, keepdim))
    if input.numel() == 0:
        raise RuntimeError(
            f"{which}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    if input.is_complex():
        raise NotImplementedError(f"\"{which}_all\" not implemented for '{_C.type_name(input.dtype)}'")
    return _EXTREMES[which](input)


def _largest(input: Any) -> Any:
    return ROWS["amax"].call(input)


def _smallest(input: Any) -> Any:
    return ROWS["amin"].call(input)


_EXTREMES = {"max": one_node("MaxBackward1")(_largest), "min": one_node("MinBackward1")(_smallest)}


def _dim_or_other(dim: Any, other: Any) -> Any:
    return dim if other is None else other


@composite(out="several exact")
@shortcut("TT", ROWS["maximum"].call)
def _max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; along dim, the largest elements and their indices; or elementwise against a tensor."""
    return _extreme("max", input, _dim_or_other(dim, other), keepdim)


@composite(out="several exact")
@shortcut("TT", ROWS["minimum"].call)
def _min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; along dim, the smallest elements and their indices; or elementwise against a tensor."""
    return _extreme("min", input, _dim_or_other(dim, other), keepdim)


@composite(out="apart")
@grad_fn(None, "AminmaxBackward0")
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element, of all or along dim."""
    if input.is_complex():
        raise NotImplementedError(f"\"aminmax_cpu\" not implemented for '{_C.type_name(input.dtype)}'")
    if dim is None and input.numel() == 0:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    if dim is not None and input.ndim and input.shape[normal_dim(dim, input.ndim)] == 0:
        raise IndexError(f"aminmax: Expected reduction dim {normal_dim(dim, input.ndim)} to have non-zero size.")
    over = None if dim is None else (dim,)
    return named("aminmax", ("min", "max"))(
        ROWS["amin"].call(input, over, keepdim), ROWS["amax"].call(input, over, keepdim)
    )


# ---- variances


def _moment_arguments(name: str, input: Any, args: tuple[Any, ...], more: dict[str, Any]) -> tuple[Any, float, bool]:
    """(dim, correction, keepdim) from PyTorch's three forms: (unbiased), (dim, unbiased, keepdim), and by keyword."""
    if not (args or more) and input.is_floating_point() and input.numel() > 1:
        return None, 1.0, False
    names = ["unbiased"] if args and isinstance(args[0], bool) else ["dim", "unbiased", "keepdim"]
    unknown = set(more) - {"dim", "axis", "unbiased", "correction", "keepdim", "keepdims"}
    if len(args) > len(names) or unknown or ("unbiased" in more and "correction" in more):
        raise TypeError(f"{name}() received an invalid combination of arguments")
    given = dict(zip(names, args, strict=False))
    for key, value in more.items():
        key = {"axis": "dim", "keepdims": "keepdim"}.get(key, key)
        if key in given:
            raise TypeError(f"{name}() got multiple values for argument '{key}'")
        given[key] = value
    for flag in ("unbiased", "keepdim"):
        check_kind(given.setdefault(flag, flag == "unbiased"), "bool", name, flag)
    correction = given.get("correction")
    if correction is None:
        correction = 1 if given["unbiased"] else 0
    correction = number(correction, name, "correction")
    check_kind(correction, "float", name, "correction")  # PyTorch converts it
    dim = given.get("dim")
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError("std and var only support floating point and complex dtypes")
    count = math.prod(input.shape[d] for d in dims_of(input, dim)) if input.ndim else 1
    if count - correction <= 0:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel)."
        )
    return dim, float(correction), given["keepdim"]


def _variance(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    if input.is_complex():
        return _variance(input.real, dim, correction, keepdim) + _variance(input.imag, dim, correction, keepdim)
    return ROWS["var"].call(input, dim, correction, keepdim)


def _deviation(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    if input.is_complex():
        return _variance(input, dim, correction, keepdim).sqrt()
    return ROWS["std"].call(input, dim, correction, keepdim)


@composite(out="castable")
def var(input: Any, *args: Any, **more: Any) -> Tensor:
    """The variance: the sum of the squared deviations from the mean, over the count less the correction.

    Called as `var(input, dim=None, *, correction=1, keepdim=False)`, or with `unbiased`, which stands for a correction
    of 1 or 0: `var(input, unbiased)`, `var(input, dim, unbiased=True, keepdim=False)`.
    """
    return _variance(input, *_moment_arguments("var", input, args, more))


@composite(out="castable")
def std(input: Any, *args: Any, **more: Any) -> Tensor:
    """The standard deviation, the square root of the variance, with the arguments of `var`."""
    return _deviation(input, *_moment_arguments("std", input, args, more))


@composite(method=False)
@grad_fn(None, "VarMeanBackward0")
def var_mean(input: Any, *args: Any, **more: Any) -> Any:
    """The variance and the mean, with the arguments of `var`."""
    dim, correction, keepdim = _moment_arguments("var_mean", input, args, more)
    return _variance(input, dim, correction, keepdim), input.mean(dim, keepdim)


@composite(method=False)
@grad_fn(None, "StdMeanBackward0")
def std_mean(input: Any, *args: Any, **more: Any) -> Any:
    """The standard deviation and the mean, with the arguments of `var`."""
    dim, correction, keepdim = _moment_arguments("std_mean", input, args, more)
    return _deviation(input, dim, correction, keepdim), input.mean(dim, keepdim)


@composite(out="castable")
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of the elements that are not NaN."""
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {_C.type_name(input.dtype)}"
        )
    count = (input == input).sum(dim, keepdim)
    return ROWS["nansum"].call(input, dim, keepdim, dtype=dtype) / count


# ---- norms


def vector_norm(input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The p-norm of the elements over dim, or over all of them."""
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {_C.type_name(input.dtype)}"
        )
    over = dims_of(input, dim)
    p = float(number(p, "linalg.vector_norm", "ord"))
    if (p < 0 or math.isinf(p)) and any(input.shape[d] == 0 for d in over):
        text = "inf" if p == math.inf else "-inf" if p == -math.inf else f"{p:g}"
        where_to = "tensor" if dim is None else f"dimension {next(d for d in over if input.shape[d] == 0)}"
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {text} norm on an empty {where_to} "
            "because the operation does not have an identity"
        )
    if input.is_complex():
        input = input if dtype is None else input.to(dtype)
        return magnitude_norm(input.abs(), p, over, keepdim, None)
    if dtype is not None and dtype.is_complex:
        dtype = input.to(dtype).abs().dtype
    return magnitude_norm(input, p, over, keepdim, dtype)


@composite(out="exact")
@autocast("", "float32")
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The norm of a matrix or vector.

    p is a number, "fro" (the square root of the sum of squares) or "nuc" (the sum of the singular values of a matrix).
    """
    if p is None or p == "fro":
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if p == "nuc":
        return _nuclear(input, dim, keepdim, dtype)
    if isinstance(p, str):
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    return vector_norm(input, p, dim, keepdim, dtype=dtype)


def _nuclear(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim, dtype=dtype)


@composite(out="castable", method=False)
@autocast("", "float32")
def frobenius_norm(input: Any, dim: Any, keepdim: bool = False) -> Tensor:
    """The square root of the sum of the squares over dim."""
    return vector_norm(input, 2, dim, keepdim)


@composite(out="castable", method=False)
@autocast("", "float32")
def nuclear_norm(input: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of the matrices in two dimensions."""
    return _nuclear(input, dim, keepdim, None)


@composite(method=False)
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but dim, which stays; over all for dim -1."""
    if dim == -1:
        return vector_norm(v, pow)
    if not v.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = normal_dim(dim, v.ndim)
    if v.ndim == 1:
        return vector_norm(v.unsqueeze(1), pow, [1])  # no dimensions at all would mean all of them
    return vector_norm(v, pow, [d for d in range(v.ndim) if d != dim], True)


@composite(out="exact", inplace=True)
@autocast("", "float32")
@grad_fn("RenormBackward0")
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along dim, those whose p-norm is above maxnorm scaled to it."""
    p, maxnorm = number(p, "renorm", "p"), number(maxnorm, "renorm", "maxnorm")
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    kept = normal_dim(dim, input.ndim)
    norms = vector_norm(input, p, [d for d in range(input.ndim) if d != kept], True)
    return (input * where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)).contiguous()


@composite()
@autocast("", "float32")
@grad_fn("DistBackward0")
def dist(input: Any, other: Any, p: float = 2) -> Tensor:
    """The p-norm of input - other."""
    difference = input - other
    if not (difference.is_floating_point() or difference.is_complex()):
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. "
            f"Got {_C.type_name(difference.dtype)} instead."
        )
    return vector_norm(difference, p)


# ---- exponentials


@composite(out="castable", namespaces=("special",))
@autocast("", "float32")
def logsumexp(input: Any, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """The logarithm of the sum of exp(x) over dim, without overflow."""
    if not (input.is_floating_point() or input.is_complex()):
        input = input.to(_C.get_default_dtype())
    if input.is_complex():
        return _complex_logsumexp(input, dims_of(input, dim), keepdim)
    over = sorted(dims_of(input, dim))
    if len(over) == 1 or input.ndim == 0:
        return ROWS["_logsumexp"].call(input, over[0] if over else 0, keepdim)
    if len(set(over)) != len(over):
        raise RuntimeError(f"dim {over[0]} appears multiple times in the list of dims")
    kept = [d for d in range(input.ndim) if d not in over]
    flat = input.permute((*kept, *over)).reshape((*(input.shape[d] for d in kept), -1))
    result = ROWS["_logsumexp"].call(flat, -1, False)
    return result.reshape([1 if d in over else n for d, n in enumerate(input.shape)]) if keepdim else result


def _complex_logsumexp(input: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    if input.numel() == 0:
        return input.sum(dim, keepdim).log()
    shift = input.real.amax(dim, True)
    shift = where(shift.isinf(), 0.0, shift)
    total = (input - shift).exp().sum(dim, True).log() + shift
    return total if keepdim else total.squeeze(dim)


# ---- counts and comparisons


@composite()
def count_nonzero(input: Any, dim: Any = None) -> Tensor:
    """How many elements are not zero, of all or over dim."""
    truth = input if input.dtype is _C.bool else input != 0
    return truth.sum(dims_of(input, dim))


@composite()
def equal(input: Any, other: Any) -> bool:
    """Whether the tensors have the same shape and equal elements."""
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' must be Tensor, not {type(other).__name__}")
    return tuple(input.shape) == tuple(other.shape) and bool((input == other).all())


@composite()
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether abs(input - other) <= atol + rtol * abs(other) for all elements."""
    return bool(input.isclose(other, rtol=rtol, atol=atol, equal_nan=equal_nan).all())


@composite(out="exact")
def hash_tensor(input: Any, dim: Any = None, *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The exclusive or of the bits of the elements over dim, or over all of them, as uint64.

    Of floating point numbers the bits are those of float64, of integers those of int64. There is no `mode` but 0.
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.is_complex():
        raise NotImplementedError(f"\"xor_sum_cpu\" not implemented for '{_C.type_name(input.dtype)}'")
    if dim is None and input.numel() == 0:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument."
        )
    over = dims_of(input, dim)
    for d in over:
        if input.shape[d] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    bits = input.to(_C.float64).view(_C.int64) if input.is_floating_point() else input.to(_C.int64)
    bits = bits if bits.ndim else bits.reshape((1,))
    for d in over or ((0,) if input.ndim == 0 else ()):
        bits = _xor_along(bits, d)
    if not input.ndim:
        return row_major(bits).reshape(()).view(_C.uint64)
    shape = [1 if d in over else n for d, n in enumerate(input.shape)]
    shape = shape if keepdim else [n for d, n in enumerate(input.shape) if d not in over]
    return row_major(bits).reshape(tuple(shape)).view(_C.uint64)  # a copy, also where there was nothing to combine


def _xor_along(bits: Any, dim: int) -> Any:
    """One half against the other, until one is left."""
    n = bits.shape[dim]
    while n > 1:
        half = n // 2
        joined = bits.narrow(dim, 0, half).bitwise_xor(bits.narrow(dim, half, half))
        bits = ROWS["cat"].call([joined, bits.narrow(dim, n - 1, 1)], dim) if n % 2 else joined
        n = half + n % 2
    return bits
