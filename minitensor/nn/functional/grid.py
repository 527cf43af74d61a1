"""Images sampled at any points."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from minitensor._C import Tensor, int64
from minitensor._functions import offered
from minitensor._functions.offered import floor, linspace, matmul, ones, stack, where, zeros
from minitensor._warning import warn
from minitensor.composite import composite
from minitensor.composite.registry import autocast, grad_fn
from minitensor.ops import ROWS

__all__ = ["affine_grid", "grid_sample"]

_gather = ROWS["plane_gather"].call
_INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the points ``[N, H, W, 2]`` or ``[N, D, H, W, 3]`` that matrices ``[N, 2, 3]`` or ``[N, 3, 4]`` map to.

    ``size`` is that of the images: ``[N, C, H, W]`` or ``[N, C, D, H, W]``. Coordinates go from -1 to 1; with
    ``align_corners`` these are the centers of the corner pixels, otherwise their edges.
    """
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details."
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {tuple(size)}"
        )
    if tuple(theta.shape[-2:]) != (rank, rank + 1) or theta.dim() != 3:
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {tuple(size)}. "
            f"Got {tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    if theta.shape[0] != size[0]:
        raise ValueError(f"Expected a batch of {size[0]} matrices, got {theta.shape[0]}")
    spatial = tuple(size[2:])
    columns = []
    for d in reversed(range(rank)):  # x is the last dimension
        n = spatial[d]
        if n == 1:
            line = zeros(1, dtype=theta.dtype, device=theta.device)
        else:
            line = linspace(-1, 1, n, dtype=theta.dtype, device=theta.device)
            if not align_corners:
                line = line * ((n - 1) / n)
        columns.append(line.reshape([-1 if i == d else 1 for i in range(rank)]).expand(spatial).reshape(-1))
    columns.append(ones(columns[0].numel(), dtype=theta.dtype, device=theta.device))
    points = stack(columns, 1)
    return matmul(points, theta.mT).reshape((size[0], *spatial, rank))


@composite(method=False)
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Return :func:`nn.functional.affine_grid`."""
    return affine_grid(theta, size, align_corners)


def _unnormalized(x: Tensor, size: int, align_corners: bool) -> Tensor:
    return (x + 1) * ((size - 1) / 2) if align_corners else ((x + 1) * size - 1) / 2


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Fold the coordinates back between two mirrors."""
    if low == high:
        return x * 0.0
    span = high - low
    distance = (x - low).abs()
    turns = floor((distance / span).detach())
    extra = distance - turns * span
    return where(turns.remainder(2.0) == 0, extra + low, high - extra)


def _placed(x: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Move coordinates outside into the image, as the padding says."""
    if padding_mode == "reflection":
        x = _reflected(x, 0.0, size - 1.0) if align_corners else _reflected(x, -0.5, size - 0.5)
    if padding_mode != "zeros":
        # Flat at the borders themselves.
        x = where(x <= 0, 0.0, where(x >= size - 1, float(size - 1), x))
    return x


@autocast("float32", "widest")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return images ``[N, C, H, W]`` or volumes at points ``[N, H', W', 2]`` or ``[N, D', H', W', 3]``.

    Coordinates from -1 to 1 span the image, x first. ``mode`` is "bilinear", "nearest" or, for images, "bicubic";
    ``padding_mode`` says what is outside: "zeros", the "border", or the "reflection" of the inside.
    """
    if mode not in _INTERPOLATIONS:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details."
        )
        align_corners = False
    _check(input, grid, mode)
    rank = input.dim() - 2
    sizes = tuple(input.shape[2:])
    grid = grid.contiguous()
    # The grid's last coordinate is that of the first dimension.
    points = [_unnormalized(grid.select(-1, rank - 1 - d), sizes[d], align_corners) for d in range(rank)]
    if mode == "bicubic":
        return _bicubic(input, points, padding_mode, align_corners)
    points = [_placed(p, sizes[d], padding_mode, align_corners) for d, p in enumerate(points)]
    if mode == "nearest":
        return _at(input, [_along(offered.round(p.detach()), n) for p, n in zip(points, sizes, strict=True)])
    low = [floor(p.detach()) for p in points]
    part = [p - q for p, q in zip(points, low, strict=True)]
    # Where two neighbours along a dimension are is computed once, for all corners.
    neighbours = [(_along(q, n), _along(q + 1, n)) for q, n in zip(low, sizes, strict=True)]
    result: Any = None
    for corner in itertools.product((0, 1), repeat=rank):
        weight: Any = None
        for p, bit in zip(part, corner, strict=True):
            factor = p if bit else 1 - p
            weight = factor if weight is None else weight * factor
        term = _at(input, [both[bit] for both, bit in zip(neighbours, corner, strict=True)]) * weight.unsqueeze(1)
        result = term if result is None else result + term
    return result


