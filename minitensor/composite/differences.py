"""Derivatives of sampled functions by central differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.dims import ints_of, normal_dim
from minitensor.composite.numbers import whole
from minitensor.composite.registry import composite
from minitensor.ops import movement

__all__: list[str] = []

Tensor = _C.Tensor


@composite(method=False)
def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Any, ...]:
    """The derivatives of a function along dims (None: all of them) from its values `input`, one tensor for each dim.

    `spacing` is the distance of the samples, or one for each dim, or for each dim a vector with their coordinates.
    Inner values have an error of second order in the distance, those at the edges one of `edge_order`, 1 or 2.
    RuntimeError for an edge order or a number of spacings that there is not, and for a dimension of fewer than
    `edge_order` + 1 values. The weights: Fornberg, "Generation of finite difference formulas on arbitrarily spaced
    grids", Math. Comp. 51 (1988).
    """
    edge_order = whole(edge_order, "gradient", "edge_order")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    given = range(input.ndim) if dim is None else ints_of(dim)
    dims = [normal_dim(d, input.ndim) for d in given]
    if len(set(dims)) != len(dims):
        repeated = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {repeated} appears multiple times in the list of dims")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    if input.dtype is _C.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, Sequence) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or a list of length "
            f"{len(dims)}, the number of dims, but got a list of length {len(spacings)}"
        )
    return tuple(
        _by_coordinates(input, d, step, edge_order)
        if isinstance(step, Tensor) and step.ndim
        else _by_distance(input, d, step, edge_order)
        for d, step in zip(dims, spacings, strict=True)
    )


def _part(x: Any, dim: int, start: int, end: int) -> Any:
    return movement.slice(x, dim, start, end if end else x.shape[dim])


def _by_distance(x: Any, dim: int, step: Any, edge_order: int) -> Any:
    inner = (_part(x, dim, 2, 0) - _part(x, dim, 0, -2)) / 2
    if edge_order == 1:
        first = _part(x, dim, 1, 2) - _part(x, dim, 0, 1)
        last = _part(x, dim, -1, 0) - _part(x, dim, -2, -1)
    else:
        first = _part(x, dim, 0, 1) * -1.5 + _part(x, dim, 1, 2) * 2 - _part(x, dim, 2, 3) * 0.5
        last = _part(x, dim, -3, -2) * 0.5 - _part(x, dim, -2, -1) * 2 + _part(x, dim, -1, 0) * 1.5
    return movement.cat([part / step for part in (first, inner, last)], dim)


def _by_coordinates(x: Any, dim: int, places: Any, edge_order: int) -> Any:
    n = x.shape[dim]
    if places.ndim != 1 or places.shape[0] != n:
        raise RuntimeError(
            f"torch.gradient expected the coordinates of dim {dim} to be a vector of {n}, but got a tensor of shape "
            f"{list(places.shape)}"
        )
    distances = places[1:] - places[:-1]
    lead = x.ndim - dim - 1

    def along(weights: Any) -> Any:
        return weights.reshape((-1,) + (1,) * lead)

    before, after = distances[:-1], distances[1:]
    both = before + after
    inner = (
        along(-after / (before * both)) * _part(x, dim, 0, -2)
        + along((after - before) / (before * after)) * _part(x, dim, 1, -1)
        + along(before / (after * both)) * _part(x, dim, 2, 0)
    )
    if edge_order == 1:
        first = (_part(x, dim, 1, 2) - _part(x, dim, 0, 1)) / distances[0]
        last = (_part(x, dim, -1, 0) - _part(x, dim, -2, -1)) / distances[-1]
    else:
        a, b = distances[0], distances[1]
        first = (
            _part(x, dim, 0, 1) * (-(2 * a + b) / (a * (a + b)))
            + _part(x, dim, 1, 2) * ((a + b) / (a * b))
            - _part(x, dim, 2, 3) * (a / (b * (a + b)))
        )
        a, b = distances[-2], distances[-1]
        last = (
            _part(x, dim, -3, -2) * (b / (a * (a + b)))
            - _part(x, dim, -2, -1) * ((a + b) / (a * b))
            + _part(x, dim, -1, 0) * ((2 * b + a) / (b * (a + b)))
        )
    return movement.cat([first, inner, last], dim)
