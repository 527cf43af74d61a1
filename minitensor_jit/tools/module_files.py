"""What the tools that run modules share: reading a module and its inputs, running it both ways, comparing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.cpu.compiler import compile_module
from ..inspect.report_page.packing import is_module_name, module_text
from ..ir.module import Computation, Instruction, Module
from ..ir.narrow import wide_array
from ..ir.shape import BFLOAT16, AnyShape, TupleShape, dtype_of
from ..ir.small_types import SMALL_FLOATS
from ..ir.testing import random_arguments
from ..ir.text.parser import parse_module
from ..ir.verifier import check
from ..runtime.run_arrays import run_on_arrays

__all__ = ["add_input_arguments", "arguments_of", "compile_and_run", "mismatch", "read_module", "read_text"]

Array = NDArray[Any]


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say which module, and what it runs on."""
    parser.add_argument("file", metavar="FILE", help="HLO text, or FILE.html#MODULE of a report")
    parser.add_argument("--inputs", metavar="NPZ", help="arrays arg0, arg1, ...")
    parser.add_argument("--random_inputs", action="store_true", help="random inputs (the default without --inputs)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs (default: 0)")
    parser.add_argument("--rtol", type=float, default=1e-4, metavar="X", help="relative tolerance (default: 1e-4)")
    parser.add_argument("--atol", type=float, default=1e-5, metavar="X", help="absolute tolerance (default: 1e-5)")


def read_text(path: str) -> str:
    """The text of a file, or of a module in a report, `FILE.html#MODULE`."""
    return module_text(path) if is_module_name(path) else Path(path).read_text(encoding="utf-8")


def read_module(path: str) -> Module:
    """The verified module of a file, whatever layouts its text gives its arguments.

    A tuple among its parameters becomes a parameter for each of its arrays, in their order.
    """
    module = parse_module(read_text(path), any_layout=True)
    check(module)
    if any(isinstance(p.shape, TupleShape) for p in module.entry.parameters):
        _spread_tuples(module.entry)
        check(module, "with tuples among its parameters taken apart")
    return module


def _spread_tuples(entry: Computation) -> None:
    made: list[Instruction] = []
    count = 0

    def value(name: str, shape: AnyShape) -> Instruction:
        nonlocal count
        if isinstance(shape, TupleShape):
            parts = [value(f"{name}.{k}", element) for k, element in enumerate(shape.elements)]
            made.append(Instruction(name, "tuple", shape, parts))
        else:
            made.append(Instruction(name, "parameter", shape, parameter_number=count))
            count += 1
        return made[-1]

    replaced = {p: value(p.name, p.shape) for p in entry.parameters}
    rest = [i for i in entry.instructions if i not in replaced]
    for i in rest:
        i.operands = [replaced.get(o, o) for o in i.operands]
    entry.instructions = [*made, *rest]
    entry.root = replaced.get(entry.root, entry.root)
    entry.make_names_unique()


def arguments_of(module: Module, inputs: str | None, seed: int) -> list[Array]:
    """The arrays of an .npz file, or random ones; raises `ValueError` where they do not fit the parameters."""
    if inputs is None:
        return random_arguments(module, seed)
    arrays = []
    with np.load(inputs) as file:
        for k, parameter in enumerate(module.entry.parameters):
            if f"arg{k}" not in file:
                raise ValueError(f"{inputs} has no arg{k}")
            array, shape = file[f"arg{k}"], parameter.array_shape
            if shape.numpy_dtype.names is not None and array.dtype == f"u{shape.itemsize}":
                array = array.view(shape.numpy_dtype)
            if array.shape != shape.dims or array.dtype != shape.numpy_dtype:
                raise ValueError(f"arg{k} is {array.dtype}{list(array.shape)}, {parameter.name} is {shape}")
            arrays.append(array)
    return arrays


def compile_and_run(module: Module, args: Sequence[Array]) -> list[Array]:
    """The results of compiled code; `module` is changed. Raises `CompileError` naming an opcode without code."""
    executable = compile_module(module, name=module.name)
    try:
        return run_on_arrays(executable, args)
    finally:
        executable.close()


def mismatch(got: Sequence[Array], want: Sequence[Array], rtol: float, atol: float, iterations: int = 1) -> str | None:
    """Where two lists of results differ, in words; None where they don't.

    Rounding errors of a loop's iterations add up as the steps of a random walk do: the tolerances grow with the square
    root of the number of iterations.
    """
    rtol, atol = rtol * max(iterations, 1) ** 0.5, atol * max(iterations, 1) ** 0.5
    if len(got) != len(want):
        return f"{len(got)} results, expected {len(want)}"
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"out{k} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
        left, right = wide_array(a), wide_array(b)
        if left.dtype.kind in "fc":
            # A narrow type's last bit is larger than any tolerance for wide ones.
            loose = 1e-2 if a.dtype == BFLOAT16 else 2e-3 if a.dtype == np.float16 else 0
            if a.dtype.names is not None and a.dtype != BFLOAT16:
                loose = 2.0 ** -SMALL_FLOATS[dtype_of(a.dtype)].mantissa
            with np.errstate(all="ignore"):
                same = _close(left, right, max(rtol, loose), max(atol, loose))
        else:
            same = np.asarray(left == right)
        if not np.all(same):
            at = tuple(int(n) for n in np.argwhere(~same)[0])
            bad = int(same.size - np.count_nonzero(same))
            return f"out{k}{list(at)} is {left[at]}, expected {right[at]} ({bad} of {same.size} elements differ)"
    return None


def _close(left: Array, right: Array, rtol: float, atol: float) -> Array:
    """As `np.isclose`, but complex numbers are compared by their parts, which may be infinite or NaN on their own."""
    if left.dtype.kind == "c":
        return _close(left.real, right.real, rtol, atol) & _close(left.imag, right.imag, rtol, atol)
    equal = (left == right) | (np.isnan(left) & np.isnan(right))
    near = np.abs(left - right) <= atol + rtol * np.abs(right)
    return np.asarray(equal | (near & np.isfinite(left) & np.isfinite(right)))
