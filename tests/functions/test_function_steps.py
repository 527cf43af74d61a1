"""Training steps as programs: gradients are stored, accumulated and dropped, parameters updated, without Python."""

import pytest

import minitensor as mt
import minitensor.nn.functional as F

pytestmark = pytest.mark.at_once(reason="it compiles by itself")


def bits(tensor):
    if tensor is None:
        return None
    return tuple(tensor.shape), tensor.dtype, tensor.stride(), tensor.detach().numpy().tobytes()


class Step:
    """A model with its optimizer, and what can be seen of them."""

    def __init__(self, kind=mt.optim.SGD, **options):
        mt.manual_seed(7)
        self.model = mt.nn.Sequential(mt.nn.Linear(6, 5), mt.nn.ReLU(), mt.nn.Linear(5, 3))
        self.params = list(self.model.parameters())
        self.opt = kind(self.params, **({"lr": 0.1} | options))
        self.x, self.y = mt.rand(4, 6), mt.tensor([0, 2, 1, 1])

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def seen(self):
        state = [bits(v) for s in self.opt.state.values() for v in s.values()]
        params = [(bits(p), bits(p.grad), p._version) for p in self.params]
        return params, state


def plain(s):
    def step(x, y):
        s.opt.zero_grad()
        loss = s.loss(x, y)
        loss.backward()
        s.opt.step()
        return loss

    return step


def zeroed(s):
    def step(x, y):
        s.opt.zero_grad(set_to_none=False)
        loss = s.loss(x, y)
        loss.backward()
        s.opt.step()
        return loss

    return step


def through_the_model(s):
    def step(x, y):
        s.model.zero_grad()
        loss = s.loss(x, y)
        loss.backward()
        s.opt.step()
        return loss

    return step


def late_zero(s):
    def step(x, y):
        loss = s.loss(x, y)
        s.opt.zero_grad()
        loss.backward()
        s.opt.step()
        return loss

    return step


def accumulated(s):
    def step(x, y):
        loss = s.loss(x, y)
        loss.backward()
        return loss

    return step


def several_backwards(s):
    def step(x, y):
        s.opt.zero_grad()
        losses = []
        for part in range(2):
            loss = s.loss(x[part * 2 : part * 2 + 2], y[part * 2 : part * 2 + 2]) / 2
            loss.backward()
            losses.append(loss)
        s.opt.step()
        return losses[0] + losses[1]

    return step


def several_steps(s):
    def step(x, y):
        for _ in range(2):
            s.opt.zero_grad()
            loss = s.loss(x, y)
            loss.backward()
            s.opt.step()
        return loss

    return step


def clipped(s):
    def step(x, y):
        s.opt.zero_grad()
        loss = s.loss(x, y)
        loss.backward()
        total = sum((p.grad * p.grad).sum() for p in s.params).sqrt()
        factor = (0.05 / (total + 1e-6)).clamp(max=1.0)
        for p in s.params:
            p.grad.mul_(factor)
        s.opt.step()
        return loss, total

    return step


def skipped(s):
    def step(x, y):
        s.opt.zero_grad()
        loss = s.loss(x, y)
        (loss * 8.0).backward()
        finite = mt.isfinite(s.params[0].grad).all()
        for p in s.params:
            p.grad = mt.where(finite, p.grad / 8.0, mt.zeros_like(p.grad))
        s.opt.step()
        return loss

    return step


def by_hand(s):
    def step(x, y):
        loss = s.loss(x, y)
        loss.backward()
        with mt.no_grad():
            for p in s.params:
                p -= 0.1 * p.grad
                p.grad = None
        return loss

    return step


def by_hand_zeroed(s):
    def step(x, y):
        loss = s.loss(x, y)
        loss.backward()
        with mt.no_grad():
            for p in s.params:
                p.add_(p.grad, alpha=-0.1)
                p.grad.zero_()
        return loss

    return step


def by_grad(s):
    def step(x, y):
        loss = s.loss(x, y)
        grads = mt.autograd.grad(loss, s.params)
        for p, g in zip(s.params, grads, strict=True):
            p.grad = g
        s.opt.step()
        return loss

    return step


