"""Runs a cluster's ops one by one, by their eager kernels, on the arrays that a launch of it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitensor._C import Tensor, bfloat16, from_numpy, uint16
from minitensor_jit.clustering.graph import Graph, Node, TensorMeta, Value
from minitensor_jit.ir.library import library
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.semantics.kernel_call import KERNEL_PREFIX, KernelCall
from minitensor_jit.ir.shape import BFLOAT16, DTYPES, Shape, TupleShape
from minitensor_jit.lowering.call import RecordedCall
from minitensor_jit.lowering.lower import (
    LoweredCluster,
    SizeArgument,
    StreamPosition,
    StridedArgument,
    kernel_param,
    number_dtype,
)

__all__ = ["Arguments", "operands_of", "replay"]

Array = NDArray[Any]


class Arguments:
    """What a cluster was launched with, as its module's parameters have it, by what they are."""

    def __init__(self, lowered: LoweredCluster, arrays: Sequence[Array]) -> None:
        self._by_parameter = dict(zip(lowered.parameters, arrays, strict=True))
        self._numbers: dict[int, Array] = {}
        self._streams: dict[int, Array] = {}
        for (what, dtype), array in self._by_parameter.items():
            if isinstance(what, StreamPosition):
                self._streams[what.node] = array
                continue
            if isinstance(what, SizeArgument):
                continue  # another module of the same ops has it too
            # A number may be there in several types; all are exact in the widest.
            known = self._numbers.get(what[0])
            if known is None or known.dtype.itemsize < DTYPES[dtype].itemsize:
                self._numbers[what[0]] = array

    def of(self, lowered: LoweredCluster) -> list[Array]:
        """The arrays for the parameters of another module of the same cluster's ops."""
        shapes = [parameter.array_shape for parameter in lowered.module.entry.parameters]
        # Code for all sizes of a dimension may see the memory of a view in another shape.
        pairs = zip(lowered.parameters, shapes, strict=True)
        return [self._by_parameter[parameter].reshape(shape.dims) for parameter, shape in pairs]

    def tensor(self, value: Value, meta: TensorMeta, strided: StridedArgument | None) -> Array:
        """An argument as a row-major array of its own dimensions."""
        array = self._by_parameter[value, meta.dtype]
        if strided is None or array.size == 0:
            return array.reshape(meta.shape)
        flat = np.ascontiguousarray(array).reshape(-1)
        strides = [step * flat.itemsize for step in strided.stride]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, strided.size, strides, writeable=False))

    def number(self, id: int) -> Any:
        """The number that an argument is."""
        array = self._numbers[id]
        wide = array.view(np.uint16).astype(np.uint32) << 16 if array.dtype == BFLOAT16 else array
        return (wide.view(np.float32) if array.dtype == BFLOAT16 else wide).reshape(())[()]

    def stream(self, node: int) -> Array:
        """Seed and offset of the random numbers that a node of the trace draws."""
        return self._streams[node]


def replay(graph: Graph, arguments: Arguments, *, keep: bool = False) -> dict[Value, Array]:
    """The values of the graph's fetches; with `keep`, of everything that it computes. Raises what a kernel raises."""
    values: dict[Value, Array] = {}
    last: dict[Value, int] = {} if keep else _last_uses(graph)
    for place, node in enumerate(graph):
        if node.is_argument or node.kind == "constant":
            continue
        for result, array in enumerate(_run(graph, node, values, arguments)):
            values[node.id, result] = array
        for value in node.inputs:
            if last.get(value) == place:
                values.pop(value, None)
    return values


def _last_uses(graph: Graph) -> dict[Value, int]:
    last = {value: place for place, node in enumerate(graph) for value in node.inputs}
    return {value: place for value, place in last.items() if value not in set(graph.fetches)}


def operands_of(graph: Graph, node: Node, values: Mapping[Value, Array], arguments: Arguments) -> list[Any]:
    """What an op reads: arrays, numbers or None."""
    call: RecordedCall = node.payload
    operands: list[Any] = []
    sources = iter(node.inputs)
    for operand in call.operands:
        if operand.kind == "none":
            operands.append(None)
            continue
        value = next(sources)
        if operand.kind == "scalar":
            number = operand.scalar if operand.baked else arguments.number(value[0])
            # A real number was converted to the type of the arithmetic, which may be complex.
            number = number if isinstance(operand.scalar, complex) else np.real(number)
            operands.append(type(operand.scalar)(number))
        elif value in values:
            operands.append(values[value])
        else:
            operands.append(arguments.tensor(value, graph.meta(value), graph.node(value[0]).payload))
    return operands


def _run(graph: Graph, node: Node, values: Mapping[Value, Array], arguments: Arguments) -> list[Array]:
    call: RecordedCall = node.payload
    operands = operands_of(graph, node, values, arguments)
    if call.row.kernel is not None:
        return _run_python(call, operands)
    return _run_native(node, call, operands, arguments)


def _run_native(node: Node, call: RecordedCall, operands: Sequence[Any], arguments: Arguments) -> list[Array]:
    """Of an op with a kernel in the core."""
    kinds = ""
    arrays: list[Array] = []
    for place, operand in enumerate(operands):
        if operand is None:
            kinds += "n"
        elif isinstance(operand, np.ndarray):
            kinds += "t"
            arrays.append(operand)
        else:
            # Where the schema says tensor, as an assignment's does, an array without dimensions is as good as a number.
            kinds += "s" if call.row.operands[place].startswith("Tensor|Scalar") else "t"
            arrays.append(np.array(operand, DTYPES[number_dtype(operand)].numpy))
    if node.kind == "random":
        arrays.append(arguments.stream(call.node))
    parameters = [
        Instruction(f"p{k}", "parameter", Shape(_hlo_dtype(array), array.shape), parameter_number=k)
        for k, array in enumerate(arrays)
    ]
    shapes = tuple(Shape(dtype, dims) for dtype, dims in call.results)
    attrs = {
        "custom_call_target": KERNEL_PREFIX + call.row.name,
        "backend_config": KernelCall(
            call.row.name, kinds, tuple(kernel_param(p) for p in call.params), call.default_dtype
        ).config(),
    }
    whole = Instruction(
        call.row.name, "kernel-call", shapes[0] if len(shapes) == 1 else TupleShape(shapes), parameters, attrs
    )
    return list(library().run_kernel(whole, arrays))


def _run_python(call: RecordedCall, operands: Sequence[Any]) -> list[Array]:
    """Of an op whose kernel is a Python function of tensors."""
    tensors = [_tensor(operand) if isinstance(operand, np.ndarray) else operand for operand in operands]
    results = call.row.kernel(*tensors, *call.params)
    return [_array(result) for result in (results if isinstance(results, (tuple, list)) else [results])]


def _tensor(array: Array) -> Tensor:
    copy = np.array(array)
    return from_numpy(copy.view(np.uint16)).view(bfloat16) if copy.dtype == BFLOAT16 else from_numpy(copy)


def _array(tensor: Tensor) -> Array:
    bits: Array = tensor.contiguous().view(uint16).numpy() if tensor.dtype == bfloat16 else tensor.numpy()
    return bits.view(BFLOAT16) if tensor.dtype == bfloat16 else bits


def _hlo_dtype(array: Array) -> str:
    return next(name for name, dtype in DTYPES.items() if dtype.numpy == array.dtype)
