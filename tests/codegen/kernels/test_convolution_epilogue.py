"""Convolutions whose elements are worked on part by part: the bits of one after the other."""

import re

import numpy as np
import pytest
from runtime_table import Runtime, run

import minitensor as mt
from minitensor.nn import functional as F
from minitensor_jit.codegen.cpu.compiler import Options, compile_module
from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.semantics.window import Window, WindowDim
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.convolution_canonicalization import canonical
from minitensor_jit.passes.fusion import output_fusion
from minitensor_jit.passes.fusion.fusion import Fusion
from minitensor_jit.passes.fusion.output_fusion import OutputFusion
from minitensor_jit.passes.pass_manager import PassManager
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.run_arrays import run_on_arrays

# images, channels and filters of a group, sizes, kernel, stride, padding, groups: every form that the kernel has
FORMS = {
    "direct": (5, 6, 16, (14, 14), (5, 5), 1, 0, 1),
    "direct, padded, two groups": (2, 8, 15, (12, 17), (3, 3), 1, 1, 2),
    "direct, several steps": (1, 4, 32, (60, 50), (3, 3), 1, 1, 1),
    "pointwise": (3, 40, 70, (13, 11), (1, 1), 1, 0, 1),
    "pointwise, two groups": (2, 30, 20, (9, 30), (1, 1), 1, 0, 2),
    "pointwise, one filter": (3, 40, 1, (13, 11), (1, 1), 1, 0, 1),
    "pointwise, one position": (3, 40, 70, (1, 1), (1, 1), 1, 0, 1),
    "blocks": (2, 130, 5, (40, 41), (3, 3), 1, 1, 1),
    "one image in blocks": (1, 200, 5, (60, 33), (3, 3), 2, 1, 1),
    "small images": (40, 7, 5, (9, 5), (3, 3), 2, 1, 1),
    "small images, two groups": (10, 3, 4, (9, 5), (3, 3), 1, 0, 2),
    "depthwise": (3, 1, 1, (15, 17), (3, 3), 1, 1, 6),
    "depthwise with steps": (3, 1, 2, (15, 17), (3, 3), 2, 1, 6),
    "rows": (6, 5, 16, (70,), (4,), 1, 2, 1),
    "volumes": (2, 3, 4, (6, 7, 5), (2, 3, 2), 1, 1, 1),
    "no channels": (2, 0, 4, (6, 7), (1, 1), 1, 0, 1),
    "no images": (0, 3, 4, (6, 7), (1, 1), 1, 0, 1),
}


def shapes_of(form, dtype):
    images, channels, filters, sizes, kernel, stride, padding, groups = form
    places = [(n + 2 * padding - k) // stride + 1 for n, k in zip(sizes, kernel, strict=True)]
    return (
        Shape(dtype, (images, channels * groups, *sizes)),
        Shape(dtype, (filters * groups, channels, *kernel)),
        Shape(dtype, (filters * groups,)),
        Shape(dtype, (images, filters * groups, *places)),
    )


def convolution(b, form, x, w, bias, result):
    *_, sizes, _, stride, padding, groups = form
    params = (*((n,) * len(sizes) for n in (stride, padding, 1)), groups)
    operands, kinds = ((x, w), "ttn") if bias is None else ((x, w, bias), "ttt")
    (made,) = b.kernel_call("convolution", operands, [result], kinds=kinds, params=params)
    return made


def both_ways(form, dtype, follow, biased):
    """Runs it with and without the fusion, by one thread and by several."""
    *given, result = shapes_of(form, dtype)
    b = Builder("test")
    x, w, bias, other = (b.parameter(s) for s in (*given, result))
    module = b.build(follow(b, convolution(b, form, x, w, bias if biased else None, result), bias, other))
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s.dims).astype(s.numpy_dtype) for s in (*given, result)]
    plain, fused = module.clone(), module.clone()
    PassManager([Fusion()]).run(plain)
    PassManager([OutputFusion(), Fusion()]).run(fused)
    check(fused, "fused")
    assert difference(parse_module(print_module(fused)), fused, metadata=True) is None
    assert outputs(plain) == []
    assert len(outputs(fused)) == 1
    executables = [compile_module(m, name="test", options=Options(parallel_threshold=512)) for m in (plain, fused)]
    results = [run_on_arrays(e, args) for e in executables]
    results.append(run(executables[1], args, Runtime()))
    threads = mt.get_num_threads()
    mt.set_num_threads(1)
    try:
        results.append(run_on_arrays(executables[1], args))
    finally:
        mt.set_num_threads(threads)
    want = evaluate(module, args)
    for found in results:
        assert [one.tobytes() for one in found] == [np.asarray(one).tobytes() for one in want]


def outputs(module):
    return [i for i in module.entry if i.opcode == "fusion" and i.attrs["kind"] == "kOutput"]


def relu(b, y, bias, other):
    return b.maximum(y, b.full(y.array_shape, 0.0))


