"""Backward passes and steps of optimizers in programs under the flags: each is a run of its own, and becomes a program.

Whatever way they run, everything that can be seen is that of eager code, bit for bit.
"""

from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pytest

import minitensor as mt
from minitensor import _C

F = mt.nn.functional


class Clock:
    """Programs of calls take less time than their ops."""

    def __init__(self):
        self.start = _C.whole_calls()

    def __call__(self):
        recorded, eager, programs = (now - then for now, then in zip(_C.whole_calls(), self.start, strict=True))
        return 5000 * recorded + 3000 * eager + 1000 * programs


@contextmanager
def program(**options):
    """A whole program inside; what comes for the first time is compiled."""
    options = {"auto_jit": 2, "cpu_global_jit": True, "enable_lazy_compilation": False} | options
    mt.jit.cache_clear()
    with mt.jit.options(**options):
        _C.set_policy_clock(Clock())
        _C.begin_program()
        try:
            yield
        finally:
            _C.end_recording("the end of the program")
            _C.set_policy_clock(None)


def programs_run():
    return _C.whole_calls()[2]


def seen(*tensors):
    return [
        None if t is None else (t.shape, t.stride(), t.dtype, t._version, t.detach().numpy().tobytes()) for t in tensors
    ]


def same_as_eager(run, least=20):
    """What `run` gives, eagerly and as a whole program, of which so many calls ran as programs."""
    mt.manual_seed(7)
    expected = run()
    before = programs_run()
    with program():
        mt.manual_seed(7)
        got = run()
    assert got == expected
    assert programs_run() - before >= least


def trained(step, leaves, count=60):
    def run():
        tensors = leaves()
        out = []
        for i in range(count):
            out.append(step(i, *tensors))
        return out

    return run


# ---- passes that become programs


def test_a_perceptron():
    def leaves():
        model = mt.nn.Sequential(mt.nn.Linear(5, 7), mt.nn.Tanh(), mt.nn.Linear(7, 3))
        return model, mt.rand(11, 5), mt.randint(0, 3, (11,))

    def step(i, model, x, y):
        for p in model.parameters():
            p.grad = None
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with mt.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
        return seen(loss, *(p.grad for p in model.parameters()))

    same_as_eager(trained(step, leaves))


def test_a_convolution():
    def leaves():
        return (
            mt.nn.Sequential(
                mt.nn.Conv2d(1, 2, 3), mt.nn.ReLU(), mt.nn.MaxPool2d(2), mt.nn.Flatten(), mt.nn.Linear(18, 4)
            ),
            mt.rand(3, 1, 8, 8),
        )

    def step(i, model, x):
        for p in model.parameters():
            p.grad = None
        model(x).pow(2).mean().backward()
        return seen(*(p.grad for p in model.parameters()))

    same_as_eager(trained(step, leaves, 40))


def test_batches_of_one_array_lie_elsewhere():
    data = np.arange(240, dtype=np.float32).reshape(40, 6) / 100

    def leaves():
        return mt.rand(6, 4).requires_grad_(), mt.from_numpy(data)

    def step(i, w, data):
        w.grad = None
        mt.tanh(data[i % 10 * 4 : i % 10 * 4 + 4] @ w).sum().backward()
        return seen(w.grad)

    same_as_eager(trained(step, leaves))


def test_memory_that_numpy_changes_is_read_when_the_pass_runs():
    def run():
        data = np.arange(24, dtype=np.float32).reshape(4, 6) / 10
        w, out = mt.ones(6, 4).mul(0.25).requires_grad_(), []
        for _ in range(60):
            w.grad = None
            loss = mt.tanh(mt.from_numpy(data) @ w).sum()
            data += 0.01
            loss.backward()
            out.append(seen(w.grad))
        return out

    same_as_eager(run)


def test_parts_of_one_result():
    def leaves():
        return mt.rand(4, 12).requires_grad_(), mt.rand(3, 4, 5)

    def step(i, w, x):
        w.grad = None
        h = mt.zeros(5, 3)
        for t in range(3):
            a, b, c, d = (x[t].t() @ w + h.sum()).chunk(4, 1)
            h = a.sigmoid() * h + b.tanh() * c.sigmoid() + d
        h.pow(2).mean().backward()
        return seen(w.grad)

    same_as_eager(trained(step, leaves))


def test_a_permuted_leaf_has_a_permuted_gradient():
    def leaves():
        return (mt.rand(4, 3).t().requires_grad_(),)

    def step(i, w):
        w.grad = None
        (w * w).sum().backward()
        return seen(w.grad)

    same_as_eager(trained(step, leaves), least=0)


