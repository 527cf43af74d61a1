"""The whole pipeline on one page: which passes run, in which order, and why."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.module import Module
from ..ir.verifier import check
from .algebraic_simplifier import AlgebraicSimplifier
from .call_inliner import CallInliner
from .common_subexpression_elimination import CommonSubexpressionElimination
from .constant_folding import ConstantFolding
from .dead_code_elimination import DeadCodeElimination
from .expander import Expander
from .fusion import Fusion
from .loop_calls import LoopCalls
from .memory_scheduler import MemoryScheduler
from .narrow_types import NarrowTypes
from .output_fusion import OutputFusion
from .pass_manager import Pass, PassHook, PassManager
from .row_fusion import RowFusion
from .row_gather_rewriter import RowGatherRewriter
from .while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion
from .while_loop_unroller import WhileLoopUnroller

__all__ = ["PASSES", "PipelineOptions", "pipeline", "run_pipeline"]

# Every pass by its name on the command line.
PASSES: dict[str, type[Pass]] = {
    p.name: p
    for p in (
        CallInliner,
        Expander,
        NarrowTypes,
        LoopCalls,
        DeadCodeElimination,
        CommonSubexpressionElimination,
        AlgebraicSimplifier,
        ConstantFolding,
        WhileLoopUnroller,
        WhileLoopInvariantCodeMotion,
        RowGatherRewriter,
        OutputFusion,
        RowFusion,
        Fusion,
        MemoryScheduler,
    )
}


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """How to run the pipeline. `on_pass(name, module, changed)` is called after every pass, for dumps.

    The result is always verified, which costs some 3 us an instruction; `verify` does it around every pass.
    """

    verify: bool = False
    fuse: bool = True
    fold_constants: bool = True
    on_pass: PassHook | None = None


def pipeline(*, fuse: bool = True, fold_constants: bool = True, strict: bool = True) -> list[Pass]:
    """The passes, in order. With `strict`, simplification rules that undo each other are an error."""
    passes: list[Pass] = [
        # Later passes look at one computation only.
        CallInliner(),
        # Before types are narrowed, since it makes sums and products of any type.
        Expander(),
        # So that rules and kernels see few types; conversions that this makes between equal types go again.
        NarrowTypes(),
        # After it, since loops exist for types that are computed in.
        LoopCalls(),
        # What is dead must not be looked at, and what is equal must look equal to the rules that compare operands.
        DeadCodeElimination(),
        CommonSubexpressionElimination(),
        # Simplification exposes constants, and folding exposes rules.
        AlgebraicSimplifier(strict=strict),
    ]
    if fold_constants:
        passes.append(ConstantFolding())
    # Turns that are written out meet the rules; what is the same in all turns of other loops is computed before them.
    passes += [WhileLoopUnroller(), WhileLoopInvariantCodeMotion()]
    if fuse:
        # Looks for the index of a gather in its simplified form; what it makes is simplified again.
        passes.append(RowGatherRewriter())
    # Rules make copies of what others made.
    passes += [AlgebraicSimplifier(strict=strict), CommonSubexpressionElimination(), DeadCodeElimination()]
    if fuse:
        # What is done with a product's elements is done while they are in the cache.
        passes.append(OutputFusion())
        # Rows first: they keep a reduction and its readers together, which the general pass would part.
        passes += [RowFusion(), Fusion()]
    # Last: what is fused is in one place.
    passes.append(MemoryScheduler())
    return passes


def run_pipeline(module: Module, options: PipelineOptions | None = None) -> Module:
    """Optimise a module in place and return it."""
    options = options or PipelineOptions()
    passes = pipeline(fuse=options.fuse, fold_constants=options.fold_constants, strict=options.verify)
    PassManager(passes, verify=options.verify, on_pass=options.on_pass).run(module)
    if not options.verify:
        check(module, "after the pipeline")
    return module
