"""Ops that read or write the elements where a mask holds."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._C import Op
from minitensor.ops.creation import full
from minitensor.ops.movement import constant_pad_nd
from minitensor.ops.row import movement, opaque

__all__: list[str] = []


def _masked_fill_lower(b: Any, x: Any, mask: Any, value: Any) -> Any:
    dims = b.result.dims
    x, mask, value = (b.broadcast_to(a, dims) for a in (x, mask, b.to_dtype(value, x.dtype)))
    return b.select(mask, value, x)


masked_fill: Op = movement(
    "masked_fill(Tensor input, Tensor mask, Tensor|Scalar value)", "input with `value` where mask holds.", out="none",
    lower=_masked_fill_lower, inplace=True,
    vjp=lambda g, _out, _x, mask, _value: (
        lambda: masked_fill(g, mask, 0), None, lambda: masked_fill(g, mask.logical_not(), 0)
    ),
    predicate=1, grad_fn={"value": "MaskedFillBackward1"},
)  # fmt: skip
masked_scatter: Op = movement(
    "masked_scatter(Tensor input, Tensor mask, Tensor source)",
    "input with the elements of source, one after the other, where mask holds.",
    vjp=lambda g, _out, _x, mask, _source: (
        lambda: masked_fill(g, mask, 0), None, lambda: _leading(masked_select(g, mask), _source)
    ),
    inplace=True, raises=True,
)  # fmt: skip


def _leading(used: Any, source: Any) -> Any:
    """The gradient of source, whose first elements were used."""
    count, wanted = used.numel(), source.numel()
    if count < wanted:
        used = constant_pad_nd(used, (0, wanted - count))
    return used.reshape(tuple(source.shape))


# ---- results whose shape depends on the data

_DATA = "the shape of its result depends on the data"
nonzero: Op = opaque(
    "nonzero(Tensor input)",
    "The indices of the elements that are not zero, one row each.",
    why=_DATA,
    kernel=_C.nonzero,
)
masked_select: Op = opaque(
    "masked_select(Tensor input, Tensor mask)",
    "The elements where mask holds, in order.",
    why=_DATA,
    kernel=_C.masked_select,
    vjp=lambda g, _out, _x, mask: (_masked_select_gradient(g, _x, mask), None),
)


def _masked_select_gradient(g: Any, x: Any, mask: Any) -> Any:
    shape = _broadcast(tuple(x.shape), tuple(mask.shape))
    return masked_scatter(full(shape, 0, dtype=g.dtype, device=g.device), mask, g)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(a) if len(a) > len(b) else len(b)
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))
