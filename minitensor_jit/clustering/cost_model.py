"""Whether a cluster is predicted to be faster than its ops one by one, for `--auto_jit=1`.

Time is launches + bytes + work. One by one each op costs a launch, and moves all that it reads and makes. A cluster
costs one launch, and moves what goes over its border; and whatever is around an op that compiled code does not fuse: a
contraction, or the call of a kernel, which are as fast on either side. A few ops have compiled code that is
slower than their kernel; they have a price for each element. The constants were measured on a server's core. Only their
ratios matter, and those have been stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from minitensor.ops import ROWS
from minitensor_jit.clustering.graph import Graph, Node, TensorMeta, Value
from minitensor_jit.ir.decision import Decision
from minitensor_jit.ir.shape import Shape

OP_US = 0.4
"""One eager op of a replayed trace, without its kernel's loop."""
LAUNCH_US = 0.4
"""One launch of compiled code."""
ARGUMENT_US = 0.03
"""Each of its arguments and results."""
BYTES_PER_US = 40_000.0
"""Memory traffic that two cores reach, between cache and memory."""
FLOPS_PER_US = 100_000.0
"""Floating-point operations that two cores reach in a matrix product."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The prediction for one cluster."""

    ops_us: float
    cluster_us: float
    ops_bytes: int
    cluster_bytes: int

    @property
    def text(self) -> str:
        """The prediction as a clause."""
        return (
            f"predicted {self.cluster_us:,.1f} us and {self.cluster_bytes:,} bytes of memory traffic, "
            f"against {self.ops_us:,.1f} us and {self.ops_bytes:,} bytes op by op"
        )

    @property
    def decision(self) -> Decision:
        """Whether to compile."""
        return Decision.when(self.cluster_us < self.ops_us, self.text)


def predict(graph: Graph, members: Sequence[Node]) -> Costs:
    """Predict what the members cost one by one and as one cluster. They are of one graph, in topological order."""
    inside = {node.id for node in members}
    used_outside = {value for value in graph.fetches if value[0] in inside}
    for node in graph:
        if node.id not in inside:
            used_outside.update(value for value in node.inputs if value[0] in inside)
    read: set[Value] = set()
    ops_bytes = alone_bytes = 0
    work = slow = 0.0
    for node in members:
        read.update(value for value in node.inputs if value[0] not in inside and not graph.node(value[0]).is_constant)
        moved = _traffic(graph, node)
        ops_bytes += moved
        if node.kind == "contraction" or node.by_kernel:
            alone_bytes += moved
        work += _flops(graph, node) / FLOPS_PER_US
        row = ROWS.get(node.op)
        if row is not None and row.slow_ns and not node.by_kernel:
            slow += row.slow_ns * 1e-3 * prod(graph.meta(node.inputs[0]).shape)
    border = sum(_bytes(graph.meta(value)) for value in (*read, *used_outside))
    cluster_bytes = max(border, alone_bytes)
    launch = LAUNCH_US + ARGUMENT_US * (len(read) + len(used_outside))
    steps = sum(node.kind != "view" for node in members)
    return Costs(
        ops_us=OP_US * steps + ops_bytes / BYTES_PER_US + work,
        cluster_us=launch + cluster_bytes / BYTES_PER_US + work + slow,
        ops_bytes=ops_bytes,
        cluster_bytes=cluster_bytes,
    )


def _bytes(meta: TensorMeta) -> int:
    return Shape(meta.dtype, meta.shape).nbytes


def _traffic(graph: Graph, node: Node) -> int:
    """Bytes that the op reads and writes by itself; a view moves none."""
    if node.kind == "view":
        return 0
    return sum(_bytes(graph.meta(value)) for value in node.inputs) + sum(map(_bytes, node.outputs))


def _flops(graph: Graph, node: Node) -> float:
    """Operations of a contraction; elsewhere memory is what takes the time."""
    if node.kind != "contraction" or not node.inputs or not node.outputs:
        return 0.0
    # Each result is a sum over what the first operand has beyond the dimensions of the result's rows.
    first = graph.meta(node.inputs[0])
    return 2.0 * prod(node.outputs[0].shape) * (first.shape[-1] if first.shape else 1)
