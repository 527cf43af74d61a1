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
from ..ir.evaluate.computation import evaluate_computation
from ..ir.evaluate.control import chosen_branch, loop_iterations
from ..ir.evaluate.evaluator import evaluate, evaluate_instruction, flat
from ..ir.infer.structured import branches
from ..ir.module import Computation, Instruction, Module
from ..ir.shape import Shape
from ..ir.text.printer import print_module
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
    before = loop_iterations()
    want = evaluate(module, args)
    iterations = loop_iterations() - before
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
        return mismatch(evaluate(after(count), args), want, rtol, atol, iterations) is not None

    def runs_other(count: int) -> bool:
        return mismatch(run(after(count), args), want, rtol, atol, iterations) is not None

    optimised = after(len(stages))
    if problem := mismatch(evaluate(optimised, args), want, rtol, atol, iterations):
        return Finding(problem=problem, pass_name=bisect(means_other), meaning=True)

    def differs(i: Instruction, operands: Sequence[Any], value: Any) -> str | None:
        return mismatch(run(single(i), operands), flat(value), rtol, atol, iterations if i.opcode == "while" else 1)

    found = _first(optimised.entry, args, differs)
    if found is not None:
        guilty = bisect(runs_other) if runs_other(len(stages)) else ""
        return Finding(found[0].name, single(found[0]), found[1], guilty)
    if problem := mismatch(run(optimised, args), want, rtol, atol, iterations):
        return Finding(problem=problem, pass_name=bisect(runs_other))
    return None


# In so many iterations of a loop, what runs there is compared one by one.
_ITERATIONS = 3


def _first(
    computation: Computation, args: Sequence[Any], differs: Callable[[Instruction, Sequence[Any], Any], str | None]
) -> tuple[Instruction, str] | None:
    """The first instruction that differs, and how; in loops and conditionals those that run there, not the whole."""
    values: dict[Instruction, Any] = {}
    with np.errstate(all="ignore"):
        for i in computation.instructions:
            if i.parameter_number is not None:
                values[i] = args[i.parameter_number]
                continue
            operands = [values[o] for o in i.operands]
            found = None
            if i.opcode == "while":
                state = operands[0]
                for _ in range(_ITERATIONS):
                    found = found or _first(i.attrs["condition"], [state], differs)
                    if found or not evaluate_computation(i.attrs["condition"], [state]):
                        break
                    found = _first(i.attrs["body"], [state], differs)
                    state = evaluate_computation(i.attrs["body"], [state])
            elif i.opcode == "conditional":
                chosen = chosen_branch(i, operands[0])
                found = _first(branches(i.attrs)[chosen], [operands[1 + chosen]], differs)
            if found:
                return found
            value = values[i] = evaluate_instruction(i, operands)
            if i.opcode in _SKIPPED or not all(isinstance(o.shape, Shape) for o in i.operands):
                continue
            if problem := differs(i, operands, value):
                return i, problem
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
    except (OSError, ValueError, NotImplementedError, CompileError, RuntimeError) as error:
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
