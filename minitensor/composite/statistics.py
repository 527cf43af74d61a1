"""Histograms, covariances, differences, integrals, and reductions of segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._functions.named_results import named
from minitensor._warning import warn
from minitensor.composite.dims import ints_of, is_int, normal_dim
from minitensor.composite.numbers import number, whole
from minitensor.composite.registry import composite
from minitensor.ops import ROWS
from minitensor.ops.checks import refuse_where
from minitensor.ops.creation import linspace
from minitensor.ops.elementwise import clone, where

__all__: list[str] = []

Tensor = _C.Tensor

# ---- counts


@composite()
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 up stands in a vector of integers, or the sums of the weights of its places."""
    minlength = whole(minlength, "bincount", "minlength")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if input.is_floating_point() or input.is_complex() or input.dtype is _C.bool:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{_C.type_name(input.dtype)}'")
    if input.ndim != 1 or (input.numel() and int(input.min()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    size = max(minlength, int(input.max()) + 1 if input.numel() else 0)
    return ROWS["_bincount"].call(input, weights, size)


def _finite_range(input: Any, low: float, high: float, name: str, dim: int = 0) -> tuple[float, float]:
    if low == high and input.numel():
        low, high = float(input.min()), float(input.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        at = "" if name == "torch.histc" else f"dimension {dim}'s "
        raise RuntimeError(f"{name}: {at}range [{low:g}, {high:g}] is not finite")
    if low > high:
        if name == "torch.histc":
            raise RuntimeError("torch.histc: max must be larger than min")
        raise RuntimeError(f"{name}: min should not exceed max, but got min {low:g} max {high:g} for dimension {dim}")
    return (
        (low - 1, high + 1)
        if low == high and name == "torch.histc"
        else ((low - 0.5, high + 0.5) if low == high else (low, high))
    )


def _check_bins(bins: int, dim: int = 0) -> None:
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}")


@composite(out="exact")
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of `bins` equal intervals from min to max; of the elements' range for 0 and 0."""
    _check_bins(bins)
    if not input.is_floating_point():
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{_C.type_name(input.dtype)}'")
    min, max = number(min, "histc", "min"), number(max, "histc", "max")
    low, high = _finite_range(input, float(min), float(max), "torch.histc")
    edges = linspace(low, high, bins + 1, dtype=input.dtype, device=input.device)
    return ROWS["_histogramdd"].call(input.detach().reshape((-1, 1)), edges, None, (bins,), True, False)


def _grid(
    points: Any, bins: list[Any], span: Sequence[float] | None, weight: Any, density: bool
) -> tuple[Any, list[Any]]:
    """The histogram of the rows of a matrix, and the edges of its bins."""
    if points.dtype not in (_C.float32, _C.float64):
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{_C.type_name(points.dtype)}'")
    uniform = not isinstance(bins[0], Tensor)
    edges = []
    for d, bin in enumerate(bins):
        if isinstance(bin, Tensor):
            if bin.dtype is not points.dtype:
                raise RuntimeError(
                    "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with "
                    f"dtype {_C.type_name(points.dtype)} and bins for dimension {d} with dtype "
                    f"{_C.type_name(bin.dtype)}"
                )
            if bin.ndim != 1 or bin.shape[0] == 0:
                raise RuntimeError(
                    f"torch.histogramdd: bins tensor should have one dimension, but got {bin.ndim} dimensions in the "
                    f"bins tensor for dimension {d}"
                )
            edges.append(bin)
            continue
        _check_bins(bin, d)
        ends = (0, 0) if span is None else span[2 * d : 2 * d + 2]
        low, high = (float(number(end, "histogram", "range")) for end in ends)
        if span is None and not points.numel():
            low, high = 0.0, 1.0
        low, high = _finite_range(points.select(1, d), low, high, "torch.histogramdd", d)
        edges.append(linspace(low, high, bin + 1, dtype=points.dtype, device=points.device))
    if weight is not None and weight.dtype is not points.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
            f"dtype, but got input({_C.type_name(points.dtype)}), and weight({_C.type_name(weight.dtype)})"
        )
    if weight is not None and weight.numel() != points.shape[0]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            "excluding its innermost dimension"
        )
    counts = tuple(e.shape[0] - 1 for e in edges)
    flat = None if weight is None else weight.reshape(-1)
    hist = ROWS["_histogramdd"].call(points, ROWS["cat"].call(edges, 0), flat, counts, uniform, True)
    if density:
        hist = hist / hist.sum()
        for d, e in enumerate(edges):
            width = e.slice(0, 1, e.shape[0], 1) - e.slice(0, 0, e.shape[0] - 1, 1)
            hist = hist / width.reshape([-1 if k == d else 1 for k in range(len(edges))])
    return hist, edges


