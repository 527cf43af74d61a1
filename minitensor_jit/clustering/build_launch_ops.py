"""Phase 4: make each cluster's node a `_JitLaunch`, the op that the launcher has a kernel for.

Contract: returns an equivalent graph in which every node with `_MtCompiledKernel` has become a `_JitLaunch` of the
same id, inputs, outputs and control edges. What its kernel needs to know is in its params: `function`, the cluster's
name; `num_constant_args`; and `must_compile`, whether failing to compile is an error, or the subgraph may be run op
by op instead. The graph to compile is its `subgraph`.
"""

from __future__ import annotations

from minitensor_jit.clustering.graph import COMPILED_KERNEL_ATTRIBUTE, CONSTANT_ARGS_ATTRIBUTE, LAUNCH, Graph, Node


def build_launch_ops(graph: Graph) -> Graph:
    """Return the graph with launches in place of clusters."""
    nodes = [_launch(node) if node.attributes.get(COMPILED_KERNEL_ATTRIBUTE) else node for node in graph]
    return Graph(nodes, graph.fetches, graph.name)


def _launch(node: Node) -> Node:
    if node.subgraph is None:
        raise ValueError(f"%{node.id} = {node.op} is to be compiled, but has no subgraph")
    params = {
        "function": node.op,
        "num_constant_args": node.attributes[CONSTANT_ARGS_ATTRIBUTE],
        "must_compile": node.must_compile,
    }
    return node.copy(op=LAUNCH, params=params)