def dropout(s):
    def step(x, y):
        s.opt.zero_grad()
        loss = F.cross_entropy(s.model(F.dropout(x, 0.5)), y)
        loss.backward()
        s.opt.step()
        return loss

    return step


def returns_a_gradient(s):
    def step(x, y):
        s.opt.zero_grad()
        loss = s.loss(x, y)
        loss.backward()
        return loss, s.params[0].grad, s.params[1].grad, s.params[0].grad

    return step


def only_updates(s):
    def step(x, y):
        s.opt.step()
        return x + 1

    return step


STEPS = [
    plain, zeroed, through_the_model, late_zero, accumulated, several_backwards, several_steps, clipped, skipped,
    by_hand, by_hand_zeroed, by_grad, dropout, returns_a_gradient, only_updates,
]  # fmt: skip
ADAM = {"kind": mt.optim.Adam}
OPTIONS = [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, ADAM]
MORE = [
    {"momentum": 0.9, "dampening": 0.1, "maximize": True},
    ADAM | {"weight_decay": 0.1, "amsgrad": True},
    ADAM | {"maximize": True, "betas": (0.5, 0.75), "eps": 1e-3},
    {"kind": mt.optim.AdamW, "lr": 0.01},
]


def run(step, s, calls, disturb=lambda s, call: None):
    found = []
    for call in range(calls):
        mt.manual_seed(100 + call)
        disturb(s, call)
        result = step(s.x + float(call), s.y)
        results = result if isinstance(result, tuple) else (result,)
        found.append(([bits(r) for r in results], s.seen()))
    return found


