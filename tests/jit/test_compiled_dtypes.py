"""Types that are only stored: what is computed wider, and what is rounded when. tests/ops/test_rows.py has every op."""

import numpy as np
import pytest
from row_samples import OTHER_DTYPES

import minitensor as mt
from minitensor.ops import ROWS


def bits(tensor):
    """The elements' bits, with one NaN for all."""
    tensor = tensor.detach()
    array = (tensor.to(mt.float32) if tensor.dtype == mt.bfloat16 else tensor).numpy()
    if array.dtype.kind == "c":
        array = np.atleast_1d(np.ascontiguousarray(array)).view(f"f{array.itemsize // 2}")
    return np.where(np.isnan(array), np.nan, array).astype(array.dtype) if array.dtype.kind == "f" else array


@pytest.mark.parametrize("dtype", OTHER_DTYPES)
def test_arithmetic_on_it_is_compiled(dtype):
    x = mt.arange(20).to(getattr(mt, dtype))

    def program():
        with mt.jit_scope():
            y = (x + x) * x
            return y - 1 if x.is_complex() else y.sum(), y

    # The same cluster of another dtype, which another test compiled, would make it wait for its second run.
    with mt.jit.options(enable_lazy_compilation=False):
        report = mt.jit.explain(program)()
    assert report.to_json()["ops"]["compiled"] >= 3, report.text()


def test_a_single_number_keeps_its_precision():
    x = mt.tensor([1.0, 2.0, 3.0]).to(mt.float16)
    for other in (0.1, mt.tensor(0.1), mt.tensor([0.1])):
        expected = [bits(f(x, other)) for f in (mt.add, mt.sub, mt.mul, mt.div)]
        with mt.jit_scope():
            results = [f(x, other) for f in (mt.add, mt.sub, mt.mul, mt.div)]
        for a, t in zip(expected, results, strict=True):
            assert a.tobytes() == bits(t).tobytes()


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16])
def test_the_loss_of_many_rows_is_rounded_once(dtype):
    # More rows than bfloat16 can count.
    logits = (mt.arange(300 * 5, dtype=mt.float32).reshape(300, 5).sin() * 3).to(dtype)
    target = mt.arange(300) % 5

    def step(x):
        x = x.detach().requires_grad_()
        loss = mt.nn.functional.cross_entropy(x, target)
        return loss, *mt.autograd.grad(loss, x)

    for eager, compiled in zip(step(logits), mt.function(step, jit_compile=True)(logits), strict=True):
        assert np.array_equal(bits(eager), bits(compiled))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "floor_divide", "remainder", "pow"])
@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16])
def test_which_single_numbers_are_not_rounded_first(name, dtype):
    x = mt.linspace(-3, 3, 60).reshape(6, 10).to(dtype)
    call = ROWS[name].call
    for number in (1.37, 0.1, mt.tensor(1.37), mt.tensor(1.37).double(), mt.tensor(2.91).to(dtype)):
        others = [(x, number)] if isinstance(number, float) else [(x, number), (number, x)]
        for operands in others:
            eager = call(*operands)
            compiled = mt.function(lambda *found: call(*found), jit_compile=True)(*operands)
            assert bits(eager).tobytes() == bits(compiled).tobytes(), operands
