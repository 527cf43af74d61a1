"""A step of any optimizer is one program, with the bits of eager code, whatever its numbers are at each call."""

import pytest

import minitensor as mt

from .optimizers import OF_MATRICES, ROWS, name_of

pytestmark = pytest.mark.at_once(reason="it compiles by itself")

SHAPES = [(3, 4), (5,)]
COUNTING = ("Adafactor", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam")


class Step:
    def __init__(self, row):
        mt.manual_seed(7)
        shapes = [(3, 4), (4, 2)] if row in OF_MATRICES else SHAPES
        self.params = [mt.nn.Parameter(mt.randn(shape)) for shape in shapes]
        self.optimizer = getattr(mt.optim, row[0])(self.params, **row[1])

    def __call__(self, x):
        self.optimizer.zero_grad()
        loss = sum((p * x).sin().sum() for p in self.params)
        loss.backward()
        self.optimizer.step()
        return loss

    def seen(self):
        tensors = [*self.params, *(v for s in self.optimizer.state.values() for v in s.values())]
        return [(t.dtype, t.detach().numpy().tobytes()) for t in tensors]


def run(step, s, calls, disturb=None):
    found = []
    for call in range(calls):
        if disturb:
            disturb(s.optimizer.param_groups[0], call)
        found.append((step(mt.tensor(1.0 + call / 4)).item(), s.seen()))
    return found


def both(row, calls, disturb=None):
    eager, compiled = Step(row), Step(row)
    expected = run(eager, eager, calls, disturb)
    step = mt.function(compiled, jit_compile=True)
    assert run(step, compiled, calls, disturb) == expected
    return step


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", ROWS + OF_MATRICES, ids=name_of)
def test_a_step_is_a_program(row):
    step = both(row, 9)
    # The first call makes the state; in RAdam's steps and in ASGD's one number decides once, when it is large enough.
    again = {"RAdam": 1, "ASGD": 1}.get(row[0], 0)
    assert step.hits >= 7 - again, mt.jit.explain(step)(mt.tensor(1.0))


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("row", [r for r in ROWS if not r[1] and r[0] in COUNTING], ids=name_of)
def test_a_parameter_that_is_wanted_later_begins_to_count_then(row, late):
    def found(wrap):
        s = Step(row)
        s.params[late].requires_grad_(False)
        step = wrap(s)
        before = run(step, s, 4)
        s.params[late].requires_grad_()
        return before + run(step, s, 4)

    assert found(lambda step: mt.function(step, jit_compile=True)) == found(lambda step: step)


@pytest.mark.parametrize("row", [r for r in ROWS if not r[1]] + OF_MATRICES[:1], ids=name_of)
def test_numbers_may_change_at_every_call(row):
    def disturb(group, call):
        for name, value in group.items():
            fixed = ("t0", "rho", "alpha", "eps") if row[0] == "Muon" else ("t0", "rho", "alpha")
            if type(value) is float and value > 0 and name not in fixed:
                group[name] = value * (1 + 1 / (call + 2))
        if "betas" in group and row[0] != "RAdam":  # where they decide which formula it is
            group["betas"] = (0.5 + call / 32, 0.75 + call / 64)

    step = both(row, 9, disturb)
    again = {"RAdam": 1, "ASGD": 1}.get(row[0], 0)
    assert step.hits >= 7 - again


@pytest.mark.parametrize("row", ROWS[::2], ids=name_of)
def test_eager_and_clustered_are_the_same(row):
    eager, clustered = Step(row), Step(row)
    expected = run(eager, eager, 5)

    def step(x):
        with mt.jit_scope():
            return clustered(x)

    assert run(step, clustered, 5) == expected


def test_a_program_sees_other_hooks():
    s, log = Step(("Adam", {})), []
    step = mt.function(s, jit_compile=True)
    for _ in range(3):
        step(mt.tensor(1.0))
    assert step.hits == 1
    handle = s.optimizer.register_step_post_hook(lambda *a: log.append(1))
    step(mt.tensor(1.0))
    assert log == [1]
    handle.remove()
    step(mt.tensor(1.0))
    assert log == [1]


def test_lbfgs_is_run_by_python():
    param = mt.nn.Parameter(mt.tensor([1.0, 2.0]))
    optimizer = mt.optim.LBFGS([param], line_search_fn="strong_wolfe")

    @mt.function
    def step():
        def closure():
            optimizer.zero_grad()
            loss = (param * param).sum()
            loss.backward()
            return loss

        return optimizer.step(closure)

    losses = [step().item() for _ in range(3)]
    assert losses[0] == 5.0
    assert losses[-1] < 1e-10
    assert step.hits == 0


# What a function itself reads of the groups beside the step, for which they are read at each call.
READS = {
    "item": lambda o: o.param_groups[0]["lr"],
    "get": lambda o: o.param_groups[0].get("lr"),
    "items": lambda o: dict(o.param_groups[0].items())["lr"],
    "values": lambda o: next(v for v in list(o.param_groups[0].values()) if isinstance(v, float)),
    "copy": lambda o: dict(o.param_groups[0])["lr"],
    "unpacked": lambda o: {**o.param_groups[0]}["lr"],
    "loop": lambda o: sum(group["lr"] for group in o.param_groups),
    "maximum": lambda o: max(o.param_groups, key=lambda group: group["lr"])["lr"],
    "part": lambda o: o.param_groups[0]["betas"][0],
    "state_dict": lambda o: o.state_dict()["param_groups"][0]["lr"],
    "text": lambda o: len(str(o.param_groups[0]["lr"])),
    "decides": lambda o: 2.0 if o.param_groups[0]["lr"] > 0.3 else 1.0,
}


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("what", READS)
def test_numbers_that_the_function_reads_too_are_compared(what, first):
    found = []
    for compile in (lambda f: f, lambda f: mt.function(f, jit_compile=True)):
        weight = mt.nn.Parameter(mt.ones(3))
        optimizer = mt.optim.Adam([weight], lr=0.5, betas=(0.5, 0.75))

        def step(x, weight=weight, optimizer=optimizer):
            factor = READS[what](optimizer) if first else 0.0
            optimizer.zero_grad()
            (weight * x).sum().backward()
            optimizer.step()
            return weight.detach() * (factor if first else READS[what](optimizer))

        run_it, values = compile(step), []
        for call in range(12):
            if call % 4 == 3:
                optimizer.param_groups[0].update(lr=0.5 / 2**call, betas=(0.25 / call, 0.75))
            values.append(run_it(mt.tensor([1.0, 2.0, 4.0])).tolist())
        found.append(values)
    assert found[0] == found[1]


def constant(optimizer, body):
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    body()


def put_back(optimizer, body):
    group = optimizer.param_groups[0]
    rate = group["lr"]
    group["lr"] = rate / 4
    body()
    group["lr"] = rate


def updated_and_put_back(optimizer, body):
    group = optimizer.param_groups[0]
    rate = group["lr"]
    group.update(lr=0.03125)
    body()
    group.update(lr=rate)


@pytest.mark.parametrize("make", [mt.optim.SGD, mt.optim.Adam], ids=lambda make: make.__name__)
@pytest.mark.parametrize("around", [constant, put_back, updated_and_put_back], ids=lambda around: around.__name__)
def test_numbers_that_the_function_sets_are_set_at_each_call(around, make):
    found = []
    for compile in (lambda f: f, lambda f: mt.function(f, jit_compile=True)):
        weight = mt.nn.Parameter(mt.ones(3))
        optimizer = make([weight], lr=0.5)

        def step(x, weight=weight, optimizer=optimizer):
            optimizer.zero_grad()
            (weight * x).sum().backward()
            around(optimizer, optimizer.step)
            return weight.detach().clone()

        run_it, values = compile(step), []
        for call in range(12):
            if call % 4 == 3:
                optimizer.param_groups[0]["lr"] = 8.0
            values.append((run_it(mt.tensor([1.0, 2.0, 4.0])).tolist(), optimizer.param_groups[0]["lr"]))
        found.append(values)
    assert found[0] == found[1]
