"""Compiles and runs a module, and compares: `python -m minitensor_jit.tools.run_hlo_module FILE`.

Without `--inputs` the arguments are random. With `--reference` only the evaluator runs. The status is 0 where compiled
code and evaluator agree, 1 where they don't, and 2 where the module can't be read, evaluated or compiled.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..codegen.errors import CompileError
from ..ir.evaluator import evaluate
from ..passes.pipeline import PipelineOptions, run_pipeline
from .module_files import add_input_arguments, arguments_of, compile_and_run, mismatch, read_module

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m minitensor_jit.tools.run_hlo_module", description=__doc__)
    add_input_arguments(parser)
    parser.add_argument("--outputs", metavar="NPZ", help="where to write out0, out1, ...")
    parser.add_argument("--reference", action="store_true", help="run the evaluator only")
    parser.add_argument("--iterations", type=int, default=1, metavar="N", help="how often to run it, or how many seeds")
    options = parser.parse_args(argv)
    try:
        module = read_module(options.file)
        results = []
        # With random inputs each iteration has its own; given ones are run again on the same code.
        seeds = options.iterations if options.inputs is None else 1
        for seed in range(options.seed, options.seed + max(seeds, 1)):
            args = arguments_of(module, options.inputs, seed)
            want = results = evaluate(module, args)
            if options.reference:
                continue
            optimised = run_pipeline(module.clone(), PipelineOptions(verify=True))
            started = time.perf_counter()
            results = compile_and_run(optimised, args, options.iterations if options.inputs is not None else 1)
            print(f"{module.name}: compiled and run in {time.perf_counter() - started:.3f} s", file=sys.stderr)
            if problem := mismatch(results, want, options.rtol, options.atol):
                where = "" if options.inputs is not None else f" with seed {seed}"
                print(f"{options.file}: compiled code and evaluator differ{where}: {problem}", file=sys.stderr)
                return 1
    except (OSError, ValueError, NotImplementedError, CompileError) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 2
    if options.outputs is not None:
        outputs: dict[str, Any] = {f"out{k}": r for k, r in enumerate(results)}
        np.savez(options.outputs, **outputs)
    print(f"{options.file}: {'evaluated' if options.reference else 'compiled code and evaluator agree'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
