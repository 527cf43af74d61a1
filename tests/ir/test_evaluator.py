"""The meaning of operations, where NumPy's own differs or the order of a sum is promised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.semantics.reduction import collapse
from minitensor_jit.ir.shape import Shape, dtype_of
from minitensor_jit.ir.testing import random_array, same_bits
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.verifier import check

Array = NDArray[Any]
Build = Callable[..., Instruction]


def run(build: Build, *args: ArrayLike) -> Array:
    arrays = [np.asarray(a) for a in args]
    b = Builder("m")
    parameters = [b.parameter(Shape(dtype_of(a.dtype), a.shape)) for a in arrays]
    return evaluate(b.build(build(b, *parameters)), arrays)[0]


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def s32(*values: int) -> Array:
    return np.array(values, np.int32)


def test_maximum_and_minimum_order_zeros_and_keep_nan() -> None:
    x = f32(0.0, -0.0, np.nan, 1.0, -0.0, 0.0)
    y = f32(-0.0, 0.0, 1.0, np.nan, -0.0, 0.0)
    assert same_bits(run(Builder.maximum, x, y), f32(0.0, 0.0, np.nan, np.nan, -0.0, 0.0))
    assert same_bits(run(Builder.minimum, x, y), f32(-0.0, -0.0, np.nan, np.nan, -0.0, 0.0))


def test_reductions_order_zeros_and_keep_nan() -> None:
    x = np.array([[-0.0, 0.0], [-0.0, -0.0], [np.nan, 1.0]], np.float32)
    assert same_bits(run(lambda b, p: b.reduce_max(p, (1,)), x), f32(0.0, -0.0, np.nan))
    assert same_bits(run(lambda b, p: b.reduce_min(p, (1,)), x), f32(-0.0, -0.0, np.nan))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("s32", [1, -1, -(2**31), -(2**31), -(2**31), -(2**31), 2**31 - 128]),
        ("s64", [1, -1, -(2**63), -(2**63), -(2**63), 2**31, 2**31 - 128]),
        ("u8", [1, 255, 0, 0, 0, 0, 128]),
        ("u32", [1, 2**32 - 1, 0, 0, 0, 2**31, 2**31 - 128]),
        ("pred", [1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_float_to_integer_conversions(target: str, expected: list[int]) -> None:
    x = f32(1.9, -1.9, np.nan, np.inf, -1e30, 2.0**31, 2.0**31 - 128)
    assert run(lambda b, p: b.convert(p, target), x).tolist() == expected


def test_float_to_u64_has_the_upper_half() -> None:
    x = np.array([2.0**63, 2.0**64 - 2048, 3.7], np.float64)
    assert run(lambda b, p: b.convert(p, "u64"), x).tolist() == [2**63, 2**64 - 2048, 3]


def test_integer_division() -> None:
    x, y = s32(7, -7, 7, -7, 5, -(2**31)), s32(2, 2, -2, -2, 0, -1)
    assert run(Builder.divide, x, y).tolist() == [3, -3, -3, 3, -1, -(2**31)]
    assert run(Builder.remainder, x, y).tolist() == [1, -1, 1, -1, 5, 0]


def test_shifts_beyond_the_width() -> None:
    x, y = s32(-8, -8, 3), s32(1, 40, -1)
    assert run(Builder.shift_left, x, y).tolist() == [-16, 0, 0]
    assert run(Builder.shift_right_logical, x, y).tolist() == [2**31 - 4, 0, 0]
    assert run(Builder.shift_right_arithmetic, x, y).tolist() == [-4, -1, 0]
    assert run(Builder.shift_right_arithmetic, np.uint8([200]), np.uint8([1])).tolist() == [228]


def test_unary_corner_cases() -> None:
    x = f32(-0.0, 0.0, np.nan, -2.5, 0.5, 2.5, np.inf)
    assert same_bits(run(Builder.sign, x), f32(-0.0, 0.0, np.nan, -1, 1, 1, 1))
    assert same_bits(run(Builder.round_nearest_even, x), f32(-0.0, 0.0, np.nan, -2, 0, 2, np.inf))
    assert same_bits(run(Builder.round_nearest_afz, x), f32(-0.0, 0.0, np.nan, -3, 1, 3, np.inf))
    assert run(Builder.is_finite, x).tolist() == [True, True, False, True, True, True, False]
    assert run(Builder.popcnt, s32(-1, 5)).tolist() == [32, 2]


def test_dynamic_slices_are_clamped() -> None:
    x = np.arange(10, dtype=np.int32)
    assert run(lambda b, p, i: b.dynamic_slice(p, [i], (3,)), x, np.int32(9)).tolist() == [7, 8, 9]
    assert run(lambda b, p, i: b.dynamic_slice(p, [i], (3,)), x, np.int32(-5)).tolist() == [0, 1, 2]
    updated = run(lambda b, p, u, i: b.dynamic_update_slice(p, u, [i]), x, s32(-1, -2), np.int64(99))
    assert updated.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, -1, -2]


def test_gather_clamps_and_scatter_skips() -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    i = s32(1, -3, 9)
    rows = run(
        lambda b, p, q: b.gather(
            p,
            q,
            offset_dims=(1,),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=1,
            slice_sizes=(1, 2),
        ),
        x,
        i,
    )
    assert rows.tolist() == [[2, 3], [0, 1], [6, 7]]
    u = np.ones((3, 2), np.float32)

    def scatter(b: Builder, p: Instruction, q: Instruction, r: Instruction) -> Instruction:
        return b.scatter(
            p,
            q,
            r,
            update_window_dims=(1,),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
        )

    assert run(scatter, x, i, u).tolist() == [[0, 1], [3, 4], [4, 5], [6, 7]]


def test_scatter_adds_in_order() -> None:
    x = np.zeros(1, np.float32)
    u = f32(1e8, 1.0, -1e8, 1.0)
    result = run(
        lambda b, p, q, r: b.scatter(
            p,
            q,
            r,
            update_window_dims=(),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
        ),
        x,
        s32(0, 0, 0, 0),
        u,
    )
    assert result[0] == np.float32(1.0)


def test_interior_and_negative_padding() -> None:
    x = s32(1, 2, 3)
    result = run(lambda b, p: b.pad(p, b.constant(0), [(-1, 2, 1)]), x)
    assert result.tolist() == [0, 2, 0, 3, 0, 0]


def test_transforms_are_what_their_definition_says() -> None:
    root = np.exp(-2j * np.pi * np.outer(np.arange(6), np.arange(6)) / 6)
    x = np.arange(12).reshape(2, 6) ** 1.5
    z = x + 1j * x[::-1]
    half = x @ root[:, :4]
    for kind, given, want in (
        ("FFT", z, z @ root), ("IFFT", z, z @ root.conj() / 6), ("RFFT", x, half), ("IRFFT", half, x)
    ):  # fmt: skip
        assert np.allclose(run(lambda b, p, kind=kind: b.fft(p, kind, (6,)), given), want)
    assert np.allclose(run(lambda b, p: b.fft(p, "FFT", (2, 6)), z), [[1, 1], [1, -1]] @ z @ root)
    for kind, kept, made in (("FFT", (0, 6), (0, 6)), ("RFFT", (0, 6), (0, 4)), ("IRFFT", (0, 4), (0, 6))):
        empty = np.zeros(kept, np.float32 if kind == "RFFT" else np.complex64)
        assert run(lambda b, p, kind=kind: b.fft(p, kind, (6,)), empty).shape == made


def test_factors_and_solutions_read_one_triangle() -> None:
    factor = np.array([[2.0, 0.0], [-1.0, 3.0]]) + 0j
    factor[1, 0] += 0.5j
    product, other = factor @ factor.conj().T, np.array([[9.0, 9.0], [9.0, 9.0]])
    below, above = np.tril(product) + np.triu(other, 1), np.triu(product) + np.tril(other, -1)
    assert np.allclose(run(lambda b, a: b.cholesky(a, lower=True), below), factor)
    assert np.allclose(run(lambda b, a: b.cholesky(a, lower=False), above), factor.conj().T)
    assert np.isnan(run(lambda b, a: b.cholesky(a), np.array([[1.0, 0.0], [2.0, 1.0]]))).all()


def test_bitwise_and_pred() -> None:
    p, q = np.array([True, True, False]), np.array([True, False, False])
    assert run(Builder.add, p, q).tolist() == [True, True, False]
    assert run(Builder.multiply, p, q).tolist() == [True, False, False]
    assert run(Builder.not_, p).tolist() == [False, False, True]
    assert run(Builder.not_, s32(0, 5)).tolist() == [-1, -6]


def test_arguments_are_checked() -> None:
    b = Builder("m")
    module = b.build(b.negate(b.parameter(Shape("f32", (2,)))))
    with pytest.raises(ValueError, match="takes 1 arguments, got 0"):
        evaluate(module, [])
    with pytest.raises(ValueError, match=r"argument param\.0 is float64\[2\], expected f32\[2\]"):
        evaluate(module, [np.zeros(2)])


# ---- the order of sums, written out once more, one element after the other


def row_sum(x: Array) -> np.generic:
    zero = x.dtype.type(0)
    block = 4096 * -(-len(x) // (4096 * 1024))
    totals = []
    for start in range(0, len(x), block):
        lanes = [zero] * 64
        for r, value in enumerate(x[start : start + block]):
            lanes[r % 64] = lanes[r % 64] + value
        width = 32
        while width:
            lanes = [lanes[k] + lanes[k + width] for k in range(width)]
            width //= 2
        totals.append(lanes[0])
    total = totals[0]
    for part in totals[1:]:
        total = total + part
    return total


def column_sum(x: Array) -> Array:
    block = 256 * -(-len(x) // (256 * 64))
    totals = []
    for start in range(0, len(x), block):
        total = np.zeros(x.shape[1:], x.dtype)
        for row in x[start : start + block]:
            total = total + row
        totals.append(total)
    result = totals[0]
    for part in totals[1:]:
        result = result + part
    return result


@pytest.mark.parametrize("n", [1, 2, 31, 63, 64, 65, 100, 4095, 4096, 4097, 10000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_sums_follow_the_documented_order(n: int, dtype: type) -> None:
    x = np.random.default_rng(n).normal(0, 1e3, (3, n)).astype(dtype)
    got = run(lambda b, p: b.reduce_sum(p, (1,)), x)
    want = np.array([row_sum(row) for row in x], dtype) if n > 1 else x[:, 0]
    assert same_bits(got, want)


@pytest.mark.parametrize("n", [2, 255, 256, 257, 1000, 20000])
def test_column_sums_follow_the_documented_order(n: int) -> None:
    x = np.random.default_rng(n).normal(0, 1e3, (n, 5)).astype(np.float32)
    assert same_bits(run(lambda b, p: b.reduce_sum(p, (0,)), x), column_sum(x))


def test_groups_are_reduced_from_the_innermost() -> None:
    assert collapse((2, 3, 4, 5), (1, 3)) == [(24, 5, 1), (2, 3, 4)]
    assert collapse((2, 3, 1, 4, 5), (2, 3, 4)) == [(6, 20, 1)]
    assert collapse((7, 1, 6), (0, 2)) == [(1, 42, 1)]
    assert collapse((2, 1), (1,)) == []
    x = np.random.default_rng(0).normal(0, 1e3, (6, 70, 3, 90)).astype(np.float32)
    inner = np.array([row_sum(row) for row in x.reshape(-1, 90)], np.float32).reshape(6, 70, 3)
    want = np.stack([column_sum(part) for part in inner])
    assert same_bits(run(lambda b, p: b.reduce_sum(p, (1, 3)), x), want)


def test_a_sum_never_is_minus_zero() -> None:
    x = np.full((4, 3), -0.0, np.float32)
    assert not np.signbit(run(lambda b, p: b.reduce_sum(p, (1,)), x)).any()
    assert not np.signbit(run(lambda b, p: b.reduce_sum(p, (0,)), x)).any()


@pytest.mark.parametrize("kind", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_empty_reductions_give_the_initial_value(kind: str, dims: tuple[int, ...]) -> None:
    x = np.empty((0, 0), np.float32)
    init = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}[kind]
    got = run(lambda b, p: b.reduce(p, b.constant(init), dims, kind), x)
    assert same_bits(got, np.full((0,) * (2 - len(dims)), init, np.float32))


def test_an_argmax_combiner_takes_the_first_nan_or_maximum() -> None:
    scalars = Builder("pick")
    v, k, w, j = (scalars.parameter(Shape(d)) for d in ("f32", "s64", "f32", "s64"))
    is_nan = scalars.compare(v, v, "NE")
    keep = scalars.or_(is_nan, scalars.compare(v, w, "GE"))
    pick = scalars.build_computation([scalars.select(keep, v, w), scalars.select(keep, k, j)])

    def argmax(b: Builder, x: Instruction) -> Instruction:
        index = b.iota(Shape("s64", x.dims), 1)
        both = b.reduce([x, index], [b.constant(-np.inf, "f32"), b.constant(0, "s64")], (1,), pick)
        return b.get_tuple_element(both, 1)

    x = np.array([[1, 3, 3, 2], [np.nan, 1, np.nan, 2]], np.float32)
    assert run(argmax, x)[0] == 1
    assert run(argmax, x)[1] == 0


def test_random_arrays_hold_special_values() -> None:
    values = random_array(np.random.default_rng(0), Shape("f32", (2000,)))
    assert np.isnan(values).any()
    assert (np.signbit(values) & (values == 0)).any()


def gathered(source, indices, sizes, vector_dim, index_map, batching):
    """A gather by loops over every element: offset dimensions last, none collapsed but those of batches."""
    batch_dims = [d for d in range(indices.ndim) if d != vector_dim]
    kept = [d for d in range(source.ndim) if d not in dict(batching)]
    result = np.empty([indices.shape[d] for d in batch_dims] + [sizes[d] for d in kept], source.dtype)
    for at in np.ndindex(*result.shape[: len(batch_dims)]):
        place = dict(zip(batch_dims, at, strict=True))
        vector = indices[tuple(place.get(d, slice(None)) for d in range(indices.ndim))]
        start = [0] * source.ndim
        for k, d in enumerate(index_map):
            start[d] = min(max(int(vector[k]), 0), source.shape[d] - sizes[d])
        for ours, theirs in batching:
            start[ours] = place[theirs]
        for offset in np.ndindex(*(sizes[d] for d in kept)):
            inside = dict(zip(kept, offset, strict=True))
            result[(*at, *offset)] = source[tuple(s + inside.get(d, 0) for d, s in enumerate(start))]
    return result


@pytest.mark.parametrize("vector_dim", [0, 1, 2])
@pytest.mark.parametrize("theirs", [0, 1])
def test_batching_dimensions_of_a_gather(vector_dim: int, theirs: int) -> None:
    """The indices' batching dimension may lie before or behind the one of the index vectors."""
    rng = np.random.default_rng(vector_dim)
    outer = [3, 4] if theirs == 0 else [4, 3]  # the three run along with the operand's dimension
    batch_dims = [d for d in range(3) if d != vector_dim]
    dims = [*outer]
    dims.insert(vector_dim, 2)
    source = rng.standard_normal((3, 5, 6)).astype(np.float32)
    indices = rng.integers(-2, 8, dims).astype(np.int32)
    module = parse_module(f"""
ENTRY e {{
  x = f32[3,5,6] parameter(0)
  i = s32[{",".join(map(str, dims))}] parameter(1)
  ROOT r = f32[{outer[0]},{outer[1]},2,3] gather(x, i), offset_dims={{2,3}}, collapsed_slice_dims={{}},
    start_index_map={{2,1}}, operand_batching_dims={{0}}, start_indices_batching_dims={{{batch_dims[theirs]}}},
    index_vector_dim={vector_dim}, slice_sizes={{1,2,3}}
}}
""")
    check(module)
    want = gathered(source, indices, (1, 2, 3), vector_dim, (2, 1), [(0, batch_dims[theirs])])
    assert evaluate(module, [source, indices])[0].tolist() == want.tolist()


