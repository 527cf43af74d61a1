"""What C++ asks of sparse tensors: ops that it calls itself, and gradients that come to a leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor.autograd import no_grad
from minitensor.sparse.dispatch import handlers, refuse
from minitensor.sparse.elementwise import add, add_to_dense_
from minitensor.sparse.tensor import is_sparse, put, raw

__all__ = ["add_gradient", "run_op"]

# Ops by their names in C++, where the handler has another or takes other parameters.
_OPS: dict[str, Callable[..., Any]] = {
    "alias": lambda x: raw(x._pattern, x._elements),
    "cast": lambda x, dtype: handlers()["to"](x, dtype),
    "copy": lambda x, source: handlers()["copy_"](handlers()["clone"](x) if is_sparse(x) else x, source),
    "_row_major": lambda x: handlers()["clone"](x),
    "cat": lambda *given: handlers()["cat"](given[:-1], given[-1]),
    "sum": lambda x, dims, keepdim, dtype: handlers()["sum"](x, dims or None, keepdim, dtype=dtype),
}


def run_op(name: str, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """An op on operands of which one is sparse."""
    sparse = next((x for x in operands if _C.is_sparse_storage(x)), None)
    known = _OPS.get(name) or handlers().get(name)
    if known is None or not hasattr(sparse, "_pattern"):
        raise refuse(name, sparse)
    if any(_C.vmap_level(x._elements) for x in operands if is_sparse(x)):
        return known(*operands, *params)
    with no_grad():  # the op's row has the gradient
        return known(*operands, *params)


def add_gradient(before: Any, gradient: Any) -> Any:
    """What a leaf's `.grad` is after a gradient came, where one of them is sparse; `before` may be None."""
    if before is None:
        # A copy: the elements may be another tensor's, or one number expanded.
        return (
            raw(gradient._pattern, gradient._elements.clone().contiguous()) if is_sparse(gradient) else gradient.clone()
        )
    if is_sparse(before):
        total = add(gradient, before) if not is_sparse(gradient) else add(before, gradient)
        if not is_sparse(total):
            return total
        put(before, total._pattern, total._elements)
        return before
    return add_to_dense_(before, gradient)
