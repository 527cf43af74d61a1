"""Views, and ops that only move elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._C import Op
from minitensor.ops.row import movement, view

__all__: list[str] = []


def _zeros_like(x: Any, g: Any) -> Any:
    return _written(full(tuple(x.shape), 0, dtype=g.dtype, device=g.device), g)


def _written(whole: Any, g: Any) -> Any:
    """What `g` is written into: under vmap it is mapped if `g` is."""
    return _C.mapped_like(whole, g) if _C.vmap_level(g) else whole


def _scattered(take: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a view without overlaps: zeros with `g` written through the same view."""

    def vjp(g: Any, _out: Any, _x: Any, *params: Any) -> Any:
        whole = _zeros_like(_x, g)
        take(whole, *params).copy_(g)
        return whole

    return vjp


def _like_input(g: Any, _out: Any, _x: Any, *params: Any) -> Any:
    return g.reshape(tuple(_x.shape))


def _permute_vjp(g: Any, _out: Any, _x: Any, dims: tuple[int, ...]) -> Any:
    inverse = [0] * len(dims)
    for position, d in enumerate(dims):
        inverse[d % len(dims)] = position
    return permute(g, inverse)


def _unfold_vjp(g: Any, _out: Any, _x: Any, dim: int, size: int, step: int) -> Any:
    # Windows may overlap: one strided addition for each place in the window.
    if _x.ndim == 0:
        return g.reshape(())
    whole = _zeros_like(_x, g)
    dim %= _x.ndim
    count = g.shape[dim]
    for i in range(size):
        slice(whole, dim, i, i + (count - 1) * step + 1, step).add_(g.select(-1, i))
    return whole


def _as_strided_vjp(g: Any, _out: Any, _x: Any, size: Any, stride: Any, offset: int | None) -> Any:
    # Over memory laid out as x's; elements that the view shows more than once get the sum, those outside x nothing.
    if g.numel() == 0 or _x.numel() == 0:
        return _zeros_like(_x, g)
    shape, strides, start = tuple(_x.shape), _x.stride(), _x.storage_offset()
    offset = start if offset is None else offset
    low = start if start < offset else offset
    ends = (_reach(shape, strides, start), _reach(size, stride, offset))
    reach = ends[0] if ends[0] > ends[1] else ends[1]
    flat = _written(full((reach + 1 - low,), 0, dtype=g.dtype, device=g.device), g)
    if _overlaps(size, stride):
        flat = _added(flat, g, size, stride, offset - low)
    else:
        as_strided(flat, size, stride, offset - low).copy_(g)
    if _overlaps(shape, strides):
        # Those elements of x that are one share what comes to it.
        once = full(shape, 1, dtype=g.dtype, device=g.device)
        times = _added(full((reach + 1 - low,), 0, dtype=g.dtype, device=g.device), once, shape, strides, start - low)
        flat = flat / (times + (times == 0))
    return as_strided(flat, shape, strides, start - low)


def _added(flat: Any, values: Any, size: Any, stride: Any, offset: int) -> Any:
    """`flat` with the values added where a view of it shows them."""
    from minitensor.ops.index import index_add

    positions = full(tuple(size), offset, dtype=_C.int64, device=values.device)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        place = [1] * len(size)
        place[d] = n
        positions = positions + arange(0, n, 1, device=values.device).reshape(place) * s
    return index_add(flat, positions.reshape((-1,)), values.reshape((-1,)), 0)


def _reach(size: Any, stride: Any, offset: int) -> int:
    """The last element that a view without negative strides shows."""
    for n, s in zip(size, stride, strict=True):
        offset += (n - 1) * s
    return offset


def _overlaps(size: Any, stride: Any) -> bool:
    reach = 1
    for s, n in sorted((s, n) for s, n in zip(stride, size, strict=True) if n > 1):
        if s < reach:
            return True
        reach = s * (n - 1) + reach
    return False


