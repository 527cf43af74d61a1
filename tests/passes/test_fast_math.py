"""Rules for real numbers: near the same values, only where they are asked for."""

import numpy as np
import pytest

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.algebraic_simplifier import AlgebraicSimplifier
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.passes.simplify import ALL_RULES, FAST_MATH_RULES

F = Shape("f32", (2, 3))
N = Shape("s32", (2, 3))


def full(b, value, shape=F):
    return b.full(shape, value)


# What is built, and the opcodes that are left of it.
CASES = {
    "fast-add-zero": (lambda b, x, y: b.add(full(b, 0.0), b.subtract(b.add(x, full(b, 0.0)), full(b, -0.0))), set()),
    "fast-multiply-zero": (lambda b, x, y: b.multiply(b.exponential(x), full(b, 0.0)), {"constant", "broadcast"}),
    "fast-subtract-itself": (lambda b, x, y: b.subtract(x, x), {"constant", "broadcast"}),
    "fast-divide-itself": (lambda b, x, y: b.divide(x, x), {"constant", "broadcast"}),
    "fast-divide-constant": (lambda b, x, y: b.divide(x, full(b, 3.0)), {"multiply", "constant", "broadcast"}),
    "fast-regroup-product": (
        lambda b, x, y: b.multiply(full(b, 3.0), b.multiply(x, full(b, 0.7))),
        {"multiply", "constant", "broadcast"},
    ),
    "fast-regroup-sum": (
        lambda b, x, y: b.add(b.add(full(b, 0.1), x), full(b, 0.7)),
        {"add", "constant", "broadcast"},
    ),
}


def built(build):
    b = Builder("test")
    return b.build(build(b, b.parameter(F), b.parameter(F)))


@pytest.mark.parametrize("name", CASES)
def test_a_rule(name):
    build, left = CASES[name]
    module = built(build)
    args = list(np.random.default_rng(0).uniform(0.5, 2, (2, 2, 3)).astype(np.float32))
    want = evaluate(module, args)[0]
    strict = module.clone()
    AlgebraicSimplifier().run(strict)
    (rule,) = (rule for rule in FAST_MATH_RULES if rule.name == name)
    assert AlgebraicSimplifier((*ALL_RULES, rule)).run(module)
    assert {i.opcode for i in module.entry} - {"parameter"} <= left
    # The rules that keep bits don't get there.
    assert difference(strict, module) is not None
    assert np.allclose(evaluate(module, args)[0], want, rtol=1e-6)


def test_every_rule_has_a_case():
    assert set(CASES) == {rule.name for rule in FAST_MATH_RULES}


def test_constants_that_would_overflow_are_not_regrouped():
    module = built(lambda b, x, y: b.multiply(b.multiply(x, full(b, 1e30)), full(b, 1e30)))
    assert not AlgebraicSimplifier(FAST_MATH_RULES).run(module)
    module = built(lambda b, x, y: b.divide(x, full(b, 1e-45)))
    assert not AlgebraicSimplifier(FAST_MATH_RULES).run(module)


@pytest.mark.parametrize("fast", [False, True])
def test_the_pipeline_has_them_on_request(fast):
    module = built(lambda b, x, y: b.multiply(b.subtract(x, x), y))
    run_pipeline(module, PipelineOptions(fast_math=fast, fuse=False))
    assert ("subtract" in {i.opcode for i in module.entry}) != fast
    nan = np.full((2, 3), np.nan, np.float32)
    assert np.isnan(evaluate(module, [nan, nan])[0]).all() != fast
