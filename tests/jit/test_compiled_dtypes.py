"""Every op that can be compiled gives the same bits compiled, also for types that are only stored."""

import numpy as np
import pytest
from fuzz.programs import compiler_failures
from row_samples import build, forms

import minitensor as mt
from minitensor.ops import ROWS

pytestmark = pytest.mark.sampled(12)

# The type to test, and the one that the samples are made in.
MADE_IN = {
    "int8": "int32",
    "int16": "int32",
    "uint16": "uint8",
    "uint32": "uint8",
    "uint64": "int64",
    "float16": "float32",
    "bfloat16": "float32",
    "complex64": "float32",
    "complex128": "float64",
}
IN_PLACE_ONLY = {"fill", "copy"}


def bits(tensor):
    """The elements' bits, with one NaN for all."""
    tensor = tensor.detach()
    array = (tensor.to(mt.float32) if tensor.dtype == mt.bfloat16 else tensor).numpy()
    if array.dtype.kind == "c":
        array = np.atleast_1d(np.ascontiguousarray(array)).view(f"f{array.itemsize // 2}")
    return np.where(np.isnan(array), np.nan, array).astype(array.dtype) if array.dtype.kind == "f" else array


def tensors(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def converted(argument, dtype):
    if isinstance(argument, mt.Tensor):
        if not str(argument.dtype).endswith(MADE_IN[dtype]):
            return argument
        if dtype.startswith("complex"):
            return mt.complex(argument, argument.flip(tuple(range(argument.ndim))) * 0.5)
        return argument.to(getattr(mt, dtype))
    if isinstance(argument, (list, tuple)) and any(isinstance(a, mt.Tensor) for a in argument):
        return type(argument)(converted(a, dtype) for a in argument)
    return argument


def accepted(row, dtype):
    """The calls that the op takes, with their results; of many forms every other one, others of the next dtype."""
    every = list(enumerate(forms(row)))
    for seed, form in every[list(MADE_IN).index(dtype) % 2 :: 2] if len(every) > 3 else every:
        arguments = tuple(converted(a, dtype) for a in build(form, MADE_IN[dtype], "special", seed))
        try:
            yield form, arguments, tensors(row.call(*arguments))
        except (RuntimeError, TypeError, NotImplementedError, ZeroDivisionError, IndexError, ValueError):
            continue  # not for this dtype


@pytest.mark.parametrize("dtype", MADE_IN)
@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.compilable and n not in IN_PLACE_ONLY])
def test_compiled_is_eager(name, dtype):
    row = ROWS[name]

    def more(results):
        # What only makes or moves elements is compiled together with something that computes.
        return [*results, *(t + t for t in results if t.dtype != mt.bool)]

    made = [(form, arguments, [bits(t) for t in more(results)]) for form, arguments, results in accepted(row, dtype)]
    got = []

    def program():
        with mt.jit_scope():
            for _, arguments, _ in made:
                got.append(more(tensors(row.call(*arguments))))

    with compiler_failures() as failures:
        mt.jit.explain(program)()
    assert failures == []
    for (form, _, expected), results in zip(made, got, strict=True):
        for a, t in zip(expected, results, strict=True):
            b = bits(t)
            assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes()), f"{name}, {form}:\n{a}\n{b}"


@pytest.mark.parametrize("dtype", MADE_IN)
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
