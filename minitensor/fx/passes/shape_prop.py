"""Shapes and dtypes of a graph's values, found by running it."""

from __future__ import annotations

from typing import Any, NamedTuple

from minitensor._C import Size, Tensor, dtype
from minitensor.composite.layout import channels_last, contiguous_format, memory_format, strided
from minitensor.fx.interpreter import Interpreter
from minitensor.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor besides its values.

    `memory_format` is None for strides of neither format, and `stride` empty for sparse tensors. There are no
    quantised tensors: `is_quantized` is False, and `qparams` empty.
    """

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


class ShapeProp(Interpreter):
    """Runs a graph and writes down each value: `meta["tensor_meta"]` of its node, and `meta["type"]`.

    Where a node gives several tensors, `tensor_meta` is nested as they are. A node that fails raises RuntimeError,
    which names it.
    """

    def run_node(self, n: Node) -> Any:
        """The value of one node, after its metadata are written."""
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        tensors: list[Tensor] = []

        def described(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            tensors.append(value)
            return _metadata(value)

        metadata = map_aggregate(result, described)
        if tensors:
            n.meta["tensor_meta"] = metadata
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph for the arguments, write down each node's value, and return the graph's."""
        return self.run(*args)


def _metadata(tensor: Tensor) -> TensorMetadata:
    dense = tensor.layout is strided
    formats = [contiguous_format, *([channels_last] if tensor.dim() == 4 else [])] if dense else []
    fitting = next((f for f in formats if tensor.is_contiguous(memory_format=f)), None)
    stride = tensor.stride() if dense else ()
    return TensorMetadata(tensor.shape, tensor.dtype, tensor.requires_grad, stride, fitting, False, {})
