"""Holds launches against their ops run one by one, for `--verify=FRACTION` and `jit.verify(fraction)`.

The first run of every cluster is checked, and after it one in `1 / fraction`. Where a bit differs the cluster is
compiled in parts, on the same inputs, to find the first op that compiled code gets wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitensor import _forks
from minitensor_jit.clustering.graph import Graph, Node, Value
from minitensor_jit.errors import MismatchError
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.dump import ModuleDump
from minitensor_jit.inspect.filing import how_to_file
from minitensor_jit.inspect.numerics.arrays import array_at
from minitensor_jit.inspect.numerics.eager_replay import Arguments, replay
from minitensor_jit.ir.narrow import wide_array
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.size import Sizes, value_of
from minitensor_jit.log import log
from minitensor_jit.lowering.extension import lowering_line
from minitensor_jit.lowering.lower import LoweredCluster, lower_cluster
from minitensor_jit.runtime.executable import AnyExecutable
from minitensor_jit.runtime.run_arrays import run_on_arrays

__all__ = ["Difference", "Verifier", "counts", "difference"]

Array = NDArray[Any]
CompileGraph = Callable[[LoweredCluster, str], AnyExecutable]

_MOST_PARTS = 256
"""More ops than that are not compiled one at a time to find the wrong one."""

_lock = _forks.lock()
_counts = {"checked": 0, "differing": 0}


def counts() -> dict[str, int]:
    """How many launches this process has run a second time, and how many of them differed."""
    with _lock:
        return dict(_counts)


def _count(what: str) -> None:
    with _lock:
        _counts[what] += 1


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element that two arrays differ in, and how many do."""

    at: tuple[int, ...]
    got: Any
    want: Any
    count: int
    size: int

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.at))}] " if self.at else ""
        return f"{where}is {self.got!s}, and {self.want!s} eagerly ({self.count:,} of {self.size:,} elements differ)"


def difference(got: Array, want: Array, *, tolerance: float = 0.0) -> Difference | None:
    """Where compiled and eager code differ: in a bit, but for those of NaNs, or by more than the tolerance."""
    if got.size == 0:
        return None
    left, right = wide_array(got), wide_array(want)
    if left.dtype.kind not in "fc":
        same = left == right
    elif not tolerance:
        same = _bits(left) == _bits(right)
        same = same.reshape(*left.shape, -1).all(-1) | (np.isnan(left) & np.isnan(right))
    else:
        with np.errstate(all="ignore"):
            # A narrow type's last bit may be more than the tolerance.
            loose = max(tolerance, 1e-2) if got.dtype.itemsize == 2 else tolerance
            same = np.isclose(left, right, loose, loose, equal_nan=True)
    if np.all(same):
        return None
    at = tuple(int(n) for n in np.argwhere(~np.asarray(same))[0])
    return Difference(at, left[at], right[at], int(left.size - np.count_nonzero(same)), left.size)


def _bits(array: Array) -> Array:
    real = array.view(f"f{array.itemsize // 2}") if array.dtype.kind == "c" and array.ndim else array
    if array.dtype.kind == "c" and not array.ndim:
        real = np.array([array.real, array.imag])
    return np.ascontiguousarray(real).view(f"u{real.itemsize}")


