"""Compiles and runs a module, and compares: `python -m minitensor_jit.tools.run_hlo_module FILE`.

Without `--inputs` the arguments are random. With `--reference` only the evaluator runs. The status is 0 where compiled
code and evaluator agree, 1 where they don't, and 2 where the module can't be read, evaluated or compiled.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..codegen.cpu.compiler import compile_module
from ..codegen.errors import CompileError
from ..ir.evaluate.control import loop_iterations
from ..ir.evaluate.evaluator import evaluate
from ..ir.module import Module
from ..passes.pipeline import PipelineOptions, run_pipeline
from ..runtime.run_arrays import run_on_arrays
from .module_files import add_input_arguments, arguments_of, mismatch, read_module

__all__ = ["main"]


def _compiled(module: Module) -> Callable[[Sequence[Any]], list[Any]]:
    """The optimised module as a function that runs its code."""
    started = time.perf_counter()
    executable = compile_module(run_pipeline(module.clone(), PipelineOptions(verify=True)), name=module.name)
    print(f"{module.name}: compiled in {time.perf_counter() - started:.3f} s", file=sys.stderr)
    return lambda args: run_on_arrays(executable, args)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m minitensor_jit.tools.run_hlo_module", description=__doc__)
    add_input_arguments(parser)
    parser.add_argument("--outputs", metavar="NPZ", help="where to write out0, out1, ...")
    parser.add_argument("--reference", action="store_true", help="run the evaluator only")
    parser.add_argument(
        "--iterations", type=int, default=1, metavar="N", help="how often to run it: random inputs are others each time"
    )
    options = parser.parse_args(argv)
    try:
        module = read_module(options.file)
        results = []
        run = None if options.reference else _compiled(module)
        for n in range(max(options.iterations, 1)):
            seed = options.seed + n
            args = arguments_of(module, options.inputs, seed)
            if n == 0 or options.inputs is None:
                before = loop_iterations()
                want = results = evaluate(module, args)
                iterations = loop_iterations() - before
            if run is None:
                continue
            started = time.perf_counter()
            results = run(args)
            print(f"{module.name}: run in {(time.perf_counter() - started) * 1e3:.3f} ms", file=sys.stderr)
            if problem := mismatch(results, want, options.rtol, options.atol, iterations):
                where = "" if options.inputs is not None else f" with seed {seed}"
                print(f"{options.file}: compiled code and evaluator differ{where}: {problem}", file=sys.stderr)
                return 1
    except (OSError, ValueError, NotImplementedError, CompileError, RuntimeError) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 2
    if options.outputs is not None:
        outputs: dict[str, Any] = {
            # What NumPy has no type for as its bits, which is how --inputs takes it.
            f"out{k}": r if r.dtype.names is None else r.view(f"u{r.dtype.itemsize}")
            for k, r in enumerate(results)
        }
        np.savez(options.outputs, **outputs)
    print(f"{options.file}: {'evaluated' if options.reference else 'compiled code and evaluator agree'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
