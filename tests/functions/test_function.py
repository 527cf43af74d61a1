"""mt.function: must-compile, what it refuses, when it compiles again, and when it runs without Python."""

import inspect

import numpy as np
import pytest
from runs import Runs

import minitensor as mt


def here():
    """Return the line this is called from."""
    return inspect.currentframe().f_back.f_lineno


def same(a, b):
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def counted(fn):
    """Return fn compiled as a whole, and the list that grows by one whenever Python runs it."""
    runs = Runs()

    def noted(*args, **kwargs):
        print(file=runs)
        return fn(*args, **kwargs)

    return mt.function(noted, jit_compile=True), runs


def test_the_same_bits_and_python_runs_once():
    def body(x, y):
        return (mt.tanh(x) * y + 1.5).sum(dim=1)

    f, runs = counted(body)
    for seed in range(4):
        mt.manual_seed(seed)
        x, y = mt.randn(7, 33), mt.randn(7, 33)
        same(f(x, y), body(x, y))
    assert len(runs) == 1
    assert (f.programs, f.hits) == (1, 3)


def test_new_shapes_dtypes_and_layouts_compile_again():
    f, runs = counted(lambda x: x * 2.0 + 1.0)
    arguments = [mt.rand(4), mt.rand(5), mt.rand(4, 4), mt.rand(4, 4).t(), mt.rand(4).double(), mt.rand(8)[::2]]
    for x in arguments:
        same(f(x), x * 2.0 + 1.0)
    assert len(runs) == len(arguments)
    for x in arguments:
        same(f(x), x * 2.0 + 1.0)
    assert len(runs) == len(arguments)


def test_values_that_are_not_tensors_are_part_of_the_key():
    f, runs = counted(lambda x, scale, name: x * scale if name == "scale" else x + scale)
    x = mt.rand(6)
    for scale, name in [(2.0, "scale"), (3.0, "scale"), (2.0, "shift"), (2.0, "scale"), (3.0, "scale")]:
        same(f(x, scale, name), x * scale if name == "scale" else x + scale)
    assert len(runs) == 3
    same(f(x, True, "scale"), x * True)  # equal to 1.0, and another type
    assert len(runs) == 4


def test_containers_of_results():
    x = mt.rand(3)
    f = mt.function(lambda x: (x + 1.0, x * 2.0), jit_compile=True)
    g = mt.function(lambda x: [x + 1.0], jit_compile=True)
    h = mt.function(lambda x: {"sum": x.sum()}, jit_compile=True)
    for _ in range(3):
        first, second = f(x)
        same(first, x + 1.0)
        same(second, x * 2.0)
        assert isinstance(f(x), tuple)
        assert isinstance(g(x), list)
        same(h(x)["sum"], x.sum())


def test_writes_to_arguments_and_captured_tensors():
    total = mt.zeros(3)

    def body(x):
        total.add_(x * 2.0)
        x.mul_(3.0)
        return x + total

    f, runs = counted(body)
    x, expected_x, expected_total = mt.ones(3), np.ones(3, np.float32), np.zeros(3, np.float32)
    address = x.data_ptr(), total.data_ptr()
    for _ in range(4):
        result = f(x)
        expected_total += expected_x * 2
        expected_x *= 3
        np.testing.assert_array_equal(result.numpy(), expected_x + expected_total)
        np.testing.assert_array_equal(x.numpy(), expected_x)
        np.testing.assert_array_equal(total.numpy(), expected_total)
    assert len(runs) == 1
    assert (x.data_ptr(), total.data_ptr()) == address


def test_an_argument_returned_is_the_argument():
    f = mt.function(lambda x, y: (x, x + y), jit_compile=True)
    x, y = mt.rand(3), mt.rand(3)
    for _ in range(2):
        assert f(x, y)[0] is x


def test_arguments_that_share_memory():
    def body(x, y):
        x.add_(1.0)
        return y * 2.0 + x

    f, _ = counted(body)
    a, b = mt.zeros(4), mt.zeros(4)
    same(f(a, b), mt.ones(4))
    shared = mt.zeros(4)
    same(f(shared, shared), mt.full((4,), 3.0))
    base = mt.zeros(5)
    same(f(base[1:], base[:4]), mt.tensor([1.0, 3.0, 3.0, 3.0]))


def test_captured_parameters_follow_updates():
    model = mt.nn.Linear(5, 2)
    f, runs = counted(lambda x: model(x).tanh())
    x = mt.rand(3, 5)
    with mt.no_grad():
        for _ in range(3):
            same(f(x), model(x).tanh())
            model.weight.mul_(1.5)
            model.bias.add_(0.25)
    assert len(runs) == 1


