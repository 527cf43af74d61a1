"""A cluster's graph to one HLO module."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import reduce
from typing import Any

from minitensor import _C
from minitensor_jit.clustering.graph import Graph, Node, Value
from minitensor_jit.ir.module import Instruction, Metadata, Module
from minitensor_jit.ir.semantics.kernel_call import DTypeParam, Param
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.size import is_one
from minitensor_jit.ir.text.syntax import as_identifier
from minitensor_jit.lowering.call import RecordedCall, can_fail, loop_dtype, why_not_lowered
from minitensor_jit.lowering.context import BoundsCheck, Lowering, number_of
from minitensor_jit.lowering.extension import lower_extension
from minitensor_jit.lowering.gpu import lower_for_gpus, lowers_on_gpus
from minitensor_jit.lowering.random import draw, draws_on_gpus


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A parameter u64[2]: seed and offset of the random numbers that a node of the trace draws."""

    node: int


@dataclass(frozen=True, slots=True)
class SizeArgument:
    """A parameter s64: the size of a dimension that is a symbol in the module, by the symbol's number."""

    number: int


@dataclass(slots=True)
class LoweredCluster:
    """The module, and what its parameters are."""

    module: Module
    parameters: list[tuple[Value | StreamPosition | SizeArgument, str]]
    """For each: the argument's value in the cluster's graph, and its type; a number is converted to it."""
    checks: list[BoundsCheck]
    reports_errors: bool
    """Whether the last result is a pred: whether an op inside raises an error."""
    numbers: tuple[int, ...]
    """The places of parameters that are numbers, which whoever launches knows."""
    fallible: bool
    """Whether an op inside can raise an error, in whichever way."""
    rounds_products: bool
    """Whether products of float32 that don't ask for the highest precision may be rounded, on a GPU that can."""


# The kinds of ops whose kernels compute with elements; others move them as they are.
COMPUTING = frozenset({"elementwise", "reduction", "contraction"})


def kernel_param(value: Any) -> Param:
    """A parameter of a recorded call as a kernel-call has it."""
    if isinstance(value, _C.dtype):
        return DTypeParam(value.hlo_name)
    # The device is that of the compiled code.
    return None if isinstance(value, _C.device) else value


def number_dtype(number: bool | int | float | complex) -> str:
    """The type that holds a Python number."""
    kinds = {bool: "pred", int: "s64", float: "f64", complex: "c128"}
    return kinds[type(number)]


def _keeps_precision(call: RecordedCall, place: int, size: int) -> bool:
    """Whether an operand of so many elements is not rounded to the type of the arithmetic first.

    docs/numerics.md: the second of float16 plus a single number, for one. A `size` of 0 is that of a Python number.
    """
    if not call.floating or size > 1:
        return False
    return place == call.row.wide_operand or (size == 0 and place == call.row.wide_number)


