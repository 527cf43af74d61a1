"""What a tensor is, rather than what it holds; and PyTorch's methods that take Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._jit import entry_points
from minitensor._warning import warn
from minitensor.composite.layout import written_copy
from minitensor.composite.numbers import number
from minitensor.composite.registry import composite
from minitensor.creation import tensor, with_requires_grad
from minitensor.ops.complex import view_as_complex, view_as_real
from minitensor.storage import TypedStorage, UntypedStorage

__all__: list[str] = []

Tensor = _C.Tensor


@composite()
def is_nonzero(input: Any) -> bool:
    """Whether the one element of input is not zero."""
    if input.numel() == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if input.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(input.item() != 0)


@composite()
def is_same_size(input: Any, other: Any) -> bool:
    """Whether the two have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


@composite()
def get_device(input: Any) -> int:
    """The number of the device that the tensor is on; -1 for the CPU."""
    return -1 if input.device.index is None or input.device.type == "cpu" else int(input.device.index)


@composite(function=False)
def dim_order(input: Any, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest in memory."""
    strides, sizes = input.stride(), tuple(input.shape)
    return tuple(sorted(range(input.ndim), key=lambda d: (-strides[d], -sizes[d] if strides[d] else 0, d)))


@composite(function=False)
def const_data_ptr(input: Any) -> int:
    """The address of the first element, for reading."""
    return int(input.data_ptr())


@composite(function=False)
def pin_memory(input: Any, device: Any = None) -> Tensor:
    """The tensor in page-locked memory of the host, which a GPU reads without the driver's help: it needs a GPU."""
    if input.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{input.type()}' only dense CPU tensors can be pinned")
    if _C.is_pinned(input):
        return input
    if not entry_points.cuda_module("driver").device_total():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    memory = entry_points.cuda_module("pinned").make_pinned(input.numel() * input.element_size())
    made = _C.over_storage(memory, input.dtype, 0, tuple(input.shape), None)
    return made.copy_(input.detach())


@composite(function=False)
def record_stream(input: Any, stream: Any) -> None:
    """Keep the memory until a stream is done with it; nothing to do on the CPU."""
    if input.device.type == "cuda":
        entry_points.cuda_module("start").runtime().record_stream(input, stream._queue)


@composite(function=False)
def as_subclass(input: Any, cls: type) -> Any:
    """The same tensor as an instance of a subclass."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError("cls must be a type that inherits from Tensor")
    return Tensor._as_subclass(cls, input, False, True)


@composite(function=False)
def module_load(input: Any, other: Any, assign: bool = False) -> Any:
    """What a module's load_state_dict puts in the place of this tensor: this one with other's values, or `other`."""
    return other.detach() if assign else input.copy_(other).detach()


@composite(function=False)
def apply_(input: Any, callable: Callable[[Any], Any]) -> Any:
    """Replace each element by what the function gives for it. Slow: for trying things out."""
    return _rewrite(input, callable)


@composite(function=False)
def map_(input: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """Replace each element by what the function gives for it and tensor's."""
    return _rewrite(input, callable, tensor)


@composite(function=False)
def map2_(input: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
    """Replace each element by what the function gives for it, x's and y's."""
    return _rewrite(input, callable, x, y)


def _rewrite(input: Any, function: Callable[..., Any], *others: Any) -> Any:
    if any(t.requires_grad or _C.is_recorded(t) for t in (input, *others)):
        raise RuntimeError("a function of Python can't be differentiated: call detach() first")
    columns = [input.reshape(-1).tolist(), *(t.expand(input.shape).reshape(-1).tolist() for t in others)]
    values = [function(*row) for row in zip(*columns, strict=True)]
    return input.copy_(tensor(values, dtype=input.dtype, device=input.device).reshape(tuple(input.shape)))


@composite(function=False)
def fill_diagonal_(input: Any, fill_value: Any, wrap: bool = False) -> Tensor:
    """Set the diagonal: where all indices are equal; with `wrap` it begins anew below a tall matrix's square."""
    if input.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    sizes, strides = tuple(input.shape), input.stride()
    if input.ndim > 2 and len(set(sizes)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    fill_value = number(fill_value, "fill_diagonal_", "fill_value")
    # Recorded, so that what is overwritten has no gradient, and a leaf that requires one is refused.
    step, count = sum(strides), min(sizes)
    input.as_strided((count,), (step,), input.storage_offset()).fill_(fill_value)
    if wrap and input.ndim == 2 and sizes[0] > sizes[1] + 1:
        for first in range(sizes[1] + 1, sizes[0], sizes[1] + 1):
            length = min(sizes[0] - first, sizes[1])
            start = input.storage_offset() + first * strides[0]
            input.as_strided((length,), (step,), start).fill_(fill_value)
    return input


@composite(function=False)
def sum_to_size(input: Any, *size: Any) -> Tensor:
    """The sum over the dimensions that broadcasting would add or stretch: the inverse of expand."""
    wanted = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    shape = tuple(input.shape)
    extra = len(shape) - len(wanted)
    if not shape and not wanted:
        return input.sum()
    fits = extra >= 0 and all(a == b or b == 1 for a, b in zip(shape[extra:], wanted, strict=True))
    if not fits:
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    dims = [*range(extra), *(extra + i for i, n in enumerate(wanted) if n == 1 and shape[extra + i] != 1)]
    summed = input.sum(dim=dims, keepdim=True) if dims else input
    return summed.reshape(wanted)


@composite(method=False)
def is_signed(input: Any) -> bool:
    """Whether the dtype has negative numbers."""
    return bool(input.dtype.is_signed)


@composite(function=False)
def new(input: Any, *args: Any, device: Any = None) -> Any:
    """A tensor of this one's dtype: of a size, of data, or a view of another tensor."""
    if len(args) == 1 and isinstance(args[0], Tensor) and device is None:
        if args[0].dtype is not input.dtype:
            raise TypeError(f"expected {input.type()} (got {args[0].type()})")
        return args[0].alias()
    if len(args) == 1 and not isinstance(args[0], (int, _C.Size)):
        return _C.tensor_from_data(args[0], input.dtype, device, True)
    size = tuple(args[0]) if len(args) == 1 and isinstance(args[0], _C.Size) else args or (0,)
    return _C.empty(size, input.dtype, device)


@composite(method=False)
def detach(input: Any) -> Tensor:
    """The same elements without gradient history."""
    return input.detach()


@composite(method=False)
def fill(input: Any, value: Any) -> Tensor:
    """A tensor like input with every element `value`."""
    return written_copy(input, value).fill_(value)


@composite(method=False)
def is_inference(input: Any) -> bool:
    """Whether the tensor was made in inference mode."""
    return bool(input.is_inference())


@composite(method=False)
def is_storage(obj: Any) -> bool:
    """Whether obj is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


@composite(method=False)
def from_file(
    filename: str, shared: bool = False, size: int = 0, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor over a memory-mapped file: `size` elements. With `shared`, writes reach the file."""
    import numpy as np

    dtype = dtype or _C.get_default_dtype()
    nbytes = size * dtype.itemsize
    if shared:
        with open(filename, "ab") as file:  # a shared file grows to the size
            if file.tell() < nbytes:
                file.truncate(nbytes)
    mapped = np.memmap(filename, np.uint8, mode="r+" if shared else "c", shape=(nbytes,)).view(np.ndarray)
    made = _C.from_numpy(mapped).view(dtype)
    return with_requires_grad(made, requires_grad)


@composite(method=False)
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A vector over the memory of an object with the buffer protocol: `count` elements from byte `offset` on.

    Writing to the tensor writes to the object. ValueError if the object has no buffer, or not that much of it.
    """
    import numpy as np

    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, itemsize = view.nbytes, dtype.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % itemsize:
            raise ValueError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
                f"size ({itemsize})"
            )
        count = (length - offset) // itemsize
    if offset + count * itemsize > length:
        raise ValueError(
            f"requested buffer length ({count} * {itemsize} bytes) after offset ({offset} bytes) must not be greater "
            f"than actual buffer length ({length} bytes)"
        )
    if view.readonly:
        warn("The given buffer is not writable, and tensors can't say so: the tensor gets a copy of it.")
        view = memoryview(bytearray(view.cast("B")))
    raw = np.frombuffer(view, np.uint8, count * itemsize, offset)
    made = _C.from_numpy(raw).view(dtype)
    return with_requires_grad(made, requires_grad)


@composite(method=False)
def to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule that shares the tensor's memory."""
    return tensor.__dlpack__()


@composite(method=False, out="exact")
def view_as_real_copy(input: Any) -> Tensor:
    """The real and imaginary parts in a last dimension, as a copy."""
    return view_as_real(input).clone()


@composite(method=False, out="exact")
def view_as_complex_copy(input: Any) -> Tensor:
    """The last dimension of two as complex numbers, as a copy."""
    return view_as_complex(input).clone()