def test_gradients_flow_through_results():
    w = mt.rand(4, requires_grad=True)
    f = mt.function(lambda x: (x * w).tanh().sum(), jit_compile=True)
    x = mt.rand(4)
    for _ in range(2):
        w.grad = None
        f(x).backward()
        compiled = w.grad
        w.grad = None
        (x * w).tanh().sum().backward()
        same(compiled, w.grad)


def test_random_numbers_are_new_in_every_call():
    def body(x):
        return x + mt.rand(5)

    for f in (mt.function(body), mt.function(body, jit_compile=True)):
        mt.manual_seed(3)
        drawn = [f(mt.zeros(5)), f(mt.zeros(5))]
        mt.manual_seed(3)
        for result in drawn:
            same(result, mt.rand(5))
        assert drawn[0].tolist() != drawn[1].tolist()


def test_refusals_name_op_reason_and_line():
    line = here() + 3

    def body(x):
        return mt.nonzero(x * 2.0)

    with pytest.raises(mt.InvalidArgumentError) as refusal:
        mt.function(body, jit_compile=True)(mt.rand(3))
    assert refusal.value.op == "nonzero"
    assert "shape of its result depends on the data" in refusal.value.reason
    assert (refusal.value.source.file, refusal.value.source.line) == (__file__, line)
    assert f'File "{__file__}", line {line}' in str(refusal.value)


@pytest.mark.parametrize(
    ("observe", "name"),
    [
        (float, "float()"),
        (bool, "bool()"),
        (lambda t: t.item(), "item()"),
        (lambda t: t.tolist(), "tolist()"),
        (repr, "repr()"),
    ],
)
def test_looking_at_a_value_half_way_is_refused(observe, name):
    def body(x):
        observe(x.sum() * 2.0)
        return x

    with pytest.raises(mt.InvalidArgumentError) as refusal:
        mt.function(body, jit_compile=True)(mt.rand(3))
    assert refusal.value.op == name


def test_an_op_without_a_lowering_is_called_by_compiled_code():
    def body(x):
        return mt.cumsum(x * 2.0, 0) + 1.0

    x = mt.rand(9)
    for jit_compile in (True, None, False):
        same(mt.function(body, jit_compile=jit_compile)(x), body(x))


def test_an_op_whose_result_depends_on_data_is_refused_and_best_effort_runs_it():
    def body(x):
        return mt.masked_select(x * 2.0, x > 0.5) + 1.0

    x = mt.rand(9)
    with pytest.raises(mt.InvalidArgumentError, match="masked_select can't be compiled"):
        mt.function(body, jit_compile=True)(x)
    same(mt.function(body)(x), body(x))
    same(mt.function(body, jit_compile=False)(x), body(x))


def test_after_a_refusal_all_goes_on():
    f = mt.function(lambda x: mt.unique(x), jit_compile=True)
    for _ in range(2):
        with pytest.raises(mt.InvalidArgumentError):
            f(mt.rand(3))
    assert not mt._C.is_recording()
    g = mt.function(lambda x: x + 1.0, jit_compile=True)
    same(g(mt.ones(2)), mt.full((2,), 2.0))


def test_the_functions_own_errors_come_through():
    def body(x, y):
        return x @ y

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        mt.function(body, jit_compile=True)(mt.rand(2, 3), mt.rand(2, 3))
    with pytest.raises(KeyError):
        mt.function(lambda x: {}[x], jit_compile=True)(mt.rand(2))


def test_decorators_methods_keywords_and_names():
    @mt.function(jit_compile=True)
    def scaled(x, factor=2.0):
        """Scale."""
        return x * factor + 1.0

    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Scale.")
    assert "scaled" in repr(scaled)
    x = mt.rand(4)
    same(scaled(x, factor=3.0), x * 3.0 + 1.0)
    same(scaled(x), x * 2.0 + 1.0)

    class Model:
        factor = 4.0

        @mt.function(jit_compile=True)
        def call(self, x):
            return x * self.factor

    same(Model().call(x), x * 4.0)


def test_a_function_in_a_recording_joins_it():
    f = mt.function(lambda x: x * 2.0 + 1.0, jit_compile=True)
    x = mt.rand(5)
    with mt.jit_scope():
        y = f(x - 1.0)
        assert y._is_pending
        z = y + 3.0
    same(z, (x - 1.0) * 2.0 + 1.0 + 3.0)


def test_wrong_use():
    with pytest.raises(TypeError, match="takes a callable, not int"):
        mt.function(3)