class _ClusterLowering:
    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.builder = Lowering(name)
        self.parameters: list[tuple[Value | StreamPosition | SizeArgument, str]] = []
        self.fallible = False
        self.numbers: list[int] = []
        self.values: dict[Value, Instruction] = {}
        self.scalars: dict[tuple[int, str], Instruction] = {}

    def run(self, *, symbols: int = 0) -> LoweredCluster:
        rounds = rounds_products(self.graph)
        for number in range(symbols):
            self.builder.size_parameters.append(self.builder.parameter(Shape("s64")))
            self.parameters.append((SizeArgument(number), "s64"))
        for node in self.graph:
            if node.is_argument or node.kind == "constant":
                continue
            call: RecordedCall = node.payload
            self.builder.exact_products = rounds and not call.rounds_products
            with self.builder.source(_metadata(node)):
                if why_not_lowered(call) is None:
                    results = self.lower(node, call)
                elif node.device != "cpu" and draws_on_gpus(call):
                    results = [draw(self.builder, call, self.stream_position(call))]
                elif node.device != "cpu" and lowers_on_gpus(call):
                    results = self.lower(node, call, for_gpus=True)
                else:
                    results = self.call_kernel(node, call)
            for index, result in enumerate(results):
                self.values[node.id, index] = result
        roots = [self.values[value] for value in self.graph.fetches]
        failures = self.builder.failures
        if failures:
            roots.append(reduce(self.builder.or_, failures))
        module = self.builder.build(roots if len(roots) > 1 else roots[0])
        fallible = self.fallible or bool(failures)
        numbers = tuple(self.numbers)
        return LoweredCluster(module, self.parameters, self.builder.checks, bool(failures), numbers, fallible, rounds)

    def lower(self, node: Node, call: RecordedCall, *, for_gpus: bool = False) -> list[Instruction]:
        """Rows see the types that kernels compute in; what is stored in others is converted before and after."""
        b = self.builder
        operands: list[Any] = []
        sources = iter(node.inputs)
        elementwise = node.kind == "elementwise"
        computes = node.kind in COMPUTING
        b.begin(call.in_loop_dtypes() if computes else call)
        _, dims = call.results[0]
        for place, operand in enumerate(call.operands):
            if operand.kind == "none":
                operands.append(None)
                continue
            value = next(sources)
            dtype = call.compute
            if operand.kind == "scalar":
                if _keeps_precision(call, place, 0):
                    dtype = loop_dtype(dtype)
                x = self.scalar(value, operand.scalar if operand.baked else None, dtype)
            else:
                x = self.tensor(value)
                if _keeps_precision(call, place, 1) and is_one(x.array_shape.size):
                    dtype = loop_dtype(dtype)
                if elementwise and place != call.row.predicate:
                    x = b.to_dtype(x, dtype)
            if computes:
                x = b.to_dtype(x, loop_dtype(x.dtype))
            operands.append(b.broadcast_to(x, dims) if elementwise else x)
        b.inputs = operands
        if for_gpus:
            lowered = lower_for_gpus(b, call, operands)
        elif call.row.extension:
            return lower_extension(b, call, operands)
        else:
            lowered = call.row.lower(b, *operands, *call.params)
        results = list(lowered) if isinstance(lowered, (list, tuple)) else [lowered]
        return [b.to_dtype(x, t) for x, (t, _) in zip(results, call.results, strict=True)]

    def call_kernel(self, node: Node, call: RecordedCall) -> list[Instruction]:
        """An op without HLO of its own: compiled code calls its eager kernel."""
        b = self.builder
        operands: list[Instruction] = []
        kinds = ""
        sources = iter(node.inputs)
        for operand in call.operands:
            if operand.kind == "none":
                kinds += "n"
                continue
            value = next(sources)
            if operand.kind == "scalar":
                dtype = number_dtype(operand.scalar)
                operands.append(self.scalar(value, operand.scalar if operand.baked else None, dtype))
            else:
                operands.append(self.tensor(value))
            kinds += "s" if operand.kind == "scalar" else "t"
        if node.kind == "random":
            operands.append(self.stream_position(call))
        # Indices out of range, matrices without an inverse.
        fallible = can_fail(call.row, call.compute)
        if fallible and call.row.within is not None:
            place, low, high = call.row.within(*operands, *call.params)
            if call.is_input(place):
                b.checks.append(BoundsCheck(call.node, place, low, high))
                fallible = False
        self.fallible |= fallible
        shapes = [Shape(dtype, dims) for dtype, dims in call.results]
        params = [kernel_param(p) for p in call.params]
        default = call.default_dtype
        return b.kernel_call(
            call.row.name, operands, shapes, kinds=kinds, params=params, default_dtype=default, may_fail=fallible
        )

    def stream_position(self, call: RecordedCall) -> Instruction:
        """The parameter that has the seed and the offset of the numbers that a call draws."""
        self.parameters.append((StreamPosition(call.node), "u64"))
        return self.builder.parameter(Shape("u64", (2,)))

    def tensor(self, value: Value) -> Instruction:
        known = self.values.get(value)
        if known is None:
            meta = self.graph.meta(value)
            strided = self.graph.node(value[0]).payload
            if strided is None:
                known = self.builder.parameter(Shape(meta.dtype, meta.shape))
            else:
                known = strided.read(self.builder, meta)
            self.parameters.append((value, meta.dtype))
            self.values[value] = known
        return known

    def scalar(self, value: Value, constant: Any, dtype: str) -> Instruction:
        if constant is not None:
            return self.builder.constant(number_of(constant, dtype), dtype)
        known = self.scalars.get((value[0], dtype))
        if known is None:
            known = self.scalars[value[0], dtype] = self.builder.parameter(Shape(dtype))
            self.numbers.append(len(self.parameters))
            self.parameters.append((value, dtype))
        return known


@dataclass(frozen=True, slots=True)
class StridedArgument:
    """An argument that is not row-major: a parameter over the memory that it spans, and a view of that."""

    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def span(self) -> int:
        """How many elements lie between the first and the last."""
        return 1 + sum((n - 1) * s for n, s in zip(self.size, self.stride, strict=True))

    def read(self, b: Lowering, meta: Any) -> Instruction:
        """The parameter, seen through the view."""
        kept = [(n, s) for n, s in zip(self.size, self.stride, strict=True) if n != 1 and s != 0]
        dense = tuple(n for n, _ in sorted(kept, key=lambda pair: -pair[1]))
        count = 1
        for n in dense:
            count *= n
        shape = dense if count == self.span else (self.span,)
        return b.view_read(b.parameter(Shape(meta.dtype, shape)), self.size, self.stride, 0)


def _metadata(node: Node) -> Metadata | None:
    source = node.source
    if source is None:
        return Metadata(op_type=node.op, op_name=f"{node.op}_{node.id}", source_file="", source_line=0)
    return Metadata(
        op_type=node.op, op_name=f"{node.op}_{node.id}", source_file=os.fspath(source.file), source_line=source.line
    )


def lowers(call: RecordedCall, device: str) -> bool:
    """Whether the call has HLO for a device."""
    return why_not_lowered(call) is None or (device != "cpu" and (draws_on_gpus(call) or lowers_on_gpus(call)))


def rounds_products(graph: Graph) -> bool:
    """Whether products on a GPU may be rounded, as was set at one of the calls."""
    return any(isinstance(n.payload, RecordedCall) and n.payload.rounds_products and n.device != "cpu" for n in graph)


def lower_cluster(graph: Graph, name: str, *, symbols: int = 0) -> LoweredCluster:
    """Lower the graph inside a cluster's node.

    Its shapes may have `Size`s of so many `symbols`, which are the first parameters.
    """
    return _ClusterLowering(graph, as_identifier(name)).run(symbols=symbols)
