"""What a recorded function makes of Python's data alone and returns is each call's own, as eagerly."""

import numpy as np
import pytest

import minitensor as mt

OUTSIDE = mt.tensor([5.0, 6.0])


def alone(x):
    return x + 1, mt.tensor([1.0, 2.0])


def of_all_sorts(x):
    return x + 1, mt.tensor(3), mt.tensor(True), mt.tensor([]), mt.tensor([1.5], dtype=mt.float16), mt.full((2,), 7.0)


def part(x):
    t = mt.tensor([1.0, 2.0])
    return x + 1, t[1:]


def transposed(x):
    with mt.no_grad():
        return x + 1, mt.tensor([[1.0, 2.0], [3.0, 4.0]]).t()


def also_read(x):
    t = mt.tensor([1.0, 2.0])
    return x[:2] * t, t


def written(x):
    t = mt.tensor([1.0, 2.0])
    t[1:].zero_()
    return x + 1, t


def of_numpy(x):
    return x + 1, mt.from_numpy(np.array([1.0, 2.0]))


def parameter(x):
    return x + 1, mt.nn.Parameter(mt.tensor([1.0, 2.0]))


def with_attribute(x):
    t = mt.tensor([1.0, 2.0])
    t.name_of_it = 3
    return x + 1, t


FUNCTIONS = [alone, of_all_sorts, part, transposed, also_read, written, of_numpy, parameter, with_attribute]
options = pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["plain", "compiled"])


def facts(results):
    return [
        (type(t), t.dtype, t.tolist(), t.stride(), t.requires_grad, t._version, getattr(t, "name_of_it", None))
        for t in results
    ]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@options
def test_writes_to_a_call_s_constants_are_not_seen_by_the_next(function, options):
    x = mt.ones(3)
    expected = facts(function(x))
    recorded = mt.function(function, **options)
    for _ in range(6):
        results = recorded(x)
        assert facts(results) == expected
        for t in results:
            t.detach().zero_()


@options
def test_constants_that_share_memory_do_so_in_each_call(options):
    def function(x):
        t = mt.tensor([1.0, 2.0])
        return x + 1, t, t[:1], t.detach(), t

    recorded = mt.function(function, **options)
    for _ in range(6):
        _, whole, first, detached, again = recorded(mt.ones(3))
        assert whole is again
        assert first._base is whole
        first.fill_(9.0)
        assert whole.tolist() == detached.tolist() == [9.0, 2.0]


@options
def test_leaves_that_a_function_makes_have_gradients_of_their_own(options):
    def function(x):
        leaf = mt.tensor([1.0, 2.0], requires_grad=True)
        return (x * leaf).sum(), leaf

    recorded = mt.function(function, **options)
    for _ in range(6):
        loss, leaf = recorded(mt.tensor([3.0, 4.0]))
        assert leaf.grad is None
        assert leaf.tolist() == [1.0, 2.0]
        loss.backward()
        assert leaf.grad.tolist() == [3.0, 4.0]
        leaf.data.zero_()


@options
def test_a_gradient_of_python_s_data_is_new_in_each_call(options):
    weight = mt.ones(2, requires_grad=True)

    def function(x):
        weight.grad = mt.tensor([1.0, 2.0])
        return x + 1

    recorded = mt.function(function, **options)
    for _ in range(6):
        recorded(mt.ones(3))
        assert weight.grad.tolist() == [1.0, 2.0]
        weight.grad.zero_()


@options
def test_a_tensor_from_outside_is_itself_in_each_call(options):
    recorded = mt.function(lambda x: (x + 1, OUTSIDE, OUTSIDE[:1], OUTSIDE.detach()), **options)
    for _ in range(6):
        _, same, part, detached = recorded(mt.ones(3))
        assert same is OUTSIDE
        assert part._base is OUTSIDE
        assert detached.data_ptr() == OUTSIDE.data_ptr()


def test_a_session_s_constants_are_each_run_s_own():
    x = mt.ones(3)
    config = mt.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = mt.OptimizerOptions.ON_2
    config.graph_options.optimizer_options.cpu_global_jit = True
    with mt.Session(config=config) as session:
        for _ in range(6):
            _, t = session.run(alone, x)
            assert t.tolist() == [1.0, 2.0]
            t.zero_()
