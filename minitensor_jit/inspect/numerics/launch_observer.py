"""Observes the arrays of launches: to check their numbers, to print them, or to save what a module first ran on.

For `--check_cluster_input_numerics`, `--check_cluster_output_numerics`, `--print_cluster_outputs` and dumps. A launch
without an observer does not even ask for one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitensor_jit.clustering.graph import Graph, Node, Source, TensorMeta, Value
from minitensor_jit.errors import NumericsError
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.dump import ModuleDump
from minitensor_jit.inspect.numerics.arrays import array_at
from minitensor_jit.inspect.numerics.eager_replay import Arguments, operands_of, replay
from minitensor_jit.ir.narrow import wide_array
from minitensor_jit.ir.shape import BFLOAT16, Shape
from minitensor_jit.lowering.lower import LoweredCluster, SizeArgument, StreamPosition, StridedArgument
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["ClusterObserver", "InputSaver", "Observer", "observer_for", "together"]


@dataclass(frozen=True, slots=True)
class _Array:
    """An argument or a result of a cluster, and the op that reads or makes it."""

    what: str
    shape: Shape
    op: str
    source: Source | None
    strided: StridedArgument | None = None

    @property
    def meta(self) -> TensorMeta:
        """Type and dimensions, for messages."""
        return TensorMeta(self.shape.dtype, self.shape.dims)

    def read(self, address: int) -> NDArray[Any]:
        """The elements that lie at an address; those of bfloat16 as float32."""
        flat = array_at(address, self.shape).reshape(-1)
        size = self.shape.size
        if flat.dtype == BFLOAT16 and size:
            # A bfloat16 is the upper half of the float32 of the same value.
            flat = (flat.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        if size == 0 or self.strided is None or size != self.strided.span:
            return flat.reshape(self.shape.dims)
        strides = [step * flat.itemsize for step in self.strided.stride]
        return np.lib.stride_tricks.as_strided(flat, self.strided.size, strides, writeable=False)


Observer = Callable[[bool, Sequence[int]], None]
"""Called before and after each run of a launch (the flag says which), with the addresses of its inputs and results."""


def observer_for(
    options: JitOptions,
    name: str,
    graph: Graph,
    lowered: LoweredCluster,
    executable: AnyExecutable,
    dump: ModuleDump | None = None,
) -> Observer | None:
    """What the options ask for, of the launches of a cluster with that graph inside.

    `dump` is there if the module was compiled for this launch, and dumped.
    """
    observers: list[Observer] = []
    if dump is not None and not dump.dumper.to_stdout:
        observers.append(InputSaver(dump, executable))
    wanted = options.check_cluster_input_numerics, options.check_cluster_output_numerics, options.print_cluster_outputs
    if any(wanted):
        observers.append(ClusterObserver(options, name, graph, lowered, executable))
    return together(observers)


def together(observers: Iterable[Observer]) -> Observer | None:
    """Several observers as one; None for none."""
    several = list(observers)
    return _Several(several) if len(several) > 1 else several[0] if several else None


class _Several:
    """Several observers of one launch."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def __call__(self, ran: bool, addresses: Sequence[int]) -> None:
        for observer in self._observers:
            observer(ran, addresses)


class InputSaver:
    """Writes the arrays of a module's first run, before it runs: whatever happens then, it can be done again."""

    def __init__(self, dump: ModuleDump, executable: AnyExecutable) -> None:
        self._dump: ModuleDump | None = dump
        self._shapes = executable.parameter_shapes

    def __call__(self, ran: bool, addresses: Sequence[int]) -> None:
        """Save the inputs, once."""
        dump, self._dump = self._dump, None
        if dump is None:
            return
        pairs = zip(addresses, self._shapes, strict=False)  # the results follow
        dump.inputs({f"arg{k}": array_at(address, shape) for k, (address, shape) in enumerate(pairs)})


