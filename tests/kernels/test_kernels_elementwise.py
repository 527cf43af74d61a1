"""Elementwise and copy ops against NumPy, over dtypes, layouts and instruction sets."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitensor as mt
from tests.instruction_sets import USABLE

DTYPES = {
    "bool": mt.bool,
    "uint8": mt.uint8,
    "int32": mt.int32,
    "int64": mt.int64,
    "float32": mt.float32,
    "float64": mt.float64,
}
FLOATS = ["float32", "float64"]
INTEGERS = ["uint8", "int32", "int64"]
NUMBERS = INTEGERS + FLOATS
ALL = ["bool", *NUMBERS]


def values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Arrays with small numbers, and for floats the special ones too."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype == "uint8":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if dtype in INTEGERS:
        return rng.integers(-50, 50, shape).astype(dtype)
    array = rng.normal(size=shape).astype(dtype) * 4
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-40]
    flat = array.reshape(-1)
    flat[: len(special)] = special[: flat.size]
    rng.shuffle(flat)
    return array


def same(result: Any, expected: np.ndarray, ulp: int = 0) -> None:
    """Equal bits, but for the payload of NaNs; or within `ulp`."""
    got = result.numpy()
    assert got.dtype == expected.dtype, (got.dtype, expected.dtype)
    assert got.shape == expected.shape
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
        return
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    keep = ~np.isnan(got)
    if ulp:
        with np.errstate(invalid="ignore"):
            finite = keep & np.isfinite(expected)
            np.testing.assert_array_equal(got[keep & ~finite], expected[keep & ~finite])
            assert np.all(np.abs(got[finite] - expected[finite]) <= ulp * np.spacing(np.abs(expected[finite])))
    else:
        bits = f"u{got.itemsize}"
        np.testing.assert_array_equal(got[keep].view(bits), expected[keep].view(bits))


def exact_max(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    larger = np.maximum(a, b)
    return larger if larger.dtype.kind != "f" else np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), larger)


def exact_min(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    smaller = np.minimum(a, b)
    return (
        smaller if smaller.dtype.kind != "f" else np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), smaller)
    )


def sign(x: np.ndarray) -> np.ndarray:
    return ((x > 0).astype(int) - (x < 0).astype(int)).astype(x.dtype)


def wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function computed in a longer type, and rounded once."""
    return lambda x: function(x.astype(np.longdouble)).astype(x.dtype)


def layouts(array: np.ndarray) -> dict[str, Any]:
    """One two-dimensional array in several layouts of memory."""
    t = mt.tensor(array)
    rows, columns = array.shape
    spread = mt.tensor(np.zeros((rows, columns * 2 + 1), array.dtype))
    spread[:, 1::2] = t
    return {"contiguous": t, "transposed": mt.tensor(array.T.copy()).T, "strided": spread[:, 1::2]}


UNARY: dict[str, tuple[list[str], Callable[..., Any], int]] = {
    "neg": (NUMBERS, np.negative, 0),
    "abs": (NUMBERS, np.abs, 0),
    "sign": (ALL, sign, 0),
    "square": (NUMBERS, lambda x: x * x, 0),
    "sqrt": (FLOATS, np.sqrt, 0),
    "rsqrt": (FLOATS, lambda x: x.dtype.type(1) / np.sqrt(x), 0),
    "reciprocal": (FLOATS, lambda x: x.dtype.type(1) / x, 0),
    "exp": (FLOATS, wide(np.exp), 2),
    "log": (FLOATS, wide(np.log), 2),
    "tanh": (FLOATS, wide(np.tanh), 2),
    "sigmoid": (FLOATS, wide(lambda x: 1 / (1 + np.exp(-x))), 2),
    "relu": (NUMBERS, lambda x: np.where(x <= 0, x.dtype.type(0), x), 0),
    "floor": (NUMBERS, np.floor, 0),
    "ceil": (NUMBERS, np.ceil, 0),
    "trunc": (NUMBERS, np.trunc, 0),
    "round": (NUMBERS, np.rint, 0),
    "logical_not": (ALL, np.logical_not, 0),
    "bitwise_not": (["bool", *INTEGERS], np.invert, 0),
    "isnan": (ALL, np.isnan, 0),
    "isinf": (ALL, np.isinf, 0),
    "isfinite": (ALL, np.isfinite, 0),
}