class Verifier:
    """Called before and after each run of a launch, with the addresses of its inputs and results."""

    def __init__(
        self,
        options: JitOptions,
        name: str,
        graph: Graph,
        lowered: LoweredCluster,
        executable: AnyExecutable,
        compile_graph: CompileGraph,
        dump: ModuleDump | None,
        sizes: Sizes = (),
    ) -> None:
        """`sizes` are what the symbols are in code that was compiled for all sizes of dimensions."""
        self._options = options
        self._name = name
        self._graph = graph
        self._lowered = lowered
        self._parameters = [_at(shape, sizes) for shape in executable.parameter_shapes]
        # The last result of a module may be whether an op failed; that one is not a result of the cluster.
        self._results = [_at(shape, sizes) for shape in executable.result_shapes[: len(graph.fetches)]]
        self._compile = compile_graph
        self._dump = dump
        self._due = 1.0 - options.verify
        self._lock = _forks.lock()
        self._inputs: dict[int, list[Array]] = {}  # by thread, while it runs the cluster

    def __call__(self, ran: bool, addresses: Sequence[int]) -> None:
        """Copy the inputs of a run that is to be checked; check its results. Raises MismatchError."""
        thread = threading.get_ident()
        if not ran:
            with self._lock:
                self._inputs.pop(thread, None)
                self._due += self._options.verify
                # Sums of fractions are not exact.
                if self._due < 1 - 1e-9:
                    return
                self._due -= 1
            inputs = [array_at(a, shape).copy() for a, shape in zip(addresses, self._parameters, strict=False)]
            with self._lock:
                self._inputs[thread] = inputs
            return
        with self._lock:
            saved = self._inputs.pop(thread, None)
        if saved is not None:
            outputs = addresses[len(self._parameters) :]
            self._check(saved, [array_at(a, s) for a, s in zip(outputs, self._results, strict=True)])

    def _check(self, inputs: Sequence[Array], results: Sequence[Array]) -> None:
        arguments = Arguments(self._lowered, inputs)
        want = replay(self._graph, arguments)
        _count("checked")
        log(self._options, "verify", 2, "%s: a run is repeated op by op", self._name)
        found: list[tuple[Value, Difference]] = []
        for value, result in zip(self._graph.fetches, results, strict=True):
            differs = self._differs(result, want[value])
            if differs is not None:
                found.append((value, differs))
        if found:
            _count("differing")
            self._raise(arguments, found)

    def _differs(self, got: Array, want: Array) -> Difference | None:
        return difference(got, want, tolerance=self._options.tolerance)

    def _raise(self, arguments: Arguments, found: Sequence[tuple[Value, Difference]]) -> None:
        order = {node.id: place for place, node in enumerate(self._graph)}
        value, differs = min(found, key=lambda pair: order[pair[0][0]])
        alone = self._first(arguments, [value for value, _ in found])
        node = self._graph.node(value[0] if alone is None else alone[0][0])
        if alone is None:
            what = f"{node.op} differs, and no op before it when it is compiled with fewer others: it {differs}"
        else:
            what = f"the first op that differs is {node.op}: {alone[1]}"
        message = f"{self._name} gave other results than its ops one by one; {what}"
        row = getattr(node.payload, "row", None)
        written = lowering_line(row) if row is not None and row.extension else None
        filing = (
            how_to_file(self._dump)
            if written is None
            else f"The lowering of {node.op}, at {written}, has to give the very bits of its kernel"
        )
        log(self._options, "verify", 1, "%s", message)
        if self._dump is not None:
            self._dump.failure(f"{message}\nat {node.source}\n")
        error = MismatchError(message, self._name, node.op, node.source)
        error.add_note(filing)
        raise error

    # ---- the first op that is wrong

    def _first(self, arguments: Arguments, wrong: Iterable[Value]) -> tuple[Value, Difference] | None:
        suspects = _needed(self._graph, wrong)
        want = replay(self._graph, arguments, keep=True)
        everything = [(node.id, k) for node in suspects for k in range(len(node.outputs))]
        # All at once finds it nearly always; what is wrong only where it is fused with others needs fewer results.
        found = self._compare(suspects, everything, want, arguments)
        if found is None and len(suspects) <= _MOST_PARTS:
            for node in suspects:
                results = [(node.id, k) for k in range(len(node.outputs))]
                found = self._compare(_needed(self._graph, results), results, want, arguments)
                if found is not None:
                    break
        return found

    def _compare(
        self, nodes: Sequence[Node], fetches: Sequence[Value], want: dict[Value, Array], arguments: Arguments
    ) -> tuple[Value, Difference] | None:
        """The first of these values that differs when compiled code gives just them."""
        inside = {node.id for node in nodes}
        kept = [node for node in self._graph if node.id in inside or not node.is_op]
        part = Graph(kept, fetches, self._graph.name)
        lowered = lower_cluster(part, self._name)
        executable = self._compile(lowered, self._name)
        try:
            results = run_on_arrays(executable, arguments.of(lowered))
        finally:
            executable.close()
        for value, result in zip(fetches, results, strict=False):  # whether an op failed may follow
            differs = self._differs(result, want[value])
            if differs is not None:
                return value, differs
        return None


def _at(shape: Shape, sizes: Sizes) -> Shape:
    """The shape where the symbols are those sizes."""
    return shape.with_dims(tuple(value_of(n, sizes) for n in shape.dims))


def _needed(graph: Graph, values: Iterable[Value]) -> list[Node]:
    """The ops that these values depend on, in order."""
    needed = {id for id, _ in values}
    for node in reversed(list(graph)):
        if node.id in needed:
            needed.update(id for id, _ in node.inputs)
    return [node for node in graph if node.id in needed and node.is_op]