@composite(out="exact")
def histogram(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """How many elements, or what sum of their weights, lies in each bin, and the edges of the bins.

    `bins` is the number of equal bins over the range, or a tensor of edges.
    """
    if range is not None and not isinstance(range, (tuple, list)):
        raise TypeError(f"histogram(): argument 'range' must be tuple of floats, not {type(range).__name__}")
    if range is not None and len(range) != 2:
        raise RuntimeError(
            f"torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got {len(range)}"
        )
    if weight is not None and tuple(weight.shape) != tuple(input.shape):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {[*input.shape, 1]} and weight with "
            f"shape {list(weight.shape)}"
        )
    hist, edges = _grid(input.reshape((-1, 1)), [bins], range, weight, density)
    return named("histogram", ("hist", "bin_edges"))(hist, edges[0].clone() if edges[0] is bins else edges[0])


@composite(method=False)
def histogramdd(
    input: Any, bins: Any, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> Any:
    """How many points, which are the last dimension of the input, lie in each cell of a grid, and the grid's edges."""
    if input.ndim < 2:
        raise RuntimeError(f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {input.ndim}")
    axes = input.shape[-1]
    bins = ints_of(bins) * axes if is_int(bins) else list(bins)
    if len(bins) != axes:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * axes:
        raise RuntimeError(
            f"torch.histogramdd: for a {axes}-dimensional histogram range should have {2 * axes} elements, "
            f"but got {len(range)}"
        )
    hist, edges = _grid(input.reshape((-1, axes)), bins, range, weight, density)
    return named("histogramdd", ("hist", "bin_edges"))(hist, tuple(edges))


# ---- covariance


@composite()
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariances of variables, the rows of a matrix, over observations, its columns.

    These may have frequencies (fweights) and importances (aweights).
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype is _C.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape((1, -1)) if input.ndim < 2 else input
    n = x.shape[1]
    weights = None
    for given, name, count in ((fweights, "fweights", True), (aweights, "aweights", False)):
        if given is None:
            continue
        if given.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {given.ndim} dimensions"
            )
        if given.is_floating_point() == count:
            raise RuntimeError(
                f"cov(): expected {name} to have {'integral' if count else 'floating point'} dtype but got {name} with "
                f"{_C.type_name(given.dtype)} dtype"
            )
        if given.numel() != n:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{given.numel()} != {n}"
            )
        refuse_where(given < 0, f"cov(): {name} cannot be negative")
        weights = given if weights is None else weights * given
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.get_default_dtype())
    if weights is None:
        mean, total = (x.mean(1, True), n) if n else (math.nan, 0)
    else:
        total = weights.sum()
        refuse_where(total == 0, "cov(): weights sum to zero, can't be normalized")
        mean = (x * weights).sum(1, True) / total
    if weights is None:
        freedom = n - correction
    elif aweights is not None and correction:
        freedom = total - correction * (weights * aweights).sum() / total
    else:
        freedom = total - correction
    freedom = max(float(freedom), 0.0) if not isinstance(freedom, Tensor) else where(freedom < 0, 0.0, freedom)
    if float(freedom) <= 0:
        warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.")
    centred = x - mean
    other = centred if weights is None else centred * weights
    transposed = (other.conj() if other.is_complex() else other).transpose(0, 1)
    product = centred.matmul(transposed) / freedom
    return product.squeeze() if input.ndim < 2 or product.numel() == 1 else product


@composite()
def corrcoef(input: Any) -> Tensor:
    """The correlation coefficients of variables, the rows of a matrix."""
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    c = cov(input)
    if c.ndim == 0:
        return c / c
    d = c.diagonal()
    deviation = (d.real if d.is_complex() else d).sqrt()
    c = c / deviation.reshape((-1, 1)) / deviation.reshape((1, -1))
    return c if c.is_complex() else c.clamp(-1, 1)


# ---- differences and integrals