view_: Op = view(
    "view(Tensor input, int[]... size)",
    "The same elements in another shape, without a copy.",
    vjp=_like_input,
    function=False,
    method=False,  # of C++, which also takes a dtype
)
expand = view(
    "expand(Tensor input, int[]... size)",
    "Dimensions of size 1 repeated, without a copy.",
    vjp=lambda g, _out, _x, size: g,
)
permute = view("permute(Tensor input, int[]... dims)", "The dimensions in another order.", vjp=_permute_vjp)
transpose: Op = view(
    "transpose(Tensor input, int dim0, int dim1)",
    "Two dimensions swapped.",
    vjp=lambda g, _out, _x, dim0, dim1: transpose(g, dim0, dim1),
    aliases=("swapaxes", "swapdims"),
)
squeeze = view(
    "squeeze(Tensor input, int[]?... dim=None)", "Dimensions of size 1 dropped.",
    vjp=lambda g, _out, _x, _dim: g if g.shape == _x.shape else _like_input(g, _out, _x),
    grad_fn={"dim": "SqueezeBackward1"},
)  # fmt: skip
unsqueeze = view("unsqueeze(Tensor input, int dim)", "A dimension of size 1 added.", vjp=_like_input)
select: Op = view(
    "select(Tensor input, int dim, int index)",
    "One index along dim.",
    vjp=_scattered(lambda x, dim, index: select(x, dim, index)),
)
slice: Op = view(
    "slice(Tensor input, int dim=0, int? start=None, int? end=None, int step=1)",
    "A range along dim.",
    vjp=_scattered(lambda x, dim, start, end, step: slice(x, dim, start, end, step)),
)
as_strided = view(
    "as_strided(Tensor input, int[] size, int[] stride, int? storage_offset=None)",
    "Any strided view of the storage.",
    vjp=_as_strided_vjp,
)
alias = view("alias(Tensor input)", "The tensor itself, as a view.", vjp=lambda g, _out, _x: g)
diagonal: Op = view(
    "diagonal(Tensor input, int offset=0, int dim1=0, int dim2=1)",
    "The diagonal of two dimensions, last.",
    vjp=_scattered(lambda x, offset, dim1, dim2: diagonal(x, offset, dim1, dim2)),
)
unfold = view(
    "unfold(Tensor input, int dimension, int size, int step)", "Windows along a dimension, last.", vjp=_unfold_vjp
)


def _cat_refuse(call: Any) -> str | None:
    """A loop over the result asks of every element which tensor it comes from, where the kernel copies each at once."""
    return "it joins more than 64 tensors, which its kernel copies one by one" if len(call.operands) > 64 else None


def _cat_vjp(g: Any, _out: Any, _tensors: Any, dim: int) -> Any:
    parts: list[Any] = []
    start = 0
    for t in _tensors:
        if t.ndim == 1 and t.numel() == 0 and g.ndim != 1:
            parts.append(None)
            continue
        parts.append(slice(g, dim, start, start + t.shape[dim], 1))
        start += t.shape[dim]
    return tuple(parts)


cat: Op = movement(
    "cat(Tensor[] tensors, int dim=0)",
    """The tensors one after the other along dim.

    All have one shape but for the size along ``dim``, and the result has the sum of these; a tensor of shape ``[0]``
    fits any. dtypes are promoted. Raises RuntimeError where shapes differ, ValueError for no tensors, IndexError for a
    dimension that isn't there.
    """,
    out="castable",
    aliases=("concat", "concatenate"),
    lower=lambda b, *rest: b.concatenate_all(rest[:-1], rest[-1]),
    refuse=_cat_refuse,
    vjp=_cat_vjp,
)
tril: Op = movement(
    "tril(Tensor input, int diagonal=0)", "The lower triangle; the rest is zero.",
    lower=lambda b, x, diagonal: b.triangle(x, diagonal, "LE"), vjp=lambda g, _out, _x, diagonal: tril(g, diagonal),
    inplace=True,
)  # fmt: skip
triu: Op = movement(
    "triu(Tensor input, int diagonal=0)", "The upper triangle; the rest is zero.",
    lower=lambda b, x, diagonal: b.triangle(x, diagonal, "GE"), vjp=lambda g, _out, _x, diagonal: triu(g, diagonal),
    inplace=True,
)  # fmt: skip