class ClusterObserver:
    """Called before and after each run of a launch, with the addresses of its inputs and results."""

    def __init__(
        self, options: JitOptions, name: str, graph: Graph, lowered: LoweredCluster, executable: AnyExecutable
    ) -> None:
        self._options = options
        self._name = name
        self._graph = graph
        self._lowered = lowered
        self._parameters = executable.parameter_shapes
        self._before: dict[int, list[NDArray[Any]]] = {}  # by thread, while it runs the cluster
        self._inputs = [
            None if isinstance(value, (StreamPosition, SizeArgument)) else _argument(graph, place, value, shape)
            for place, ((value, _), shape) in enumerate(
                zip(lowered.parameters, executable.parameter_shapes, strict=True)
            )
        ]
        # The last result of a module may be whether an op failed; that one is not a result of the cluster.
        results = executable.result_shapes[: len(graph.fetches)]
        self._outputs = [
            _Array(f"result {place}", shape, graph.node(id).op, graph.node(id).source)
            for place, ((id, _), shape) in enumerate(zip(graph.fetches, results, strict=True))
        ]

    def __call__(self, ran: bool, addresses: Sequence[int]) -> None:
        """Check or print; NumericsError for NaN or infinity where the options ask for that."""
        split = len(self._inputs)
        if not ran:
            if self._options.check_cluster_output_numerics:
                # The code may write over them.
                pairs = zip(addresses, self._parameters, strict=False)
                self._before[threading.get_ident()] = [array_at(a, s).copy() for a, s in pairs]
            if self._options.check_cluster_input_numerics:
                for array, address in zip(self._inputs, addresses[:split], strict=True):
                    if array is not None:
                        self._check(array, array.read(address), "reads")
            return
        inputs = self._before.pop(threading.get_ident(), None)
        for result, address in zip(self._outputs, addresses[split:], strict=True):
            values = result.read(address)
            if self._options.print_cluster_outputs:
                self._print(result, values)
            if self._options.check_cluster_output_numerics:
                self._check(result, values, "gave", inputs)

    def _check(self, array: _Array, values: NDArray[Any], verb: str, inputs: list[NDArray[Any]] | None = None) -> None:
        if values.dtype.kind in "biu":
            return
        finite = np.isfinite(values)
        if finite.all():
            return
        at = tuple(int(i) for i in np.argwhere(~finite)[0])
        count = int(values.size - np.count_nonzero(finite))
        where = f"at {list(at)}" if at else "as its value"
        message = (
            f"{self._name} {verb} {values[at]} {where} in {array.what}, {array.meta}"
            f" ({count:,} of {values.size:,} elements are not finite)"
        )
        first = None if inputs is None else self._first(inputs)
        if first is not None:
            message += "; the first op that makes one of finite numbers"
        op, source = (array.op, array.source) if first is None else (first.op, first.source)
        raise NumericsError(message, self._name, op, source)

    def _first(self, inputs: list[NDArray[Any]]) -> Node | None:
        """The first op with a result that is not finite, all that it reads being so; the ops run one by one."""
        arguments = Arguments(self._lowered, inputs)
        values = replay(self._graph, arguments, keep=True)
        for node in self._graph:
            made = [values[node.id, k] for k in range(len(node.outputs)) if (node.id, k) in values]
            if made and not all(map(_finite, made)):
                return node if all(map(_finite, operands_of(self._graph, node, values, arguments))) else None
        return None

    def _print(self, array: _Array, values: NDArray[Any]) -> None:
        where = f" at {array.source}" if array.source is not None else ""
        text = np.array2string(values, threshold=100, separator=", ")
        print(f"{self._name} {array.what} ({array.op}{where}): {array.meta} {text}", file=sys.stderr)


def _finite(values: Any) -> bool:
    wide = wide_array(np.asarray(0 if values is None else values))
    return wide.dtype.kind not in "fc" or bool(np.isfinite(wide).all())


def _argument(graph: Graph, place: int, value: Value, shape: Shape) -> _Array:
    reader = next(node for node in graph if value in node.inputs)
    strided = graph.node(value[0]).payload
    return _Array(
        f"argument {place}",
        shape,
        reader.op,
        reader.source,
        strided if isinstance(strided, StridedArgument) else None,
    )
