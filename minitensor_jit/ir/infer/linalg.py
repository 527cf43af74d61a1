"""Shape rules of whole-array functions: fft, cholesky, triangular-solve, topk and rng-bit-generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..shape import AnyShape, Shape, TupleShape
from ..small_types import SMALL_INTEGERS
from .checks import Attrs, Rule, ShapeError, wrong

__all__ = ["LINALG_RULES"]

_COMPLEX: Final = {"f32": "c64", "f64": "c128"}
_REAL: Final = {c: f for f, c in _COMPLEX.items()}


def _fft(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, kind, lengths = shapes[0], attrs["fft_type"], tuple(attrs["fft_length"])
    if kind not in ("FFT", "IFFT", "RFFT", "IRFFT"):
        raise ShapeError(f"fft_type {kind} is none of FFT, IFFT, RFFT and IRFFT")
    if not 1 <= len(lengths) <= 3 or len(lengths) > source.rank:
        wrong(f"fft over {len(lengths)} dimensions of {source}")
    if source.dtype not in (_COMPLEX if kind == "RFFT" else _REAL):
        wrong(f"{kind} is not defined for {source.dtype}")
    tail = list(lengths)
    if kind == "IRFFT" and lengths[-1]:
        tail[-1] = lengths[-1] // 2 + 1
    if source.dims[source.rank - len(lengths) :] != tuple(tail):
        wrong(f"{kind} with fft_length {list(lengths)} does not fit {source}")
    outer = source.dims[: source.rank - len(lengths)]
    if kind == "RFFT":
        last = lengths[-1] // 2 + 1 if lengths[-1] else 0
        return Shape(_COMPLEX[source.dtype], (*outer, *lengths[:-1], last))
    return Shape(_REAL[source.dtype] if kind == "IRFFT" else source.dtype, (*outer, *lengths))


def _cholesky(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    a = shapes[0]
    if a.kind not in "fc" or a.rank < 2 or a.dims[-1] != a.dims[-2]:
        wrong(f"cholesky of {a}, expected square matrices")
    return a


def _triangular_solve(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    a, b = shapes
    if attrs.get("transpose_a", "NO_TRANSPOSE") not in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        wrong(f"triangular-solve: transpose_a={attrs['transpose_a']}")
    if a.kind not in "fc" or a.dtype != b.dtype or a.rank < 2 or a.rank != b.rank or a.dims[-1] != a.dims[-2]:
        raise ShapeError(f"triangular-solve of {a} and {b}, expected square matrices and right-hand sides")
    side = -2 if attrs.get("left_side") else -1
    if a.dims[:-2] != b.dims[:-2] or a.dims[-1] != b.dims[side]:
        wrong(f"triangular-solve: {a} and {b} do not fit")
    return b


def _topk(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    x, k = shapes[0], attrs["k"]
    if not x.rank or not 0 <= k <= x.dims[-1] or x.kind not in "iuf":
        wrong(f"topk of {x} with k={k}")
    dims = (*x.dims[:-1], k)
    return TupleShape((x.with_dims(dims), Shape("s32", dims)))


def _rng_bit_generator(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    state, algorithm = shapes[0], attrs["algorithm"]
    if algorithm not in ("rng_default", "rng_philox", "rng_three_fry"):
        wrong(f"rng-bit-generator has no algorithm {algorithm}")
    if state.dtype != "u64" or state.dims not in ((2,), (3,)) or (algorithm == "rng_three_fry" and state.dims != (2,)):
        wrong(f"rng-bit-generator with a state of {state}, expected u64[2] (or, for Philox, u64[3])")
    if not isinstance(declared, TupleShape) or len(declared.elements) != 2 or declared.elements[0] != state:
        raise ShapeError("rng-bit-generator gives its state and an array of bits")
    bits = declared.elements[1]
    if not isinstance(bits, Shape) or bits.kind not in "iu":
        wrong(f"rng-bit-generator gives integers, not {bits}")
    return declared


def _rng(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if attrs["distribution"] not in ("rng_uniform", "rng_normal"):
        wrong(f"rng has no distribution {attrs['distribution']}")
    if not isinstance(declared, Shape) or declared.kind not in "iuf" or declared.dtype in SMALL_INTEGERS:
        wrong(f"rng does not give {declared}")
    assert isinstance(declared, Shape)
    if attrs["distribution"] == "rng_normal" and declared.kind != "f":
        wrong(f"rng_normal gives floating-point numbers, not {declared}")
    if any(s != Shape(declared.dtype) for s in shapes):
        wrong(f"rng takes two numbers of type {declared.dtype}, got {shapes[0]} and {shapes[1]}")
    return declared


LINALG_RULES: Final[dict[str, Rule]] = {
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "topk": _topk,
    "rng": _rng,
    "rng-bit-generator": _rng_bit_generator,
}