def _flip_lower(b: Any, x: Any, dims: tuple[int, ...]) -> Any:
    rank = len(x.dims)
    return b.reverse(x, tuple(d % rank for d in dims)) if rank and dims else x


def _rolled(b: Any, x: Any, dim: int, shift: int) -> Any:
    n = x.dims[dim]
    shift = shift % n if n else 0
    if shift == 0:
        return x
    starts, ends = [0] * len(x.dims), list(x.dims)
    starts[dim] = ends[dim] = n - shift
    tail = b.slice(x, starts, x.dims)
    return b.concatenate([tail, b.slice(x, [0] * len(x.dims), ends)], dim)


def _roll_lower(b: Any, x: Any, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    if not dims:
        count = 1
        for n in x.dims:
            count *= n
        return b.reshape(_rolled(b, b.reshape(x, (count,)), 0, shifts[0]), x.dims)
    for shift, d in zip(shifts, dims, strict=True):
        x = _rolled(b, x, d % len(x.dims), shift)
    return x


def _pad_lower(b: Any, x: Any, pad: tuple[int, ...], value: Any) -> Any:
    rank = len(x.dims)
    padding = [(0, 0, 0)] * rank
    for i in range(len(pad) // 2):
        padding[rank - 1 - i] = (pad[2 * i], pad[2 * i + 1], 0)
    return b.pad(x, b.number(value, x.dtype), padding) if pad else x


flip: Op = movement(
    "flip(Tensor input, int[]... dims)", "The elements in reverse order along dims.", out="none",
    lower=_flip_lower, vjp=lambda g, _out, _x, dims: flip(g, dims),
)  # fmt: skip
roll: Op = movement(
    "roll(Tensor input, int[] shifts, int[] dims=[])",
    "The elements moved on along dims, those that leave at the end to the front; without dims, along all elements.",
    out="none",
    lower=_roll_lower, vjp=lambda g, _out, _x, shifts, dims: roll(g, [-s for s in shifts], dims),
)  # fmt: skip
pad_around: Op = movement(
    "_pad_around(Tensor input, int[] counts, int mode)",
    "The input padded with elements of its own: mode 0 reflects, 1 repeats the edge, 2 continues at the other end. "
    "`counts` has pairs for at most three dimensions, the last one first.",
    autocast=("float32", ""),
    vjp=lambda g, _out, _x, counts, mode: pad_around_backward(g, counts, mode), function=False, method=False,
)  # fmt: skip
pad_around_backward: Op = movement(
    "_pad_around_backward(Tensor grad, int[] counts, int mode)",
    "The transpose of `_pad_around`: elements are added up where they came from.",
    vjp=lambda g, _out, _grad, counts, mode: pad_around(g, counts, mode), function=False, method=False,
)  # fmt: skip
constant_pad_nd: Op = movement(
    "constant_pad_nd(Tensor input, int[] pad, Scalar value=0)",
    "input with `value` before and after it: pad has pairs of counts, for the last dimension first. Negative ones cut.",
    out="none",
    lower=_pad_lower, vjp=lambda g, _out, _x, pad, value: constant_pad_nd(g, [-n for n in pad]), method=False,
)  # fmt: skip

# What recorded programs have in place of aliasing: reading and writing through views of a value, and assignment.
view_read = movement(
    "_view_read(Tensor base, int[] size, int[] stride, int offset)",
    "The elements that a view of the value shows.",
    lower=lambda b, base, size, stride, offset: b.view_read(base, size, stride, offset),
)
view_write = movement(
    "_view_write(Tensor base, Tensor value, int[] size, int[] stride, int offset)",
    "The value with a view of it replaced.",
    lower=lambda b, base, value, size, stride, offset: b.view_write(base, value, size, stride, offset),
)
assign = movement(
    "_assign(Tensor src, int[] size, dtype dtype)",
    "src, broadcast and converted.",
    lower=lambda b, src, size, dtype: b.broadcast_to(b.to_dtype(src, b.result.dtype), size),
)

from minitensor.ops.creation import arange, full  # noqa: E402  (the rows above name them only when they run)
