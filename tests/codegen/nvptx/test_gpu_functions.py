"""Functions that the CPU calls: the GPU's are made of the same operations and give the same bits."""

import re
from pathlib import Path

import numpy as np
import pytest
from gpu_run import check

from minitensor_jit.codegen.nvptx.math import function_constants
from minitensor_jit.codegen.nvptx.math.functions import FUNCTIONS
from minitensor_jit.ir.library import ELEMENTWISE_PREFIX, find_loop
from minitensor_jit.ir.shape import Shape

pytestmark = pytest.mark.sampled(6)

NAMES = sorted({s.removeprefix(ELEMENTWISE_PREFIX).rpartition(".")[0] for s in FUNCTIONS} - {""})
SOURCES = Path(__file__).parents[3] / "csrc/kernels/cpu"
COUNT = 2000


def numbers(dtype: str, seed: int) -> np.ndarray:
    """Numbers of all sizes, many of the usual ones, and the special ones."""
    rng = np.random.default_rng(seed)
    kind = Shape(dtype).numpy_dtype
    if kind.kind != "f":
        x = rng.integers(0 if kind.kind == "u" else -50, 50, COUNT).astype(kind)
        x[:4] = [0, 1, np.iinfo(kind).max, np.iinfo(kind).min]
        return x
    bits = rng.integers(0, 2**63, COUNT, np.uint64, endpoint=True)
    wild = bits.astype(f"u{kind.itemsize}").view(kind)
    usual = rng.normal(size=COUNT).astype(kind) * rng.choice([0.1, 1, 3, 20, 1e5], COUNT).astype(kind)
    x = np.where(rng.random(COUNT) < 0.3, wild, usual).astype(kind)
    tiny = np.finfo(kind).smallest_subnormal
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, tiny, -tiny, np.finfo(kind).max, 0.5, -0.5, 2.0, 3.0]
    x[: len(special)] = rng.permutation(np.array(special, kind))
    return x


def dtypes_of(name: str) -> list[str]:
    return [d for d in ("f32", "f64", "s32", "s64", "u8", "u64") if f"{ELEMENTWISE_PREFIX}{name}.{d}" in FUNCTIONS]


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in NAMES for d in dtypes_of(n)])
def test_the_same_bits(name: str, dtype: str):
    loop = find_loop(name, dtype)
    assert loop is not None, "the core has no such function"
    assert loop.inputs <= 3, "compiled code calls functions of up to three numbers"
    shape = Shape(dtype, (COUNT,))
    args = [numbers(dtype, 17 * k + 1) for k in range(loop.inputs)]
    if name in ("floor_divide", "remainder") and args[1].dtype.kind != "f":
        args[1][args[1] == 0] = 3
    check(lambda b, *x: b.elementwise_call(name, *x), *[shape] * loop.inputs, args=args, fused=False)


def test_the_constants_are_those_of_the_core():
    text = (SOURCES / "math/constants.h").read_text()
    for type_, table in (("float", function_constants.FLOAT), ("double", function_constants.DOUBLE)):
        body = text.split(f"struct More<{type_}> {{")[1].split("\n};")[0]
        found = dict(re.findall(r"static constexpr \w+ (\w+)(?:\[\])? = ([^;]+);", body))
        assert set(found) == set(table)
        for name, value in found.items():
            listed = [x.rstrip("f") if "p" in x or "." in x else x for x in re.sub(r"[{},\s]+", " ", value).split()]
            expected = [float.fromhex(x) if "x" in x else float(x) for x in listed]
            assert np.ravel(table[name]).tolist() == expected, name
    words = re.findall(r"0x[0-9a-f]{16}", (SOURCES / "math/trigonometric.h").read_text())
    assert list(function_constants.TWO_OVER_PI) == [int(w, 16) for w in words[:20]]


def test_remainders_of_numbers_far_apart():
    for dtype in ("f32", "f64"):
        rng = np.random.default_rng(3)
        kind = Shape(dtype).numpy_dtype
        a, b = (rng.integers(0, 2**63, COUNT, np.uint64).astype(f"u{kind.itemsize}").view(kind) for _ in range(2))
        shape = Shape(dtype, (COUNT,))
        check(lambda b, x, y: b.emit("remainder", (x, y)), shape, shape, args=[a, b], fused=False)