def _ends(x: Any, dim: int) -> tuple[Any, Any]:
    """All but the first, and all but the last along dim."""
    n = x.shape[dim]
    return x.slice(dim, 1, n, 1), x.slice(dim, 0, max(n - 1, 0), 1)


@composite(out="exact")
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The n-th differences of neighbours along dim, with other elements put before and after it first."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    n = whole(n, "diff", "n")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    place = normal_dim(dim, input.ndim)
    for given in (prepend, append):
        if given is None:
            continue
        if given.ndim != input.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        for d in range(input.ndim):
            if d != place and given.shape[d] != input.shape[d]:
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match that of input except along the "
                    f"differencing dimension; input.size({d}) = {input.shape[d]}, but got tensor.size({d}) = "
                    f"{given.shape[d]}"
                )
    if n == 0:
        return clone(input)
    parts = [t for t in (prepend, input, append) if t is not None]
    x = ROWS["cat"].call(parts, place) if len(parts) > 1 else input
    if n >= x.shape[place]:
        return x.slice(place, 0, 0, 1).clone()
    for _ in range(n):
        after, before = _ends(x, place)
        x = after != before if x.dtype is _C.bool else after - before
    return x


def _sections(y: Any, x: Any, dx: Any, dim: int, name: str) -> tuple[Any, Any, int]:
    """Twice the mean heights between neighbours along dim, the widths (a number is halved), and the dimension."""
    if y.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    place = normal_dim(dim, y.ndim)
    for given, what in ((y, "y"), (x, "x")):
        if given is not None and given.dtype is _C.bool:
            raise RuntimeError(f"{name}: received a bool input for `{what}`, but bool is not supported")
    after, before = _ends(y, place)
    if x is None:
        if isinstance(dx, (bool, complex)):
            raise RuntimeError(f"{name}: Currently, we only support dx as a real number")
        return after + before, number(dx, name, "dx") / 2, place
    if x.ndim == 1 and x.shape[0] != y.shape[place]:
        raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
    if x.ndim == 1:
        x = x.reshape([-1 if d == place else 1 for d in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + tuple(x.shape))
    x_after, x_before = _ends(x, place + x.ndim - y.ndim)
    return after + before, x_after - x_before, place + x.ndim - y.ndim


@composite(aliases=("trapz",), method=False)
def trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral along dim by the trapezoidal rule, of points at the places x or at distances dx."""
    if y.ndim and y.shape[normal_dim(dim, y.ndim)] == 0:
        return y.new_zeros([n for d, n in enumerate(y.shape) if d != normal_dim(dim, y.ndim)])
    heights, width, place = _sections(y, x, dx, dim, "trapezoid")
    if isinstance(width, Tensor):
        return (width * heights).sum(place) / 2
    return heights.sum(place) * width


@composite(method=False)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integrals up to each place along dim by the trapezoidal rule; see `trapezoid`."""
    heights, width, place = _sections(y, x, dx, dim, "cumulative_trapezoid")
    if isinstance(width, Tensor):
        return (width * heights).cumsum(place) / 2
    return (heights * width).cumsum(place)


# ---- segments

_KINDS = {"sum": 0, "mean": 1, "max": 2, "amax": 2, "min": 3, "amin": 3, "prod": 4}


@composite(method=False)
def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """Consecutive segments along axis reduced by sum, mean, max, min or prod.

    They are given by their lengths or by the offsets between them.
    """
    if reduce not in _KINDS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    place = normal_dim(axis, data.ndim)
    if offsets is None:
        if not unsafe:
            refuse_where(lengths < 0, "lengths contains negative value!")
            refuse_where(
                lengths.sum(-1) != data.shape[lengths.ndim - 1],
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                "!unsafe.",
            )
        if lengths.ndim != place + 1:
            raise RuntimeError(
                "segment_reduce(): Expected axis to be the last dimension of lengths but got " + str(axis) + "."
            )
        offsets = ROWS["cat"].call([lengths.new_zeros((*lengths.shape[:-1], 1)), lengths.cumsum(-1)], -1)
    elif offsets.ndim != place + 1:
        raise RuntimeError(
            "segment_reduce(): Expected axis to be the last dimension of offsets but got " + str(axis) + "."
        )
    start = None if initial is None else float(initial)
    return ROWS["_segment_reduce"].call(data, offsets.to(_C.int64), _KINDS[reduce], start, place)
