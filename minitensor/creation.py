"""Functions that make tensors."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.ops import creation

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "eye", "from_dlpack", "from_numpy", "full", "full_like",
    "linspace", "ones", "ones_like",
    "scalar_tensor", "tensor", "zeros", "zeros_like",
]  # fmt: skip

Tensor = _C.Tensor


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _made(result: Tensor, requires_grad: bool) -> Tensor:
    return result.requires_grad_() if requires_grad else result


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested sequences of them, or anything with a buffer."""
    return _made(_C.tensor_from_data(data, dtype, device, True), requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing its memory where that's possible."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    return _C.tensor_from_data(data, dtype, device, False)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`obj` as a tensor; `copy=True` always copies, None only where needed."""
    return _made(tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device), requires_grad)


def scalar_tensor(value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor without dimensions."""
    return full((), value, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad)


from_numpy = _C.from_numpy


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor that shares the memory of an object with `__dlpack__`, or of a DLPack capsule."""
    if hasattr(ext_tensor, "__dlpack__"):
        try:
            ext_tensor = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            ext_tensor = ext_tensor.__dlpack__()
    return _C.from_dlpack_capsule(ext_tensor)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose memory is not initialised."""
    return _made(_C.empty(_size(size), dtype, device), requires_grad)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of one value."""
    return _made(creation.full(size, fill_value, dtype=dtype, device=device), requires_grad)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    return full(_size(size), 0, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return full(_size(size), 1, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad)


def empty_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of input's shape and dtype whose memory is not initialised."""
    return empty(
        tuple(input.shape), dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
    )


def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of one value with input's shape and dtype."""
    return full(
        tuple(input.shape),
        fill_value,
        dtype=dtype or input.dtype,
        device=device or input.device,
        requires_grad=requires_grad,
    )


def zeros_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros with input's shape and dtype."""
    return full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones with input's shape and dtype."""
    return full_like(input, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Values from start (0 if only one bound is given) up to, not including, end."""
    if end is None:
        start, end = 0, start
    return _made(creation.arange(start, end, step, dtype=dtype, device=device), requires_grad)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`steps` evenly spaced values from start to end, both included."""
    return _made(creation.linspace(start, end, steps, dtype=dtype, device=device), requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A matrix with ones on the diagonal."""
    return _made(creation.eye(n, m, dtype=dtype, device=device), requires_grad)
