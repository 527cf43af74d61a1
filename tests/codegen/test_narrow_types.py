"""float16, bfloat16 and small integers: how they are stored, converted and computed with."""

import re

import numpy as np
import pytest
from runtime_table import check, compile_and_run

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.codegen.cpu.target_machine import host_target
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.narrow import array_of, wide_array
from minitensor_jit.ir.shape import BFLOAT16, Shape
from minitensor_jit.ir.testing import random_arguments, random_module, same_bits
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.verifier import check as verify
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.passes.precision.narrow_types import NarrowTypes

pytestmark = pytest.mark.sampled(4)

NARROW = ("f16", "bf16", "s8", "s16", "u16", "u32", "u64")
ISAS = ("", "avx2", "baseline")


@pytest.fixture(params=ISAS)
def isa(request, monkeypatch):
    monkeypatch.setenv("MT_ISA", request.param)
    return host_target()


def compiled_like_evaluated(module, args):
    wanted = evaluate(module, args)
    for version in (module.clone(), run_pipeline(module.clone())):
        for got, want in zip(compile_and_run(version, args), wanted, strict=True):
            assert same_bits(np.asarray(want), got), f"{module}\nis\n{got}\nexpected\n{want}"


def module_of(build, *shapes):
    b = Builder("test")
    return b.build(build(b, *(b.parameter(s) for s in shapes)))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_all_of_them_convert_to_other_types_and_back(isa, dtype):
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = bits.view(np.float16 if dtype == "f16" else BFLOAT16)

    def build(b, p):
        single = b.convert(p, "f32")
        return single, b.convert(single, dtype), *(b.convert(p, d) for d in ("f64", "s8", "u64", "s64", "pred"))

    compiled_like_evaluated(module_of(build, Shape(dtype, x.shape)), [x])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("source", ["f32", "f64", "s64", "u64", "s32", "u8"])
def test_rounding_is_to_nearest_even(isa, dtype, source):
    rng = np.random.default_rng(0)
    if source == "f32":
        # Every mantissa of float16's and bfloat16's ties, around the limits of both.
        edges = [0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x387FC000, 0x387FE000, 0x7F7FFFFF, 0x7F800000, 0]
        x = rng.integers(0, 1 << 32, 200000, np.uint64).astype(np.uint32)
        x[: len(edges)] = edges
        x[1000:2000] = np.arange(0x3F7FF000, 0x3F800000)[:1000]
        x = x.view(np.float32)
    elif source == "f64":
        x = rng.normal(size=10000) * 10.0 ** rng.integers(-45, 45, 10000)
    else:
        info = np.iinfo(Shape(source).numpy_dtype)
        x = rng.integers(info.min, info.max, 10000, Shape(source).numpy_dtype)
    compiled_like_evaluated(module_of(lambda b, p: b.convert(p, dtype), Shape(source, x.shape)), [x])


def test_rounding_by_definition():
    assert array_of([1 + 2**-8, 1 + 3 * 2**-8, np.nan, 3.4e38], "bf16")["bfloat16"].tolist() == [
        0x3F80,
        0x3F82,
        0x7FC0,
        0x7F80,
    ]
    assert wide_array(array_of([[1.5], [-2.0]], "bf16")).tolist() == [[1.5], [-2.0]]
    assert array_of(1 + 2**-11 + 2**-40, "f16") == 1.0, "by way of float32"


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_arithmetic_is_rounded_once(dtype):
    shape = Shape(dtype, (3, 50))
    args = [array_of(np.random.default_rng(s).normal(size=shape.dims), dtype) for s in range(3)]
    module = module_of(lambda b, x, y, z: b.add(b.multiply(x, y), z), shape, shape, shape)
    x, y, z = map(wide_array, args)
    product = wide_array(array_of(x * y, dtype))
    assert same_bits(array_of(product + z, dtype), compile_and_run(module, args)[0])
    total = module_of(lambda b, x: b.reduce_sum(x, (0, 1)), shape)
    assert same_bits(array_of(x.astype(np.float64).sum(), dtype), compile_and_run(total, args[:1])[0])


@pytest.mark.parametrize("dtype", NARROW)
def test_products_of_matrices(dtype):
    shape = Shape(dtype, (5, 5))
    rng = np.random.default_rng(0)
    x = array_of(rng.integers(0, 100, (5, 5)), dtype)
    wide = wide_array(x).astype(np.float64 if dtype in ("f16", "bf16") else np.int64)
    (got,) = compile_and_run(module_of(lambda b, p: b.matmul(p, p), shape), [x])
    assert same_bits(array_of(wide @ wide, dtype), got)


@pytest.mark.parametrize("seed", range(40))
def test_random_modules(seed):
    dtypes = (*NARROW, "f32", "s32", "pred")
    module = random_module(seed, 30, dtypes=dtypes)
    text = str(module)
    assert str(parse_module(text)) == text
    compiled_like_evaluated(module, random_arguments(module, seed))


def test_what_is_left_is_moved_and_converted_only():
    module = random_module(3, 60, dtypes=("f16", "bf16", "pred"))
    NarrowTypes().run(module)
    verify(module)
    assert not NarrowTypes().run(module)


def test_conversions_that_lose_nothing_go():
    x = Shape("bf16", (64,))
    module = run_pipeline(module_of(lambda b, p: b.convert(b.convert(p, "f32"), "bf16"), x))
    assert [i.opcode for i in module.entry] == ["parameter"]
    module = run_pipeline(module_of(lambda b, p: b.convert(b.convert(p, "bf16"), "f32"), Shape("f32", (64,))))
    assert sum(i.opcode == "convert" for c in module.computations for i in c) == 2
    module = run_pipeline(module_of(lambda b, p: b.convert(b.convert(p, "bf16"), "f16"), Shape("f16", (64,))))
    assert sum(i.opcode == "convert" for c in module.computations for i in c) > 1


