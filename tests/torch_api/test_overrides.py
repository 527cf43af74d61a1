"""`__torch_function__`: who takes calls over, what they are told, and that nobody else notices."""

import copy
import operator
import pickle
import subprocess
import sys
import threading
from typing import ClassVar

import pytest

import minitensor as mt
import minitensor.nn.functional as F
from minitensor import overrides
from minitensor.overrides import TorchFunctionMode, resolve_name


class Sub(mt.Tensor):
    pass


class Special(Sub):
    pass


class Recorded:
    """No tensor, but a class that takes calls over."""

    calls: ClassVar[list] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((resolve_name(func), [type(a).__name__ for a in args], sorted(kwargs or {})))
        return "taken"


class Log(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(resolve_name(func).removeprefix("torch."))
        return func(*args, **(kwargs or {}))


def sub(*values):
    return mt.tensor(values or (1.0, 2.0)).as_subclass(Sub)


X, N = mt.tensor([1.0, 2.0]), mt.tensor([1, 2])
# What a mode sees of an expression, as PyTorch 2.13 calls it.
SEEN = {
    "x + x": "Tensor.add", "1 + x": "Tensor.add", "1 - x": "Tensor.__rsub__", "x - 1": "Tensor.sub",
    "2 * x": "Tensor.mul", "x / 2": "Tensor.div", "1 / x": "Tensor.__rtruediv__", "x // 2": "Tensor.__floordiv__",
    "1 // x": "Tensor.__rfloordiv__", "x % 2": "Tensor.remainder", "1 % x": "Tensor.__rmod__",
    "x ** 2": "Tensor.__pow__", "2 ** x": "Tensor.__rpow__", "x @ x": "Tensor.matmul", "-x": "Tensor.neg",
    "abs(x)": "Tensor.abs", "+x": "Tensor.positive", "~i": "Tensor.__invert__", "i & 1": "Tensor.__and__",
    "1 & i": "Tensor.bitwise_and", "i | 1": "Tensor.__or__", "i ^ 1": "Tensor.__xor__", "i << 1": "Tensor.__lshift__",
    "1 << i": "Tensor.__rlshift__", "i >> 1": "Tensor.__rshift__", "x != 1": "Tensor.ne", "x < 1": "Tensor.lt",
    "x >= 1": "Tensor.ge", "x[0]": "Tensor.__getitem__", "len(x)": "Tensor.__len__", "repr(x)": "Tensor.__repr__",
    "x.shape": "Tensor.shape.__get__", "mat.mT": "Tensor.mT.__get__", "x.real": "Tensor.real.__get__",
    "x.is_cuda": "Tensor.is_cuda.__get__", "x.size()": "Tensor.size", "x.dim()": "Tensor.dim", "x.add(1)": "Tensor.add",
    "x.sum(0)": "Tensor.sum", "x.view(2, 1)": "Tensor.view", "x.cpu()": "Tensor.cpu", "x.flatten()": "Tensor.flatten",
    "x.detach()": "Tensor.detach", "x.tolist()": "Tensor.tolist", "x.split(1)": "Tensor.split",
    "1 in x": "Tensor.__contains__",
    "mt.add(x, 1)": "add", "mt.sum(x, dim=0)": "sum", "mt.zeros(2)": "zeros", "mt.tensor([1])": "tensor",
    "mt.stack([x, x])": "stack", "mt.cat([x, x])": "cat", "mt.numel(x)": "numel", "mt.rand(2)": "rand",
    "F.linear(x, mat)": "nn.functional.linear", "F.relu(x)": "relu", "F.dropout(x)": "dropout",
    "mt.linalg.norm(x)": "linalg.norm", "mt.fft.fft(x)": "fft.fft", "x.requires_grad_(False)": "Tensor.requires_grad_",
    "operator.iadd(x.clone(), 1)": "Tensor.clone Tensor.add_",
    "setattr(x, 'requires_grad', False)": "Tensor.requires_grad.__set__",
    "operator.setitem(x.clone(), 0, 1)": "Tensor.clone Tensor.__setitem__",
    "float(x[0])": "Tensor.__getitem__ Tensor.__float__",
    "mt.is_tensor(x)": "", "mt.manual_seed(0)": "", "hash(x)": "", "x.as_subclass(mt.Tensor)": "",
}  # fmt: skip


def names_of(x):
    return {"x": x, "i": N, "mt": mt, "F": F, "operator": operator, "mat": mt.ones(3, 2)}


@pytest.mark.parametrize("expression", SEEN)
def test_a_mode_sees_every_call_by_its_name(expression):
    given = names_of(X)
    with Log() as log:
        eval(expression, given)
    assert (
        " ".join(log.names).replace("nn.functional.relu", "relu").replace("nn.functional.dropout", "dropout")
        == SEEN[expression]
    )


@pytest.mark.torch
@pytest.mark.parametrize("expression", [e for e in SEEN if "mat" not in e])
def test_the_names_are_those_of_torch(expression):
    torch = pytest.importorskip("torch")
    names = []

    class Theirs(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(torch.overrides.resolve_name(func).removeprefix("torch.").removeprefix("nn.functional."))
            return func(*args, **(kwargs or {}))

    given = {"x": torch.tensor([1.0, 2.0]), "i": torch.tensor([1, 2]), "mt": torch, "F": torch.nn.functional}
    with Theirs():
        eval(expression, {**given, "operator": operator})
    assert " ".join(names) == SEEN[expression].removeprefix("nn.functional.")


def test_results_on_a_subclass_are_of_the_subclass():
    x = sub()
    assert type(x + 1) is type(1 - x) is type(x.sum(0)) is type(mt.exp(x)) is type(x[0]) is type(x.real) is Sub
    assert type(F.relu(x)) is type(mt.stack([mt.ones(2), x])) is type(x.to(mt.float64)) is type(x.split(1)[0]) is Sub
    values, indices = mt.max(x, 0)
    assert type(values) is type(indices) is Sub
    assert type(mt.max(x, 0)).__name__ == "max"
    assert type(x.shape) is mt.Size
    assert type(x.tolist()) is list
    assert x.dtype is mt.float32
    assert x.add_(1) is x
    assert x.tolist() == [2.0, 3.0]
    assert repr(x) == "Sub([2., 3.])"
    assert type(copy.deepcopy(x)) is Sub
    assert type(pickle.loads(pickle.dumps(x))) is Sub
    assert type(x.as_subclass(mt.Tensor)) is mt.Tensor


def test_the_most_special_class_wins_and_strangers_decline():
    class Other(mt.Tensor):
        pass

    assert type(sub() + mt.ones(2).as_subclass(Special)) is Special
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'minitensor\.add'; all __torch_function__"):
        sub() + mt.ones(2).as_subclass(Other)


def test_gradients_of_a_subclass():
    x = sub().requires_grad_()
    y = (x * x).sum()
    y.backward()
    assert type(y) is Sub
    assert x.grad.tolist() == [2.0, 4.0]
    w = mt.ones(2, requires_grad=True)
    (sub() * w).sum().backward()
    assert type(w.grad) is mt.Tensor
    assert w.grad.tolist() == [1.0, 2.0]


def test_parameters_override_nothing():
    p = mt.nn.Parameter(mt.ones(2))
    assert type(p + 1) is mt.Tensor
    assert not overrides.has_torch_function_unary(p)


def test_super_and_kwargs():
    class Scaled(mt.Tensor):
        seen: ClassVar[list] = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append((func, types, len(args), kwargs))
            return super().__torch_function__(func, types, args, kwargs)

    x = mt.ones(2, 2).as_subclass(Scaled)
    Scaled.seen.clear()
    mt.sum(x, dim=0)
    x.add(1)
    assert Scaled.seen == [(mt.sum, (Scaled,), 1, {"dim": 0}), (mt.Tensor.add, (Scaled,), 2, None)]
    assert mt.add is not mt.Tensor.add
    assert resolve_name(mt.Tensor.exp) == "torch.Tensor.exp"


TAKEN = {
    "x + f": ("Tensor.add", ["Tensor", "Recorded"]), "f + x": ("Tensor.add", ["Tensor", "Recorded"]),
    "f - x": ("Tensor.__rsub__", ["Tensor", "Recorded"]), "f @ x": ("Tensor.__rmatmul__", ["Tensor", "Recorded"]),
    "x == f": ("Tensor.eq", ["Tensor", "Recorded"]), "f < x": ("Tensor.gt", ["Tensor", "Recorded"]),
    "x ** f": ("Tensor.__pow__", ["Tensor", "Recorded"]), "x[f]": ("Tensor.__getitem__", ["Tensor", "Recorded"]),
    "mt.add(x, f)": ("add", ["Tensor", "Recorded"]), "mt.add(x, 1, alpha=f)": ("add", ["Tensor", "int"]),
    "mt.sum(f)": ("sum", ["Recorded"]), "mt.exp(f)": ("exp", ["Recorded"]), "mt.stack([x, f])": ("stack", ["list"]),
    "mt.cat([f, x])": ("cat", ["list"]), "mt.zeros(2, f)": ("zeros", ["int", "Recorded"]),
    "x.view(f)": ("Tensor.view", ["Tensor", "Recorded"]), "x.reshape((f, 2))": ("Tensor.reshape", ["Tensor", "tuple"]),
    "x.to(f)": ("Tensor.to", ["Tensor", "Recorded"]), "operator.iadd(x, f)": ("Tensor.add_", ["Tensor", "Recorded"]),
    "F.linear(f, x)": ("nn.functional.linear", ["Recorded", "Tensor"]),
    "mt.where(f, x, x)": ("where", ["Recorded", "Tensor", "Tensor"]),
    "F.layer_norm(f, (2,))": ("nn.functional.layer_norm", ["Recorded", "tuple"]),
}  # fmt: skip


@pytest.mark.parametrize("expression", TAKEN)
def test_other_objects_take_calls_over(expression):
    Recorded.calls.clear()
    assert eval(expression, {**names_of(X), "f": Recorded()}) == "taken"
    name, kinds = TAKEN[expression]
    ((seen, given, _),) = Recorded.calls
    assert (seen, given) == (f"torch.{name}", kinds)


def test_modes_nest_and_are_off_within_themselves():
    order = []

    class Named(TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        mt.add(X, 1)
    assert order == ["inner", "outer"]
    mt.add(X, 1)
    assert order == ["inner", "outer"]
    assert overrides._get_current_function_mode() is None


def test_a_mode_may_change_what_a_call_does_and_decline():
    class Doubles(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is not mt.add:
                return NotImplemented
            return func(*args, **(kwargs or {})) * 2

    with Doubles():
        doubled = mt.add(X, 1)
        with pytest.raises(TypeError, match=r"(?s)Multiple dispatch failed for 'minitensor.sub'.*mode object"):
            mt.sub(X, 1)
    assert doubled.tolist() == [4.0, 6.0]


def test_modes_are_of_their_thread():
    seen = []
    with Log() as log:
        thread = threading.Thread(target=lambda: seen.append((X + 1).tolist()))
        thread.start()
        thread.join()
    assert seen == [[2.0, 3.0]]
    assert log.names == []


def test_switching_it_off():
    x = sub()
    with mt._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is mt.Tensor
        with Log() as log:
            x + 1
    with mt._C.DisableTorchFunction(), Log() as none:
        assert type(x + 1) is mt.Tensor
    assert log.names == ["Tensor.add"]
    assert none.names == []
    assert type(x + 1) is Sub


def test_errors_of_a_handler_are_the_callers():
    class Raises(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    given = names_of(X)
    for expression in ("x + 1", "mt.exp(x)", "x.shape", "len(x)", "bool(x)", "x.sum()", "setattr(x, 'data', x)"):
        with Raises(), pytest.raises(KeyError, match="mine"):
            eval(expression, given)
    with pytest.raises(TypeError):
        mt.exp("a")


def test_the_engine_calls_no_modes():
    x = mt.tensor([1.0, 2.0], requires_grad=True)
    y = (x.sigmoid() * x).sum()
    with Log() as log:
        y.backward()
    assert log.names == ["Tensor.backward"]


@pytest.mark.at_once(reason="what a compiled function keeps is asked for")
def test_compiled_functions_with_overrides():
    function = mt.function(lambda x: x * 2 + 1)
    for _ in range(3):
        assert type(function(mt.ones(2))) is mt.Tensor
    with Log() as log:
        function(mt.ones(2))
    assert "Tensor.mul" in log.names
    assert [type(function(sub())) for _ in range(3)] == [Sub] * 3


def test_functions_of_ones_own():
    @overrides.wrap_torch_function(lambda a, b=None: (a, b))
    def mine(a, b=None):
        return "mine"

    assert mine(1) == "mine"
    assert mine(Recorded()) == "taken"

    def other(a):
        if overrides.has_torch_function((a,)):
            return overrides.handle_torch_function(other, (a,), a, extra=1)
        return a

    Recorded.calls.clear()
    assert other(3) == 3
    assert other(Recorded()) == "taken"
    assert Recorded.calls == [(None, ["Recorded"], ["extra"])]


def test_what_can_be_overridden():
    every = overrides.get_overridable_functions()
    assert mt.add in every[mt]
    assert mt.Tensor.add in every[mt.Tensor]
    assert mt.Tensor.shape.__get__ in every[mt.Tensor]
    assert F.linear in every[F]
    assert mt.linalg.norm in every[mt.linalg]
    ignored = overrides.get_ignored_functions()
    assert mt.is_tensor in ignored
    assert mt.zeros in ignored
    assert mt.add not in ignored
    dummies = overrides.get_testing_overrides()
    assert dummies[mt.add](1, 2) == -1
    assert dummies[mt.Tensor.add](1, 2) == -1
    assert overrides.is_tensor_method_or_property(mt.Tensor.add)
    assert overrides.is_tensor_method_or_property(mt.Tensor.shape.__get__)
    assert not overrides.is_tensor_method_or_property(mt.add)
    assert overrides.is_tensor_like(Recorded())
    assert overrides.is_tensor_like(X)
    assert not overrides.is_tensor_like(3)
    assert [resolve_name(f) for f in (mt.sum, mt.Tensor.sum, F.linear, mt.linalg.norm)] == [
        "torch.sum", "torch.Tensor.sum", "torch.nn.functional.linear", "torch.linalg.norm",
    ]  # fmt: skip


def test_every_one_of_them_is_overridden():
    """An object in the first place takes the call over, whatever else the function wants."""
    missed = []
    for home, functions in overrides.get_overridable_functions().items():
        for function in functions:
            if home is mt.Tensor:
                continue
            try:
                if function(Recorded()) != "taken":
                    missed.append(function)
            except Exception as error:
                missed.append((function, error))
    assert missed == []


def test_redispatch():
    class Seen(mt.Tensor):
        names: ClassVar[list] = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.names.append(func.__name__)
            return overrides.redispatch_function(func, types, args, kwargs)

    def scaled(a, b):
        if overrides.has_torch_function((a, b)):
            return overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    x, y = (mt.tensor([n]).as_subclass(Seen) for n in (3.0, 4.0))
    result = scaled(x, y)
    assert Seen.names == ["scaled", "mul"]  # what that gives is an ordinary tensor
    assert type(result) is mt.Tensor
    assert result.tolist() == [13.0]


def test_names_that_are_not_here_say_where_to_look():
    with pytest.raises(AttributeError, match=r"has no attribute 'no_such_name' \(docs/coverage\.md and docs/names\.md"):
        getattr(mt, "no_such_name")  # noqa: B009


@pytest.mark.torch
def test_tensors_of_pytorch_take_no_call_over():
    torch = pytest.importorskip("torch")
    theirs = torch.tensor([1.0, 2.0])
    for given in (theirs, torch.nn.Parameter(theirs)):
        assert mt.from_dlpack(given.detach()).tolist() == [1.0, 2.0]
        with pytest.raises(TypeError):
            mt.add(mt.ones(2), given)


GIVEN_BACK = """
import minitensor as mt
from minitensor import overrides

class Back:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return overrides.redispatch_function(func, types, args, kwargs)

F, x, f = mt.nn.functional, mt.ones(2), Back()
calls = ["mt.exp(f)", "mt.Tensor.exp(f)", "x + f", "f - x", "x @ f", "x[f]", "x.view(f)", "x.__iadd__(f)"]
calls.append("F.linear(f, x)")
for _ in range(2):  # before and after there is a class of tensors that overrides
    for call in calls:
        try:
            assert eval(call) is NotImplemented, call
        except (TypeError, IndexError) as error:
            assert "maximum recursion" not in str(error), call
        try:
            overrides.redispatch_function(eval("lambda: " + call), (), (), None)
        except (TypeError, IndexError):
            pass
    x.as_subclass(type("Sub", (mt.Tensor,), {}))
"""


def test_calls_given_back_end_in_the_error_of_their_arguments():
    """Whoever gave a call back is not asked again. The process has no class of tensors of its own at first."""
    run = subprocess.run([sys.executable, "-c", GIVEN_BACK], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr


def test_what_no_call_can_be_made_of():
    class Negative(mt.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return -5

    with pytest.raises(ValueError, match=r"__len__\(\) should return >= 0"):
        len(X.as_subclass(Negative))
    for call in (overrides.redispatch_function, mt._C._disabled_torch_function_impl):
        with pytest.raises(TypeError, match="expected a dict of keyword arguments or None, got list"):
            call(mt.add, (), (X,), [("other", 1)])
    assert (sub() + 1).tolist() == [2.0, 3.0]
    assert type(sub() + 1) is Sub


class _PassesOn(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("view", lambda held, x: held(x, 2, 3)), ("is_contiguous", lambda held, x: held(x)),
        ("__len__", lambda held, x: held(x)), ("shape", lambda held, x: held.__get__(x)),
        ("requires_grad", lambda held, x: held.__set__(x, True)),
    ],
)  # fmt: skip
def test_what_was_taken_from_the_class_is_unknown_to_modes(name, call):
    """A mode is told a function by its name: there is none for what the class had before."""
    x = mt.arange(6.0)
    held = mt.Tensor.__dict__[name]
    with _PassesOn():
        before = call(held, x)
    x = mt.arange(6.0)
    delattr(mt.Tensor, name)
    try:
        with pytest.raises(RuntimeError, match=f"Tensor has no attribute '{name}'"), _PassesOn():
            call(held, x)
    finally:
        setattr(mt.Tensor, name, held)
    assert not x.requires_grad
    with _PassesOn():
        after = call(held, x)
    assert repr(after) == repr(before)


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["plain", "compiled"])
def test_a_recorded_function_asks_tensors_that_take_calls_over_for_nothing_else(options):
    class Noting(mt.Tensor):
        names: ClassVar[list] = []

        @classmethod
        def __torch_function__(cls, func, kinds, args=(), kwargs=None):
            cls.names.append(func.__name__)
            return super().__torch_function__(func, kinds, args, kwargs or {})

    class NotingMode(TorchFunctionMode):
        def __torch_function__(self, func, kinds, args=(), kwargs=None):
            Noting.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    f = mt.function(lambda x: (x * 2 + 1).exp(), **options)
    for _ in range(3):
        x, noting = mt.ones(3), mt.ones(3).as_subclass(Noting)
        Noting.names.clear()
        f(noting)
        assert Noting.names == ["mul", "add", "exp"]
        Noting.names.clear()
        with NotingMode():
            f(x)
        assert Noting.names == ["mul", "add", "exp"]