@pytest.mark.sampled(3)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("make", STEPS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("whole", [True, None], ids=["whole", "best effort"])
def test_a_step_is_a_program(make, options, whole):
    eager, compiled = Step(**options), Step(**options)
    calls = 8 if whole else 32
    expected = run(make(eager), eager, calls)
    step = mt.function(make(compiled), jit_compile=whole)
    found = run(step, compiled, calls)
    assert found == expected
    # The first call makes the state, and finds no gradients. Programs wait for the end of trials.
    assert step.hits >= (6 if whole else 1), mt.jit.explain(step)(compiled.x, compiled.y)


@pytest.mark.parametrize("make", [plain, several_steps, several_backwards], ids=lambda make: make.__name__)
@pytest.mark.parametrize("options", MORE, ids=str)
def test_numbers_of_optimizers_may_change_at_every_call(make, options):
    eager, compiled = Step(**options), Step(**options)

    def schedule(s, call):
        group = s.opt.param_groups[0]
        group["lr"] = 0.1 / (call + 1)
        for name in ("momentum", "dampening", "weight_decay", "eps"):
            if group.get(name):
                group[name] *= 0.75
        if "betas" in group:
            group["betas"] = (0.5 + call / 16, 0.75 + call / 32)

    expected = run(make(eager), eager, 7, schedule)
    step = mt.function(make(compiled), jit_compile=True)
    assert run(step, compiled, 7, schedule) == expected
    assert (step.programs, step.hits) == (1, 5 if compiled.opt.state else 6)


def test_a_number_that_becomes_zero_or_another_type_is_recorded_again():
    changes = [("weight_decay", 0.0), ("weight_decay", 0.5), ("lr", 0), ("lr", 1), ("betas", [0.5, 0.5]), ("lr", 0.0)]
    changes += [("lr", mt.tensor(0.25)), ("lr", 0.125), ("amsgrad", False), ("maximize", True)]
    eager, compiled = (Step(mt.optim.Adam, weight_decay=0.1) for _ in range(2))

    def change(s, call):
        if call % 3 == 2:
            key, value = changes[call // 3]
            s.opt.param_groups[0][key] = value

    expected = run(plain(eager), eager, 30, change)
    step = mt.function(plain(compiled), jit_compile=True)
    assert run(step, compiled, 30, change) == expected
    assert step.hits >= 15


def test_counts_of_steps_that_others_see():
    s = Step(mt.optim.Adam)
    step = mt.function(plain(s), jit_compile=True)
    for _ in range(5):
        step(s.x, s.y)
    assert step.hits == 3
    counts = [s.opt.state[p]["step"] for p in s.params]
    assert [c.item() for c in counts] == [5.0] * 4
    assert [c._version for c in counts] == [5] * 4
    counts[0].fill_(100.0)
    s.opt.state[s.params[1]]["step"] = mt.tensor(7.0)
    twin = Step(mt.optim.Adam)
    twin.model.load_state_dict(s.model.state_dict())
    twin.opt.load_state_dict(s.opt.state_dict())
    plain(twin)(s.x, s.y)
    step(s.x, s.y)
    assert [s.opt.state[p]["step"].item() for p in s.params] == [101.0, 8.0, 6.0, 6.0]
    assert [bits(p) for p in s.params] == [bits(p) for p in twin.params]


def test_what_stands_for_a_number_decides_nothing():
    group = {"lr": 0.5}

    def use(what):
        def step(x):
            return x * what(mt._C.bound_number(group, "lr"))

        return mt.function(step, jit_compile=True)

    x = mt.ones(3, dtype=mt.float64)
    for what in (float, bool, lambda n: 1.0 if n > 0 else 2.0, lambda n: max(n, 0.1), hash):
        with pytest.raises(TypeError):
            use(what)(x)
    f = use(lambda n: (1 - n) ** 2 / (n + 1.0) - -n)
    for rate in (0.5, 0.25, 0.125):
        group["lr"] = rate
        assert f(x).tolist() == [(1 - rate) ** 2 / (rate + 1.0) + rate] * 3
    assert f.hits == 2
    # As Python's float does.
    group["lr"] = -1.0
    with pytest.raises(ZeroDivisionError):
        mt.function(lambda x: x * (1.0 / (mt._C.bound_number(group, "lr") + 1.0)), jit_compile=True)(x)


def by_call(*changes):
    def disturb(s, call):
        if call < len(changes) and changes[call] is not None:
            changes[call](s)

    return disturb


def set_gradient(value):
    def change(s):
        for p in s.params:
            p.grad = None if value is None else mt.full_like(p.detach(), value)

    return change


def transposed_gradient(s):
    s.params[0].grad = mt.ones(6, 5).t()


def shared_gradient(s):
    s.params[1].grad = mt.ones(5)
    s.held = s.params[1].grad.view(5)


def held_gradient(s):
    s.held = s.params[0].grad


def replaced_parameter(s):
    s.model[0].weight = mt.nn.Parameter(mt.ones(5, 6))
    s.params[:] = s.model.parameters()
    s.opt.param_groups[0]["params"] = list(s.params)


def hooked(s):
    s.params[0].register_hook(lambda g: g * 2)


def hooked_after(s):
    s.params[0].register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3))


def frozen(s):
    s.params[0].requires_grad_(False)


def thawed(s):
    s.params[0].requires_grad_(True)


def no_gradients(s):
    for p in s.params:
        p.grad = None


def other_rate(rate):
    def change(s):
        s.opt.param_groups[0]["lr"] = rate

    return change


def other_data(s):
    s.params[0].data = mt.ones(5, 6)


