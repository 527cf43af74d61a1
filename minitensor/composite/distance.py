"""Distances between vectors."""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, composite, grad_fn
from minitensor.linalg.solvers import broadcast_batches
from minitensor.ops import ROWS

__all__: list[str] = []

_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
# From here on a matrix product is faster than a loop over pairs, and not much less accurate.
_MANY = 25
_root = _C.inplace_form(ROWS["_root_of_positive"].call)


@composite(method=False)
@autocast("float32", "float32")
@grad_fn("CdistBackward0")
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = _MODES[0]) -> _C.Tensor:
    """The p-norm distances between each pair of vectors of two sets, batched over leading dimensions.

    `compute_mode` says whether Euclidean distances may be had from a matrix product, which is fast for large sets but
    loses accuracy where vectors are close to each other.
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if compute_mode is None:
        compute_mode = _MODES[0]
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {_C.type_name(x.dtype)}")
    p = number(p, "cdist", "p")
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if x1.dtype.itemsize < 4:
        raise NotImplementedError(
            f"\"cdist\" not implemented for '{'Half' if x1.dtype.name == 'float16' else 'BFloat16'}'"
        )
    if x1.dtype != x2.dtype:
        kinds = {"float32": "Float", "float64": "Double"}
        raise RuntimeError(f"expected scalar type {kinds[x1.dtype.name]} but found {kinds.get(x2.dtype.name, 'Half')}")
    batch = broadcast_batches(x1, x2)
    n, m, k = x1.shape[-2], x2.shape[-2], x1.shape[-1]
    count = math.prod(batch)
    x1 = x1.expand((*batch, n, k)).reshape((count, n, k))
    x2 = x2.expand((*batch, m, k)).reshape((count, m, k))
    use_mm = compute_mode == _MODES[1] or (compute_mode == _MODES[0] and (n > _MANY or m > _MANY))
    if p == 2 and use_mm and k and n and m:
        found = _by_product(x1, x2)
    else:
        found = ROWS["_cdist"].call(x1, x2, float(p))
    return _C.forget_base(found.reshape((*batch, n, m)))


def _by_product(x1: Any, x2: Any) -> Any:
    """|x - y| by |x|^2 - 2 x.y + |y|^2, in one product of matrices with two more columns."""
    squares1, squares2 = x1.square().sum(-1, keepdim=True), x2.square().sum(-1, keepdim=True)
    ones1, ones2 = squares1.detach() * 0 + 1, squares2.detach() * 0 + 1
    left = ROWS["cat"].call([x1 * -2, squares1, ones1], -1)
    right = ROWS["cat"].call([x2, ones2, squares2], -1)
    return _root(ROWS["matmul"].call(left, right.mT))


@composite(method=False, namespaces=("nn.functional",))
@autocast("", "float32")
@grad_fn("PdistBackward0")
def pdist(input: Any, p: float = 2.0) -> _C.Tensor:
    """The p-norm distances between each pair of rows: (0, 1), (0, 2), ..., (1, 2), ..."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    p = number(p, "pdist", "p")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.shape[0]
    if n < 2:
        return input.reshape((-1,))[:0]
    batch = input.unsqueeze(0)
    pairs = ROWS["_cdist"].call(batch, batch, float(p)).reshape((n * n,))
    return ROWS["index_select"].call(pairs, _upper_places(n), 0)


def _upper_places(n: int) -> Any:
    import numpy as np

    from minitensor import _C

    rows, columns = np.triu_indices(n, 1)
    return _C.from_numpy(np.ascontiguousarray(rows * n + columns))
