"""Reading and writing elements that one index each names along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor.composite.dims import normal_dim, type_name
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, composite, grad_fn, in_place_method, shortcut
from minitensor.composite.shape import broadcast_shapes, reshape
from minitensor.ops import movement, scatter
from minitensor.ops.creation import full

Tensor = _C.Tensor

_in_place: dict[str, Callable[..., Any]] = {
    name: _C.inplace_form(op)
    for name, op in {
        "scatter": scatter.scatter,
        "scatter_add": scatter.scatter_add,
        "scatter_reduce": scatter.scatter_reduce_at,
    }.items()
}


@composite(out="apart")
@shortcut("TiT", scatter.gather, order=(0, 2, 1))
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Tensor:
    """input[i][index[i][j]] for dim 1, and so on: the result has index's shape.

    index has as many dimensions as input, is nowhere larger except along dim, and counts from the beginning. The
    gradient is a sparse tensor of the elements that were named if `sparse_grad`.
    """
    if sparse_grad and _C.is_recorded(input):
        from minitensor.sparse import lookups

        return lookups.gather(input, dim, index)  # type: ignore[no-any-return]
    return scatter.gather(input, index, dim)


def _source(input: Any, index: Any, src: Any, value: Any) -> Any:
    """What scatter writes: a tensor, or a number for all of index."""
    given = src if src is not None else value
    if isinstance(given, Tensor) and (src is not None or given.ndim):
        return given
    given = number(given, "scatter", "value")
    if given is None:
        raise TypeError("scatter() needs src, a Tensor, or value, a number")
    return movement.expand(full((1,) * index.ndim, given, dtype=input.dtype, device=input.device), index.shape)


_SCATTER_REDUCTIONS = {"add": 0, "multiply": 1}
REDUCTIONS = {"sum": 0, "prod": 1, "mean": 2, "amax": 3, "amin": 4, "max": 3, "min": 4}


def _mode(reduce: str, modes: dict[str, int], what: str) -> int:
    if reduce not in modes:
        raise RuntimeError(what)
    return modes[reduce]


def ordered_mode(input: Any, mode: int, what: str) -> int:
    """The mode; complex numbers have no greatest."""
    if mode > 2 and input.is_complex():
        raise NotImplementedError(f"{what}() of the greatest or least is not implemented for {input.dtype}")
    return mode


def _scatter_call(
    form: Callable[[str], Any], input: Any, dim: int, index: Any, src: Any, reduce: str | None, value: Any
) -> Any:
    if not isinstance(src, Tensor) and src is not None:
        src, value = None, src
    given = _source(input, index, src, value)
    if reduce is None:
        return form("scatter")(input, index, given, dim)
    mode = _mode(reduce, _SCATTER_REDUCTIONS, "reduce argument must be either add or multiply.")
    if mode == 0:
        return form("scatter_add")(input, index, given, dim)
    return form("scatter_reduce")(input, index, given, dim, mode, True)


_plain: dict[str, Callable[..., Any]] = {
    "scatter": scatter.scatter,
    "scatter_add": scatter.scatter_add,
    "scatter_reduce": scatter.scatter_reduce_at,
}


@composite(name="scatter", out="apart")
def _scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, reduce: str | None = None, value: Any = None
) -> Tensor:
    """input with src, a tensor or a number, at the places that index names along dim.

    With `reduce` "add" or "multiply" what was there is added or multiplied. Of several values for one place the last
    one stays.
    """
    return _scatter_call(_plain.__getitem__, input, dim, index, src, reduce, value)


@in_place_method
def scatter_(
    input: Any, dim: int, index: Any, src: Any = None, *, reduce: str | None = None, value: Any = None
) -> Tensor:
    """`scatter` in place."""
    return _scatter_call(_in_place.__getitem__, input, dim, index, src, reduce, value)


@composite(out="apart")
@autocast("", "widest")
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Tensor:
    """input with src added at the places that index names along dim, in the order of index."""
    return scatter.scatter_add(input, index, src, dim)


@in_place_method
def scatter_add_(input: Any, dim: int, index: Any, src: Any) -> Tensor:
    """`scatter_add` in place."""
    return _in_place["scatter_add"](input, index, src, dim)


_BAD_REDUCTION = "reduce argument must be either sum, prod, mean, amax or amin, got {}."


@composite(out="apart")
@grad_fn("ScatterReduceBackward0")
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """input with src combined into the places that index names along dim.

    `reduce`: "sum", "prod", "mean", "amax" or "amin". Without `include_self` what was there has no part in it; places
    that index doesn't name keep it all the same.
    """
    mode = ordered_mode(input, _mode(reduce, REDUCTIONS, _BAD_REDUCTION.format(reduce)), "scatter_reduce")
    if mode == 0 and include_self:
        return scatter.scatter_add(input, index, src, dim)
    return scatter.scatter_reduce_at(input, index, src, dim, mode, include_self)


@in_place_method
def scatter_reduce_(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """`scatter_reduce` in place."""
    mode = ordered_mode(input, _mode(reduce, REDUCTIONS, _BAD_REDUCTION.format(reduce)), "scatter_reduce")
    return _in_place["scatter_reduce"](input, index, src, dim, mode, include_self)


@composite(out="exact")
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Tensor:
    """`gather` with broadcasting of the other dimensions; without dim, of all elements as a line."""
    if dim is None:
        return scatter.gather(reshape(input, -1), reshape(indices, -1), 0)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    if indices.dtype is not _C.int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {type_name(indices)}")
    d = normal_dim(dim, input.ndim)
    shapes = [[n for i, n in enumerate(x.shape) if i != d] for x in (input, indices)]
    shape = list(broadcast_shapes(*shapes))
    wide = [movement.expand(x, (*shape[:d], x.shape[d], *shape[d:])) for x in (input, indices)]
    # They may count from the end, and even further around.
    return scatter.gather(wide[0], wide[1] % input.shape[d] if input.shape[d] else wide[1], d)