def scaled_residual(b, y, bias, other):
    """What batch norm and a residual make of it: numbers for each filter, and another array."""
    scaled = b.multiply(y, b.broadcast(bias, y.dims, (1,)))
    return b.maximum(b.subtract(b.add(scaled, other), b.broadcast(bias, y.dims, (1,))), b.full(y.array_shape, 0.0))


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    monkeypatch.setattr(output_fusion, "MIN_ELEMENTS", 0)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form(form, biased, dtype):
    both_ways(form, dtype, relu, biased)
    both_ways(form, dtype, scaled_residual, biased)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_convolutions_of_other_programs_have_eager_bits(form):
    x, w, _, result = shapes_of(form, "f32")
    *_, sizes, _, stride, padding, groups = form
    b = Builder("test")
    window = Window(tuple(WindowDim(k, stride, padding, padding) for k in w.dims[2:]))
    labels = canonical(len(sizes))
    given = b.parameter(x), b.parameter(w)
    made = b.convolution(*given, dim_labels=labels, window=window, feature_group_count=groups)
    module = run_pipeline(b.build(relu(b, made, None, None)))
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s.dims).astype(np.float32) for s in (x, w)]
    (got,) = run_on_arrays(compile_module(module, name="test"), args)
    eager = getattr(F, f"conv{len(sizes)}d")
    want = F.relu(eager(*map(mt.from_numpy, args), None, stride, padding, 1, groups))
    assert got.shape == result.dims
    assert got.tobytes() == want.numpy().tobytes()


def test_layers_share_the_epilogue():
    form = FORMS["direct"]
    *given, result = shapes_of(form, "f32")
    b = Builder("test")
    parameters = [[b.parameter(s) for s in given] for _ in range(3)]
    module = b.build(b.tuple(*(relu(b, convolution(b, form, *p, result), None, None) for p in parameters)))
    PassManager([OutputFusion(), Fusion()]).run(module)
    assert len(outputs(module)) == 3
    executable = compile_module(module, name="test")
    assert executable.kernels == 1
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s.dims).astype(np.float32) for s in executable.parameter_shapes]
    for got, want in zip(run(executable, args, Runtime()), evaluate(module, args), strict=True):
        assert got.tobytes() == want.tobytes()


def test_refusals_have_their_reasons(monkeypatch):
    def reasons(follow, dtype="f32", **options):
        *given, result = shapes_of(FORMS["direct"], dtype)
        b = Builder("test")
        x, w, bias, other = (b.parameter(s) for s in (*given, result))
        module = b.build(follow(b, convolution(b, FORMS["direct"], x, w, bias, result), bias, other))
        one = OutputFusion(**options)
        PassManager([one]).run(module)
        assert not outputs(module)
        return [str(decision) for *_, decision in one.decisions]

    assert reasons(lambda b, y, bias, other: [b.negate(y), b.abs(y)]) == ["no: its value is needed in memory"]
    assert reasons(lambda b, y, bias, other: b.transpose(y, (0, 2, 3, 1))) == [
        "no: transpose does not work on single elements of the product"
    ]
    assert reasons(relu, in_registers=True) == []  # GPUs have no such kernel
    monkeypatch.setattr(output_fusion, "MIN_ELEMENTS", 16384)
    assert reasons(relu) == ["no: 8000 elements stay in the cache between two loops"]


def test_a_fusion_that_is_no_epilogue_is_taken_apart():
    form = FORMS["direct"]
    *given, result = shapes_of(form, "f32")
    b = Builder("test")
    x, w, bias, other = (b.parameter(s) for s in (*given, result))
    module = b.build(scaled_residual(b, convolution(b, form, x, w, bias, result), bias, other))
    PassManager([OutputFusion()]).run(module)
    text = print_module(module)
    turned = re.sub(r" maximum\(([^,]*), [^)]*\)", r" reverse(\1), dimensions={2}", text)
    assert turned != text
    module = parse_module(turned)
    (fusion,) = outputs(module)
    fusion.attrs["calls"].remove_dead()
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s.dims).astype(np.float32) for s in (*given, result)]
    (got,) = run(compile_module(module, name="test"), args, Runtime())
    assert got.tobytes() == evaluate(module, args)[0].tobytes()


@pytest.mark.parametrize("stride", [1, 2])
def test_networks_have_eager_bits(stride):
    mt.manual_seed(0)
    x = mt.randn(4, 3, 40, 40)
    first, second, bias = mt.randn(24, 3, 3, 3), mt.randn(16, 24, 3, 3), mt.randn(24)

    def network(x):
        h = F.relu(F.conv2d(x, first, bias, stride, 1))
        return F.gelu(F.conv2d(h, second, None, 1, 1) * 0.5 + 1) - 1

    compiled = mt.function(network, jit_compile=True)
    assert compiled(x).numpy().tobytes() == network(x).numpy().tobytes()
    text = compiled.lower(x).compile().as_text()
    assert text.count("kind=kOutput") == 2
