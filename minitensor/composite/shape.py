"""Other shapes of the same elements."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any, cast

from minitensor import _C
from minitensor._warning import warn
from minitensor.composite.dims import ints_of, is_int, normal_dim, product, sizes_of, type_name
from minitensor.composite.numbers import whole_sizes
from minitensor.composite.registry import composite, grad_fn
from minitensor.ops import movement
from minitensor.ops.elementwise import row_major

Tensor = _C.Tensor


@composite()
def reshape(input: Any, *args: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape: a view where the strides allow it, a copy otherwise. One size may be -1."""
    size = sizes_of(args, shape, "reshape", "shape")
    if input.is_contiguous() or _C.can_view(input, size):
        return movement.view_(input, size)
    return _C.forget_base(movement.view_(row_major(input), size))


@composite(function=False)
def reshape_as(input: Any, other: Any) -> Tensor:
    """`reshape` to other's shape."""
    return reshape(input, tuple(other.shape))


@composite(function=False)
def view_as(input: Any, other: Any) -> Tensor:
    """`view` in other's shape."""
    return movement.view_(input, tuple(other.shape))


@composite(function=False)
def expand_as(input: Any, other: Any) -> Tensor:
    """`expand` to other's shape."""
    return movement.expand(input, tuple(other.shape))


@composite()
def broadcast_to(input: Any, *args: Any, size: Any = None) -> Tensor:
    """The tensor expanded to a size, given as one sequence or, to the method, as several ints."""
    return movement.expand(input, sizes_of(args, size, "broadcast_to"))


@composite(method=False)
def broadcast_shapes(*shapes: Any) -> _C.Size:
    """The shape that all broadcast to. A shape may be an int; RuntimeError where sizes differ and none is 1."""
    result: list[int] = []
    for shape in shapes:
        shape = ints_of(shape)
        for n in shape:
            if n < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
        rank = len(result) if len(result) > len(shape) else len(shape)
        a, b = [1] * (rank - len(result)) + result, [1] * (rank - len(shape)) + shape
        result = []
        for x, y in zip(a, b, strict=True):
            if x != y and 1 not in (x, y):
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
            result.append(y if x == 1 else x)
    return _C.Size(result)


