"""Triangular systems have the bits of eager code; small Cholesky factors are those of the evaluator."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.run_arrays import run_on_arrays


def compiled(text, arguments):
    module = parse_module(text)
    want = evaluate(module, arguments)
    run_pipeline(module)
    assert not any(i.opcode in ("triangular-solve", "cholesky", "custom-call") for i in module.entry.instructions)
    return run_on_arrays(compile_module(module, name="m"), arguments), want


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64"])
@pytest.mark.parametrize(
    ("left", "lower", "unit", "transpose"),
    list(itertools.product((True, False), (True, False), (False, True), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))),
)
def test_triangular_systems(dtype, left, lower, unit, transpose):
    rng = np.random.default_rng(3)
    numpy = {"f32": np.float32, "f64": np.float64, "c64": np.complex64}[dtype]
    n = 37
    a = (rng.standard_normal((2, n, n)) / n + np.eye(n)).astype(numpy)
    if dtype == "c64":
        a += np.complex64(0.01j)
    b = rng.standard_normal((2, n, 5) if left else (2, 5, n)).astype(numpy)
    sizes = f"{dtype}[2,{n},5]" if left else f"{dtype}[2,5,{n}]"
    text = f"""
ENTRY e {{
  a = {dtype}[2,{n},{n}] parameter(0)
  b = {sizes} parameter(1)
  ROOT r = {sizes} triangular-solve(a, b), left_side={str(left).lower()}, lower={str(lower).lower()},
    unit_diagonal={str(unit).lower()}, transpose_a={transpose}
}}
"""
    (got,), (want,) = compiled(text, [a, b])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    matrix = mt.from_numpy(a)
    if transpose != "NO_TRANSPOSE":
        matrix, lower = matrix.mT if transpose == "TRANSPOSE" else matrix.mH, not lower
    eager = mt.linalg.solve_triangular(matrix, mt.from_numpy(b), upper=not lower, left=left, unitriangular=unit)
    assert got.tobytes() == eager.resolve_conj().contiguous().numpy().tobytes()


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("lower", [True, False])
def test_small_cholesky_factors(n, lower):
    rng = np.random.default_rng(n)
    a = rng.standard_normal((3, n, n)).astype(np.float32)
    a = a @ a.swapaxes(1, 2) + n * np.eye(n, dtype=np.float32)
    a[1] *= -1  # has no factor
    text = f"""
ENTRY e {{
  a = f32[3,{n},{n}] parameter(0)
  ROOT r = f32[3,{n},{n}] cholesky(a), lower={str(lower).lower()}
}}
"""
    (got,), (want,) = compiled(text, [a])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert np.isnan(got[1]).all()


def test_lapack_by_name():
    a = np.float32([[4, 2], [2, 5]])
    text = """
ENTRY e {
  a = f32[2,2] parameter(0)
  made = (f32[2,2], s32[]) custom-call(a), custom_call_target="lapack_spotrf_ffi", backend_config={uplo = 76 : ui8}
  l = f32[2,2] get-tuple-element(made), index=0
  info = s32[] get-tuple-element(made), index=1
  x = f32[2,2] custom-call(l, a), custom_call_target="blas_strsm_ffi", backend_config={side = 76 : ui8, uplo = 76 : ui8}
  ROOT r = (f32[2,2], s32[], f32[2,2]) tuple(l, info, x)
}
"""
    (factor, info, solved), _ = compiled(text, [a])
    assert factor.tolist() == [[2, 0], [1, 2]]
    assert info == 0
    assert solved.tolist() == [[2, 1], [0, 2]]