def _check(input: Tensor, grid: Tensor, mode: str) -> None:
    if input.dim() not in (4, 5) or input.dim() != grid.dim():
        raise RuntimeError(
            f"grid_sampler(): expected {'5D' if input.dim() == 5 else '4D'} input and grid with same number of "
            f"dimensions, but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != input.dim() - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.dim() - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input.shape)} with dimension {2 + list(input.shape[2:]).index(0)} being empty"
        )
    if mode == "bicubic" and input.dim() == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype != grid.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {input.dtype} and grid has "
            f"{grid.dtype}"
        )


def _along(place: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return where whole coordinates along a dimension are inside, and those as integers."""
    here = (place >= 0) & (place <= size - 1)
    return here, where(here, place, 0.0).to(int64)


def _at(input: Tensor, places: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the elements at places ``[N, ...]`` along each dimension as ``[N, C, ...]``, zero for those outside."""
    sizes = tuple(input.shape[2:])
    inside: Any = None
    index: Any = None
    for (here, whole), size in zip(places, sizes, strict=True):
        inside = here if inside is None else inside & here
        index = whole if index is None else index * size + whole
    shape = (input.shape[0], input.shape[1], *index.shape[1:])
    values = _gather(input, index.unsqueeze(1).expand(shape))
    return where(inside.unsqueeze(1), values, 0.0)


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """Return the weights of the four elements around, by Keys's kernel with -0.75."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _bicubic(input: Tensor, points: list[Tensor], padding_mode: str, align_corners: bool) -> Tensor:
    low = [floor(p.detach()) for p in points]
    weights = [_cubic_weights(p - q) for p, q in zip(points, low, strict=True)]
    rows, columns = (
        [_along(_placed(q + (k - 1), n, padding_mode, align_corners), n) for k in range(4)]
        for q, n in zip(low, input.shape[2:], strict=True)
    )
    result: Any = None
    for i in range(4):
        row: Any = None
        for j in range(4):
            term = _at(input, [rows[i], columns[j]]) * weights[1][j].unsqueeze(1)
            row = term if row is None else row + term
        row = row * weights[0][i].unsqueeze(1)
        result = row if result is None else result + row
    return result


@composite(method=False)
@autocast("float32", "widest")
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return :func:`nn.functional.grid_sample` with its modes as numbers, in the order in which they stand there."""
    return grid_sample(input, grid, _INTERPOLATIONS[interpolation_mode], _PADDINGS[padding_mode], align_corners)


@composite(method=False)
@autocast("float32", "widest")
@grad_fn("GridSampler2DBackward0")
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return :func:`grid_sampler` of images ``[N, C, H, W]``."""
    return _sampled(2, input, grid, interpolation_mode, padding_mode, align_corners)


@composite(method=False)
@autocast("float32", "widest")
@grad_fn("GridSampler3DBackward0")
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return :func:`grid_sampler` of volumes ``[N, C, D, H, W]``."""
    return _sampled(3, input, grid, interpolation_mode, padding_mode, align_corners)


def _sampled(
    rank: int, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    if input.dim() != rank + 2 or grid.dim() != rank + 2:
        raise RuntimeError(
            f"grid_sampler(): expected {rank + 2}D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    return grid_sample(input, grid, _INTERPOLATIONS[interpolation_mode], _PADDINGS[padding_mode], align_corners)
