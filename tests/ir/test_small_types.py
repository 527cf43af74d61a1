"""Types of eight bits and less: what their bytes stand for, how numbers are rounded, and that they run."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.narrow import array_of, wide_array
from minitensor_jit.ir.shape import DTYPES
from minitensor_jit.ir.small_types import SMALL_FLOATS, SMALL_INTEGERS
from minitensor_jit.ir.testing import same_bits
from minitensor_jit.ir.text.parser import ParseError, parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.tools.module_files import compile_and_run

NUMBERS = np.float32(
    [
        *(0.0, -0.0, 1, -1, 1.5, 2.5, 3.5, 5, 6, 7, 464, 465, 480, 57344, 61440, 1e38, 3.4e38, 2**-9, 2**-10),
        *(1.5 * 2**-9, 2**-17, np.inf, -np.inf, np.nan, -1e-30, 0.3, -0.3, 30.5, 31, 240, 248, 15.5, 15.75),
        *(2**-127, 0.75 * 2**-127, 1.2 * 2**-127, 2**-149),
    ]
)
MANY = np.concatenate([NUMBERS, np.random.default_rng(0).standard_normal(4000).astype(np.float32) * np.float32(5)])
# The bytes of the first ten numbers.
STORED = {
    "f4e2m1fn": [0, 8, 2, 10, 3, 4, 6, 6, 7, 7],
    "f8e3m4": [0, 128, 48, 176, 56, 68, 76, 84, 88, 92],
    "f8e4m3": [0, 128, 56, 184, 60, 66, 70, 74, 76, 78],
    "f8e4m3fn": [0, 128, 56, 184, 60, 66, 70, 74, 76, 78],
    "f8e4m3fnuz": [0, 0, 64, 192, 68, 74, 78, 82, 84, 86],
    "f8e4m3b11fnuz": [0, 0, 88, 216, 92, 98, 102, 106, 108, 110],
    "f8e5m2": [0, 128, 60, 188, 62, 65, 67, 69, 70, 71],
    "f8e5m2fnuz": [0, 0, 64, 192, 66, 69, 71, 73, 74, 75],
    "f8e8m0fnu": [255, 255, 127, 255, 128, 128, 129, 129, 130, 130],
}


def codes(x: np.ndarray) -> np.ndarray:
    return x.view(np.uint8)


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_rounding_of_what_is_known(dtype: str) -> None:
    assert codes(array_of(NUMBERS[:10], dtype)).tolist() == STORED[dtype]


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_as_in_ml_dtypes(dtype: str) -> None:
    other = np.dtype(getattr(pytest.importorskip("ml_dtypes"), DTYPES[dtype].numpy_name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = MANY.astype(other)
        every = np.arange(1 << (4 if dtype == "f4e2m1fn" else 8), dtype=np.uint8)
        np.testing.assert_array_equal(wide_array(every.view(DTYPES[dtype].numpy)), every.view(other).astype(np.float32))
    np.testing.assert_array_equal(codes(array_of(MANY, dtype)), codes(want))


@pytest.mark.parametrize("dtype", [*SMALL_FLOATS, *SMALL_INTEGERS])
def test_compiled_conversions_have_the_evaluators_bits(dtype: str) -> None:
    values = MANY
    text = f"""HloModule m
ENTRY e {{
  x = f32[{values.size}] parameter(0)
  b = u8[256] parameter(1)
  small = {dtype}[{values.size}] convert(x)
  of = {dtype}[256] bitcast-convert(b)
  wide = f32[256] convert(of)
  again = f32[{values.size}] convert(small)
  one = f64[256] convert(of)
  whole = s32[256] convert(of)
  ROOT r = ({dtype}[{values.size}], f32[256], f32[{values.size}], f64[256], s32[256])
    tuple(small, wide, again, one, whole)
}}
"""
    module = parse_module(text)
    check(module)
    arguments = [values, np.arange(256, dtype=np.uint8)]
    want = evaluate(module, arguments)
    run_pipeline(module, PipelineOptions(verify=True))
    for got, expected in zip(compile_and_run(module, arguments), want, strict=True):
        assert same_bits(got, expected)


@pytest.mark.parametrize("dtype", SMALL_INTEGERS)
def test_integers(dtype: str) -> None:
    bits, signed = SMALL_INTEGERS[dtype], dtype[0] == "s"
    line = np.arange(-20, 21, dtype=np.int32)
    wraps = line & ((1 << bits) - 1)
    want = np.where(signed & (wraps >> (bits - 1) == 1), wraps - (1 << bits), wraps)
    assert wide_array(array_of(line, dtype)).tolist() == want.tolist()


@pytest.mark.parametrize("dtype", [*SMALL_FLOATS, *SMALL_INTEGERS])
def test_constants_print_and_parse(dtype: str) -> None:
    count = 1 << SMALL_INTEGERS.get(dtype, 4 if dtype == "f4e2m1fn" else 8)
    numbers = array_of(wide_array(np.arange(count, dtype=np.uint8).view(DTYPES[dtype].numpy)), dtype)
    body = ", ".join(str(v).replace("+", "") for v in wide_array(numbers))
    module = parse_module(f"ENTRY e {{ ROOT c = {dtype}[{count}] constant({{{body}}}) }}")
    literal = module.entry.root.literal
    assert literal is not None
    again = parse_module(print_module(module)).entry.root.literal
    assert again is not None
    np.testing.assert_array_equal(wide_array(literal), wide_array(numbers))
    np.testing.assert_array_equal(codes(again), codes(literal))


@pytest.mark.parametrize(("dtype", "text"), [("s4", "8"), ("u2", "-1"), ("f8e4m3fn", "1000"), ("f8e5m2", "1e9")])
def test_constants_out_of_range_are_refused(dtype: str, text: str) -> None:
    with pytest.raises(ParseError, match="out of range"):
        parse_module(f"ENTRY e {{ ROOT c = {dtype}[] constant({text}) }}")


@pytest.mark.parametrize(
    ("dtype", "opcode"), list(itertools.product(("f8e4m3fn", "f8e5m2", "s4", "u4"), ("add", "multiply", "subtract")))
)
def test_arithmetic_rounds_once(dtype: str, opcode: str) -> None:
    text = f"""
ENTRY e {{
  x = {dtype}[65536] parameter(0)
  y = {dtype}[65536] parameter(1)
  ROOT r = {dtype}[65536] {opcode}(x, y)
}}
"""
    left, right = (a.reshape(-1).astype(np.uint8) for a in np.meshgrid(np.arange(256), np.arange(256)))
    arguments = [a.copy().view(DTYPES[dtype].numpy) for a in (left, right)]
    x, y = (wide_array(a) for a in arguments)
    with np.errstate(all="ignore"):
        want = array_of({"add": np.add, "multiply": np.multiply, "subtract": np.subtract}[opcode](x, y), dtype)
    module = parse_module(text)
    assert same_bits(evaluate(module, arguments)[0], want)
    run_pipeline(module)
    assert same_bits(compile_and_run(module, arguments)[0], want)