BINARY: dict[str, tuple[list[str], Callable[..., Any]]] = {
    "add": (ALL, np.add),
    "sub": (NUMBERS, np.subtract),
    "mul": (ALL, np.multiply),
    "div": (FLOATS, np.divide),
    "maximum": (ALL, exact_max),
    "minimum": (ALL, exact_min),
    "eq": (ALL, np.equal),
    "ne": (ALL, np.not_equal),
    "lt": (ALL, np.less),
    "le": (ALL, np.less_equal),
    "gt": (ALL, np.greater),
    "ge": (ALL, np.greater_equal),
    "logical_and": (ALL, np.logical_and),
    "logical_or": (ALL, np.logical_or),
    "logical_xor": (ALL, np.logical_xor),
    "bitwise_and": (["bool", *INTEGERS], np.bitwise_and),
    "bitwise_or": (["bool", *INTEGERS], np.bitwise_or),
    "bitwise_xor": (["bool", *INTEGERS], np.bitwise_xor),
}


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (67, 131), (0, 4)])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, shape: tuple[int, int]) -> None:
    dtypes, reference, ulp = UNARY[name]
    for dtype in dtypes:
        array = values(dtype, shape)
        with np.errstate(all="ignore"):
            expected = np.asarray(reference(array))
        if name in {"floor", "ceil", "trunc", "round"}:
            expected = expected.astype(dtype)  # NumPy turns integers into floats
        for t in layouts(array).values():
            same(getattr(mt, name)(t), expected, ulp)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (67, 131), (0, 4)])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, shape: tuple[int, int]) -> None:
    dtypes, reference = BINARY[name]
    for dtype in dtypes:
        a, b = values(dtype, shape, 1), values(dtype, shape, 2)
        with np.errstate(all="ignore"):
            expected = reference(a, b)
        right = layouts(b)
        for kind, t in layouts(a).items():
            for other in (right["contiguous"], right[kind]):
                same(getattr(mt, name)(t, other), expected)


