"""Parameters in a sparse layout."""

from __future__ import annotations

from typing import Any

from minitensor.nn.parameter import Parameter
from minitensor.sparse.tensor import SparseTensor, raw

__all__ = ["SparseParameter", "sparse_parameter"]


class SparseParameter(SparseTensor, Parameter):
    """A sparse tensor that becomes a parameter of the module that it is assigned to."""


SparseParameter.__name__ = SparseParameter.__qualname__ = "Parameter"
SparseParameter.__module__ = "minitensor.nn.parameter"


def sparse_parameter(data: Any, requires_grad: bool) -> Any:
    """A parameter over the components of a sparse tensor, without its history."""
    if not isinstance(data, SparseTensor):
        from minitensor.sparse.semi_structured import as_parameter

        return as_parameter(data, requires_grad)
    return raw(data._pattern, data._elements, SparseParameter).requires_grad_(requires_grad)
