"""What was left apart in a cluster: found by running passes and the assignment of memory once more, for an account.

So it is told in the same way of code that was compiled now, before, or by another process that left it on disk, and
costs nothing where nobody asks.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from minitensor_jit.clustering.graph import Graph
from minitensor_jit.compiler.dynamic_shapes import sizes_are_symbols
from minitensor_jit.inspect.refusal_row import RefusalRow, row_of
from minitensor_jit.ir.refusal import Refusal
from minitensor_jit.ir.size import SizeContext
from minitensor_jit.lowering.lower import lower_cluster
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline

__all__ = ["refusals_of"]


def refusals_of(
    graph: Graph, name: str, options: PipelineOptions, context: SizeContext | None = None, symbols: int = 0
) -> list[RefusalRow]:
    """The refusals of the graph inside a cluster's node; `context` is that of its symbols, if it has any."""
    rows: list[RefusalRow] = []

    def note(by: str, refusal: Refusal) -> None:
        rows.append(row_of(by, refusal))

    with sizes_are_symbols(context) if context is not None else nullcontext():
        lowered = lower_cluster(graph, name, symbols=symbols)
        module = run_pipeline(lowered.module, replace(options, on_refusal=note))
        if options.target.calls_array_kernels:
            # Imported here: it loads LLVM.
            from minitensor_jit.codegen.cpu.compiler import place_module

            for refusal in place_module(module, name=name, fast_math=options.fast_math).refusals:
                note("buffer-assignment", refusal)
    return rows