CHANGES = {
    "gradients set": (None, None, set_gradient(2.0), None, set_gradient(None), None),
    "transposed": (None, None, transposed_gradient, None, None),
    "shared": (None, None, shared_gradient, None),
    "held": (None, None, held_gradient, None, None),
    "replaced": (None, None, replaced_parameter, None, None),
    "hooked": (None, None, hooked, None, None),
    "hooked after": (None, None, hooked_after, None, None),
    "frozen": (None, None, frozen, None, thawed, None),
    "rate": (None, None, other_rate(0.2), None, other_rate(0.01), None),
    "data": (None, None, other_data, None, None),
    "none": (no_gradients,) * 6,
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("make", [plain, zeroed, accumulated, clipped, by_hand_zeroed], ids=lambda make: make.__name__)
def test_what_changes_between_two_calls_counts(make, what):
    eager, compiled = Step(momentum=0.5), Step(momentum=0.5)
    disturb = by_call(*CHANGES[what])

    def outcome(step, s):
        try:
            return run(step, s, 7, disturb)
        except (RuntimeError, AttributeError, TypeError) as error:
            return type(error)

    expected = outcome(make(eager), eager)
    found = outcome(mt.function(make(compiled), jit_compile=True), compiled)
    assert found == expected
    if hasattr(eager, "held"):
        assert bits(compiled.held) == bits(eager.held)


def test_gradients_are_the_same_object_while_they_accumulate():
    s = Step()
    step = mt.function(accumulated(s), jit_compile=True)
    step(s.x, s.y)
    before = [p.grad for p in s.params]
    for _ in range(3):
        step(s.x, s.y)
    assert step.hits >= 2
    assert all(p.grad is g for p, g in zip(s.params, before, strict=True))


def test_a_gradient_that_is_returned_is_the_one_that_is_stored():
    s = Step()
    step = mt.function(returns_a_gradient(s), jit_compile=True)
    for _ in range(3):
        _, first, second, again = step(s.x, s.y)
        assert first is s.params[0].grad is again
        assert second is s.params[1].grad
    assert step.hits >= 2


def test_the_gradient_of_an_argument():
    def gradient(x):
        (x * x).sum().backward()
        return x * 2

    f = mt.function(gradient, jit_compile=True)
    for n in range(4):
        x = mt.full((3,), float(n), requires_grad=True)
        f(x)
        assert x.grad.tolist() == [2.0 * n] * 3
        f(x)
        assert x.grad.tolist() == [4.0 * n] * 3
    assert f.hits == 6


def test_gradients_that_were_looked_at_before_are_what_they_were():
    """A program stores new tensors; those that somebody kept stay."""
    s = Step()
    step = mt.function(plain(s), jit_compile=True)
    kept = []
    for call in range(4):
        step(s.x + float(call), s.y)
        kept.append((s.params[0].grad, bits(s.params[0].grad)))
    assert step.hits >= 2
    assert [bits(g) for g, _ in kept] == [b for _, b in kept]


def test_a_history_from_outside_is_run_once():
    w = mt.ones(3, requires_grad=True)
    h = w * w

    def step(x):
        (h * x).sum().backward()
        return x + 1

    f = mt.function(step, jit_compile=True)
    f(mt.ones(3))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        f(mt.ones(3))
    assert f.hits == 0


def test_anomalies_are_looked_for():
    s = Step()
    step = mt.function(plain(s), jit_compile=True)
    for _ in range(3):
        step(s.x, s.y)
    hits = step.hits
    with mt.autograd.set_detect_anomaly(True, check_nan=False):
        step(s.x, s.y)
    assert step.hits == hits


OWN = {
    "Adam": {"lr": 0.1}, "AdamW": {"lr": 0.1}, "NAdam": {"lr": 0.1}, "RAdam": {"lr": 0.1}, "Adamax": {"lr": 0.1},
    "ASGD": {"lr": 0.1}, "Rprop": {"lr": 0.1}, "Adagrad": {"lr": 0.1, "lr_decay": 0.1}, "Adadelta": {"lr": 0.1},
    "RMSprop": {"lr": 0.1}, "SGD": {"lr": 0.1, "momentum": 0.9},
}  # fmt: skip


@pytest.mark.parametrize("hook", [None, "register_step_pre_hook", "register_step_post_hook"])
@pytest.mark.parametrize("options", [None, {}, {"jit_compile": True}], ids=["scope", "function", "jit_compile"])
@pytest.mark.parametrize("name", OWN)
def test_an_optimizer_that_the_function_makes_begins_at_each_call(name, options, hook):
    def run(wrap):
        w = mt.tensor([1.0, -2.0], requires_grad=True)

        def step(x):
            optimizer = getattr(mt.optim, name)([w], **OWN[name])
            if hook is not None:
                getattr(optimizer, hook)(lambda *arguments: None)
            for _ in range(2):
                optimizer.zero_grad()
                (w * w * x).sum().backward()
                optimizer.step()
            return w.detach() * 1.0

        call = wrap(step)
        return [call(mt.ones(2)).tolist() for _ in range(8)]

    def scoped(step):
        return mt.jit_scope()(step)

    assert run(scoped if options is None else lambda step: mt.function(step, **options)) == run(lambda step: step)


SCHEDULES = {
    "options": lambda optimizer: lambda: optimizer.param_groups[0].update(lr=optimizer.param_groups[0]["lr"] * 0.5),
    "ExponentialLR": lambda optimizer: mt.optim.lr_scheduler.ExponentialLR(optimizer, 0.5).step,
    "CosineAnnealingLR": lambda optimizer: mt.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5).step,
    "OneCycleLR": lambda optimizer: mt.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20).step,
}


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["function", "jit_compile"])
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_of_an_optimizer_that_the_function_makes_begins_at_each_call(name, kind, options):
    def run(wrap):
        w = mt.tensor([1.0, -2.0], requires_grad=True)

        def step(x):
            optimizer = getattr(mt.optim, kind)([w], lr=0.1)
            change = SCHEDULES[name](optimizer)
            for _ in range(3):
                w.grad = x * w.detach()
                optimizer.step()
                change()
            return w.detach() * 1.0

        call = wrap(step)
        return [call(mt.ones(2)).tolist() for _ in range(8)]

    assert run(lambda step: mt.function(step, **options)) == run(lambda step: step)


