"""The transcendental functions: the same bits from C++ and from LLVM on every instruction set, and accurate.

`python -m benchmarks.exhaustive` checks all float32 inputs; here are 2^22, over all signs, exponents and leading bits.
"""

import ctypes
import importlib.util
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from benchmarks import exhaustive
from benchmarks.exhaustive import REFERENCES, Accuracy, compiled_function, compiled_loop, different
from minitensor_jit.codegen.cpu.target_machine import host_target
from minitensor_jit.codegen.emitter import math

ROOT = Path(__file__).resolve().parents[2]
F32, F64 = np.dtype("float32"), np.dtype("float64")
OPERATIONS = ["exp", "log", "tanh", "sigmoid"]
TURNS = ["sinpi2", "cospi2"]
ISAS = {
    "baseline": "",
    "avx2": "avx2,fma",
    "avx512": "avx512f,avx512dq,avx512bw,avx512vl,fma,avx2",
}
inf, nan = float("inf"), float("nan")

SOURCE = """
#ifdef TARGET
#pragma GCC target(TARGET)
#endif
#define MT_ISA_NS test_isa
#include "kernels/cpu/math/functions.h"
#define LOOP(name, type)                                                                     \\
    extern "C" void name##_##type(const type* x, type* __restrict__ y, std::size_t n) {      \\
        for (std::size_t i = 0; i < n; ++i) y[i] = mt::test_isa::math::name<type>(x[i]);     \\
    }
#define BOTH(name) LOOP(name, float) LOOP(name, double)
"""


@pytest.fixture(scope="session", params=ISAS)
def library(request, tmp_path_factory):
    """math.h compiled alone, for one instruction set."""
    target = ISAS[request.param]
    flags = set(Path("/proc/cpuinfo").read_text().split()) if Path("/proc/cpuinfo").exists() else set()
    if not set(filter(None, target.split(","))) <= flags:
        pytest.skip(f"this CPU has no {request.param}")
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no C++ compiler ({compiler[0]})")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "math.cpp").write_text(SOURCE + "".join(f"BOTH({name})\n" for name in REFERENCES))
    define = [f'-DTARGET="{target}"'] if target else []
    command = [*compiler, "-std=c++20", "-O3", "-fno-math-errno", "-ffp-contract=off", "-fPIC", "-shared", *define]
    subprocess.run([*command, f"-I{ROOT / 'csrc'}", folder / "math.cpp", "-o", folder / "math.so"], check=True)
    return ctypes.CDLL(folder / "math.so")


def native_function(library, name, dtype):
    function = getattr(library, f"{name}_{'float' if dtype == F32 else 'double'}")

    def call(x):
        y = np.empty_like(x)
        function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_size_t(x.size))
        return y

    return call


def sample(name, dtype, count):
    """Inputs over all upper halves of a float, with pseudo-random lower bits, and the special ones."""
    step = exhaustive.domain(name, dtype) // count
    numbers = np.arange(count, dtype=np.int64) * step
    x = exhaustive.inputs(dtype, numbers + numbers // step * 0x9E3779B1 % step)
    return x if name in TURNS else np.concatenate([x, special_inputs(dtype)])


def special_inputs(dtype):
    info = np.finfo(dtype)
    ln2 = np.log(2.0)
    points = [0.0, 1.0, 2.0, 0.6, 2 / 3, 4 / 3, 0.5, 10.0, 20.0, inf, info.max, info.smallest_normal]
    points += [info.smallest_subnormal, float(info.eps), float(info.eps) / 2, np.pi, 2.0**40, 2.0**80, 2.0**127]
    points += [ln2 * k / 2 for k in range(1, 40)]
    points += [np.log(float(info.max)), 1e5] + [(info.nmant + k) * ln2 for k in range(4)]
    points += [
        -np.log(float(info.smallest_normal)),
        (info.nmant - info.minexp) * ln2,
        (info.nmant - info.minexp + 1) * ln2,
    ]
    with np.errstate(all="ignore"):
        x = np.array(points).astype(dtype)
        x = np.concatenate([x, np.nextafter(x, dtype.type(inf)), np.nextafter(x, dtype.type(-inf))])
    x = np.concatenate([x, -x])
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32)
    quiet_and_signalling = bits.view(np.float32)
    if dtype == F64:
        quiet_and_signalling = (bits.astype(np.uint64) << 32 | 1).view(np.float64)
        quiet_and_signalling = np.concatenate([quiet_and_signalling, [nan, -nan]])
    return np.concatenate([x, quiet_and_signalling])


