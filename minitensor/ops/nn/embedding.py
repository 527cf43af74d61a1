"""Rows of a table chosen by indices."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.ops.elementwise import where
from minitensor.ops.row import index

__all__: list[str] = []


def _embedding_vjp(g: Any, _out: Any, _w: Any, i: Any, padding_idx: int, by_frequency: bool) -> tuple[Any, None]:
    return embedding_backward(g, i, _w.shape[0], padding_idx, by_frequency), None


def _backward_vjp(g: Any, _out: Any, _grad: Any, i: Any, rows: int, padding_idx: int, by_frequency: bool) -> Any:
    result = embedding(g, i, -1, False)  # what is left out and divided is so below
    if padding_idx >= 0:
        result = where((i == padding_idx).unsqueeze(-1), 0.0, result)
    if by_frequency:
        counts = embedding_backward(result.new_full((*i.shape, 1), 1.0), i, rows, -1, False)
        result = result / embedding(counts, i, -1, False)
    return result, None


embedding = index(
    "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False)",
    "The rows of weight that indices name. The row padding_idx gets no gradient; with scale_grad_by_freq the gradient "
    "of a row is divided by the number of times it was named.",
    vjp=_embedding_vjp, function=False, method=False, within=lambda w, _i, *_: (1, 0, w.dims[0]),
)  # fmt: skip
embedding_backward: _C.Op = index(
    "embedding_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq)",
    "A table in which grad is added up at the rows that indices name.",
    vjp=_backward_vjp, function=False, method=False, within=lambda _g, _i, rows, *_: (1, 0, rows),
)  # fmt: skip
