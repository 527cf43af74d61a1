"""Choices between two floating-point constants, which LLVM 22 can't compile where it knows late which one it is."""

import struct

import numpy as np
import pytest
from runtime_table import check

from minitensor_jit.codegen.llvm.ir_types import F32, F64, constant, float_bits
from minitensor_jit.ir.semantics.combiners import combiner
from minitensor_jit.ir.shape import Shape


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_comparison_that_always_fails_as_a_number_for_whole_rows(dtype):
    """The bool of a row becomes an integer that is never 2; the process would end."""

    def build(b, x):
        zero = b.full(x.array_shape, 0.0)
        there = b.compare(x, zero, "NE")
        some = b.reduce(there, b.constant(False), (0, 1), combiner("or", "pred"))
        never = b.compare(b.convert(some, "s64"), b.constant(2, "s64"), "GE")
        number = b.convert(never, dtype)
        ratio = b.divide(b.constant(1.0, dtype), number)
        return b.tuple(b.convert(there, "u8"), b.compare(b.broadcast(ratio, x.dims, ()), x, "NE"))

    check(build, Shape(dtype, (17, 3)))


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -2.5, 1e-45, -1e-310, 3e38, np.inf, -np.inf, np.nan, -np.nan])
def test_bits_of_constants(value):
    with np.errstate(over="ignore"):
        assert float_bits(constant(F32, value).ref, F32) == int(np.float32(value).view(np.uint32))
    assert float_bits(constant(F64, value).ref, F64) == struct.unpack("Q", struct.pack("d", value))[0]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_choices_of_numbers_are_exact(dtype):
    def build(b, x):
        s = b.reduce_max(x, (0,))
        positive = b.compare(s, b.constant(0.0, dtype), "GT")
        numbers = [(0.1, -0.0), (np.inf, 1e-40), (-np.inf, 3.0)]
        return b.tuple(*(b.select(positive, b.constant(p, dtype), b.constant(q, dtype)) for p, q in numbers))

    shape = Shape(dtype, (5,))
    for sign in (1, -1):
        check(build, shape, args=[sign * np.arange(1, 6, dtype=shape.numpy_dtype)])
