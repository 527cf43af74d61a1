"""Runs a dumped module alone: what each `module_NNNN.NAME.repro.py` calls.

The module is compiled with the flags that the user's program had, run on the saved inputs, and compared with the
evaluator. The status is 0 where they agree, 1 where they don't, and 2 where the module can't be read or compiled.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen.cpu.compiler import compile_module
from ..flags import JitOptions, parse_flags
from ..ir.evaluate.control import loop_iterations
from ..ir.evaluate.evaluator import evaluate
from ..ir.module import Module
from ..passes.pipeline import PipelineOptions, run_pipeline
from ..runtime.executable import Executable
from ..runtime.run_arrays import run_on_arrays
from .module_files import arguments_of, mismatch, read_module

__all__ = ["main"]


def _compile(module: Module, options: JitOptions) -> Executable:
    passes = PipelineOptions(
        verify=True,
        fold_constants=not options.disable_constant_folding,
        fast_math=options.fast_math,
        reduce_precision=options.reduce_precision,
    )
    optimised = run_pipeline(module.clone(), passes)
    return compile_module(optimised, name=module.name, fast_math=options.fast_math)


def main(prefix: Path, *, flags: str = "", argv: Sequence[str] | None = None) -> int:
    """Run the module whose files begin with `prefix`; return the exit status."""
    parser = argparse.ArgumentParser(prog=f"{prefix.name}.repro.py", description=__doc__)
    parser.add_argument("--random_inputs", action="store_true", help="run on random inputs, not on the saved ones")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs (default: 0)")
    parser.add_argument("--iterations", type=int, default=1, metavar="N", help="how often to run (default: 1)")
    parser.add_argument("--outputs", metavar="NPZ", help="where to write out0, out1, ...")
    parser.add_argument("--rtol", type=float, metavar="X", help="relative tolerance (default: what the flags allow)")
    parser.add_argument("--atol", type=float, metavar="X", help="absolute tolerance (default: a tenth of that)")
    chosen = parser.parse_args(argv)
    saved = prefix.with_name(f"{prefix.name}.inputs.npz")
    inputs = None if chosen.random_inputs or not saved.exists() else str(saved)
    try:
        module = read_module(str(prefix.with_name(f"{prefix.name}.before_optimizations.txt")))
        args = arguments_of(module, inputs, chosen.seed)
        options = parse_flags(flags)
        executable = _compile(module, options)
    except Exception:  # a defect of the compiler is what this program is there to show
        traceback.print_exc()
        return 2
    started = time.perf_counter()
    for _ in range(max(chosen.iterations, 1)):
        results = run_on_arrays(executable, args)
    seconds = (time.perf_counter() - started) / max(chosen.iterations, 1)
    if chosen.outputs is not None:
        outputs: dict[str, Any] = {f"out{k}": result for k, result in enumerate(results)}
        np.savez(chosen.outputs, **outputs)
    what = "random inputs" if inputs is None else saved.name
    kernels = f"{executable.kernels} kernel" + ("s" if executable.kernels != 1 else "")
    print(f"{module.name}: {kernels} ran on {what} in {seconds * 1e3:.3f} ms")
    # The evaluator sums in another order, and has its own exp.
    rtol = max(options.tolerance, 1e-4) if chosen.rtol is None else chosen.rtol
    atol = rtol / 10 if chosen.atol is None else chosen.atol
    before = loop_iterations()
    want = evaluate(module, args)
    if problem := mismatch(results, want, rtol, atol, loop_iterations() - before):
        print(f"compiled code and evaluator differ: {problem}", file=sys.stderr)
        return 1
    print("compiled code and evaluator agree")
    return 0
