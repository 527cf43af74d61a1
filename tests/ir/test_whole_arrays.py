"""Windows, control flow, linear algebra and custom calls: the builder, the rules of shapes, and what they mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.builder import Builder, combiner
from minitensor_jit.ir.evaluate.custom_calls import custom_call_targets, register_custom_call
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.infer.infer_shape import ShapeError
from minitensor_jit.ir.module import Computation, Instruction, Module
from minitensor_jit.ir.semantics.window import ConvolutionDims, Window, WindowDim
from minitensor_jit.ir.shape import Shape, TupleShape
from minitensor_jit.ir.text.parser import ParseError, parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import check


def f32(*dims: int) -> Shape:
    return Shape("f32", dims)


def round_trip(module: Module) -> Module:
    check(module)
    back = parse_module(print_module(module))
    check(back)
    assert difference(back, module) is None
    return back


def greater() -> Computation:
    b = Builder("ge")
    return b.build_computation(b.compare(b.parameter(f32()), b.parameter(f32()), "GE"))


def test_windows() -> None:
    b = Builder("m")
    x = b.parameter(f32(1, 1, 6))
    pooled = b.reduce_window(
        x, b.constant(-np.inf, "f32"), Window((WindowDim(1), WindowDim(1), WindowDim(2, 2))), "maximum"
    )
    window = Window((WindowDim(1), WindowDim(1), WindowDim(2, 2)))
    back = b.select_and_scatter(x, pooled, b.constant(0.0), window, select=greater(), scatter=combiner("add", "f32"))
    kernel = b.constant(np.float32([[[1, 10]]]))
    made = b.convolution(x, kernel, dim_labels="bf0_oi0->bf0")
    module = round_trip(b.build((pooled, back, made)))
    values = np.float32([[[3, 1, 4, 1, 5, 9]]])
    top, spread, product = evaluate(module, [values])
    assert top.tolist() == [[[3, 4, 9]]]
    assert spread.tolist() == [[[3, 0, 4, 0, 0, 9]]]
    assert product.tolist() == [[[13, 41, 14, 51, 95]]]


def test_control_flow() -> None:
    state = TupleShape((Shape("s32"), f32()))
    c = Builder("condition")
    condition = c.build_computation(c.compare(c.get_tuple_element(c.parameter(state), 0), c.constant(3), "LT"))
    d = Builder("body")
    s = d.parameter(state)
    count, value = d.get_tuple_element(s, 0), d.get_tuple_element(s, 1)
    body = d.build_computation((d.add(count, d.constant(1)), d.add(value, value)))
    branches = []
    for opcode in ("negate", "abs"):
        e = Builder(opcode)
        branches.append(e.build_computation(e.emit(opcode, (e.parameter(f32()),))))
    b = Builder("m")
    x, k = b.parameter(f32()), b.parameter(Shape("s32"))
    doubled = b.get_tuple_element(b.while_(b.tuple(b.constant(0), x), condition, body), 1)
    chosen = b.conditional(k, branches, (x, x))
    by_pred = b.conditional(b.compare(k, b.constant(0), "EQ"), branches, (x, x))
    module = round_trip(b.build((doubled, chosen, by_pred)))
    assert [float(r) for r in evaluate(module, [np.float32(5), np.int32(0)])] == [40, -5, -5]
    assert [float(r) for r in evaluate(module, [np.float32(5), np.int32(7)])] == [40, 5, 5]


def test_custom_calls_are_registered() -> None:
    register_custom_call("test.twice", lambda i, x: x[0] * 2)
    b = Builder("m")
    module = round_trip(b.build(b.custom_call("test.twice", [b.parameter(f32(2))], f32(2), "how")))
    assert evaluate(module, [np.float32([1, 2])])[0].tolist() == [2, 4]
    assert {"test.twice", "lapack_spotrf_ffi"} <= set(custom_call_targets())
    b = Builder("m")
    unknown = b.build(b.custom_call("test.unknown", [b.parameter(f32(2))], f32(2)))
    with pytest.raises(NotImplementedError, match=r"test\.unknown"):
        evaluate(unknown, [np.zeros(2, np.float32)])


Build = Callable[[Builder, Instruction], Instruction]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b, x: b.fft(x, "FFT", (3,)), "not defined for f32"),
        (lambda b, x: b.fft(x, "RFFT", (5,)), "does not fit"),
        (lambda b, x: b.cholesky(x), "square"),
        (lambda b, x: b.topk(x, 9), "k=9"),
        (lambda b, x: b.reduce_window(x, b.constant(0.0), Window((WindowDim(2),))), "window of 2 dimensions"),
        (lambda b, x: b.convolution(x, x, dim_labels="bf_io->bf"), "input features"),
        (lambda b, x: b.map(combiner("add", "f32"), x), "takes"),
        (lambda b, x: b.conditional(x, [greater()], [x]), "chooses by"),
        (lambda b, x: b.while_(x, greater(), greater()), "passes 1 operands"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(build: Build, message: str) -> None:
    b = Builder("m")
    with pytest.raises(ShapeError, match=message):
        build(b, b.parameter(f32(2, 3)))


@pytest.mark.parametrize(
    "text",
    [
        "{size=2x3 stride=1x2 pad=0_1x-1_2 lhs_dilate=2x1 rhs_dilate=1x3 rhs_reversal=0x1}",
        "{size=3}",
        "{size=2x2 pad=1_1x0_0}",
        "{}",
    ],
)
def test_window_text(text: str) -> None:
    assert str(Window.parse(text)) == text


@pytest.mark.parametrize("text", ["b01f_01io->b01f", "bf_io->bf", "0bf1_o10i->f0b1"])
def test_label_text(text: str) -> None:
    assert str(ConvolutionDims.parse(text)) == text


@pytest.mark.parametrize("attribute", ["window={size=2xa}", "window={size=2 pad=1}", "window={siz=2}", "window=3"])
def test_malformed_windows_are_refused(attribute: str) -> None:
    text = (
        f"ENTRY e {{ x = f32[4] parameter(0) c = f32[] constant(0) ROOT r = f32[3] reduce-window(x, c), {attribute} }}"
    )
    with pytest.raises(ParseError, match="window"):
        parse_module(text)


def test_sorting_by_what_is_no_order() -> None:
    """NaN is neither less nor greater than anything: no element is lost, wherever it goes."""
    c = Builder("less")
    less = c.build_computation(c.compare(c.parameter(f32()), c.parameter(f32()), "LT"))
    b = Builder("m")
    module = b.build(b.sort((b.parameter(f32(7)),), 0, less))
    x = np.array([2, np.nan, 1, np.nan, 3, 0, np.nan], np.float32)
    (result,) = evaluate(module, [x])
    assert np.array_equal(np.sort(result), np.sort(x), equal_nan=True)
