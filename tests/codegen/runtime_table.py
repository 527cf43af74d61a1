"""A runtime table of Python callbacks, but for the eager kernels, and a way to run an executable on NumPy arrays."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from minitensor import _C
from minitensor_jit.codegen.abi import CALL_HOST, CALL_KERNEL, CONVOLVE, SORT
from minitensor_jit.codegen.cpu.compiler import Options, compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.module import Instruction, Module
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime import host_call  # noqa: F401 - compiled code may call it
from minitensor_jit.runtime.executable import Executable

I64, PTR = ctypes.c_int64, ctypes.c_void_p
KERNEL = ctypes.CFUNCTYPE(None, PTR, I64, I64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, I64, I64, PTR, PTR)
GEMM = ctypes.CFUNCTYPE(None, PTR)
GEMMS = ctypes.CFUNCTYPE(None, PTR, PTR, I64, I64)
ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, PTR, PTR)


EPILOGUE = ctypes.CFUNCTYPE(None, PTR, I64, I64, I64, I64, I64)


class Gemm(ctypes.Structure):
    _fields_ = [
        (name, I64)
        for name in [
            "m",
            "n",
            "k",
            "batch",
            "a",
            "ars",
            "acs",
            "abs",
            "b",
            "brs",
            "bcs",
            "bbs",
            "c",
            "crs",
            "ccs",
            "cbs",
            "epilogue",
            "ctx",
            "add",
        ]
    ]


def _gemm(dtype: str):
    itemsize = np.dtype(dtype).itemsize

    def view(address: int, rows: int, cols: int, strides: tuple[int, int]) -> np.ndarray:
        if not rows or not cols:
            return np.zeros((rows, cols), dtype)
        extent = (rows - 1) * strides[0] + (cols - 1) * strides[1] + 1
        raw = np.frombuffer((ctypes.c_char * (extent * itemsize)).from_address(address), dtype)
        return np.lib.stride_tricks.as_strided(raw, (rows, cols), tuple(s * itemsize for s in strides))

    def run(address: int) -> None:
        g = Gemm.from_address(address)
        for n in range(g.batch):
            a = view(g.a + n * g.abs * itemsize, g.m, g.k, (g.ars, g.acs))
            b = view(g.b + n * g.bbs * itemsize, g.k, g.n, (g.brs, g.bcs))
            c = view(g.c + n * g.cbs * itemsize, g.m, g.n, (g.crs, g.ccs))
            product = a @ b
            if g.add:
                product = view(g.add + n * g.cbs * itemsize, g.m, g.n, (g.crs, g.ccs)) + product
            c[...] = product
            if g.epilogue:
                # Four tiles of uneven sizes, the last first.
                rows, cols = g.m // 3, g.n // 2 + 1
                for r0, r1 in ((rows, g.m), (0, rows)):
                    for c0, c1 in ((cols, g.n), (0, cols)):
                        if r1 > r0 and c1 > c0:
                            EPILOGUE(g.epilogue)(g.ctx, n, r0, r1 - r0, c0, c1 - c0)

    made = GEMM(run)
    made.itemsize = itemsize
    return made


def _gemms(gemm: Callable[[int], None]):
    """The products of a sequence, the last columns of all of them first."""

    def run(each: int, pointers: int, count: int, width: int) -> None:
        words = ctypes.cast(pointers, ctypes.POINTER(I64))
        whole = Gemm.from_buffer_copy(ctypes.string_at(each, ctypes.sizeof(Gemm)))
        itemsize = gemm.itemsize
        for begin, end in ((whole.n // 3, whole.n), (0, whole.n // 3)):
            for i in range(count):
                g = Gemm.from_buffer_copy(whole)
                g.n = end - begin
                g.a, g.b, g.c = words[i * width : i * width + 3]
                g.b += begin * g.bcs * itemsize
                g.c += begin * itemsize
                g.add = words[i * width + 3] + begin * itemsize if width > 3 else 0
                gemm(ctypes.addressof(g))

    return GEMMS(run)


class Runtime:
    """The table. `parallel_for` runs the chunks one after the other, from the last to the first, of uneven sizes."""

    def __init__(self, chunks: int = 3) -> None:
        self.calls = 0

        def parallel_for(n: int, grain: int, function: int, ctx: int) -> None:
            self.calls += 1
            kernel = KERNEL(function)
            units = -(-n // grain)
            cuts = sorted({min(n, units * k // chunks * grain) for k in range(chunks)} | {n})
            for begin, end in reversed(list(itertools.pairwise(cuts))):
                kernel(ctx, begin, end)

        gemms = [_gemm(d) for d in ("float32", "float64", "int32", "int64", "uint8", "float32", "float64")]
        self._keep = [PARALLEL_FOR(parallel_for), *gemms, *(_gemms(g) for g in gemms[:2])]
        addresses = [ctypes.cast(f, PTR).value for f in self._keep]
        real = ctypes.cast(_C.runtime_address(), ctypes.POINTER(I64))
        self.table = (I64 * 15)(
            real[0], *addresses[:6], real[CALL_KERNEL], *addresses[6:8], real[SORT], real[CALL_HOST], real[CONVOLVE],
            *addresses[8:],
        )  # fmt: skip
        self.address = ctypes.addressof(self.table)


def aligned(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array at a 64-byte boundary, filled with something that shows, and followed by bytes that nobody may write."""
    nbytes = int(np.prod(shape)) * dtype.itemsize
    raw = np.full(nbytes + GUARD + 64, FILL, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes].view(dtype).reshape(shape)


