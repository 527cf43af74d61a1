"""Phase 4: make each cluster's node an op that the launcher has a kernel for.

Contract: returns an equivalent graph in which every node with `_MtCompiledKernel` has become

- a `_JitLaunch`, where it must be compiled, or lazy compilation is off: failing to compile is an error, or a defect;
- otherwise a `_JitRun` behind a `_JitCompile`. That one has the same inputs, and says whether there is code for them;
  where there is none, or not yet, `_JitRun` runs the ops of the subgraph instead.

The launch or run has the id, inputs, outputs and control edges of the node of the cluster, and its `subgraph` is
the graph to compile. What the kernels need to know is in their params: `function`, the cluster's name;
`num_constant_args`; and `must_compile`.
"""

from __future__ import annotations

from minitensor_jit.clustering.graph import (
    COMPILE,
    COMPILED_KERNEL_ATTRIBUTE,
    CONSTANT_ARGS_ATTRIBUTE,
    LAUNCH,
    RUN,
    Graph,
    Node,
    TensorMeta,
)


def build_launch_ops(graph: Graph, *, lazy: bool = False) -> Graph:
    """Return the graph with launches, or compilations and runs, in place of clusters."""
    nodes: list[Node] = []
    next_id = graph.free_id()
    for node in graph:
        if not node.attributes.get(COMPILED_KERNEL_ATTRIBUTE):
            nodes.append(node)
        elif lazy and not node.must_compile:
            compile = _compile(node, next_id)
            next_id += 1
            run = _with_kernel(node, RUN)
            nodes += [compile, run.copy(control_inputs=(*node.control_inputs, compile.id))]
        else:
            nodes.append(_with_kernel(node, LAUNCH))
    return Graph(nodes, graph.fetches, graph.name)


def _compile(node: Node, id: int) -> Node:
    """The compilation of a cluster. Its results are the code's key, and whether there is any."""
    return Node(
        id,
        COMPILE,
        inputs=node.inputs,
        outputs=(TensorMeta("s64", ()), TensorMeta("pred", ())),
        params={"function": node.op, "num_constant_args": node.attributes[CONSTANT_ARGS_ATTRIBUTE]},
        kind="compile",
        device=node.device,
        source=node.source,
        control_inputs=node.control_inputs,
    )


def _with_kernel(node: Node, op: str) -> Node:
    if node.subgraph is None:
        raise ValueError(f"%{node.id} = {node.op} is to be compiled, but has no subgraph")
    params = {
        "function": node.op,
        "num_constant_args": node.attributes[CONSTANT_ARGS_ATTRIBUTE],
        "must_compile": node.must_compile,
    }
    return node.copy(op=op, params=params)