def test_seeds_and_several_roots():
    def leaves():
        return mt.rand(4).requires_grad_(), mt.rand(4), mt.rand(4)

    def step(i, w, a, b):
        w.grad = None
        x, y = (w * a).exp(), (w * b).sin()
        mt.autograd.backward([x, y.sum()], [mt.full((4,), float(i)), None])
        return seen(w.grad)

    same_as_eager(trained(step, leaves))


def test_a_number_that_changes_is_no_constant():
    def leaves():
        return (mt.rand(4).requires_grad_(),)

    def step(i, w):
        w.grad = None
        (w.exp() * (1.25 + i % 7)).sum().backward()
        return seen(w.grad)

    same_as_eager(trained(step, leaves), least=0)


def test_shapes_take_turns():
    def leaves():
        return mt.rand(4, 3).requires_grad_(), [mt.rand(n, 4) for n in (3, 5)]

    def step(i, w, xs):
        w.grad = None
        (xs[i % 2] @ w).tanh().sum().backward()
        return seen(w.grad)

    same_as_eager(trained(step, leaves, 100))


def test_leaves_that_are_new_each_time():
    def leaves():
        return (mt.rand(4),)

    def step(i, x):
        leaf = (x + i).requires_grad_()
        (leaf.sin() * x).sum().backward()
        return seen(leaf.grad)

    same_as_eager(trained(step, leaves))


def test_a_leaf_that_is_gone():
    def leaves():
        return (mt.rand(4).requires_grad_(),)

    def step(i, w):
        w.grad = None
        other = mt.full((4,), 2.5).requires_grad_()
        loss = (w * other).exp().sum()
        del other
        loss.backward()
        return seen(w.grad)

    same_as_eager(trained(step, leaves))


def test_the_graph_is_kept_or_freed():
    def leaves():
        return (mt.rand(4).requires_grad_(),)

    def step(i, w):
        w.grad = None
        loss = (w * w).exp().sum()
        loss.backward(retain_graph=True)
        first = seen(w.grad)
        w.grad = None
        loss.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            loss.backward()
        return first, seen(w.grad)

    same_as_eager(trained(step, leaves))


def test_saved_memory_is_freed():
    def leaves():
        return (mt.rand(64).requires_grad_(),)

    def step(i, w):
        w.grad = None
        y = w.exp()
        y.pow(2).sum().backward()
        with pytest.raises(RuntimeError, match="a second time"):
            _ = y.grad_fn._saved_result
        return seen(w.grad)

    same_as_eager(trained(step, leaves))


# ---- passes that the engine runs


def test_gradients_are_added():
    def leaves():
        return (mt.rand(4).requires_grad_(),)

    def step(i, w):
        if i % 3 == 0:
            w.grad = None
        held = w.grad
        (w.exp() * (i + 1)).sum().backward()
        return seen(w.grad), held is None or held is w.grad

    same_as_eager(trained(step, leaves), least=0)


def test_hooks_are_called():
    def run():
        w, out = mt.rand(4).requires_grad_(), []
        for i in range(60):
            w.grad = None
            y = w.exp()
            if i % 4 == 0:
                y.register_hook(lambda g: g * 2)
            if i % 4 == 1:
                y.retain_grad()
            if i % 4 == 2:
                handle = w.register_hook(lambda g: out.append(g.tolist()))
            y.sum().backward()
            if i % 4 == 2:
                handle.remove()
            out.append(seen(w.grad, y.grad if i % 4 == 1 else None))
        return out

    same_as_eager(run, least=0)