def test_an_optimizer_that_the_function_makes_and_leaves_as_it_is_keeps_the_program():
    w = mt.tensor([1.0, -2.0], requires_grad=True)

    def step(x):
        optimizer = mt.optim.SGD([w], lr=0.1)
        w.grad = x * 1.0
        optimizer.step()
        return w.detach() * 1.0

    call = mt.function(step, jit_compile=True)
    for k in range(8):
        assert call(mt.ones(2))[0].item() == pytest.approx(1 - 0.1 * (k + 1))
    assert call.hits > 0


TAKEN = {
    "next": next,
    "method": lambda items: items.__next__(),
    "loop": lambda items: next(item for item in items),
    "unpacked": lambda items: next(zip((0,), items, strict=False))[1],
}


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["function", "jit_compile"])
@pytest.mark.parametrize("take", TAKEN)
def test_batches_are_taken_at_each_call(take, options):
    loader = mt.utils.data.DataLoader(mt.arange(40.0), batch_size=2)

    def run(wrap):
        batches = iter(loader)
        call = wrap(lambda x: x * TAKEN[take](batches))
        return [call(mt.ones(2)).tolist() for _ in range(8)]

    assert run(lambda step: mt.function(step, **options)) == run(lambda step: step)


# Of a step that Adam counts in `count`; what is written there between two steps counts.
COUNTED = {
    "times": lambda count, step: (step(), count.mul_(2), step()),
    "set": lambda count, step: (step(), count.fill_(7.0), step()),
    "copied": lambda count, step: (step(), count.copy_(count * 3), step()),
    "data": lambda count, step: (step(), count.data.add_(3), step()),
    "view": lambda count, step: (step(), count.view(1).add_(3), step()),
    "first": lambda count, step: (count.mul_(2), step()), "last": lambda count, step: (step(), count.mul_(2)),
    "read": lambda count, step: (step(), count * 1.0, step(), count + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_counts_of_steps_that_the_function_writes_to(name):
    def run(wrap):
        w = mt.tensor([1.0, 2.0], requires_grad=True)
        optimizer = mt.optim.Adam([w], 0.1)
        w.grad = mt.ones(2)
        optimizer.step()

        def step(x):
            w.grad = x * w.detach()
            count = optimizer.state[w]["step"]
            found = COUNTED[name](count, optimizer.step)
            return w.detach() * 1.0, found[-1] if found[-1] is not None and found[-1] is not count else None

        call = wrap(step)
        seen = []
        for _ in range(6):
            value, found = call(mt.ones(2))
            seen.append((value.tolist(), None if found is None else found.item(), optimizer.state[w]["step"].item()))
        return seen

    assert run(mt.function) == run(lambda step: step)
