"""`kernel-call`: an op of the eager core on whole arrays, in the text a custom-call to `mt.kernel.NAME`.

Its backend_config says how the operands stand for the op's own, and which parameters it has:
`{"operands":"tsn","params":[1,null,{"dtype":"f32"},[0,2]]}`, with a `"default_dtype"` that is not f32. A letter is an
operand: `t`ensor, `s`calar (an array without dimensions that becomes a number) or `n`one, which has no operand here. An
op that draws random numbers has one operand more, u64[2]: seed and offset.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..module import Instruction
from ..shape import AnyShape, Shape, TupleShape
from ..size import Size, active

__all__ = ["KERNEL_PREFIX", "DTypeParam", "KernelCall", "Param", "is_convolution", "words_of"]

KERNEL_PREFIX: Final = "mt.kernel."


@dataclass(frozen=True, slots=True)
class DTypeParam:
    """A parameter that is an element type."""

    dtype: str


Param: TypeAlias = bool | int | float | complex | DTypeParam | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Which op, and how it is called."""

    op: str
    operands: str
    params: tuple[Param, ...] = ()
    default_dtype: str = "f32"
    """What numbers are where nothing says it."""

    def config(self) -> str:
        """The backend_config."""
        parts: dict[str, Any] = {"operands": self.operands, "params": [_to_json(p) for p in self.params]}
        if self.default_dtype != "f32":
            parts["default_dtype"] = self.default_dtype
        return json.dumps(parts, separators=(",", ":"))

    @staticmethod
    def of(i: Instruction) -> KernelCall:
        """What a `kernel-call` says; raises `ValueError` for a backend_config that is not of the form above."""
        try:
            parts = json.loads(i.attrs["backend_config"])
            operands, params = str(parts["operands"]), tuple(_from_json(p) for p in parts["params"])
            default_dtype = str(parts.get("default_dtype", "f32"))
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"{i.name} has no backend_config that says how it is called: {error}") from None
        if set(operands) - set("tsn"):
            raise ValueError(f"{i.name} has operands {operands!r}; each is one of t, s and n")
        given = len(operands) - operands.count("n")
        if not given <= len(i.operands) <= given + 1:  # one more where random numbers are drawn
            raise ValueError(
                f"{i.name} has {len(i.operands)} operands, and its backend_config {operands!r} says {given}"
            )
        target = str(i.attrs["custom_call_target"])
        return KernelCall(target.removeprefix(KERNEL_PREFIX), operands, params, default_dtype)


def is_convolution(i: Instruction) -> bool:
    """Whether it calls the kernel of a convolution of floats or doubles, whose parts can be finished in the cache."""
    if i.opcode != "kernel-call" or i.attrs["custom_call_target"] != f"{KERNEL_PREFIX}convolution":
        return False
    return isinstance(i.shape, Shape) and i.dtype in ("f32", "f64") and len(i.dims) > 2


def _to_json(param: Param) -> Any:
    if isinstance(param, DTypeParam):
        return {"dtype": param.dtype}
    if isinstance(param, complex):
        return {"complex": [_to_json(param.real), _to_json(param.imag)]}
    if isinstance(param, Size):
        return {"size": param.context.number(param)}
    if isinstance(param, float) and not math.isfinite(param):
        return {"float": repr(param)}
    return [_to_json(n) for n in param] if isinstance(param, tuple) else param


def _from_json(value: Any) -> Param:
    if isinstance(value, list):
        return tuple(_from_json(n if isinstance(n, dict) else int(n)) for n in value)  # type: ignore[misc]
    if isinstance(value, dict):
        if "size" in value:
            context = active.get()
            if context is None:
                raise ValueError("a size that is a symbol is known while its module is compiled only")
            return context.expressions[int(value["size"])]  # type: ignore[return-value]
        if "dtype" in value:
            return DTypeParam(str(value["dtype"]))
        if "complex" in value:
            real, imag = (_from_json(part) for part in value["complex"])
            return complex(real, imag)  # type: ignore[arg-type]
        return float(value["float"])
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{value} has more than 64 bits")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise ValueError(f"{value!r} is no parameter")


# ---- the words that the runtime reads (csrc/runtime/abi.h)


def words_of(i: Instruction) -> list[int]:
    """The description of the call as the runtime reads it, 64-bit words."""
    call = KernelCall.of(i)
    words = [*_text(call.op), *_text(call.default_dtype), len(call.params)]
    for param in call.params:
        words += _value(param)
    words.append(len(call.operands))
    sources = iter(i.operands)
    for kind in call.operands:
        if kind == "n":
            words.append(0)
            continue
        shape = next(sources).array_shape
        words += [1, *_text(shape.dtype), len(shape.dims), *shape.dims] if kind == "t" else [2, *_text(shape.dtype)]
    results = result_shapes(i.shape)
    words.append(len(results))
    for shape in results:
        words += [*_text(shape.dtype), len(shape.dims), *shape.dims]
    return words


def result_shapes(shape: AnyShape) -> Sequence[Shape]:
    """The arrays that a call gives."""
    elements = shape.elements if isinstance(shape, TupleShape) else (shape,)
    return [s for s in elements if isinstance(s, Shape)]


def _text(text: str) -> list[int]:
    raw = text.encode()
    padded = raw + bytes(-len(raw) % 8)
    return [len(raw), *(struct.unpack(f"<{len(padded) // 8}q", padded))]


def _bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _value(param: Param) -> list[int]:
    if param is None:
        return [0]
    if isinstance(param, bool):
        return [1, int(param)]
    if isinstance(param, (int, Size)):
        return [2, param]
    if isinstance(param, float):
        return [3, _bits(param)]
    if isinstance(param, complex):
        return [4, _bits(param.real), _bits(param.imag)]
    if isinstance(param, DTypeParam):
        return [5, *_text(param.dtype)]
    return [6, len(param), *param]
