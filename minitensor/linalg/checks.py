"""What the functions of linear algebra ask of their arguments, in PyTorch's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from minitensor import _C
from minitensor._functions.checked import checked
from minitensor._functions.named_results import named
from minitensor.composite.registry import composite
from minitensor.ops.linalg import LinAlgError

__all__ = [
    "LinAlgError", "fail_where", "kernel_dtype", "linalg", "matrices", "not_implemented", "result", "square",
]  # fmt: skip

_SINGLE_AND_DOUBLE = {"float32", "float64", "complex64", "complex128"}


def linalg(
    made: Callable[..., Any] | None = None, *, out: Literal["", "castable", "exact"] = "exact"
) -> Callable[..., Any]:
    """Enter a function of the namespace `linalg`, with `out=` as in `composite`."""

    def enter(made: Callable[..., Any]) -> Callable[..., Any]:
        name = made.__name__.removeprefix("_")
        entered = composite(name=f"linalg_{name}", function=False, method=False, out=out, namespaces=("linalg",))(made)
        return checked(entered)  # which what takes `out` is already

    return enter if made is None else enter(made)


def matrices(x: Any, name: str, argument: str = "A") -> None:
    """Refuse what isn't a matrix or a batch of them."""
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def square(x: Any, name: str, argument: str = "A") -> None:
    """Refuse what isn't a square matrix or a batch of them."""
    matrices(x, name, argument)
    m, n = x.shape[-2:]
    if m != n:
        raise RuntimeError(f"{name}: {argument} must be batches of square matrices, but they are {m} by {n} matrices")


def kernel_dtype(x: Any, name: str, kernel: str | None = None) -> None:
    """Refuse the dtypes that LAPACK doesn't have; half precision with the message of `kernel` if there is one."""
    if x.dtype.name in _SINGLE_AND_DOUBLE:
        return
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {_C.type_name(x.dtype)}")
    if kernel is None:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {_C.type_name(x.dtype)}")
    not_implemented(x, kernel)


def not_implemented(x: Any, kernel: str) -> None:
    """Refuse the dtypes that LAPACK doesn't have, as PyTorch's dispatch does."""
    if x.dtype.name not in _SINGLE_AND_DOUBLE:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{_C.type_name(x.dtype)}'")


def fail_where(info: Any, name: str, says: Callable[[int], str], error: type[RuntimeError] = LinAlgError) -> None:
    """Raise for the first matrix whose `info` isn't zero.

    It checks at once, while recording too: programs catch the error and try another way, before any flush.
    The forms that end in `_ex` don't look unless they're asked to.
    """
    info = _C.all_slices(info)  # so that the error names the first of all matrices
    if info.device.type == "meta":
        return
    flat = info.reshape((-1,)).tolist()
    for place, code in enumerate(flat):
        if code:
            which = f"(Batch element {place}): " if info.ndim else ""
            raise error(f"{name}: {which}{says(code)}")


def result(op: str, **fields: Any) -> Any:
    """A named tuple of results."""
    return named(op, tuple(fields))(*fields.values())