@composite(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """The tensors expanded to the shape that all broadcast to."""
    given = unpacked(tensors)
    rank = max_rank(given)
    for d in range(rank):
        sizes = [t.shape[d - rank + t.ndim] for t in given if d - rank + t.ndim >= 0]
        wide = [n for n in sizes if n != 1]
        for n in wide:
            if n != wide[0]:
                raise RuntimeError(
                    f"The size of tensor a ({wide[0]}) must match the size of tensor b ({n}) at non-singleton "
                    f"dimension {d}"
                )
    shape = tuple(broadcast_shapes(*(tuple(x.shape) for x in given)))
    return tuple(x if tuple(x.shape) == shape else movement.expand(x, shape) for x in given)


def max_rank(tensors: Sequence[Any]) -> int:
    """The largest number of dimensions among tensors."""
    rank = 0
    for t in tensors:
        rank = t.ndim if t.ndim > rank else rank
    return rank


def unpacked(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors that are given one by one or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return (*tensors[0],)  # not tuple(), which up to Python 3.11 reads freed memory where a finalizer changes it
    return tensors


# ---- orders of dimensions


@composite(aliases=("moveaxis",))
def movedim(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """The dimensions `source` moved to `destination`; the others keep their order."""
    rank = input.ndim
    one = is_int(source)
    if one != is_int(destination) or isinstance(source if not one else 0, Tensor):
        raise TypeError("movedim(): source and destination must both be ints or both be tuples of ints")
    if isinstance(source, Sequence) and isinstance(destination, Sequence):
        source, destination = tuple(source), tuple(destination)
    else:
        source, destination = (cast("int", source),), (cast("int", destination),)
    if len(source) != len(destination):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({list(source)} dims) should contain the same number of dims as destination ({list(destination)} dims)"
        )
    sources, targets = ([normal_dim(d, rank) for d in dims] for dims in (source, destination))
    for what, dims, given in (("source", sources, source), ("destination", targets, destination)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{what}` ({list(given)})")
    if rank == 0:
        return movement.alias(input)
    order = [-1] * rank
    for d, place in zip(sources, targets, strict=True):
        order[place] = d
    rest = iter(d for d in range(rank) if d not in sources)
    return movement.permute(input, [d if d >= 0 else next(rest) for d in order])


@composite(aliases=("swapdims",))
def swapaxes(input: Any, axis0: int | None = None, axis1: int | None = None, **more: int) -> Tensor:
    """Two dimensions swapped: `transpose` by NumPy's name. Also as dim0 and dim1."""
    axis0, axis1 = more.pop("dim0", axis0), more.pop("dim1", axis1)
    if more or axis0 is None or axis1 is None:
        raise TypeError("swapaxes() takes a tensor and two dimensions")
    return movement.transpose(input, axis0, axis1)


@composite()
@grad_fn("TBackward0")
def t(input: Any) -> Tensor:
    """The transpose of a matrix; vectors and numbers stay."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return movement.permute(input, tuple(range(input.ndim))[::-1])


@composite()
def adjoint(input: Any) -> Tensor:
    """The last two dimensions swapped, and complex numbers conjugated."""
    return conjugate_transpose(input, "adjoint()")


def conjugate_transpose(input: Any, name: str) -> Any:
    """`adjoint`, under the name that warnings and errors give it."""
    if input.ndim == 0:
        warn(f"{'' if name.endswith(')') else 'Tensor.'}{name} is deprecated on 0-D tensors. Consider using x.conj().")
    if input.ndim == 1:
        raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    swapped = movement.transpose(input, -2, -1) if input.ndim else movement.alias(input)
    return swapped.conj() if input.is_complex() else swapped


# ---- merging and splitting dimensions


@composite()
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from start_dim to end_dim as one; a tensor without dimensions gets one."""
    if input.ndim == 0:
        normal_dim(start_dim, 0), normal_dim(end_dim, 0)
        return reshape(input, 1)
    start, end = normal_dim(start_dim, input.ndim), normal_dim(end_dim, input.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end:
        return input
    shape = tuple(input.shape)
    return reshape(input, (*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :]))


@composite()
def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Tensor:
    """A dimension in several, of the given sizes; one of them may be -1."""
    dim = normal_dim(dim, input.ndim)
    sizes = whole_sizes(sizes, "unflatten", "sizes")
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    n = input.shape[dim]
    known = -product(sizes) if -1 in sizes else product(sizes)
    if sizes.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    fits = known == n if -1 not in sizes else (n % known == 0 if known else False)
    if not fits:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({n}) in the input "
            "tensor"
        )
    sizes = tuple(n // known if s == -1 else s for s in sizes)
    return movement.view_(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1 :]))


@composite()
def ravel(input: Any) -> Tensor:
    """All elements as one dimension; a copy only where the strides need it."""
    return reshape(input if input.is_contiguous() else row_major(input), -1)


def _for_each(function: Any, tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return tuple(function(x) for x in tensors[0])
    if len(tensors) == 1:
        return function(tensors[0])
    return tuple(function(x) for x in tensors)


@composite(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """Tensors without dimensions get one. One tensor gives a tensor, several a tuple."""
    return _for_each(lambda x: reshape(x, 1) if x.ndim == 0 else x, tensors)


def _to_2d(x: Any) -> Any:
    return reshape(x, (1, 1)) if x.ndim == 0 else movement.unsqueeze(x, 0) if x.ndim == 1 else x


@composite(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Tensors of fewer dimensions get leading ones, up to two."""
    return _for_each(_to_2d, tensors)


def _to_3d(x: Any) -> Any:
    if x.ndim < 2:
        return reshape(x, (1, -1, 1))
    return movement.unsqueeze(x, -1) if x.ndim == 2 else x


@composite(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """Tensors of fewer dimensions get some around them, up to three, as in NumPy: rows, columns, and one."""
    return _for_each(_to_3d, tensors)


# ---- repetition


@composite(function=False)
@grad_fn("RepeatBackward0")
def repeat(input: Any, *args: Any, repeats: Any = None) -> Tensor:
    """The tensor repeated along every dimension; more counts than dimensions add leading ones. Always a copy."""
    times = whole_sizes(sizes_of(args, repeats, "repeat", "repeats"), "repeat", "repeats")
    if len(times) < input.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    for n in times:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(times)}")
    shape = (1,) * (len(times) - input.ndim) + tuple(input.shape)
    if not times:
        return row_major(input)
    # Counts of 1 need no dimension of their own.
    spread = [size for r, n in zip(times, shape, strict=True) for size in ((r, n) if r != 1 else (n,))]
    source = [size for r, n in zip(times, shape, strict=True) for size in ((1, n) if r != 1 else (n,))]
    copied = row_major(movement.expand(reshape(input, source), spread))
    return _C.forget_base(movement.view_(copied, [r * n for r, n in zip(times, shape, strict=True)]))


@composite()
@grad_fn("RepeatBackward0")
def tile(input: Any, *args: Any, dims: Any = None) -> Tensor:
    """The tensor repeated along its last dimensions; dimensions that have no count are not repeated."""
    times = sizes_of(args, dims, "tile", "dims")
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


@composite()
def repeat_interleave(input: Any, repeats: Any = None, dim: int | None = None, *, output_size: Any = None) -> Tensor:
    """Every element, or slice along dim, repeated: all as often, or each its own number of times.

    With `repeats` alone, a vector of counts, the indices that a call with it would take. RuntimeError if counts are
    negative or don't fit, or if `output_size`, a whole number or a tensor of one, isn't the size that the result has
    along dim; TypeError if it is anything else.
    """
    output_size = _output_size(output_size)
    if repeats is None:
        return _repeat_places(input, output_size)
    x = reshape(input, -1) if dim is None else input
    d = normal_dim(0 if dim is None else dim, x.ndim)
    if is_int(repeats) and not isinstance(repeats, Tensor):
        repeats = operator.index(repeats)
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        shape = tuple(x.shape) or (1,)
        if output_size is not None and output_size != shape[d] * repeats:
            raise RuntimeError(
                f"repeat_interleave: Invalid output_size, expected {shape[d] * repeats} but got {output_size}"
            )
        x = reshape(x, shape)
        spread = movement.expand(movement.unsqueeze(x, d + 1), (*shape[: d + 1], repeats, *shape[d + 1 :]))
        return reshape(row_major(spread), (*shape[:d], shape[d] * repeats, *shape[d + 1 :]))
    if not isinstance(repeats, Tensor):
        raise TypeError(f"repeat_interleave(): argument 'repeats' must be Tensor or int, not {type(repeats).__name__}")
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    n = x.shape[d] if x.ndim else 1
    if repeats.numel() == 1:
        repeats = movement.expand(reshape(repeats, 1), (n,))
    elif repeats.numel() != n:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.shape[0]} and "
            f"input.size({d}) = {n}"
        )
    from minitensor.ops.index import index_select

    return index_select(reshape(x, 1) if x.ndim == 0 else x, _repeat_places(repeats, output_size), d)


def _output_size(given: Any) -> int | None:
    if given is None:
        return None
    is_whole = not (isinstance(given, builtins.bool) or getattr(given, "dtype", None) is _C.bool)
    try:
        if is_whole:
            return operator.index(given)
    except TypeError:
        pass
    what = f"of {given.dtype}, shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
    raise TypeError(f"repeat_interleave(): argument 'output_size' must be int, not {what}")


def _repeat_places(repeats: Any, output_size: int | None) -> Any:
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in (_C.int64, _C.int32):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{type_name(repeats)}'")
    places = _C.repeat_places(repeats)
    if output_size is not None and places.numel() != output_size:
        raise RuntimeError("allocated size does not match required size")
    return places


# ---- parts


@composite()
def narrow(input: Any, dim: int, start: Any, length: int) -> Tensor:
    """`length` slices along dim from `start`, which may count from the end or be a tensor without dimensions."""
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, bool):
        raise TypeError("narrow(): argument 'start' (position 3) must be int, not bool")
    if isinstance(start, Tensor):
        if start.ndim or start.is_floating_point() or start.is_complex() or start.dtype is _C.bool:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = int(start)
    elif not is_int(start):
        raise TypeError(f"narrow(): argument 'start' (position 3) must be int, not {type(start).__name__}")
    start = operator.index(start)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    d = normal_dim(dim, input.ndim)
    n = input.shape[d]
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start = start + n if start < 0 else start
    if start > n - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return movement.slice(input, d, start, start + length, 1)


@composite()
@grad_fn(None, "UnbindBackward0")
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """All slices along dim."""
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = normal_dim(dim, input.ndim)
    return tuple(movement.select(input, dim, i) for i in range(input.shape[dim]))


@composite()
def fliplr(input: Any) -> Tensor:
    """The columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return movement.flip(input, (1,))


@composite()
def flipud(input: Any) -> Tensor:
    """The rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return movement.flip(input, (0,))


@composite()
@grad_fn("Rot90Backward0")
def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """The tensor turned by 90 degrees k times in the plane of two dimensions, from the first towards the second."""
    rank, given = input.ndim, tuple(dims)
    if len(given) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(given)}")
    if rank < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {rank}")
    first, second = given
    given = tuple(normal_dim(d, rank) for d in given)
    if given[0] == given[1]:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {first} and dim1 = {second}")
    k %= 4
    if k == 0:
        return row_major(input)
    if k == 2:
        return movement.flip(input, given)
    return _C.forget_base(movement.transpose(movement.flip(input, (given[1 if k == 1 else 0],)), *given))
