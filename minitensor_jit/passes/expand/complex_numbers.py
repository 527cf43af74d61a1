"""Complex numbers by their parts, as `docs/numerics.md` says: sizes, signs, sums and products of matrices."""

from __future__ import annotations

from typing import Final

from ...ir.builder import Builder
from ...ir.module import Computation, Instruction
from ...ir.semantics.reduction import reduction_kind
from ...ir.shape import Shape
from .rule import Rule, inline

__all__ = ["COMPLEX_RULES"]


def _is_complex(i: Instruction) -> bool:
    return isinstance(i.shape, Shape) and i.array_shape.kind == "c"


def _size(b: Builder, x: Instruction) -> Instruction:
    return b.elementwise_call("hypot", b.real(x), b.imag(x))


def _abs(b: Builder, i: Instruction) -> Instruction | None:
    return _size(b, i.operands[0]) if _is_complex(i.operands[0]) else None


def _sign(b: Builder, i: Instruction) -> Instruction | None:
    x = i.operands[0]
    if not _is_complex(x):
        return None
    size = _size(b, x)
    none = b.compare(size, b.full(size.array_shape, 0.0), "EQ")
    parts = [b.select(none, part, b.divide(part, size)) for part in (b.real(x), b.imag(x))]
    return b.complex(*parts)


def _rsqrt(b: Builder, i: Instruction) -> Instruction | None:
    x = i.operands[0]
    return b.divide(b.full(x.array_shape, 1.0), b.sqrt(x)) if _is_complex(x) else None


def _part_of(dtype: str) -> str:
    return "f32" if dtype == "c64" else "f64"


def _by_parts(computation: Computation, dtypes: list[str]) -> Computation:
    """A function of scalars, some complex, on their parts."""
    b = Builder(f"{computation.name}_parts")
    operands = []
    for dtype in [*dtypes, *dtypes]:
        if dtype in ("c64", "c128"):
            part = Shape(_part_of(dtype))
            operands.append(b.complex(b.parameter(part), b.parameter(part)))
        else:
            operands.append(b.parameter(Shape(dtype)))
    root = inline(b, computation, operands)
    parts: list[Instruction] = []
    for value in root.operands if root.is_tuple else [root]:
        parts += [b.real(value), b.imag(value)] if _is_complex(value) else [value]
    made = b.build_computation(parts)
    made.remove_dead()
    return made


def _reduce(b: Builder, i: Instruction) -> Instruction | None:
    """A sum is two sums; any other reduction takes the parts as operands of their own."""
    n = len(i.operands) // 2
    inputs, inits = i.operands[:n], i.operands[n:]
    if not any(map(_is_complex, inputs)):
        return None
    dimensions, combiner = i.attrs["dimensions"], i.attrs["to_apply"]
    if n == 1 and reduction_kind(combiner) == "add":
        parts = [b.reduce(part(inputs[0]), part(inits[0]), dimensions, "add") for part in (b.real, b.imag)]
        return b.complex(*parts)
    values = [part for x in inputs for part in ([b.real(x), b.imag(x)] if _is_complex(x) else [x])]
    starts = [part for x in inits for part in ([b.real(x), b.imag(x)] if _is_complex(x) else [x])]
    made = b.reduce(values, starts, dimensions, _by_parts(combiner, [x.dtype for x in inputs]))
    results, at = [], 0
    for x in inputs:
        if _is_complex(x):
            results.append(b.complex(b.get_tuple_element(made, at), b.get_tuple_element(made, at + 1)))
            at += 2
        else:
            results.append(b.get_tuple_element(made, at))
            at += 1
    return results[0] if n == 1 else b.tuple(*results)


def _dot(b: Builder, i: Instruction) -> Instruction | None:
    """Four products of the parts."""
    x, y = i.operands
    if not _is_complex(x):
        return None

    def product(left: Instruction, right: Instruction) -> Instruction:
        return b.emit("dot", (left, right), dict(i.attrs))

    re, im, re2, im2 = b.real(x), b.imag(x), b.real(y), b.imag(y)
    return b.complex(
        b.subtract(product(re, re2), product(im, im2)),
        b.add(product(re, im2), product(im, re2)),
    )


COMPLEX_RULES: Final[dict[str, Rule]] = {
    "abs": _abs,
    "sign": _sign,
    "rsqrt": _rsqrt,
    "reduce": _reduce,
    "dot": _dot,
}