GUARD, FILL = 128, 0xA5


def guard_is_intact(array: np.ndarray) -> bool:
    raw = array
    while isinstance(raw.base, np.ndarray):
        raw = raw.base
    end = array.ctypes.data - raw.ctypes.data + array.nbytes
    return bool(np.all(raw[end : end + GUARD] == FILL))


def run(
    executable: Executable, args: Sequence[np.ndarray], runtime: Runtime, in_place: Sequence[tuple[int, int]] = ()
) -> list[np.ndarray]:
    """Calls the entry. Results named in `in_place` as (result, parameter) are written over a copy of the parameter."""
    inputs = []
    for arg, shape in zip(args, executable.parameter_shapes, strict=True):
        copy = aligned(shape.dims, shape.numpy_dtype)
        copy[...] = arg
        inputs.append(copy)
    over = dict(in_place)
    results = [
        inputs[over[n]].reshape(-1).view(s.numpy_dtype).reshape(s.dims) if n in over else aligned(s.dims, s.numpy_dtype)
        for n, s in enumerate(executable.result_shapes)
    ]
    scratch = aligned((executable.scratch_bytes,), np.dtype(np.uint8))
    buffers = [*inputs, *results, scratch]
    pointers = (PTR * len(buffers))(*(b.ctypes.data for b in buffers))
    assert ENTRY(executable.entry_address)(ctypes.cast(pointers, PTR), runtime.address) == 0
    assert all(guard_is_intact(b) for b in buffers), "something was written beyond a buffer"
    for k, (arg, copy) in enumerate(zip(args, inputs, strict=True)):
        if k not in over.values():
            assert np.asarray(arg).tobytes() == copy.tobytes(), "a parameter was written to"
    return results


def compile_and_run(
    module: Module, args: Sequence[np.ndarray], runtime: Runtime | None = None, **options: int
) -> list[np.ndarray]:
    """The results of compiled code, with low thresholds so that small arrays take the parallel paths."""
    executable = compile_module(module, name=module.name, options=Options(**{"parallel_threshold": 64, **options}))
    try:
        return run(executable, args, runtime or Runtime())
    finally:
        executable.close()


# ---- comparing with the evaluator


def values(shape: Shape, seed: int = 0) -> np.ndarray:
    """Small numbers of the shape's type, with the special ones first."""
    rng = np.random.default_rng(seed)
    dtype = shape.numpy_dtype
    if dtype.kind == "f":
        array = np.asarray(rng.normal(size=shape.dims) * 3).astype(dtype)
        if array.size >= 8:
            array.reshape(-1)[:6] = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40]
        return array
    if dtype.kind == "b":
        return rng.integers(0, 2, shape.dims).astype(bool)
    return rng.integers(0 if dtype.kind == "u" else -9, 10, shape.dims).astype(dtype)


def agree(got: np.ndarray, want: np.ndarray, ulp: int = 0) -> bool:
    """Equal bits (any NaN equals any other), or not more than `ulp` units in the last place apart."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind == "c":
        return agree(got.real, want.real, ulp) and agree(got.imag, want.imag, ulp)
    if got.dtype.kind != "f":
        return bool(np.array_equal(got, want))
    got, want = np.atleast_1d(got), np.atleast_1d(np.ascontiguousarray(want))
    both_nan = np.isnan(got) & np.isnan(want)
    integer = f"i{got.itemsize}"
    close = got.view(integer) == want.view(integer)
    if ulp:
        with np.errstate(invalid="ignore"):
            close |= np.abs(got - want) <= ulp * np.spacing(np.maximum(np.abs(got), np.abs(want)))
    return bool(np.all(both_nan | close))


Build = Callable[..., "Instruction | Sequence[Instruction]"]


def check(
    build: Build, *shapes: Shape, args: Sequence[np.ndarray] | None = None, ulp: int = 0, fused: bool = True
) -> None:
    """Compiles `build(builder, *parameters)`, as it is and after the passes, and compares with the evaluator."""
    builder = Builder("test")
    parameters = [builder.parameter(s) for s in shapes]
    module = builder.build(build(builder, *parameters))
    given = [values(s, seed) for seed, s in enumerate(shapes)] if args is None else [np.asarray(a) for a in args]
    wanted = evaluate(module, given)
    versions = [module]
    if fused:
        versions.append(run_pipeline(module.clone()))
    for version in versions:
        got = compile_and_run(version, given)
        for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
            assert agree(g, np.asarray(w), ulp), f"result {k} of\n{version}\nis\n{g}\nexpected\n{w}"
