"""Check the transcendental functions on every input: ``python -m benchmarks.exhaustive exp``.

Eager results are compared with compiled ones (equal bits; any NaN equals any other) and with the exact value (at most
two representable numbers from the correctly rounded one). float32 inputs are all 2^32 of them, or each ``--step``-th.
Of float64, upper halves are taken the same way, with pseudo-random lower halves. The exit status is 1 if anything is
wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import minitensor  # noqa: F401  (first: MT_JIT_FLAGS may have it load the compiler)
from minitensor_jit.codegen.cpu.target_machine import CpuTarget, host_target
from minitensor_jit.codegen.emitter import math
from minitensor_jit.codegen.llvm.ir_text import Builder, Function, Module
from minitensor_jit.codegen.llvm.ir_types import F32, F64, I64, PTR, VOID, Value, vector
from minitensor_jit.runtime.loaded_code import LoadedCode

Array = NDArray[np.floating]
Unary = Callable[[Array], Array]

MAX_STEPS = 2
CHUNK = 1 << 20


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, np.ones_like(e)) / (1 + e)


def _turns(x: Array, quarter: int) -> Array:
    """Sine of ``x + quarter / 4`` turns; the reduction to an eighth of a turn is exact."""
    k = np.rint(4 * x)
    r = (x - k / 4) * (8 * np.arctan(x.dtype.type(1)))
    q = (k.astype(np.int64) + quarter) % 4
    return np.select([q == 0, q == 1, q == 2], [np.sin(r), np.cos(r), -np.sin(r)], -np.cos(r))


# Each is evaluated in a wider format than the one under test.
REFERENCES: dict[str, Unary] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sinpi2": lambda x: _turns(x, 0),
    "cospi2": lambda x: _turns(x, 1),
}


def domain(name: str, dtype: np.dtype) -> int:
    """How many inputs there are: all float32, or all upper halves of float64; turns are in [0, 1)."""
    if name in ("sinpi2", "cospi2"):
        return 0x3F800000 if dtype.itemsize == 4 else 0x3FF00000
    return 1 << 32


def inputs(dtype: np.dtype, numbers: NDArray[np.int64]) -> Array:
    """The inputs with these bit patterns. Of float64 they are the upper halves; the lower are pseudo-random."""
    if dtype.itemsize == 4:
        return numbers.astype(np.uint32).view(np.float32)
    upper = numbers.astype(np.uint64)
    lower = (upper * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return ((upper << np.uint64(32)) | lower).view(np.float64)


def eager_function(name: str) -> Unary | None:
    """The eager kernel, or None where the function is no operation."""
    import minitensor as mt

    operation = getattr(mt, name, None)
    return operation and (lambda x: operation(mt.from_numpy(x)).numpy())


def compiled_loop(name: str, dtype: np.dtype, lanes: int, target: CpuTarget) -> str:
    """LLVM text of a function ``run(x, y, n)`` that applies the emitted code to ``n`` vectors."""
    type_ = vector(F32 if dtype.itemsize == 4 else F64, lanes)
    module = Module(name, target.triple, target.layout)
    module.attributes.extend(target.attributes)
    function = Function(module, "run", VOID, [(PTR, "x"), (PTR, "y"), (I64, "n")], linkage="")
    x, y, n = function.arguments
    entry, loop, leave = function.block("entry"), function.block("loop"), function.block("leave")
    b = Builder(function, entry)
    b.branch(loop)
    b.position_at_end(loop)
    b.raw(f"%i = phi i64 [0, %{entry.label}], [%next, %{loop.label}]")
    i, following = Value(I64, "i64", "%i"), Value(I64, "i64", "%next")
    value = b.load(b.gep(x, i, type_), type_, dtype.itemsize)
    b.store(getattr(math, name)(b, value), b.gep(y, i, type_), dtype.itemsize)
    b.raw("%next = add i64 %i, 1")
    b.cbranch(b.icmp_unsigned("<", following, n), loop, leave)
    b.position_at_end(leave)
    b.ret()
    return str(module)


def compiled_function(name: str, dtype: np.dtype, lanes: int = 0) -> Unary:
    """What the code generator emits, compiled for this machine; ``lanes`` 0 is the full vector width."""
    target = host_target()
    lanes = lanes or target.vector_bytes // dtype.itemsize
    code = LoadedCode(target.compile(compiled_loop(name, dtype, lanes, target)), "run")
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(code.address)

    def call(x: Array) -> Array:
        padded = np.zeros(-(-max(x.size, 1) // lanes) * lanes, dtype)
        padded[: x.size] = x
        result = np.empty_like(padded)
        run(padded.ctypes.data, result.ctypes.data, padded.size // lanes)
        return result[: x.size]

    call.code = code  # type: ignore[attr-defined]  # it lives as long as the function
    return call


def different(a: Array, b: Array) -> NDArray[np.bool_]:
    """Where the bits differ; all NaN are equal."""
    bits = f"u{a.dtype.itemsize}"
    return (a.view(bits) != b.view(bits)) & ~(np.isnan(a) & np.isnan(b))


@dataclass
class Accuracy:
    """The largest errors met so far."""

    ulps: float = 0.0
    steps: int = 0
    where: float = float("nan")

    def add(self, name: str, x: Array, got: Array) -> None:
        """Take results into account.

        An error in ulps is one against the exact value. ``steps`` counts representable numbers from the correctly
        rounded value; a NaN or a zero's sign in the wrong place counts as 2^31.
        """
        wide = np.float64 if x.dtype.itemsize == 4 else np.longdouble
        with np.errstate(all="ignore"):
            exact = REFERENCES[name](x.astype(wide))
            rounded = exact.astype(x.dtype)
            (wrong,) = np.nonzero(different(got, rounded))
            if not wrong.size:
                return
            x, got, exact, rounded = x[wrong], got[wrong], exact[wrong], rounded[wrong]
            errors = np.abs(got.astype(wide) - exact) / np.spacing(np.abs(rounded)).astype(wide)
        fatal = np.isnan(got) | np.isnan(rounded) | ((got == 0) & (rounded == 0))
        steps = np.where(fatal, 2**31, np.abs(_rank(got) - _rank(rounded)))
        errors = np.where(np.isfinite(errors), errors, 0)
        worst = int(np.argmax(np.maximum(errors, steps - 1)))
        if max(float(errors[worst]), int(steps[worst]) - 1) > max(self.ulps, self.steps - 1):
            self.where = float(x[worst])
        self.ulps = max(self.ulps, float(errors.max()))
        self.steps = max(self.steps, int(steps.max()))


def _rank(x: Array) -> NDArray[np.int64]:
    """Consecutive integers for consecutive numbers; differences are right also where they wrap."""
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    top = np.int64(np.iinfo(f"i{x.dtype.itemsize}").min)
    return np.where(bits < 0, top - bits, bits)


def check(name: str, dtype: np.dtype, step: int) -> bool:
    """Check one function, print what was found, and tell whether all is well."""
    eager, compiled = eager_function(name), compiled_function(name, dtype)
    if eager is None:
        print(f"{name}: not an operation of minitensor; only the compiled code is checked", file=sys.stderr)
    accuracy, unequal, first = Accuracy(), 0, float("nan")
    total = -(-domain(name, dtype) // step)
    with tqdm(total=total, unit="", unit_scale=True, desc=f"{name} {dtype}") as progress:
        for start in range(0, total, CHUNK):
            numbers = np.arange(start, min(start + CHUNK, total), dtype=np.int64) * step
            x = inputs(dtype, numbers)
            got = compiled(x)
            if eager is not None:
                (wrong,) = np.nonzero(different(eager(x), got))
                if wrong.size:
                    first = first if unequal else float(x[wrong[0]])
                    unequal += wrong.size
            accuracy.add(name, x, got)
            progress.update(numbers.size)
    if unequal:
        print(f"{name} {dtype}: eager and compiled code differ for {unequal} inputs, first {first.hex()}")
    print(
        f"{name} {dtype}: {total} inputs, at most {accuracy.ulps:.4f} ulp and {accuracy.steps} representable numbers "
        f"from the exact value, at {accuracy.where.hex()}"
    )
    return not unequal and accuracy.steps <= MAX_STEPS


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exhaustive", description=__doc__.partition("\n")[0])
    parser.add_argument("functions", nargs="+", choices=REFERENCES, metavar="FUNCTION", help=", ".join(REFERENCES))
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--step", type=int, default=0, help="take each N-th input (default: 1; 251 for float64)")
    options = parser.parse_args(None if arguments is None else list(arguments))
    dtype = np.dtype(options.dtype)
    step = options.step or (1 if dtype.itemsize == 4 else 251)
    if step < 0:
        parser.error("--step must be positive")
    results = [check(name, dtype, step) for name in dict.fromkeys(options.functions)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
