"""How elements lie in memory: contiguity, memory formats, storages, and changes of a tensor's geometry in place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor._warning import warn
from minitensor.composite import shape
from minitensor.composite.dims import product, sizes_of
from minitensor.composite.registry import composite
from minitensor.ops import movement
from minitensor.ops.creation import full
from minitensor.ops.elementwise import clone as _clone
from minitensor.ops.elementwise import row_major, where
from minitensor.storage import TypedStorage, UntypedStorage, warn_of_removal

Tensor = _C.Tensor

_row_major = Tensor.is_contiguous


class memory_format:  # noqa: N801  (PyTorch's name)
    """An order of dimensions in memory: `contiguous_format`, `channels_last`, `channels_last_3d`, `preserve_format`."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{_C.shown_package()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

_CHANNELS_LAST = {channels_last: 4, channels_last_3d: 5}


class layout:  # noqa: N801  (PyTorch's name)
    """How elements are kept: `strided`, `sparse_coo`, `sparse_csr`, `sparse_csc`, `sparse_bsr` or `sparse_bsc`."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{_C.shown_package()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")


def _channels_outside(x: Any) -> Any:
    """x with the dimension that is innermost in the channels-last formats last."""
    return movement.permute(x, (0, *range(2, x.ndim), 1))


def _rank_for(format: Any, rank: int) -> None:
    wanted = _CHANNELS_LAST[format]
    if rank != wanted:
        raise RuntimeError(f"required rank {wanted} tensor to use {format._name} format")


def _like_channels_last(x: Any) -> bool:
    least = 0
    for d in (1, *range(x.ndim - 1, 1, -1), 0):
        size, stride = x.shape[d], x.stride(d)
        if size == 0 or stride < least or stride == 0 == least or (d == 0 and least == x.stride(1)):
            return False
        least = stride * max(size, 1)
    return True


def suggested_format(x: Any) -> Any:
    """The memory format that PyTorch takes a tensor to be in, which may have gaps: row-major if it is in no other."""
    found = [format for format, rank in _CHANNELS_LAST.items() if x.ndim == rank and _like_channels_last(x)]
    return found[0] if found else contiguous_format


def in_format_of(input: Any, made: Any) -> Any:
    """What was made of input, in the memory format of images with channels last if input is in it."""
    format = contiguous_format if _row_major(input) else suggested_format(input)
    if format is contiguous_format or is_contiguous(made, format):
        return made
    return _C.forget_base(formatted(made, format))


@composite(function=False)
def is_contiguous(input: Any, memory_format: Any = contiguous_format) -> bool:
    """Whether the elements lie in row-major order, or in that of a memory format."""
    if memory_format is contiguous_format:
        return bool(_row_major(input))
    if memory_format in _CHANNELS_LAST:
        return input.ndim == _CHANNELS_LAST[memory_format] and bool(_row_major(_channels_outside(input.detach())))
    raise RuntimeError("preserve memory format is unsupported by the contiguous operator")


@composite(function=False)
def contiguous(input: Any, *, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself if it is contiguous in the memory format, else a copy that is."""
    if memory_format is contiguous_format:
        return input if _row_major(input) else row_major(input)
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return input if is_contiguous(input, memory_format) else formatted(input, memory_format)


def made_like(input: Any, memory_format: Any, make: Callable[[tuple[int, ...]], Any]) -> Any:
    """What `make(sizes)` gives, row-major, with input's sizes and its order in memory, or that of a memory format."""
    if memory_format not in (None, preserve_format):
        return as_mapped(formatted(make(tuple(input.shape)), memory_format), input)
    order = _C.memory_order(input)
    if order is None:
        return as_mapped(make(tuple(input.shape)), input)
    return as_mapped(_C.out_of_order(make(tuple(input.shape[d] for d in order)), order), input)


def as_mapped(made: Any, like: Any) -> Any:
    """What is made for a tensor that vmap maps: once for each slice, so that slices can be written there."""
    return _C.mapped_like(made, like) if _C.vmap_level(made) < _C.vmap_level(like) else made


