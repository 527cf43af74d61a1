"""Elementwise ops without HLO of their own: compiled code calls the loops of the eager kernels."""

import re

import numpy as np
import pytest
from runtime_table import Runtime, check, compile_and_run, run, values

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.infer.infer_shape import ShapeError
from minitensor_jit.ir.library import find_loop
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.loaded_code import LoadedCode

CASES = [
    *[("pow", 2, d) for d in ("f32", "f64", "s32", "s64", "u8")],
    *[("remainder", 2, d) for d in ("f32", "f64", "s32", "s64", "u8")],
    *[("sign", 1, d) for d in ("f32", "f64", "s32", "s64", "u8")],
    ("isnan", 1, "f64"),
    ("logical_not", 1, "pred"),
]


@pytest.mark.parametrize(("name", "inputs", "dtype"), CASES)
@pytest.mark.parametrize("dims", [(), (7,), (3, 50), (2000,)])
def test_the_loop_is_called_on_scalars_and_vectors(name, inputs, dtype, dims):
    shapes = [Shape(dtype, dims)] * inputs
    check(lambda b, *x: b.elementwise_call(name, *x), *shapes)


@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize("length", [1, 8, 37])
def test_loops_of_complex_numbers(dtype, length):
    b = Builder("test")
    x, y = (b.parameter(Shape(dtype, (length,))) for _ in range(2))
    total = b.add(x, y)
    module = b.build(b.tuple(b.elementwise_call("sin", total), b.elementwise_call("pow", x, total)))
    rng = np.random.default_rng(length)
    kind = np.complex64 if dtype == "c64" else np.complex128
    one, other = ((rng.normal(size=length) + 1j * rng.normal(size=length)).astype(kind) for _ in range(2))
    close = {"rtol": 1e-5 if dtype == "c64" else 1e-13}
    for m in (module, run_pipeline(module)):
        sines, powers = compile_and_run(m, [one, other])
        np.testing.assert_allclose(sines, np.sin(one + other), **close)
        np.testing.assert_allclose(powers, one ** (one + other), **close)


def test_it_is_fused_with_what_is_around_it():
    def build(b, x, y):
        power = b.elementwise_call("pow", b.add(x, x), b.broadcast(y, x.dims, (1,)))
        return b.multiply(power, x), b.reduce_sum(b.select(b.elementwise_call("isnan", power), x, power), (1,))

    shapes = Shape("f32", (9, 37)), Shape("f32", (37,))
    check(build, *shapes)
    b = Builder("test")
    module = run_pipeline(b.build(build(b, *(b.parameter(s) for s in shapes))))
    calls = [i for c in module.computations for i in c if i.opcode == "elementwise-call"]
    assert [i.opcode for i in module.entry].count("elementwise-call") == 0
    assert sum(i.attrs["custom_call_target"] == "mt.elementwise.pow" for i in calls) == 1, "it was computed again"


def test_the_values_are_those_of_the_definition():
    b = Builder("test")
    x, y = (b.parameter(Shape("f64", (50,))) for _ in range(2))
    module = b.build(b.elementwise_call("pow", x, y))
    given = [np.abs(values(Shape("f64", (50,)), seed)) for seed in range(2)]
    np.testing.assert_allclose(compile_and_run(module, given)[0], np.power(*given), rtol=1e-14)


def test_text_names_the_loop_and_reads_back():
    b = Builder("test")
    x = b.parameter(Shape("f32", (3,)))
    module = b.build(b.elementwise_call("isnan", x))
    text = str(module)
    assert 'pred[3]{0} custom-call(param.0), custom_call_target="mt.elementwise.isnan"' in text
    again = parse_module(text)
    assert str(again) == text
    assert evaluate(again, [np.array([1, np.nan, np.inf], np.float32)])[0].tolist() == [False, True, False]


def test_what_there_is_no_loop_for_is_refused():
    b = Builder("test")
    x = b.parameter(Shape("f32", (3,)))
    with pytest.raises(ShapeError, match="no loop is called frobnicate for f32"):
        b.elementwise_call("frobnicate", x)
    with pytest.raises(ShapeError, match=r"pow has 2 input\(s\), got 1"):
        b.elementwise_call("pow", x)
    foreign = "ENTRY e { p = f32[3]{0} parameter(0)\n ROOT c = f32[3]{0} custom-call(p), custom_call_target=%s }"
    with pytest.raises(CompileError, match="custom-call"):
        compile_module(parse_module(foreign % '"other"'), name="test")
    with pytest.raises(CompileError, match=r"no function mt\.elementwise\.frobnicate"):
        compile_module(parse_module(foreign % '"mt.elementwise.frobnicate"'), name="test")