def test_functions_of_the_users_own_are_called():
    class Twice(mt.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            Twice.calls += 1
            return g * 2

    def run():
        Twice.calls = 0
        w, out = mt.rand(4).requires_grad_(), []
        for _ in range(40):
            w.grad = None
            Twice.apply(w).exp().sum().backward()
            out.append((Twice.calls, seen(w.grad)))
        return out

    same_as_eager(run, least=0)


def test_what_was_written_since_is_an_error():
    def run():
        w, out = mt.rand(4).requires_grad_(), []
        for i in range(60):
            w.grad = None
            y = w.exp()
            loss = y.sum()
            if i % 5 == 4:
                y.detach().mul_(2)
                with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
                    loss.backward()
                out.append(str(error.value))
            else:
                loss.backward()
                out.append(seen(w.grad))
        return out

    same_as_eager(run)


def test_what_has_no_seed_is_an_error():
    def run():
        w = mt.rand(4).requires_grad_()
        with pytest.raises(RuntimeError, match="scalar outputs"):
            w.exp().backward()
        return True

    same_as_eager(run, least=0)


def test_a_leaf_that_wants_none_any_more():
    def run():
        w, v, out = mt.rand(4).requires_grad_(), mt.rand(4).requires_grad_(), []
        for i in range(60):
            w.grad = v.grad = None
            v.requires_grad_(True)
            loss = (w * v).exp().sum()
            v.requires_grad_(i % 6 != 5)
            loss.backward()
            out.append(seen(w.grad, v.grad))
        return out

    same_as_eager(run)


def test_higher_derivatives():
    def run():
        w, out = mt.rand(4).requires_grad_(), []
        for _ in range(40):
            w.grad = None
            (g,) = mt.autograd.grad(w.exp().sum(), w, create_graph=True)
            (g * g).sum().backward()
            out.append(seen(w.grad))
        return out

    same_as_eager(run)


@pytest.mark.parametrize("place", ["launch", "allocation"])
def test_a_program_that_fails_leaves_it_to_the_engine(place):
    def run():
        w, out = mt.rand(4).requires_grad_(), []
        for i in range(60):
            w.grad = None
            loss = ((w.exp() * w).tanh() * w.sigmoid()).sum()
            loss.item()
            if i > 40 and _C.is_recording():
                _C._arm_fault(place, 0)
            try:
                loss.backward()
            finally:
                _C._arm_fault(place, -1)
            out.append(seen(w.grad))
        return out

    same_as_eager(run)


# ---- steps of optimizers

OPTIMIZERS = {
    "SGD": {"lr": 0.1},
    "SGD momentum": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "Adam": {"lr": 0.01},
    "AdamW": {"lr": 0.01, "amsgrad": True},
    "RAdam": {"lr": 0.01},
    "NAdam": {"lr": 0.01},
    "RMSprop": {"lr": 0.01},
    "Adagrad": {"lr": 0.01},
    "Adadelta": {"lr": 0.5},
    "Rprop": {"lr": 0.01},
}


def optimized(change, kind="Adam", count=60, **options):
    """Training of a small model; `change(i, model, optimizer)` comes before each step and may return more."""

    def run():
        model = mt.nn.Sequential(mt.nn.Linear(5, 7), mt.nn.Tanh(), mt.nn.Linear(7, 3))
        x, y = mt.rand(11, 5), mt.randint(0, 3, (11,))
        optimizer = getattr(mt.optim, kind)(model.parameters(), **(options or {"lr": 0.01}))
        out = []
        for i in range(count):
            more = change(i, model, optimizer)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            state = [
                (name, value.tolist() if isinstance(value, mt.Tensor) else value)
                for of_one in optimizer.state.values()
                for name, value in of_one.items()
            ]
            out.append((seen(loss, *model.parameters()), state, more))
        return out

    return run


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name):
    same_as_eager(optimized(lambda *_: None, name.split()[0], **OPTIMIZERS[name]), least=60)


def test_numbers_of_groups_change():
    def change(i, model, optimizer):
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + i % 9)
        if i == 40:
            optimizer.param_groups[0]["betas"] = (0.8, 0.99)
        if i == 50:
            optimizer.param_groups[0]["weight_decay"] = 0.1

    same_as_eager(optimized(change), least=60)


def test_schedules_and_hooks():
    def run():
        told = []
        w = mt.rand(4).requires_grad_()
        optimizer = mt.optim.SGD([w], lr=1.0)
        optimizer.register_step_pre_hook(lambda *_: told.append("before"))
        optimizer.register_step_post_hook(lambda *_: told.append(w.tolist()))
        schedule = mt.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        for _ in range(60):
            optimizer.zero_grad()
            (w * w).sin().sum().backward()
            optimizer.step()
            schedule.step()
        return told

    same_as_eager(run, least=60)


def test_gradients_come_and_go():
    def change(i, model, optimizer):
        model[0].weight.requires_grad_(i % 4 != 3)

    same_as_eager(optimized(change))


def test_parameters_are_added_and_states_replaced():
    extra = []

    def change(i, model, optimizer):
        if i == 0:
            extra.clear()
        if i == 30:
            extra.append(mt.ones(3).requires_grad_())
            optimizer.add_param_group({"params": extra, "lr": 0.5})
        if extra:
            extra[0].grad = mt.full((3,), float(i))
        if i == 45:
            optimizer.load_state_dict(optimizer.state_dict())
        if i == 50:
            next(iter(optimizer.state.values()))["exp_avg"] = mt.ones(7, 5)
        return seen(*extra)

    same_as_eager(optimized(change))