def written_copy(input: Any, *sources: Any) -> Any:
    """A copy that sources, or places that they name, are written in: mapped where vmap maps one of these."""
    made = _clone(input)
    for source in sources if _C.vmap_depth() else ():
        if isinstance(source, Tensor) and _C.vmap_level(source):
            # An op, so that the gradient of what isn't mapped itself goes through it.
            ours = full((), True, dtype=_C.bool, device=input.device)
            other = _C.mapped_like(full((), 0, dtype=input.dtype, device=input.device), source)
            made = where(ours, made, other)
    return made


def formatted(input: Any, memory_format: Any) -> Any:
    """A copy whose elements lie in the order of a memory format."""
    if memory_format is preserve_format:
        return _clone(input)
    if memory_format not in _CHANNELS_LAST:
        return row_major(input)
    _rank_for(memory_format, input.ndim)
    inside = row_major(_channels_outside(input))
    return movement.permute(inside, (0, input.ndim - 1, *range(1, input.ndim - 1)))


@composite()
def clone(input: Any, *, memory_format: Any = preserve_format) -> Tensor:
    """A copy of the tensor."""
    return _clone(input) if memory_format is preserve_format else formatted(input, memory_format)


@composite()
def numel(input: Any) -> int:
    """The number of elements."""
    return int(Tensor.nelement(input))


# ---- storages


@composite(function=False)
def untyped_storage(input: Any) -> UntypedStorage:
    """The memory that the tensor and its views share, as bytes."""
    return UntypedStorage(_bytes=_C.storage_bytes(input))


@composite(function=False)
def storage(input: Any) -> TypedStorage:
    """The memory that the tensor and its views share, as elements of its dtype."""
    warn_of_removal()
    return TypedStorage(wrap_storage=untyped_storage(input), dtype=input.dtype)


@composite(function=False)
def storage_type(input: Any) -> type:
    """The class of `storage()`."""
    return TypedStorage


@composite(function=False)
def is_set_to(input: Any, tensor: Any) -> bool:
    """Whether both show the same memory in the same way."""
    return bool(
        input._storage_id() == tensor._storage_id()
        and input.storage_offset() == tensor.storage_offset()
        and input.shape == tensor.shape
        and input.stride() == tensor.stride()
    )


@composite(function=False)
def is_shared(input: Any) -> bool:
    """Whether the memory is shared with other processes; that of a GPU always is."""
    memory = sys.modules.get("minitensor.multiprocessing.shared_memory")
    return bool(memory.is_shared(input)) if memory else input.device.type == "cuda"


@composite(function=False)
def share_memory_(input: Any) -> Tensor:
    """Moves the tensor to memory that other processes see; tensors that had memory in common with it keep the old."""
    from minitensor.multiprocessing.shared_memory import share_memory_ as share

    return share(input)


@composite(function=False)
def is_pinned(input: Any, device: Any = None) -> bool:
    """Whether the memory is page-locked, as `pin_memory` makes it."""
    return bool(_C.is_pinned(input))