@pytest.mark.parametrize("name", ["sub", "maximum", "lt"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((33, 1000), (1000,)),
        ((33, 1000), (33, 1)),
        ((500, 3), (3,)),
        ((500, 3), (500, 1)),
        ((4, 1, 7), (5, 1)),
        ((6, 7), ()),
        ((1, 9), (8, 1)),
        ((0, 3), (1, 3)),
    ],
)
def test_broadcasting(name: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    reference = BINARY[name][1]
    for dtype in ("float32", "int64"):
        a, b = values(dtype, left, 3), values(dtype, right, 4)
        with np.errstate(all="ignore"):
            same(getattr(mt, name)(mt.tensor(a), mt.tensor(b)), reference(a, b))
            same(getattr(mt, name)(mt.tensor(b), mt.tensor(a)), reference(b, a))


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(
        RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton dimension 1"
    ):
        mt.ones(4, 2) + mt.ones(4, 3)


def test_permuted_operands() -> None:
    array = values("float32", (12, 70, 33))
    other = values("float64", (33, 70, 12), 1)
    for axes in [(2, 1, 0), (0, 2, 1), (1, 0, 2), (2, 0, 1), (1, 2, 0)]:
        t = mt.tensor(array).permute(*axes)
        expected = np.ascontiguousarray(array.transpose(axes))
        same(t.clone(), expected)
        same(t.to(mt.float64), expected.astype(np.float64))
        same(t + 1, expected + np.float32(1))
        same(t > 0, expected > 0)
        if axes == (2, 1, 0):
            same(t * mt.tensor(other), expected * other)


def test_dimensions_of_every_rank() -> None:
    array = values("float32", (2, 3, 1, 4, 2, 3, 2))
    t = mt.tensor(array).permute(6, 5, 4, 3, 2, 1, 0)
    same(t + t, (array + array).transpose())
    same(mt.tensor(array)[:, ::2, :, 1:3] * 2, array[:, ::2, :, 1:3] * np.float32(2))
    same(mt.tensor(2.5) + mt.tensor(1.5), np.array(4.0, np.float32))


PROMOTIONS = [
    ("uint8", "int32", "int32"),
    ("uint8", "float32", "float32"),
    ("int64", "float32", "float32"),
    ("int64", "float64", "float64"),
    ("bool", "uint8", "uint8"),
    ("bool", "float32", "float32"),
    ("int32", "int64", "int64"),
    ("float32", "float64", "float64"),
]


@pytest.mark.parametrize(("left", "right", "result"), PROMOTIONS)
def test_promotion(left: str, right: str, result: str) -> None:
    a, b = values(left, (300,)), values(right, (300,), 1)
    with np.errstate(all="ignore"):
        expected = a.astype(result) + b.astype(result)
        same(mt.tensor(a) + mt.tensor(b), expected)
        same(mt.tensor(b) + mt.tensor(a), expected)
    # A tensor without dimensions counts only if its kind is higher.
    kind = {"b": 0, "u": 1, "i": 1, "f": 2}
    kept = left if kind[np.dtype(left).kind] >= kind[np.dtype(right).kind] else right
    assert (mt.tensor(a) + mt.tensor(b[0])).dtype == DTYPES[kept]


@pytest.mark.parametrize(
    ("dtype", "number", "result"),
    [
        ("uint8", 3, "uint8"),
        ("uint8", 2.5, "float32"),
        ("float32", 3, "float32"),
        ("float32", 2.5, "float32"),
        ("float64", 2.5, "float64"),
        ("bool", True, "bool"),
        ("bool", 2, "int64"),
        ("bool", 2.5, "float32"),
        ("int32", True, "int32"),
        ("uint8", 300, "uint8"),
    ],
)
def test_numbers_promote_by_kind_only(dtype: str, number: Any, result: str) -> None:
    a = values(dtype, (40,))
    with np.errstate(all="ignore"):
        expected = a.astype(result) + np.asarray(number).astype(result)
        same(mt.tensor(a) + number, expected)
        same(number + mt.tensor(a), expected)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid"])
def test_floating_functions_of_integers(name: str) -> None:
    for dtype in ("bool", *INTEGERS):
        t = mt.tensor(values(dtype, (50,)))
        function = getattr(mt, name)
        same(function(t), function(t.to(mt.float32)).numpy())


def test_true_division_of_integers() -> None:
    a, b = values("int64", (60,)), values("int32", (60,), 1)
    b[b == 0] = 1
    same(mt.tensor(a) / mt.tensor(b), a.astype(np.float32) / b.astype(np.float32))
    same(mt.tensor(a) / 4, a.astype(np.float32) / np.float32(4))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division_rounds_down(dtype: str) -> None:
    a, b = values(dtype, (500,)), values(dtype, (500,), 1)
    b[b == 0] = 7
    same(mt.tensor(a) // mt.tensor(b), a // b)
    same(mt.tensor(a) % mt.tensor(b), a % b)
    same(mt.tensor(a) // 7, a // np.asarray(7, dtype))
    same(100 % mt.tensor(b), np.asarray(100, dtype) % b)


@pytest.mark.parametrize("size", [1, 10, 200_000])
@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_integer_division_by_zero_raises(size: int) -> None:
    a = mt.ones(size, dtype=mt.int64)
    zero = mt.ones(size, dtype=mt.int64)
    zero[size - 1] = 0
    for operation in (lambda: a // zero, lambda: a % zero, lambda: a // 0, lambda: a % 0, lambda: 1 // zero):
        with pytest.raises(ZeroDivisionError):
            operation()


def test_the_smallest_integer_over_minus_one_wraps() -> None:
    for dtype in ("int32", "int64"):
        least = np.iinfo(dtype).min
        t = mt.tensor(np.array([least, 5], dtype))
        assert (t // -1).tolist() == [least, -5]
        assert (t % -1).tolist() == [0, 0]
        assert mt.abs(t).tolist() == [least, 5]
        assert (-t).tolist() == [least, -5]


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_division_rounds_down(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=1000).astype(dtype) * 50, rng.normal(size=1000).astype(dtype)
    same(mt.tensor(a) // mt.tensor(b), a // b)
    same(mt.tensor(a) % mt.tensor(b), a % b)
    t = mt.tensor(np.array([1, -1, 0], dtype))
    assert (t / 0).tolist()[:2] == [np.inf, -np.inf]
    assert (t // 0).tolist()[:2] == [np.inf, -np.inf]
    assert np.isnan((t % 0).numpy()).all()


def test_integer_arithmetic_wraps() -> None:
    for dtype in INTEGERS:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        t = mt.tensor(np.array([most, least], dtype))
        assert (t + 1).tolist() == [least, least + 1]
        assert (t - 1).tolist() == [most - 1, most]
        with np.errstate(over="ignore"):
            same(t * t, t.numpy() * t.numpy())


EXPONENTS: dict[float, Callable[..., Any]] = {
    0: np.ones_like,
    1: lambda x: x,
    2: lambda x: x * x,
    3: lambda x: (x * x) * x,
    0.5: np.sqrt,
    -0.5: lambda x: 1 / np.sqrt(x),
    -1: lambda x: 1 / x,
    -2: lambda x: 1 / (x * x),
}


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_short_powers_are_exact(dtype: str, exponent: float) -> None:
    a = values(dtype, (100,))
    with np.errstate(all="ignore"):
        same(mt.tensor(a) ** exponent, EXPONENTS[exponent](a).astype(dtype))


def test_powers() -> None:
    a = np.abs(values("float64", (200,), 5))
    a[~np.isfinite(a)] = 1
    b = np.random.default_rng(0).normal(size=200)
    with np.errstate(all="ignore"):
        same(mt.tensor(a) ** mt.tensor(b), np.power(a, b), 1)
        same(mt.tensor(a) ** 1.7, np.power(a, 1.7), 1)
        same(2 ** mt.tensor(b), np.power(2.0, b), 1)
    i = mt.tensor([3, -2, 0, 1, -1])
    assert (i**3).tolist() == [27, -8, 0, 1, -1]
    assert (i ** mt.tensor([-1, 62, 0, -5, -3])).tolist() == [0, 2**62, 1, 1, -1]
    assert (i ** mt.tensor([41, 64, 1, 9, 2])).tolist() == [3**41 - 2**65, 0, 0, 1, 1]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        i**-1


def test_zeros_infinities_and_nans() -> None:
    t = mt.tensor([-0.0, 0.0, float("nan"), float("inf"), -float("inf")])
    same(mt.relu(t), np.array([0, 0, np.nan, np.inf, 0], np.float32))
    same(mt.sign(t), np.array([0, 0, 0, 1, -1], np.float32))
    same(mt.maximum(t, mt.tensor(-0.0)), np.array([-0.0, 0, np.nan, np.inf, -0.0], np.float32))
    same(mt.minimum(t, mt.tensor(0.0)), np.array([-0.0, 0, np.nan, 0, -np.inf], np.float32))
    same(mt.clamp(t, -1, 1), np.array([-0.0, 0, np.nan, 1, -1], np.float32))
    same(mt.floor(mt.tensor([-0.3, 0.3, -0.0])), np.array([-1, 0, -0.0], np.float32))
    same(mt.ceil(mt.tensor([-0.3, 0.3, -0.0])), np.array([-0.0, 1, -0.0], np.float32))
    same(mt.round(mt.tensor([0.5, 1.5, 2.5, -0.5, 8388609.0])), np.array([0, 2, 2, -0.0, 8388609], np.float32))


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_casts(source: str, target: str) -> None:
    array = values(source, (37, 41))
    if np.dtype(source).kind == "f":
        array = np.where(np.isfinite(array), array, array.dtype.type(3))
    expected = array.astype(np.int64).astype(np.uint8) if target == "uint8" else array.astype(target)
    for t in layouts(array).values():
        same(t.to(DTYPES[target]), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_casts_of_what_does_not_fit(dtype: str) -> None:
    array = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2147483648.0, -2147483648.0, 300.7, -1.5, 1e10] * 8, dtype)
    t = mt.tensor(array)
    least = -(2**31)
    assert t.to(mt.int32).tolist()[:10] == [least] * 7 + [300, -1, least]
    least = -(2**63)
    assert t.to(mt.int64).tolist()[:10] == [least] * 5 + [2**31, -(2**31), 300, -1, 10**10]
    assert t.to(mt.uint8).tolist()[:10] == [0] * 7 + [44, 255, 10**10 % 256]
    assert t.to(mt.bool).tolist()[:3] == [True] * 3


def test_where() -> None:
    condition = values("bool", (67, 131))
    a, b = values("float32", (67, 131), 1), values("float32", (131,), 2)
    for c in layouts(condition).values():
        same(mt.where(c, mt.tensor(a), mt.tensor(b)), np.where(condition, a, b))
        same(mt.where(c, mt.tensor(a), 0), np.where(condition, a, np.float32(0)))
        same(mt.where(c, -1.5, mt.tensor(b)), np.where(condition, np.float32(-1.5), b))
        same(mt.where(c, 1, 2), np.where(condition, 1, 2))
    same(mt.where(mt.tensor(True), mt.tensor(a), mt.tensor(b)), a)
    same(mt.where(mt.tensor(False), mt.tensor(a), mt.tensor(b)), np.broadcast_to(b, a.shape))
    for dtype in ALL:
        x, y = values(dtype, (300,), 1), values(dtype, (300,), 2)
        same(mt.where(mt.tensor(x > y), mt.tensor(x), mt.tensor(y)), np.where(x > y, x, y))
    with pytest.raises(
        RuntimeError, match="where expected condition to be a boolean tensor, but got a tensor with dtype Float"
    ):
        mt.where(mt.ones(2), mt.ones(2), 1)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_clamp(dtype: str) -> None:
    a = values(dtype, (67, 131))
    for t in layouts(a).values():
        same(t.clamp(2, 9), np.clip(a, np.asarray(2, dtype), np.asarray(9, dtype)))
        same(t.clamp(min=3), np.maximum(a, np.asarray(3, dtype)))
        same(t.clamp(max=3), np.minimum(a, np.asarray(3, dtype)))
    assert mt.ones(3, dtype=mt.int32).clamp(0.5, 2).dtype == mt.float32
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max' must not be None"):
        mt.ones(3).clamp()


ERRORS = [
    (RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported", lambda b, f: -b),
    (RuntimeError, "Subtraction, the `-` operator, with two bool tensors", lambda b, f: b - b),
    (RuntimeError, "Subtraction, the `-` operator, with a bool tensor", lambda b, f: f - True),
    (RuntimeError, "Boolean inputs not supported for relu", lambda b, f: mt.relu(b)),
    (NotImplementedError, "\"abs_cpu\" not implemented for 'Bool'", lambda b, f: mt.abs(b)),
    (NotImplementedError, "\"floor_vml_cpu\" not implemented for 'Bool'", lambda b, f: mt.floor(b)),
    (NotImplementedError, "\"bitwise_not_cpu\" not implemented for 'Float'", lambda b, f: f.bitwise_not()),
    (TypeError, r"~ \(operator.invert\) is only implemented on integer and Boolean-type tensors", lambda b, f: ~f),
    (NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'", lambda b, f: f & 1),
    (NotImplementedError, "\"div_floor_cpu\" not implemented for 'Bool'", lambda b, f: b // b),
    (NotImplementedError, "\"remainder_cpu\" not implemented for 'Bool'", lambda b, f: b % b),
    (NotImplementedError, "\"pow\" not implemented for 'Bool'", lambda b, f: b**b),
    (
        RuntimeError,
        "value cannot be converted to type uint8_t without overflow",
        lambda b, f: mt.full((2,), 300, dtype=mt.uint8),
    ),
    (RuntimeError, "value cannot be converted to type int without overflow", lambda b, f: f.to(mt.int32).fill_(1e20)),
    (RuntimeError, "Trying to create tensor with negative dimension -1", lambda b, f: mt.zeros(-1)),
    (RuntimeError, "step must be nonzero", lambda b, f: mt.arange(0, 1, 0)),
    (RuntimeError, "upper bound and lower bound inconsistent with step sign", lambda b, f: mt.arange(0, 5, -1)),
    (RuntimeError, "unsupported range: 0 -> inf", lambda b, f: mt.arange(0, float("inf"))),
    (RuntimeError, "n must be greater or equal to 0, got -1", lambda b, f: mt.eye(-1)),
    (RuntimeError, "number of steps must be non-negative", lambda b, f: mt.linspace(0, 1, -1)),
    (
        RuntimeError,
        "random_ expects 'from' to be less than 'to', but got from=5 >= to=5",
        lambda b, f: mt.randint(5, 5, (2,)),
    ),
    (RuntimeError, "to - 1 is out of bounds for unsigned char", lambda b, f: mt.randint(0, 300, (2,), dtype=mt.uint8)),
    (RuntimeError, "normal expects std >= 0.0, but found std -1", lambda b, f: f.normal_(0, -1)),
    (
        RuntimeError,
        r"uniform_ expects to return a \[from, to\) range, but found from=3 > to=1",
        lambda b, f: f.uniform_(3, 1),
    ),
    (NotImplementedError, "\"normal_kernel_cpu\" not implemented for 'Int'", lambda b, f: mt.randn(2, dtype=mt.int32)),
]


@pytest.mark.parametrize(("error", "message", "operation"), ERRORS, ids=[str(i) for i in range(len(ERRORS))])
def test_errors(error: type[Exception], message: str, operation: Callable[..., Any]) -> None:
    with pytest.raises(error, match=message):
        operation(mt.tensor([True, False]), mt.tensor([1.5, -2.5]))


def test_in_place() -> None:
    array = values("float32", (67, 131))
    for t in layouts(array).values():
        u = t
        u += 1
        same(u, array + np.float32(1))
        assert u is t
    base = mt.zeros(6, 8)
    base[1:5, ::2].add_(mt.arange(4, dtype=mt.int64))
    expected = np.zeros((6, 8), np.float32)
    expected[1:5, ::2] += np.arange(4)
    same(base, expected)
    flags = mt.zeros(5, dtype=mt.float64)
    flags.logical_not_()
    same(flags, np.ones(5))
    wide_source = mt.tensor([1.5, 2.5, 3.5], dtype=mt.float64)
    narrow = mt.ones(3)
    narrow.mul_(wide_source)
    same(narrow, np.array([1.5, 2.5, 3.5], np.float32))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        mt.ones(2, dtype=mt.int32).add_(1.5)


def test_in_place_on_overlapping_views() -> None:
    t = mt.arange(10, dtype=mt.float32)
    t[1:] += t[:-1]
    same(t, np.concatenate([[0], np.arange(1, 10) + np.arange(9)]).astype(np.float32))
    m = mt.arange(9, dtype=mt.float32).reshape(3, 3)
    m += m.T
    array = np.arange(9, dtype=np.float32).reshape(3, 3)
    same(m, array + array.T)


def test_copy_and_fill() -> None:
    target = mt.zeros(130, 70)
    source = values("float64", (70, 130))
    target.T.copy_(mt.tensor(source))
    same(target, np.ascontiguousarray(source.T).astype(np.float32))
    target[::3].copy_(mt.tensor([1, 2] * 35))
    assert (target.numpy()[::3] == np.array([1, 2] * 35)).all()
    target.fill_(2.5)
    same(target, np.full((130, 70), 2.5, np.float32))
    target[:, 1].fill_(0)
    assert target.sum().item() == 130 * 69 * 2.5
    same(mt.full((300,), True), np.full(300, True))
    same(mt.full((), 7), np.array(7))
    with pytest.raises(RuntimeError, match=r"must match the size|doesn't match the broadcast shape"):
        mt.zeros(3).copy_(mt.zeros(2))


# Threads and instruction sets -------------------------------------------------------------------------------------


def test_any_number_of_threads() -> None:
    before = mt.get_num_threads()
    array = values("float32", (301, 703))
    results = []
    try:
        for threads in (1, 2, 3):
            mt.set_num_threads(threads)
            mt.manual_seed(11)
            t, row = mt.tensor(array), mt.tensor(array[0])
            parts = [
                t * row,
                mt.exp(t.T),
                mt.rand(200_003),
                mt.randn(200_003),
                mt.randperm(50_000),
                t.T.clone(),
                t.to(mt.int64),
            ]
            results.append([part.numpy().tobytes() for part in parts])
    finally:
        mt.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_results_beyond_the_caches() -> None:
    # Written around the caches: lengths that end within a cache line, and destinations that start within one.
    n = 9_000_001
    array = np.arange(n, dtype=np.float32)
    t = mt.tensor(array)
    assert np.array_equal((t + t).numpy(), array + array)
    assert np.array_equal((t[1:] * 2).numpy(), array[1:] * 2)
    assert np.array_equal((2 - t[1:]).numpy(), 2 - array[1:])
    assert np.array_equal((t.to(mt.float64) / 7).numpy(), array.astype(np.float64) / 7)
    assert np.array_equal(mt.floor(t[3:]).numpy(), array[3:])
    assert np.array_equal(t.clone().numpy(), array)
    out = mt.zeros(n + 3)
    out[3:].copy_(t)
    assert np.array_equal(out.numpy()[3:], array)
    square = t[: 3000 * 3000].reshape(3000, 3000)
    assert np.array_equal(square.T.clone().numpy(), array[: 3000 * 3000].reshape(3000, 3000).T)
    assert np.array_equal((square + square[0]).numpy(), array[: 3000 * 3000].reshape(3000, 3000) + array[:3000])


BITS = """
import hashlib, numpy as np, minitensor as mt
mt.manual_seed(1)
digest = hashlib.sha256()
def add(t): digest.update(np.ascontiguousarray(t.numpy()).tobytes())
for dtype in (mt.float32, mt.float64):
    x, y = mt.randn(5003, dtype=dtype) * 9, mt.randn(5003, dtype=dtype)
    for name in "exp log tanh sigmoid sqrt rsqrt reciprocal floor ceil trunc round relu square".split():
        t = getattr(mt, name)(x)
        add(mt.where(mt.isnan(t), 0.0, t))
    for t in (x + y, x * y, x / y, x // y, x % y, mt.maximum(x, y), x < y, mt.abs(x) ** y):
        add(t)
    for t in (x.to(mt.int32), (x * 1e9).to(mt.int64), x.to(mt.uint8)):
        add(t)
add(mt.rand(5003))
add(mt.rand(5003, dtype=mt.float64))
add(mt.randint(-9, 9, (5003,)))
add(mt.randint(0, 2**50, (5003,)))
add(mt.randperm(5003))
print(digest.hexdigest())
"""


def test_every_instruction_set_gives_the_same_bits() -> None:
    digests = {}
    for isa in USABLE:
        run = subprocess.run(
            [sys.executable, "-c", BITS], env={**os.environ, "MT_ISA": isa}, capture_output=True, text=True, check=True
        )
        digests[isa] = run.stdout
    assert len(set(digests.values())) == 1, digests
    assert len(next(iter(digests.values())).strip()) == hashlib.sha256().digest_size * 2


def test_against_torch() -> None:
    torch = pytest.importorskip("torch")
    cases = {name: np.array([3, 1, 2]).astype(name) for name in NUMBERS}
    cases["bool"] = np.array([True, False, True])
    tensors_only = {"maximum", "minimum", "logical_and", "logical_or", "logical_xor"}
    for op in [*BINARY, "floor_divide", "remainder", "pow"]:
        for left in ALL:
            for right in [*ALL, 2, 2.5]:
                outcomes = []
                for library in (torch, mt):
                    a = library.tensor(cases[left])
                    b = library.tensor(cases[right]) if isinstance(right, str) else right
                    if not isinstance(right, str) and op in tensors_only:
                        continue
                    try:
                        result = getattr(library, op)(a, b)
                        outcomes.append((str(result.dtype).rsplit(".", 1)[-1], result.numpy()))
                    except ZeroDivisionError:
                        outcomes.append(("error", "ZeroDivisionError"))  # PyTorch's is a RuntimeError of this text
                    except RuntimeError as error:
                        outcomes.append(("error", str(error)))
                if not outcomes:
                    continue
                theirs, ours = outcomes
                assert theirs[0] == ours[0], (op, left, right, outcomes)
                if theirs[0] == "error":
                    assert theirs[1] == ours[1], (op, left, right)
                else:
                    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6, err_msg=f"{op} {left} {right}")


@pytest.mark.parametrize("dtype", [mt.bool, mt.int16, mt.float32, mt.int64, mt.complex128])
@pytest.mark.parametrize("value", [0, 1])
def test_filling_parts_touches_nothing_else(dtype, value):
    for shape in ((6, 5), (7, 100), (40, 1000), (3, 9, 64)):
        for part in (
            (slice(None, None, 2),), (slice(1, -1),), (..., slice(3, None)), (..., slice(None, None, 3)), (0,),
            (slice(5, 5),), (..., slice(1, 2)),
        ):  # fmt: skip
            array = (np.arange(np.prod(shape)).reshape(shape) % 2).astype(dtype.name)
            for turned in (False, True):
                x, expected = mt.from_numpy(array.copy()), array.copy()
                if turned:
                    x, expected = x.transpose(0, -1), expected.swapaxes(0, -1)
                x[part] = value
                expected[part] = value
                assert np.array_equal(x.numpy(), expected)


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32, mt.float64])
def test_single_values_keep_the_sign_of_zero(dtype):
    column, row, all_of = (mt.full(shape, -0.0).to(dtype) for shape in ((40, 1), (1, 40), (40, 40)))
    for a, b in (
        (column, row),
        (row, column),
        (all_of, row),
        (all_of, column),
        (column, all_of),
        (mt.tensor(-0.0), row),
    ):
        assert np.signbit((a + b).double().numpy()).all()
        assert not np.signbit((a - b).double().numpy()).any()