def assert_same(x, a, b):
    (wrong,) = np.nonzero(different(a, b))
    assert not wrong.size, f"{wrong.size} of {x.size} differ, first {x[wrong[0]]!r}: {a[wrong[0]]!r}, {b[wrong[0]]!r}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_cpp_and_llvm_have_the_same_bits(library, name, dtype):
    x = sample(name, dtype, 2**22 if dtype == F32 else 2**20)
    assert_same(x, native_function(library, name, dtype)(x), compiled_function(name, dtype)(x))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_eager_and_llvm_have_the_same_bits(name, dtype):
    pytest.importorskip("minitensor._C", exc_type=ImportError)
    x = sample(name, dtype, 2**22 if dtype == F32 else 2**20)
    assert_same(x, exhaustive.eager_function(name)(x), compiled_function(name, dtype)(x))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_every_vector_width_gives_the_same_bits(name, dtype):
    x = sample(name, dtype, 2**14)
    wide = compiled_function(name, dtype)(x)
    for lanes in (1, 2, 4, 32):
        assert_same(x, compiled_function(name, dtype, lanes)(x), wide)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_accuracy(name, dtype):
    x = sample(name, dtype, 2**22 if dtype == F32 else 2**20)
    accuracy = Accuracy()
    accuracy.add(name, x, compiled_function(name, dtype)(x))
    assert accuracy.steps <= 2, accuracy
    assert accuracy.ulps < 1.8, accuracy


SPECIAL = [
    ("exp", [(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (nan, nan), (1e4, inf), (-1e4, 0.0)]),
    ("log", [(0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf), (-inf, nan), (nan, nan), (-1.0, nan), (-1e-40, nan)]),
    (
        "tanh",
        [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan), (1e-40, 1e-40), (30.0, 1.0), (-30.0, -1.0)],
    ),
    ("sigmoid", [(0.0, 0.5), (-0.0, 0.5), (inf, 1.0), (-inf, 0.0), (nan, nan), (1e4, 1.0), (-1e4, 0.0)]),
    (
        "expm1",
        [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0), (nan, nan), (1e-40, 1e-40), (1e4, inf), (-1e4, -1.0)],
    ),
    (
        "log1p",
        [(0.0, 0.0), (-0.0, -0.0), (-1.0, -inf), (inf, inf), (-inf, nan), (-2.0, nan), (nan, nan), (1e-40, 1e-40)],
    ),
    ("sinpi2", [(0.0, 0.0), (0.25, 1.0), (0.75, -1.0)]),
    ("cospi2", [(0.0, 1.0), (0.5, -1.0)]),
]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize(("name", "values"), SPECIAL)
def test_special_values_are_exact(name, values, dtype):
    x, expected = np.array(values, dtype).T.copy()
    assert_same(x, compiled_function(name, dtype)(x), expected)


def test_denormal_results_and_inputs_are_kept():
    x = np.array([-90.0, -103.0, -103.97], np.float32)
    assert (compiled_function("exp", F32)(x) > 0).all()
    assert (compiled_function("sigmoid", F32)(x) > 0).all()
    tiny = np.array([1e-45, 1e-40], np.float32)
    np.testing.assert_allclose(compiled_function("log", F32)(tiny), np.log(tiny.astype(np.float64)), rtol=1e-7)


@pytest.mark.parametrize("name", REFERENCES)
def test_emitted_code_calls_nothing(name):
    target = host_target()
    if target.vector_bytes < 32:
        pytest.skip("without a fused multiply-add LLVM calls the C library's")
    assembly = target.machine.make().emit_assembly(llvm.parse_assembly(compiled_loop(name, F32, 16, target)))
    assert "call" not in assembly


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_coefficients_are_those_of_the_script(dtype):
    spec = importlib.util.spec_from_file_location("fit_polynomials", ROOT / "scripts" / "fit_polynomials.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    table = math.FLOAT if dtype == F32 else math.DOUBLE
    for name, problem in script.problems(dtype.name).items():
        assert script.fit(*problem, dtype.name)[0] == list(getattr(table, name)), name


def test_accuracy_sees_errors():
    x = np.array([1.0, 2.0, -0.0, 4.0], np.float32)
    right = np.tanh(x.astype(np.float64)).astype(np.float32)
    for index, wrong in [(0, nan), (1, right[1] * 1.000001), (2, 0.0), (3, inf)]:
        got = right.copy()
        got[index] = wrong
        accuracy = Accuracy()
        accuracy.add("tanh", x, got)
        assert accuracy.steps > 2
        assert np.float32(accuracy.where) == x[index]