@composite(function=False)
def set_(
    input: Any,
    source: Any = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Has the tensor show another tensor's memory, or part of a storage; without a source, nothing."""
    refusal = _NoDerivative()
    if source is None:
        return _C.set_contents(input, _C.empty((0,), input.dtype, input.device), None, refusal)
    if isinstance(source, Tensor):
        if size is None:
            if source.dtype is not input.dtype:
                raise RuntimeError(
                    f"Could not set tensor of type {source.dtype.name} to a tensor of type {input.dtype.name}"
                )
            return _C.set_contents(input, source.detach(), source, refusal)
        storage_offset += source.storage_offset()
        source = untyped_storage(source)
    if isinstance(source, TypedStorage):
        if source.dtype is not input.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {input.dtype} or an UntypedStorage, but got type {source.dtype}"
            )
        source = source.untyped()
    if not isinstance(source, UntypedStorage):
        raise TypeError(f"set_() takes a Tensor or a storage, not {type(source).__name__}")
    if size is None:
        size = (len(source) // input.dtype.itemsize - storage_offset,)
    size = (size,) if isinstance(size, int) else tuple(size)
    _grow(source, input.dtype.itemsize, storage_offset, size, stride)
    shown = _C.over_storage(source._bytes, input.dtype, storage_offset, size, stride)
    return _C.set_contents(input, shown, None, refusal)


class _NoDerivative:
    """What goes back by `set_`: nothing."""

    __name__ = "NotImplemented"

    def __call__(self, *gradients: Any) -> Any:
        raise RuntimeError("derivative for set_ is not implemented")


def _grow(storage: Any, itemsize: int, offset: int, size: tuple[int, ...], stride: Any) -> None:
    """Make room in the storage for what is to be shown of it."""
    if offset < 0 or 0 in size or any(n < 0 for n in size):
        return
    strides = [1] * len(size) if stride is None else list(stride)
    if stride is None:
        for d in reversed(range(len(size) - 1)):
            strides[d] = strides[d + 1] * size[d + 1]
    if len(strides) != len(size) or any(s < 0 for s in strides):
        return
    needed = (offset + 1 + sum((n - 1) * s for n, s in zip(size, strides, strict=True))) * itemsize
    if needed > len(storage):
        storage.resize_(needed)


@composite(function=False)
def resize_(input: Any, *args: Any, size: Any = None, memory_format: Any = contiguous_format) -> Tensor:
    """Another shape over the same storage, which grows where needed; new elements are not initialised."""
    wanted = sizes_of(args, size, "resize_")
    _C.resize_(input, wanted)
    if memory_format in _CHANNELS_LAST:
        _rank_for(memory_format, len(wanted))
        n, c, *rest = wanted
        inner = movement.view_(input, (n, *rest, c))
        _C.take_view(input, movement.permute(inner, (0, len(wanted) - 1, *range(1, len(wanted) - 1))), "resize_")
    return input


@composite(function=False)
def resize_as_(input: Any, the_template: Any, *, memory_format: Any = None) -> Tensor:
    """`resize_` to another tensor's shape."""
    return resize_(input, tuple(the_template.shape))


def _deprecated(name: str) -> None:
    warn(f"non-inplace {name} is deprecated")


@composite(function=False)
def resize(input: Any, *args: Any, size: Any = None) -> Tensor:
    """The same elements in another shape; deprecated for `reshape`. RuntimeError for another number of them."""
    wanted = sizes_of(args, size, "resize")
    _deprecated("resize")
    if product(wanted) != input.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, wanted))} ({product(wanted)} elements in total), but the given "
            f"tensor has a size of {'x'.join(map(str, input.shape))} ({input.numel()} elements). autograd's resize can "
            "only change the shape of a given tensor, while preserving the number of elements. "
        )
    return shape.reshape(input, wanted)


@composite(function=False)
def resize_as(input: Any, tensor: Any) -> Tensor:
    """The same elements in another tensor's shape; deprecated for `reshape_as`."""
    _deprecated("resize_as")
    return shape.reshape(input, tuple(tensor.shape))


@composite()
def slice_inverse(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """The tensor `src` over input's memory, where input is a slice of it."""
    return movement.as_strided(input, tuple(src.shape), src.stride(), src.storage_offset())


# ---- views of itself


def _view_in_place(name: str, take: Callable[..., Any], aliases: Sequence[str] = ()) -> None:
    def change(input: Any, *args: Any, **more: Any) -> Tensor:
        return _C.take_view(input, take(input, *args, **more), name)

    change.__name__ = name
    change.__doc__ = f"`{name[:-1]}` in place: the tensor shows the same memory in the new way."
    composite(function=False, aliases=aliases)(change)


for _name, _take, _aliases in (
    ("squeeze_", movement.squeeze, ()),
    ("unsqueeze_", movement.unsqueeze, ()),
    ("transpose_", movement.transpose, ()),
    ("swapaxes_", shape.swapaxes, ("swapdims_",)),
    ("t_", shape.t, ()),
    ("as_strided_", movement.as_strided, ()),
):
    _view_in_place(_name, _take, _aliases)


def _conjugate_transpose(self: Any) -> Any:
    """The transpose of a matrix, complex numbers conjugated."""
    if self.ndim not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor."
            + (" For batches of matrices, consider using tensor.mH" if self.ndim > 2 else "")
        )
    return shape.conjugate_transpose(self, "H")


_C.add_method("H", property(_conjugate_transpose))
_C.add_method("mH", property(lambda self: shape.conjugate_transpose(self, "mH"), doc="`adjoint()`."))
_C.add_method("layout", property(lambda self: strided, doc="How elements are kept: `strided`."))
