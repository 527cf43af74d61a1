"""`op`: the decorator that makes an op of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import broadcast_shapes, empty, from_numpy, result_type, tensor
from minitensor.ops import row

__all__ = ["has_shape_rule", "op"]

_NO_LOWERING = "the extension that defines it gives no lowering to HLO"


def op(
    schema: str,
    *,
    elementwise: bool = False,
    shape: Callable[..., Any] | None = None,
    gradient: Callable[..., Any] | None = None,
    lower: Callable[..., Any] | None = None,
    refuse: Callable[[Any], str | None] | None = None,
) -> Callable[[Callable[..., Any]], _C.Op]:
    """Make an op of the decorated kernel.

    `schema`: name and arguments, such as "scale_rows(Tensor input, Tensor scale, float power=1.0)"; types are Tensor,
    Tensor|Scalar, int, float, bool, Scalar, int[] and dtype, with ? for None.

    The kernel gets NumPy arrays for the tensors (numbers where a number was passed) and the parameters, and returns an
    array or a tuple of up to three.

    `elementwise`: the operands broadcast, and the result has the shape and the promoted dtype of all. Otherwise `shape`
    gets tensors without data (device "meta") and the parameters, and returns results without data; without it the op
    runs at once wherever it is called, since nothing is known of its result.

    `gradient(g, out, *operands, *params)`: the gradients of the operands, made of ops so that they have gradients
    themselves; a name that begins with an underscore is not read and not kept. `lower(b, *operands, *params)`: the op
    in HLO by the builder `b` (`minitensor_jit.lowering.context.Lowering`), which must give the kernel's very bits;
    operands of an elementwise op come converted and broadcast. `refuse(call)`: why a particular call can't be compiled,
    or None.

    ValueError if an op of that name is there, or the schema is not one. `minitensor.extend.check` tests all of it.
    """

    def define(kernel: Callable[..., Any]) -> _C.Op:
        if elementwise and shape is not None:
            raise ValueError("an elementwise op's shape follows from its operands: leave `shape` out")
        if lower is not None and not elementwise and shape is None:
            raise ValueError("an op with a lowering needs a shape rule: give `shape`, or elementwise=True")
        name = schema[: schema.index("(")].strip() if "(" in schema else schema
        if name in row.ROWS:
            raise ValueError(f"there is an op '{name}' already")
        doc = (kernel.__doc__ or f"The op {name} of an extension.").strip()
        rules: dict[str, Any] = {
            "vjp": gradient, "kernel": _of_arrays(name, kernel), "function": False, "method": False, "inplace": False,
            "extension": True,
        }  # fmt: skip
        if lower is None:
            made = row.opaque(schema, doc, why=_NO_LOWERING, **rules)
        else:
            make = row.elementwise if elementwise else row.movement
            made = make(schema, doc, lower=lower, refuse=refuse, **rules)
        if elementwise or shape is not None:
            _C.set_shape_rule(made, shape or _broadcast)
            _ruled.add(made)
        return made

    return define


_ruled: set[_C.Op] = set()


def has_shape_rule(made: _C.Op) -> bool:
    """Whether an extension's op says the shapes of its results before it runs."""
    return made in _ruled


def _broadcast(*arguments: Any) -> Any:
    """The shape rule of elementwise ops."""
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    dtype = tensors[0].dtype
    for other in tensors[1:]:
        dtype = result_type(empty(tensors[0].shape, dtype=dtype, device="meta"), other)
    size = broadcast_shapes(*(tuple(t.shape) for t in tensors))
    return empty(tuple(size), dtype=dtype, device="meta")


def _of_arrays(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of arrays as one of tensors."""

    def run(*arguments: Any) -> Any:
        result = kernel(*(a.numpy() if isinstance(a, Tensor) else a for a in arguments))
        return tuple(_tensor(name, r) for r in result) if isinstance(result, tuple) else _tensor(name, result)

    return run


def _tensor(name: str, result: Any) -> Tensor:
    if isinstance(result, Tensor):
        return result
    if not isinstance(result, (np.ndarray, np.generic)):
        raise TypeError(f"the kernel of '{name}' must return NumPy arrays, got {type(result).__name__}")
    array = np.asarray(result)
    return tensor(array) if not array.flags.writeable else from_numpy(array)
