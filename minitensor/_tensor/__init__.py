"""What a Tensor has beside its C slots: methods, copies, pickles, indexing, printing, constructors by type."""

from minitensor._C import Tensor
from minitensor._tensor import methods, printing, typed_tensors

# What pickles of earlier versions name.
from minitensor._tensor.pickling import (
    _rebuild,
    _rebuild_bfloat16,
    _rebuild_bits,
    _rebuild_meta,
    _rebuild_on,
    _rebuild_strided,
)

__all__ = ["Tensor", "methods", "printing", "typed_tensors"]
