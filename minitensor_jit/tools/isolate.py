"""Finds what is compiled wrongly: `python -m minitensor_jit.tools.isolate FILE`.

The optimised module is split into modules of one fusion (or other instruction) each, which run on the values that the
evaluator gives their operands; the first whose compiled code differs from the evaluator is named. Then the passes are
bisected: the shortest beginning of the pipeline after which the module gives other results names the guilty pass, which
either changes what the module means or makes what code generation gets wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.errors import CompileError
from ..ir.evaluator import evaluate, evaluate_instruction
from ..ir.module import Instruction, Module
from ..ir.printer import print_module
from ..ir.shape import Shape
from ..passes.pass_manager import Pass
from ..passes.pipeline import pipeline
from .module_files import add_input_arguments, arguments_of, compile_and_run, mismatch, read_module

__all__ = ["Finding", "isolate", "main", "single"]

Array = NDArray[Any]
Run = Callable[[Module, Sequence[Array]], list[Array]]

# What needs no code of its own, or has no arrays for operands.
_SKIPPED = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})


@dataclass(frozen=True, slots=True)
class Finding:
    """What differs: the instruction and its module, the pass, and the difference in words."""

    instruction: str = ""
    module: Module | None = None
    problem: str = ""
    pass_name: str = ""
    meaning: bool = False
    """Whether the pass changed what the module means; otherwise only compiled code is wrong after it."""


def single(i: Instruction) -> Module:
    """A module of this instruction alone, whose operands are parameters."""
    return Module.alone(i)


def isolate(
    module: Module,
    args: Sequence[Array],
    *,
    passes: Callable[[], Sequence[Pass]] = pipeline,
    run: Run = compile_and_run,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> Finding | None:
    """The first instruction of the optimised module that differs, and the pass; None where nothing differs."""
    want = evaluate(module, args)
    stages = list(passes())

    def after(count: int) -> Module:
        copy = module.clone()
        for one in list(passes())[:count]:
            one.run(copy)
        return copy

    def bisect(wrong: Callable[[int], bool]) -> str:
        """The pass that ends the shortest wrong beginning; all passes together are wrong."""
        if wrong(0):
            return ""
        low, high = 0, len(stages)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if wrong(middle) else (middle, high)
        return stages[high - 1].name

    def means_other(count: int) -> bool:
        return mismatch(evaluate(after(count), args), want, rtol, atol) is not None

    def runs_other(count: int) -> bool:
        return mismatch(run(after(count), args), want, rtol, atol) is not None

    optimised = after(len(stages))
    if problem := mismatch(evaluate(optimised, args), want, rtol, atol):
        return Finding(problem=problem, pass_name=bisect(means_other), meaning=True)
    values: dict[Instruction, Any] = {}
    with np.errstate(all="ignore"):
        for i in optimised.entry.instructions:
            if i.parameter_number is not None:
                values[i] = args[i.parameter_number]
                continue
            operands = [values[o] for o in i.operands]
            value = values[i] = evaluate_instruction(i, operands)
            if i.opcode in _SKIPPED or not all(isinstance(o.shape, Shape) for o in i.operands):
                continue
            alone = single(i)
            results = list(value) if isinstance(value, tuple) else [value]
            if problem := mismatch(run(alone.clone(), operands), results, rtol, atol):
                guilty = bisect(runs_other) if runs_other(len(stages)) else ""
                return Finding(i.name, alone, problem, guilty)
    if problem := mismatch(run(optimised, args), want, rtol, atol):
        return Finding(problem=problem, pass_name=bisect(runs_other))
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; return its exit status: 0 where nothing differs, 1 where something does, 2 for errors."""
    parser = argparse.ArgumentParser(prog="python -m minitensor_jit.tools.isolate", description=__doc__)
    add_input_arguments(parser)
    options = parser.parse_args(argv)
    try:
        module = read_module(options.file)
        args = arguments_of(module, options.inputs, options.seed)
        finding = isolate(module, args, rtol=options.rtol, atol=options.atol)
    except (OSError, ValueError, NotImplementedError, CompileError) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 2
    if finding is None:
        print(f"{options.file}: every instruction of the optimised module agrees with the evaluator")
        return 0
    if finding.instruction:
        print(f"{finding.instruction} differs from the evaluator: {finding.problem}")
    else:
        print(f"the module differs from the evaluator: {finding.problem}")
    if finding.pass_name:
        what = "changes what the module means" if finding.meaning else "is the first after which compiled code differs"
        print(f"the pass {finding.pass_name} {what}")
    else:
        print("no pass is guilty: code generation differs without any")
    if finding.module is not None:
        sys.stdout.write(print_module(finding.module))
    return 1


if __name__ == "__main__":
    sys.exit(main())