def test_windows_of_a_scatter_that_stick_out_are_skipped_as_a_whole() -> None:
    text = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4,5] parameter(0)
  i = s32[7,2] parameter(1)
  u = f32[7,2,3] parameter(2)
  ROOT r = f32[4,5] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add
}
"""
    # The last that fit begin at 2 and 2.
    starts = np.int32([[0, 0], [2, 2], [3, 2], [2, 3], [-1, 0], [0, -1], [0, 2]])
    updates = np.arange(1, 43, dtype=np.float32).reshape(7, 2, 3)
    want = np.zeros((4, 5), np.float32)
    want[0:2, 0:3] += updates[0]
    want[2:4, 2:5] += updates[1]
    want[0:2, 2:5] += updates[6]
    (got,) = evaluate(parse_module(text), [np.zeros((4, 5), np.float32), starts, updates])
    assert got.tolist() == want.tolist()
    for opcode in ("maximum", "subtract"):  # no sums: by the other path
        (got,) = evaluate(
            parse_module(text.replace("add(a, b)", f"{opcode}(a, b)")), [np.zeros((4, 5), np.float32), starts, updates]
        )
        if opcode == "subtract":
            assert got.tolist() == (-want).tolist()
        assert np.array_equal(got != 0, want != 0)


def test_batching_dimensions_of_a_scatter() -> None:
    text = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[3,5] parameter(0)
  i = s32[1,4,3] parameter(1)
  u = f32[4,3,2] parameter(2)
  ROOT r = f32[3,5] scatter(x, i, u), update_window_dims={2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={2},
    index_vector_dim=0, to_apply=add
}
"""
    rng = np.random.default_rng(1)
    starts = rng.integers(-1, 6, (1, 4, 3)).astype(np.int32)
    updates = rng.integers(1, 9, (4, 3, 2)).astype(np.float32)
    want = np.zeros((3, 5), np.float32)
    for n in range(4):
        for row in range(3):
            start = starts[0, n, row]
            if 0 <= start <= 3:
                want[row, start : start + 2] += updates[n, row]
    (got,) = evaluate(parse_module(text), [np.zeros((3, 5), np.float32), starts, updates])
    assert got.tolist() == want.tolist()
