"""Complex numbers: pairs of parts in registers, next to each other in memory."""

import numpy as np
import pytest
from runtime_table import compile_and_run

from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.infer.infer_shape import ShapeError
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.testing import random_arguments, random_array, random_module, same_bits
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.pipeline import run_pipeline

ISAS = ("", "avx2", "baseline")


def compiled_like_evaluated(module, args):
    wanted = evaluate(module, args)
    for version in (module.clone(), run_pipeline(module.clone())):
        for got, want in zip(compile_and_run(version, args), wanted, strict=True):
            assert same_bits(np.asarray(want), got), f"{module}\nis\n{got}\nexpected\n{want}"
    return wanted


def module_of(build, *shapes):
    b = Builder("test")
    return b.build(build(b, *(b.parameter(s) for s in shapes)))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize("dims", [(), (7,), (3, 50), (2000,)])
def test_arithmetic(isa, dtype, dims, monkeypatch):
    monkeypatch.setenv("MT_ISA", isa)
    shape = Shape(dtype, dims)
    rng = np.random.default_rng(0)
    args = [random_array(rng, shape) for _ in range(2)]
    got = compiled_like_evaluated(
        module_of(
            lambda b, x, y: [
                b.add(x, y), b.subtract(x, y), b.multiply(x, y), b.divide(x, y), b.negate(x),
                b.compare(x, y, "EQ"), b.compare(x, x, "NE"), b.real(x), b.imag(x), b.complex(b.imag(x), b.real(y)),
                b.select(b.compare(x, y, "NE"), x, y), b.convert(x, "c128"), b.convert(b.real(x), dtype),
            ],
            shape, shape,
        ),
        args,
    )  # fmt: skip
    x, y = args
    with np.errstate(all="ignore"):
        finite = np.isfinite(x) & np.isfinite(y) & (np.abs(x) < 1e9) & (np.abs(y) < 1e9) & (y != 0)
        for result, expected in zip(got[2:4], (x * y, x / y), strict=True):
            np.testing.assert_allclose(result[finite], expected[finite], rtol=1e-5)


def test_division_does_not_overflow_where_the_quotient_does_not():
    huge = np.array([3e30 + 4e30j, 1e-30 - 2e-30j], np.complex64)
    module = module_of(lambda b, x: b.divide(x, x), Shape("c64", (2,)))
    (got,) = compiled_like_evaluated(module, [huge])
    np.testing.assert_allclose(got, [1, 1], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_movement(dtype):
    def build(b, x, i):
        one = b.constant(1 - 2j, dtype)
        return (
            b.transpose(x, (1, 0)),
            b.pad(x, one, ((1, 2), (0, 3))),
            b.slice(x, (0, 1), (17, 32), (1, 3)),
            b.reverse(x, (1,)),
            b.concatenate((x, b.add(x, x)), 0),
            b.dynamic_update_slice(x, b.slice(x, (0, 0), (2, 3)), (i, i)),
            b.broadcast(b.reshape(b.slice(x, (0, 0), (1, 33)), (33,)), (5, 33), (1,)),
        )

    shape = Shape(dtype, (17, 33))
    args = [random_array(np.random.default_rng(0), shape), np.array(3, np.int32)]
    compiled_like_evaluated(module_of(build, shape, Shape("s32")), args)


def test_scatter_adds_and_assigns():
    def build(b, x, i, u):
        dimensions = {
            "update_window_dims": (1,), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1,
        }  # fmt: skip
        return b.scatter(x, i, u, kind="add", **dimensions), b.scatter(x, i, u, kind="assign", **dimensions)

    shapes = Shape("c64", (6, 9)), Shape("s64", (4,)), Shape("c64", (4, 9))
    rng = np.random.default_rng(0)
    x, u = (rng.normal(size=s.dims) + 1j * rng.normal(size=s.dims) for s in (shapes[0], shapes[2]))
    args = [x.astype(np.complex64), np.array([1, 5, 1, 9]), u.astype(np.complex64)]
    compiled_like_evaluated(module_of(build, *shapes), args)


@pytest.mark.parametrize("seed", range(30))
def test_random_modules(seed):
    module = random_module(seed, 20, dtypes=("c64", "c64", "c128", "f32", "f64", "pred"))
    text = str(module)
    assert str(parse_module(text)) == text
    args = random_arguments(module, seed)
    try:
        compiled_like_evaluated(module, args)
    except CompileError as error:
        assert error.opcode in ("reduce", "abs"), error  # noqa: PT017 - most have neither


def test_text():
    b = Builder("test")
    module = b.build(b.constant(np.array([1 - 2j, complex("inf"), complex("nan+1j")], np.complex64)))
    assert "constant({(1, -2), (inf, 0), (nan, 1)})" in str(module)
    assert str(parse_module(str(module))) == str(module)
    alone = parse_module("ENTRY e { ROOT c = c128[2]{0} constant({1, (0, 2)}) }")
    assert evaluate(alone, [])[0].tolist() == [1, 2j]


def test_there_is_no_order():
    b = Builder("test")
    x = b.parameter(Shape("c64", (3,)))
    for wrong in (lambda: b.compare(x, x, "LT"), lambda: b.maximum(x, x), lambda: b.reduce_max(x, (0,))):
        with pytest.raises(ShapeError, match="c64"):
            wrong()
