"""Ops of the core on whole arrays, called by compiled code."""

import numpy as np
import pytest
from runtime_table import Runtime, compile_and_run, run

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.semantics.kernel_call import DTypeParam, KernelCall, words_of
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.testing import same_bits
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.pipeline import run_pipeline

X = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32)
SHAPE = Shape("f32", X.shape)


def module_of(build, *shapes):
    b = Builder("test")
    return b.build(build(b, *(b.parameter(s) for s in shapes)))


def compiled_like_evaluated(module, args):
    wanted = evaluate(module, args)
    for version in (module.clone(), run_pipeline(module.clone())):
        for got, want in zip(compile_and_run(version, args), wanted, strict=True):
            assert same_bits(np.asarray(want), got)
    return wanted


def cumsum(b, x, dim=1):
    (result,) = b.kernel_call("cumsum", [x], [x.shape], kinds="t", params=(dim, None))
    return result


def test_a_kernel_between_fused_loops():
    module = module_of(lambda b, x: b.reduce_sum(cumsum(b, b.add(x, x)), (1,)), SHAPE)
    (got,) = compiled_like_evaluated(module, [X])
    np.testing.assert_allclose(got, np.cumsum(X + X, 1).sum(1), rtol=1e-4)


def test_several_results_and_results_that_nobody_reads():
    def build(b, x):
        indices = Shape("s64", x.dims)
        values, places = b.kernel_call("sort", [x], [x.shape, indices], kinds="t", params=(1, True, False))
        _, others = b.kernel_call("sort", [b.negate(x)], [x.shape, indices], kinds="t", params=(1, False, True))
        return values, b.add(places, others)

    values, places = compiled_like_evaluated(module_of(build, SHAPE), [X])
    assert same_bits(values, np.sort(X, 1)[:, ::-1])
    assert places.tolist() == (np.argsort(-X, 1) * 2).tolist()


def test_numbers_and_types():
    def build(b, x, n):
        (power,) = b.kernel_call("pow", [x, n], [x.shape], kinds="ts", params=())
        (total,) = b.kernel_call("sum", [power], [Shape("f64")], kinds="t", params=((0, 1), False, DTypeParam("f64")))
        return power, total

    power, total = compiled_like_evaluated(module_of(build, SHAPE, Shape("f64")), [X, np.array(2.0)])
    assert same_bits(power, X * X)
    assert total == pytest.approx((X.astype(np.float64) ** 2).sum(), rel=1e-6)


def test_random_numbers_come_from_a_place_in_the_stream():
    def build(b, place):
        params = (X.shape, 0.0, 1.0, None, None)
        (drawn,) = b.kernel_call("uniform", [place], [SHAPE], kinds="", params=params)
        return drawn

    module = module_of(build, Shape("u64", (2,)))
    first, again, other = (compile_and_run(module, [np.array(p, np.uint64)])[0] for p in ((1, 5), (1, 5), (1, 6)))
    assert same_bits(first, again)
    assert not same_bits(first, other)
    assert 0 <= first.min() < first.max() < 1


def test_text_reads_back():
    def build(b, x):
        return cumsum(b, x), *b.kernel_call(
            "sort", [x], [x.shape, Shape("s64", x.dims)], kinds="t", params=(1, True, False)
        )

    module = module_of(build, SHAPE)
    text = str(module)
    assert 'custom_call_target="mt.kernel.cumsum", backend_config={"operands":"t","params":[1,null]}' in text
    assert str(parse_module(text)) == text


@pytest.mark.parametrize(
    "param",
    [None, True, 0, -5, 1.5, float("inf"), complex(1, -2), complex(0, float("inf")), DTypeParam("bf16"), (), (3, -1)],
)
def test_parameters_read_back(param):
    b = Builder("test")
    x = b.parameter(SHAPE)
    (call,) = b.kernel_call("op", [x], [SHAPE], kinds="tn", params=(param,))
    assert KernelCall.of(call) == KernelCall("op", "tn", (param,))


def test_words():
    b = Builder("test")
    x, y = b.parameter(Shape("f32", (2, 3))), b.parameter(Shape("s64"))
    (call,) = b.kernel_call("longername", [x, y], [Shape("pred", (4,))], kinds="tns", params=(7, (1, 2)))
    longername, f32, s64, pred = (
        [int.from_bytes(word, "little") for word in words]
        for words in ([b"longerna", b"me"], [b"f32"], [b"s64"], [b"pred"])
    )
    assert words_of(call) == [
        10, *longername, 3, *f32, 2, 2, 7, 6, 2, 1, 2, 3, 1, 3, *f32, 2, 2, 3, 0, 2, 3, *s64, 1, 4, *pred, 1, 4,
    ]  # fmt: skip


def test_what_can_not_be_called_is_refused():
    def with_config(config, target="mt.kernel.cumsum"):
        return parse_module(
            "ENTRY e { p = f32[3]{0} parameter(0)\n"
            f'ROOT c = f32[3]{{0}} custom-call(p), custom_call_target="{target}", backend_config={config} }}'
        )

    good = '{"operands":"t","params":[0,null]}'
    for config, target, why in [
        ('{"params":[]}', "mt.kernel.cumsum", "no backend_config"),
        ('{"operands":"x","params":[]}', "mt.kernel.cumsum", "each is one of"),
        (good, "mt.kernel.frobnicate", "there is no kernel"),
    ]:
        with pytest.raises(CompileError, match=why):
            compile_module(with_config(config, target), name="test")
    executable = compile_module(with_config(good), name="test")
    (got,) = run(executable, [np.ones(3, np.float32)], Runtime())
    assert got.tolist() == [1, 2, 3]
    executable.close()


def test_the_evaluator_raises_what_the_kernel_raises():
    module = module_of(
        lambda b, x, i: b.kernel_call("gather", [x, i], [Shape("f32", (1,))], kinds="tt", params=(0,))[0],
        Shape("f32", (3,)),
        Shape("s64", (1,)),
    )
    with pytest.raises(RuntimeError, match="out of bounds"):
        evaluate(module, [np.ones(3, np.float32), np.array([7])])
