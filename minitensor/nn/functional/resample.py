"""Images in other sizes.

Every mode but "area" is a sum over few elements along each dimension in turn, with weights that depend on the position
only; :func:`_taps` makes these.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, bfloat16, float16, float32, float64, int32, int64, uint8
from minitensor._functions.offered import tensor
from minitensor._warning import warn
from minitensor.composite.layout import in_format_of
from minitensor.composite.numbers import number, whole, whole_sizes
from minitensor.composite.registry import one_node
from minitensor.ops import ROWS

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

Taps = tuple[tuple[tuple[int, ...], ...], tuple[tuple[float, ...], ...]]
_MODES = {
    3: ("nearest", "nearest-exact", "area", "linear"),
    4: ("nearest", "nearest-exact", "area", "bilinear", "bicubic"),
    5: ("nearest", "nearest-exact", "area", "trilinear"),
}

_MANY = 1 << 22
_resample = ROWS["_resample"].call


def _single(x: float) -> float:
    """Round to float32, in which positions are computed."""
    return float(struct.unpack("f", struct.pack("f", x))[0])


def _step(size: int, out: int, align_corners: bool, scale: float | None, wide: bool) -> float:
    """Return the distance of neighbouring results in the input."""
    if align_corners:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = 1.0 / scale if scale is not None and scale > 0 else size / out
    return step if wide else _single(step)


def _cubic(x: float, a: float) -> float:
    """Return Keys's kernel ("Cubic convolution interpolation for digital image processing", 1981)."""
    x = abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


@functools.lru_cache(maxsize=256)
def _taps(
    size: int, out: int, mode: str, align_corners: bool, scale: float | None, antialias: bool, wide: bool
) -> Taps:
    """Return for every tap the elements that the results read, and their weights."""
    rounded = (lambda x: x) if wide else _single
    if mode in ("nearest", "nearest-exact"):
        step = 1.0 if scale is None and size == out else _step(size, out, False, scale, wide)
        shift = 0.5 if mode == "nearest-exact" else 0.0
        places = tuple(min(math.floor(rounded((i + shift) * step)), size - 1) for i in range(out))
        return (places,), ((1.0,) * out,)
    step = _step(size, out, align_corners, scale, wide)
    rows: list[list[tuple[int, float]]] = []
    for i in range(out):
        if antialias:
            rows.append(_antialiased(size, i, step, mode))
            continue
        at = rounded(step * i) if align_corners else rounded(rounded(step * (i + 0.5)) - 0.5)
        if mode == "linear":
            at = max(at, 0.0)
            low = min(int(at), size - 1)
            part = min(max(at - low, 0.0), 1.0)
            rows.append([(low, 1.0 - part), (min(low + 1, size - 1), part)])
        else:
            low = math.floor(at)
            part = min(max(at - low, 0.0), 1.0)
            rows.append([(min(max(low + k, 0), size - 1), _cubic(part - k, -0.75)) for k in (-1, 0, 1, 2)])
    count = max((len(r) for r in rows), default=0)
    rows = [r + [(r[-1][0], 0.0)] * (count - len(r)) for r in rows]
    return (
        tuple(tuple(r[k][0] for r in rows) for k in range(count)),
        tuple(tuple(r[k][1] for r in rows) for k in range(count)),
    )


def _antialiased(size: int, i: int, step: float, mode: str) -> list[tuple[int, float]]:
    """Return a result's elements and weights: the kernel is as wide as the distance of results."""
    half = 1.0 if mode == "linear" else 2.0
    wide = max(step, 1.0)
    support, center = half * wide, step * (i + 0.5)
    first = max(int(center - support + 0.5), 0)
    last = min(int(center + support + 0.5), size)
    places = range(first, max(last, first + 1))
    distances = [(j - center + 0.5) / wide for j in places]
    weights = [max(1.0 - abs(d), 0.0) if mode == "linear" else _cubic(d, -0.5) for d in distances]
    total = sum(weights)
    return [(j, w / total if total else w) for j, w in zip(places, weights, strict=True)]


def _joined(taps: Taps) -> Taps:
    """Return the taps with the weights of places beyond an edge added to the edge's, where they are read."""
    places, weights = [list(p) for p in taps[0]], [list(w) for w in taps[1]]
    for i in range(len(places[0])):
        for k in range(1, len(places)):
            first = next(j for j in range(k + 1) if places[j][i] == places[k][i])
            if first != k:
                weights[first][i] += weights[k][i]
                weights[k][i] = 0.0
    return tuple(map(tuple, places)), tuple(map(tuple, weights))


def _along_bytes(x: Tensor, dim: int, taps: Taps) -> Tensor:
    """Return weighted sums of bytes, rounded to bytes: as PyTorch's, with weights of 15 bits and a common exponent."""
    taps = _joined(taps)
    largest = max(w for weights in taps[1] for w in weights)
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    whole = tuple(tuple(float(int(math.copysign(0.5, w) + w * (1 << bits))) for w in row) for row in taps[1])
    total = _along(x.to(int32), dim, (taps[0], whole))
    return ((total + (1 << bits >> 1)) >> bits).clamp(0, 255).to(uint8)


def _along(x: Tensor, dim: int, taps: Taps) -> Tensor:
    if x.dtype == uint8 and len(taps[0]) > 1:
        return _along_bytes(x, dim, taps)
    result: Any = None
    shape = [1] * x.dim()
    shape[dim] = len(taps[0][0]) if taps[0] else 0
    for places, weights in zip(*taps, strict=True):
        part = x.index_select(dim, tensor(places, dtype=int64, device=x.device))
        if len(taps[0]) > 1:
            part = part * tensor(weights, dtype=x.dtype, device=x.device).reshape(shape)
        result = part if result is None else result + part
    return result


