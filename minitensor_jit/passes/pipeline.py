"""The whole pipeline on one page: which passes run, in which order, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..ir.module import Module
from ..ir.refusal import Refusal
from ..ir.verifier import check
from .algebraic_simplifier import AlgebraicSimplifier
from .call_inliner import CallInliner
from .collectives.all_reduce_combiner import AllReduceCombiner
from .collectives.async_collective_creator import AsyncCollectiveCreator
from .collectives.collective_order import CollectiveOrder
from .collectives.latency_hiding_scheduler import LatencyHidingScheduler
from .common_subexpression_elimination import CommonSubexpressionElimination
from .conditional_simplifier import ConditionalSimplifier
from .constant_folding import ConstantFolding
from .convolution_canonicalization import ConvolutionCanonicalization
from .dead_code_elimination import DeadCodeElimination
from .expander import Expander
from .fusion.fusion import Fusion
from .fusion.horizontal_loop_fusion import HorizontalLoopFusion
from .fusion.output_fusion import OutputFusion
from .fusion.row_fusion import RowFusion
from .layout_assignment import LayoutAssignment
from .loop_calls import LoopCalls
from .memory_scheduler import MemoryScheduler
from .pass_manager import Pass, PassHook, PassManager
from .precision.narrow_products import NarrowProducts
from .precision.narrow_types import NarrowTypes
from .precision.reduce_precision import ReducePrecision
from .precision.tensor_float import TensorFloat32
from .row_gather_rewriter import RowGatherRewriter
from .simplify import ALL_RULES, FAST_MATH_RULES
from .target import CPU, Target
from .while_loops.while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion
from .while_loops.while_loop_unroller import WhileLoopUnroller
from .window_updates_last import WindowUpdatesLast

__all__ = ["PASSES", "STAGES", "PipelineOptions", "pipeline", "run_pipeline", "stages"]

# Every pass by its name on the command line.
PASSES: dict[str, type[Pass]] = {
    p.name: p
    for p in (
        CallInliner,
        ConvolutionCanonicalization,
        Expander,
        NarrowTypes,
        LoopCalls,
        DeadCodeElimination,
        CommonSubexpressionElimination,
        AlgebraicSimplifier,
        ConstantFolding,
        ConditionalSimplifier,
        WhileLoopUnroller,
        WhileLoopInvariantCodeMotion,
        RowGatherRewriter,
        AllReduceCombiner,
        CollectiveOrder,
        LayoutAssignment,
        ReducePrecision,
        TensorFloat32,
        NarrowProducts,
        OutputFusion,
        RowFusion,
        Fusion,
        HorizontalLoopFusion,
        AsyncCollectiveCreator,
        MemoryScheduler,
        WindowUpdatesLast,
        LatencyHidingScheduler,
    )
}


# Every rule of the order stands beside its stage. A stage without passes is one of a target that needs it: "prepare" is
# for rewrites before a GPU's IR is emitted, and empty for the CPU.
STAGES: tuple[str, ...] = (
    "expansion",
    "simplification",
    "loops",
    "layout",
    "precision",
    "fusion",
    "scheduling",
    "prepare",
)


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """How to run the pipeline. `on_pass(name, module, changed, rules)` is called after every pass, for dumps.

    `on_refusal(name, refusal)` is called at the end, for all that a pass left as it was.

    `target` says what code is made for; `tf32`, that its units for narrow products may have those of float32 too,
    rounded.

    The result is always verified, which costs some 3 us an instruction; `verify` does it around every pass.
    """

    verify: bool = False
    fuse: bool = True
    fold_constants: bool = True
    fast_math: bool = False
    reduce_precision: str = "none"
    target: Target = CPU
    tf32: bool = False
    on_pass: PassHook | None = None
    on_refusal: Callable[[str, Refusal], None] | None = None


def stages(
    *,
    fuse: bool = True,
    fold_constants: bool = True,
    strict: bool = True,
    fast_math: bool = False,
    reduce_precision: str = "none",
    target: Target = CPU,
    tf32: bool = False,
) -> dict[str, list[Pass]]:
    """The passes of each stage, in order. With `strict`, simplification rules that undo each other are an error.

    With `fast_math` there are rules that change bits.
    """
    rules = (*ALL_RULES, *FAST_MATH_RULES) if fast_math else ALL_RULES
    found: dict[str, list[Pass]] = {stage: [] for stage in STAGES}
    found["expansion"] = [
        # First: what convolutions become are no products of the program's.
        *([TensorFloat32()] if tf32 else []),
        # Later passes visit one computation only.
        CallInliner(),
        # The expander and the kernels know one order of dimensions.
        ConvolutionCanonicalization(),
        # Before types are narrowed, since it makes sums and products of any type.
        Expander(target),
        # So that rules and kernels see few types; conversions that this makes between equal types go again.
        NarrowTypes(),
        # After it, since loops exist for types that are computed in.
        LoopCalls(),
    ]
    found["simplification"] = [
        # What is dead must not be visited, and what is equal must look equal to the rules that compare operands.
        DeadCodeElimination(),
        CommonSubexpressionElimination(),
        # Simplification exposes constants, and folding exposes rules.
        AlgebraicSimplifier(rules, strict=strict),
    ]
    if fold_constants:
        found["simplification"].append(ConstantFolding())
    # A branch that is known to be taken is no branch. Turns that are written out meet the rules; what is the same in
    # all iterations of other loops is computed before them.
    found["loops"] = [ConditionalSimplifier(), WhileLoopUnroller(), WhileLoopInvariantCodeMotion()]
    if fuse:
        # Looks for the index of a gather in its simplified form; what it makes is simplified again.
        found["loops"].append(RowGatherRewriter())
    # Rules make copies of what others made.
    found["loops"] += [
        AlgebraicSimplifier(rules, strict=strict),
        CommonSubexpressionElimination(),
        DeadCodeElimination(),
        # Operands are what they will be. Collectives have kept their order, since nothing moved them; what comes now
        # makes orders of its own.
        AllReduceCombiner(),
        CollectiveOrder(),
    ]
    # Rules have moved transposes as far as they go, and would move these too. What is made here is fused.
    found["layout"] = [LayoutAssignment()]
    if reduce_precision != "none":
        # Products have the operands that they keep; the roundings are fused with what makes these.
        found["precision"] = [ReducePrecision(reduce_precision)]
    if target.narrow_products:
        # After the rules, which see arithmetic in float32 only; before fusion, which would take the conversions away.
        found["precision"] += [NarrowProducts(), DeadCodeElimination()]
    if fuse:
        found["fusion"] = [
            # What is done with a product's elements is done while they are in the cache.
            OutputFusion(in_registers=target.tiles_in_registers),
            # Rows first: they keep a reduction and its readers together, which the general pass would part.
            RowFusion(),
            Fusion(),
        ]
        if target.loops_by_table:
            # Loops are what they will be.
            found["fusion"].append(HorizontalLoopFusion())
    # Last: what is fused is in one place.
    found["scheduling"] = [MemoryScheduler(), WindowUpdatesLast()]
    if target.async_collectives:
        # Whether something can run meanwhile is seen when loops are what they will be; when it runs, by the order.
        found["scheduling"] = [AsyncCollectiveCreator(), *found["scheduling"], LatencyHidingScheduler()]
    return found


def pipeline(**options: Any) -> list[Pass]:
    """The passes of all stages, in order; the options are those of `stages`."""
    found = stages(**options)
    return [one for stage in STAGES for one in found[stage]]


def run_pipeline(module: Module, options: PipelineOptions | None = None) -> Module:
    """Optimise a module in place and return it."""
    options = options or PipelineOptions()
    passes = pipeline(
        fuse=options.fuse,
        fold_constants=options.fold_constants,
        strict=options.verify,
        fast_math=options.fast_math,
        reduce_precision=options.reduce_precision,
        target=options.target,
        tf32=options.tf32,
    )
    PassManager(passes, verify=options.verify, on_pass=options.on_pass).run(module)
    if not options.verify:
        check(module, "after the pipeline")
    if options.on_refusal is not None:
        for one in passes:
            for refusal in getattr(one, "decisions", ()):
                options.on_refusal(one.name, refusal)
    return module