def test_object_code_finds_the_loop_again_by_its_name():
    b = Builder("test")
    x = b.parameter(Shape("f32", (100,)))
    module = b.build(b.elementwise_call("pow", x, x))
    executable = compile_module(module, name="test")
    assert executable.imports == ("mt.elementwise.pow.f32",)
    given = [np.linspace(0.5, 2, 100, dtype=np.float32)]
    (wanted,) = run(executable, given, Runtime())
    executable.close()
    loop = find_loop("pow", "f32")
    executable.code = LoadedCode(executable.object_code, "entry", {loop.symbol: loop.address})
    (again,) = run(executable, given, Runtime())
    assert wanted.tobytes() == again.tobytes()
    executable.close()


def _code(build, *shapes):
    """The LLVM text of a module for AVX2."""
    b, texts = Builder("test"), {}
    module = run_pipeline(b.build(build(b, *(b.parameter(s) for s in shapes))))
    compile_module(module, name="test", dump=lambda kind, text: texts.update({kind: text})).close()
    return next(text for kind, text in texts.items() if kind.endswith("no-opt.ll"))


LONG = Shape("f32", (5000,))


def _sin(b, x):
    return b.elementwise_call("sin", x)


@pytest.mark.parametrize(
    ("build", "shape", "vectors"),
    [
        (lambda b, x: _sin(b, x), LONG, 8),
        (lambda b, x: _sin(b, b.reverse(x, (0,))), LONG, 8),
        (lambda b, x: _sin(b, b.slice(x, (0,), (10000,), (2,))), Shape("f32", (10000,)), 4),
        (lambda b, x: b.reduce_sum(_sin(b, x), (0,)), LONG, 8),
        (lambda b, x: b.reduce_sum(_sin(b, x), (0,)), Shape("f32", (50, 640)), 8),
        (lambda b, x: b.reduce_sum(_sin(b, x), (1,)), Shape("f32", (50, 640)), 8),
    ],
    ids=["along", "backwards", "every other one", "reduction", "columns", "rows"],
)
def test_a_call_is_for_several_vectors(build, shape, vectors, monkeypatch):
    """A call for each vector would take longer than what is called."""
    monkeypatch.setenv("MT_ISA", "avx2")
    calls = re.findall(r"@mt\.elementwise\.sin\.f32\(ptr %\w+, ptr %\w+, i64 (\d+)\)", _code(build, shape))
    assert set(calls) == {str(8 * vectors)}
    monkeypatch.delenv("MT_ISA")
    check(build, shape)


def test_what_lies_backwards_is_loaded_as_whole_vectors(monkeypatch):
    monkeypatch.setenv("MT_ISA", "avx2")

    def build(b, x, y):
        return b.add(b.reverse(x, (0,)), b.pad(b.reverse(y, (0,)), b.constant(0.5, "f32"), [(3, 4)]))

    shapes = LONG, Shape("f32", (4993,))
    assert "masked.gather" not in _code(build, *shapes)
    monkeypatch.delenv("MT_ISA")
    check(build, *shapes)


def test_a_load_that_no_lane_wants_is_not_outside_of_its_array(monkeypatch):
    """It would read nothing, and take processors as long as a fault."""
    monkeypatch.setenv("MT_ISA", "avx2")

    def build(b, x, y):
        return b.concatenate([x, y], 1)

    shapes = Shape("f32", (500, 20)), Shape("f32", (500, 20))
    text = _code(build, *shapes)
    loads = re.findall(r"@llvm\.masked\.load\.\w+\.p0\(ptr align 4 (%\w+),", text)
    chosen = set(re.findall(r"(%\w+) = select i1 %\w+, ptr %\w+, ptr %\w+", text))
    assert loads
    assert set(loads) <= chosen
    monkeypatch.delenv("MT_ISA")
    check(build, *shapes)
