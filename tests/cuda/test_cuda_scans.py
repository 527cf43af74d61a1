"""Scans and products on GPUs: kernels of their own, with the bits of the CPU."""

import os

import numpy as np
import pytest
from gpu_agrees import gpu_agrees

import minitensor as mt
from minitensor.ops import ROWS
from minitensor_jit.runtime.cuda.start import host_ops

pytestmark = pytest.mark.sampled(6)

ALL = os.environ.get("MT_TEST_CUDA") in ("all", "device")
"""Every form in every dtype; otherwise all of the first."""
FORMS = {
    # sizes, dimension: lanes one after the other are read in tiles, of so many as there are
    "one lane": ((2500,), 0),
    "one long lane of a few": ((3, 700), 1),
    "more lanes than a tile has": ((45, 37), 1),
    "a tile": ((32, 32), 1),
    "side by side": ((3, 21, 50), 1),
    "one element": ((40, 1), 1),
    "columns": ((300, 7), 0),
}
DTYPES = {
    "cumsum": ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"),
    "cumprod": ("float32", "float64", "float16", "int64", "int8"),
    "cummax": ("float32", "float64", "bfloat16", "int64", "uint8", "bool"),
    "cummin": ("float32", "float64", "float16", "int32", "bool"),
}


def values(dims, dtype):
    rng = np.random.default_rng(2)
    if dtype == "bool":
        return mt.from_numpy(rng.integers(0, 2, dims).astype(bool))
    if "int" in dtype:
        return mt.from_numpy(rng.integers(0, 6, dims)).to(getattr(mt, dtype))
    found = np.round(rng.standard_normal(dims) * 4) / 4 + rng.standard_normal(dims) * (rng.random(dims) < 0.5)
    found = 1 + found / 16 if dims[-1] > 1000 else found
    flat = found.reshape(-1)
    flat[flat.size * 2 // 3] = np.nan
    flat[flat.size // 2] = -0.0
    flat[flat.size // 5] = np.inf
    return mt.from_numpy(found).to(getattr(mt, dtype))


def agree(name, x, *params, **more):
    gpu_agrees(lambda t: ROWS[name].call(t, *params, **more), x, clustered=False)


@pytest.mark.parametrize(
    ("name", "dtype", "form"),
    [
        (name, dtype, form)
        for name, dtypes in DTYPES.items()
        for turn, dtype in enumerate(dtypes)
        for place, form in enumerate(FORMS)
        if ALL or turn == 0 or (turn + place) % len(FORMS) in (0, 3)
    ],
)
def test_scans(name, dtype, form):
    dims, dim = FORMS[form]
    agree(name, values(dims, dtype), dim)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize(("dtype", "to"), [("float64", "float16"), ("int64", "int8"), ("int32", "float32"),
                                           ("float32", "float64"), ("bool", "uint8")])  # fmt: skip
def test_scans_in_another_type(name, dtype, to):
    agree(name, values((5, 40), dtype), 1, dtype=getattr(mt, to))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize(("dims", "dim"), [((70, 9), 0), ((3, 5000), 1), ((600, 2), None), ((4, 1), 1)], ids=str)
def test_products(dims, dim, dtype):
    agree("prod", values(dims, dtype), dim)


def test_a_scan_has_its_gradient_on_the_gpu(cuda):
    x = mt.randn(6, 50, device="cuda").requires_grad_()
    host_ops.clear()
    (x.cumsum(1) * x.cummax(0)[0]).sum().backward()
    assert x.grad.device.type == "cuda"
    assert not host_ops, list(host_ops)