def test_reductions_by_computations_of_their_own():
    """The index of the largest element, in float16."""

    def build(b, x):
        c = Builder("larger")
        v, i, w, j = (c.parameter(Shape(d)) for d in ("f16", "s32", "f16", "s32"))
        wins = c.compare(w, v, "GT")
        larger = c.build_computation((c.select(wins, w, v), c.select(wins, j, i)))
        places = b.iota(Shape("s32", x.dims), 1)
        both = b.reduce((x, places), (b.constant(-np.inf, "f16"), b.constant(0, "s32")), (1,), larger)
        return b.get_tuple_element(both, 0), b.get_tuple_element(both, 1)

    x = np.random.default_rng(0).normal(size=(9, 70)).astype(np.float16)
    module = module_of(build, Shape("f16", x.shape))
    values, places = compile_and_run(module, [x])
    assert values.tolist() == x.max(1).tolist()
    assert places.tolist() == x.argmax(1).tolist()
    compiled_like_evaluated(module, [x])


@pytest.mark.parametrize("dtype", NARROW)
def test_strided_loads_masked_loads_and_stores(dtype):
    def build(b, x):
        return (
            b.transpose(x, (1, 0)),
            b.pad(x, b.constant(1, dtype), ((1, 2), (0, 3))),
            b.slice(x, (0, 1), (17, 32), (1, 3)),
        )

    shape = Shape(dtype, (17, 33))
    args = [array_of(np.random.default_rng(0).integers(0, 90, shape.dims), dtype)]
    compiled_like_evaluated(module_of(build, shape), args)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "s8", "u16", "s32", "pred"])
@pytest.mark.parametrize("source", ["f32", "s16", "s32", "s64"])
def test_a_tail_of_one_lane_writes_nothing_beyond_it(isa, source, dtype):
    # Rows of their own, so that the tail's mask is known when the code is made. A guard lies behind every result.
    for columns in (9, 17, 33, 65):
        x, bias = Shape(source, (3, columns)), Shape(source, (3, 1))

        def build(b, p, q):
            return b.convert(b.add(p, b.broadcast(b.reshape(q, (3,)), p.dims, (0,))), dtype)

        rng = np.random.default_rng(columns)
        args = [array_of(rng.integers(0, 60, shape.dims), source) for shape in (x, bias)]
        compiled_like_evaluated(module_of(build, x, bias), args)


def test_unsigned_integers_compare_divide_and_shift_as_such():
    for dtype in ("u8", "u16", "u32", "u64"):
        shape = Shape(dtype, (64,))
        top = np.iinfo(shape.numpy_dtype).max
        args = [
            np.array([top, top - 1, 0, 1] * 16, shape.numpy_dtype),
            np.array([3, 0, 1, top] * 16, shape.numpy_dtype),
        ]
        check(
            lambda b, x, y: [
                b.divide(x, y), b.remainder(x, y), b.maximum(x, y), b.compare(x, y, "LT"),
                b.shift_right_logical(x, y), b.convert(x, "f64"), b.convert(x, "s8"),
            ],
            shape, shape, args=args,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("length", [65, 81, 97])
def test_a_last_vector_of_one_element_is_written_alone(isa, dtype, length):
    """In rows whose body is costly, so that the loop over vectors isn't unrolled."""

    def build(b, x):
        t = b.convert(x, "f32")
        t = b.subtract(t, b.broadcast(b.reduce_max(t, (1,)), t.dims, (0,)))
        for _ in range(4):
            t = b.exponential(b.negate(b.exponential(t)))
        return [b.reduce_sum(t, (1,)), b.convert(t, dtype)]

    module = run_pipeline(module_of(build, Shape(dtype, (21, length))))
    x = array_of(np.random.default_rng(0).normal(size=(21, length)).astype(np.float32), dtype)
    compile_and_run(module, [x])  # which looks at what is beyond each array


@pytest.mark.parametrize("dtype", ["u8", "pred", "bf16", "f32"])
@pytest.mark.parametrize("length", [31, 63, 95, 255])
def test_the_last_vector_of_many_lanes_is_moved_without_a_branch_for_each(isa, dtype, length):
    """Vectors of bytes, and those of calls, which are eight at once. A guard lies behind every array."""

    def build(b, x):
        if dtype == "pred":
            return b.not_(x)
        return b.add(x, x) if dtype == "u8" else b.convert(b.elementwise_call("sign", b.convert(x, "f32")), dtype)

    module = module_of(build, Shape(dtype, (length,)))
    texts = {}
    compile_module(run_pipeline(module.clone()), name="test", dump=texts.__setitem__).close()
    masked = re.findall(r"call .* @llvm\.masked\.\w+\.v(\d+)[if](\d+)\.p0\(", texts["ir-no-opt.ll"])
    assert [lanes for lanes, bits in masked if int(bits) // 8 < isa.narrowest_mask and int(lanes) > 16] == []
    if Shape(dtype).itemsize < isa.narrowest_mask and isa.vector_bytes > 16:
        assert "call void @copy_bytes" in texts["ir-no-opt.ll"]
    compiled_like_evaluated(module, [array_of(np.random.default_rng(length).integers(0, 2, length), dtype)])
