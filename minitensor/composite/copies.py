"""What views show, as tensors of their own: `expand_copy`, `permute_copy` and so on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from minitensor import _C
from minitensor.composite import joining, shape
from minitensor.composite.registry import LateSignature, composite, grad_fn
from minitensor.ops import movement
from minitensor.ops.elementwise import row_major

Tensor = _C.Tensor


def _copied(result: Any) -> Any:
    return tuple(row_major(part) for part in result) if isinstance(result, tuple) else row_major(result)


def _copying(name: str, take: Callable[..., Any]) -> None:
    def made(input: Any, *args: Any, **more: Any) -> Any:
        return _copied(take(input, *args, **more))

    made.__name__ = f"{name}_copy"
    made.__doc__ = f"`{name}` as a copy, which shares nothing with the input."
    made.__signature__ = LateSignature(lambda: inspect.signature(take))  # type: ignore[attr-defined]
    if name != "squeeze":  # which has another for each form
        copied = f"{''.join(word.capitalize() for word in name.split('_'))}Backward0_copy"
        grad_fn(copied, copied)(made)
    composite(method=False, out="exact")(made)


def _detached(input: Any) -> Any:
    return input.detach()


for _name, _take in {
    "alias": movement.alias,
    "as_strided": movement.as_strided,
    "detach": _detached,
    "diagonal": movement.diagonal,
    "expand": movement.expand,
    "permute": movement.permute,
    "select": movement.select,
    "slice": movement.slice,
    "split": joining.split,
    "split_with_sizes": joining.split_with_sizes,
    "squeeze": movement.squeeze,
    "t": shape.t,
    "transpose": movement.transpose,
    "unbind": shape.unbind,
    "unfold": movement.unfold,
    "unsqueeze": movement.unsqueeze,
}.items():
    _copying(_name, cast("Any", _take))


@composite(method=False, out="exact")
@grad_fn("ViewBackward0_copy")
def view_copy(input: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The elements in another shape, or their bytes as another dtype, as a copy."""
    return row_major(input.reshape(size) if dtype is None else input.view(dtype))


@composite(out="exact")
@grad_fn("NarrowCopyBackward0")
def narrow_copy(input: Any, dim: int, start: Any, length: int) -> Tensor:
    """`narrow` as a copy."""
    return row_major(shape.narrow(input, dim, start, length))
