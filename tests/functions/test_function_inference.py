"""Inference mode in, around and among the arguments of a recorded function: which results are tensors of it."""

import pytest

import minitensor as mt

options = pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["plain", "compiled"])


def made_in_inference_mode():
    with mt.inference_mode():
        return mt.ones(4)


def facts(results):
    return [(t.is_inference(), t._base is not None, t.requires_grad, t.tolist()) for t in results]


def shapes_of_all_sorts(x):
    return x * 2, x[1:], x.detach(), x.view(2, 2), x.clone()


@options
def test_what_a_function_makes_in_inference_mode_is_of_inference_mode(options):
    weight = mt.ones(4, requires_grad=True)

    @mt.inference_mode()
    def plain(x):
        y = x * weight
        return y, y[1:], weight.detach(), x[1:]

    recorded = mt.function(plain, **options)
    for _ in range(6):
        results = recorded(mt.ones(4))
        assert facts(results) == facts(plain(mt.ones(4)))
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
            results[0] * weight
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            results[1].add_(1)


@options
def test_results_are_of_the_mode_around_the_call(options):
    recorded = mt.function(shapes_of_all_sorts, **options)
    modes = [mt.enable_grad, mt.inference_mode, mt.inference_mode, mt.no_grad, mt.inference_mode, mt.enable_grad]
    for mode in modes * 2:
        with mode():
            assert facts(recorded(mt.ones(4))) == facts(shapes_of_all_sorts(mt.ones(4)))


def test_programs_are_kept_in_inference_mode():
    recorded = mt.function(shapes_of_all_sorts, jit_compile=True)
    with mt.inference_mode():
        for _ in range(4):
            recorded(mt.ones(4))
    assert recorded.hits == 3


@options
def test_arguments_of_inference_mode_are_told_from_others(options):
    recorded = mt.function(shapes_of_all_sorts, **options)
    of_inference = made_in_inference_mode()
    for x in [mt.ones(4), of_inference, of_inference.detach(), mt.ones(4), of_inference] * 2:
        assert facts(recorded(x)) == facts(shapes_of_all_sorts(x))


@options
def test_errors_of_inference_mode_are_raised_after_calls_without_it(options):
    weight = mt.ones(4, requires_grad=True)
    product = mt.function(lambda x: x * weight, **options)
    written = mt.function(lambda x: x.add_(1), **options)
    for x in [mt.ones(4)] * 3:
        product(x)
        written(x)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        product(made_in_inference_mode())
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        written(made_in_inference_mode())


@options
def test_a_tensor_from_outside_may_become_one_of_inference_mode(options):
    weight = mt.ones(4, requires_grad=True)
    scale = mt.ones(4)
    recorded = mt.function(lambda x: x * weight * scale, **options)
    for _ in range(3):
        recorded(mt.ones(4))
    scale.data = made_in_inference_mode()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        recorded(mt.ones(4))