def test_a_parameter_gets_other_data():
    def change(i, model, optimizer):
        if i % 20 == 19:
            model[0].weight.data = mt.full((7, 5), 0.125)

    same_as_eager(optimized(change))


def test_two_optimizers_of_one_kind():
    def run():
        a, b = mt.rand(4).requires_grad_(), mt.rand(4).requires_grad_()
        one, other = mt.optim.Adam([a], lr=0.1), mt.optim.Adam([b], lr=0.2)
        out = []
        for _ in range(60):
            for optimizer, p in ((one, a), (other, b)):
                optimizer.zero_grad()
                (p * p).sin().sum().backward()
                optimizer.step()
            out.append(seen(a, b))
        return out

    same_as_eager(run)


def test_an_optimizer_of_the_users_own():
    class Mine(mt.optim.SGD):
        def __init__(self, params):
            super().__init__(params, lr=0.1)
            self.taken = 0

        def step(self, closure=None):
            self.taken += 1
            return super().step(closure)

    def run():
        w = mt.rand(4).requires_grad_()
        optimizer = Mine([w])
        out = []
        for _ in range(40):
            optimizer.zero_grad()
            (w * w).sin().sum().backward()
            optimizer.step()
            out.append((optimizer.taken, seen(w)))
        return out

    same_as_eager(run)


def test_closures():
    def run():
        w = mt.rand(4).requires_grad_()
        optimizer = mt.optim.Adam([w], lr=0.1)
        out = []

        def closure():
            optimizer.zero_grad()
            loss = (w * w).sin().sum()
            loss.backward()
            out.append(loss.item())
            return loss

        for _ in range(40):
            out.append(seen(optimizer.step(closure), w))
        return out

    same_as_eager(run)


def test_clipping_between_the_pass_and_the_step():
    def run():
        w = mt.rand(4).requires_grad_()
        optimizer = mt.optim.Adam([w], lr=0.1)
        out = []
        for _ in range(60):
            optimizer.zero_grad()
            (w * w).sin().sum().backward()
            norm = mt.nn.utils.clip_grad_norm_([w], 0.5)
            optimizer.step()
            out.append(seen(norm, w, w.grad))
        return out

    same_as_eager(run)


def test_a_step_that_fails():
    def run():
        w = mt.rand(4).requires_grad_()
        optimizer = mt.optim.SGD([w], lr=0.1)
        out = []
        for i in range(60):
            optimizer.zero_grad()
            (w * w).sin().sum().backward()
            if i % 10 == 9:
                w.grad = None
                optimizer.param_groups[0]["lr"] = "fast"
                w.grad = mt.ones(4)
                with pytest.raises((TypeError, RuntimeError)) as error:
                    optimizer.step()
                out.append(str(error.value))
                optimizer.param_groups[0]["lr"] = 0.1
            else:
                optimizer.step()
            out.append(seen(w))
        return out

    same_as_eager(run)


def test_inference_mode_around_a_pass():
    def run():
        w, out = mt.rand(4).requires_grad_(), []
        for _ in range(40):
            w.grad = None
            loss = (w * w).exp().sum()
            with mt.inference_mode():
                loss.backward()
            out.append((w.grad.tolist(), w.grad.is_inference()))
        return out

    same_as_eager(run, least=0)


class Rate(float):
    pass


@pytest.mark.parametrize(
    ("kind", "key", "before", "after"),
    [
        ("Adam", "lr", True, 0.05),
        ("Adam", "lr", np.float32(0.05), np.float32(0.01)),
        ("Adam", "lr", Rate(0.05), Rate(0.01)),
        ("Adam", "lr", Fraction(1, 20), Fraction(1, 10)),
        ("Adam", "lr", "fast", 0.05),
        ("Adam", "lr", None, 0.05),
        ("Adam", "betas", (np.float32(0.5), 0.9), (np.float32(0.6), 0.9)),
        ("SGD", "momentum", 0.9, 0.0),
    ],
)
def test_numbers_that_are_no_floats(kind, key, before, after):
    def run():
        w, out = mt.rand(4).requires_grad_(), []
        optimizer = getattr(mt.optim, kind)([w], lr=0.01)
        for i in range(24):
            optimizer.param_groups[0][key] = {0: optimizer.defaults[key], 1: before, 2: after}[i // 8]
            optimizer.zero_grad()
            (w * w).sin().sum().backward()
            try:
                optimizer.step()
            except TypeError as error:
                out.append(str(error))
            out.append(seen(w))
        return out

    same_as_eager(run, least=0)