def _flat(taps: tuple[Taps | None, ...], dtype: _C.dtype) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Return the places and the weights of every dimension, one after the other, and how many taps each has."""
    given = [t for t in taps if t is not None]
    places = [p for t in given for row in t[0] for p in row]
    weights = [w for t in given for row in t[1] for w in row]
    counts = tuple(0 if t is None else len(t[0]) for t in taps)
    return tensor(places, dtype=int64), tensor(weights, dtype=dtype), counts


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return signals ``[N, C, L]``, images ``[N, C, H, W]`` or volumes ``[N, C, D, H, W]`` in another size.

    ``mode`` is "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area". ``align_corners``
    makes the corners' centers fall together instead of their edges. With ``scale_factor`` the positions use it as
    given, or with ``recompute_scale_factor`` what it amounts to in whole pixels. ``antialias`` widens the kernel of
    "bilinear" and "bicubic" where the image shrinks.
    """
    linear = mode in ("linear", "bilinear", "trilinear", "bicubic")
    if not linear:
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
        align_corners = False
    align_corners = bool(align_corners)
    rank = input.dim() - 2
    sizes, scales = _sizes(input, rank, size, scale_factor)
    if recompute_scale_factor is not None and recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if recompute_scale_factor:
        scales = None
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if input.dim() not in _MODES:
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
            f"{input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact "
            f"(got {mode})"
        )
    if mode not in _MODES[input.dim()]:
        for other, modes in _MODES.items():
            if mode in modes:
                raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {other}D input")
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the modes: nearest | "
            f"linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})"
        )
    if min(sizes) <= 0 or 0 in input.shape[1:]:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(input.shape[2:])} output {sizes}"
        )
    if max(sizes) > _MANY:
        # What the taps are computed for must have room: an impossible size is refused before they are.
        input.new_empty((*input.shape[:2], *sizes))
    if mode == "area":
        from minitensor.nn.functional import adaptive_pooling

        pool = getattr(adaptive_pooling, f"adaptive_avg_pool{rank}d")
        area: Tensor = pool(input, sizes)
        return area
    antialias = bool(antialias)
    return _resize_as(mode, rank, antialias)(input, sizes, scales, mode, align_corners, antialias)


@functools.cache
def _resize_as(mode: str, rank: int, antialias: bool) -> Callable[..., Tensor]:
    words = "".join(word.capitalize() for word in mode.split("-"))
    return one_node(f"Upsample{words}{rank}D{'Aa' if antialias else ''}Backward0")(_resize)


def _resize(
    input: Tensor, sizes: list[int], scales: list[float] | None, mode: str, align_corners: bool, antialias: bool
) -> Tensor:
    rank = len(sizes)
    linear = not mode.startswith("nearest")
    kind = mode if not linear else "cubic" if mode == "bicubic" else "linear"
    if linear and input.dtype in (float16, bfloat16):
        wide = input.to(float32)  # rounded once, at the end
        return _resize(wide, sizes, scales, mode, align_corners, antialias).to(input.dtype)
    result = input
    precise = input.dtype == float64 or (linear and input.dtype == uint8)
    taps: list[Taps | None] = []
    for d in range(rank):
        n, out = input.shape[2 + d], sizes[d]
        scale = None if scales is None else scales[d]
        if n == out and (kind != "linear" or not antialias) and (scale is None or scale == 1.0):
            taps.append(None)
        else:
            taps.append(_taps(n, out, kind, align_corners, scale, antialias, precise))
    if linear and input.dtype in (float32, float64):
        places, weights, counts = _flat(tuple(taps), input.dtype)
        whole: Tensor = _resample(input, places.to(input.device), weights.to(input.device), counts, tuple(sizes))
        return in_format_of(input, whole)
    # The last dimension first; where there is little to do the order does not matter.
    for d in reversed(range(rank)):
        if (along := taps[d]) is not None:
            result = _along(result, 2 + d, along)
    return in_format_of(input, result) if result is not input else input.clone()


def _sizes(input: Tensor, rank: int, size: Any, scale_factor: Any) -> tuple[list[int], list[float] | None]:
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if isinstance(size, (list, tuple)):
            if len(size) != rank:
                raise ValueError(
                    "Input and output must have the same number of spatial dimensions, but got input with spatial "
                    f"dimensions of {list(input.shape[2:])} and output size of {size}. Please provide input tensor in "
                    "(N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
                )
            return list(whole_sizes(size, "interpolate", "size")), None
        return [whole(size, "interpolate", "size")] * rank, None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != rank:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(input.shape[2:])} and scale_factor of shape {scale_factor}. Please provide input "
                "tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
            )
        scales = [float(number(s, "interpolate", "scale_factor")) for s in scale_factor]
    else:
        scales = [float(number(scale_factor, "interpolate", "scale_factor"))] * rank
    return [math.floor(n * s) for n, s in zip(input.shape[2:], scales, strict=True)], scales


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """:func:`interpolate`, under its old name."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> Tensor:
    """:func:`interpolate` with mode "nearest", under its old name."""
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> Tensor:
    """:func:`interpolate` with mode "bilinear" and aligned corners, under its old name."""
    warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
