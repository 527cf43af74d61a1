"""Programs as graphs of Python: traced on proxies, changed, and made functions again, by PyTorch's names.

    traced = fx.symbolic_trace(module)
    for node in traced.graph.nodes:
        if node.target is mt.relu:
            node.target = mt.nn.functional.gelu
    traced.recompile()

Tracing doesn't know values: control flow that depends on them is an error. The compiler doesn't need these graphs; what
:func:`minitensor.function` compiles is recorded op by op.
"""

from minitensor.fx.graph import Graph
from minitensor.fx.graph_module import GraphModule
from minitensor.fx.interpreter import Interpreter, Transformer
from minitensor.fx.node import Node, has_side_effect, map_arg
from minitensor.fx.proxy import Proxy
from minitensor.fx.subgraph_rewriter import replace_pattern
from minitensor.fx.tracer import Tracer, symbolic_trace, wrap

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect", "map_arg",
    "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
