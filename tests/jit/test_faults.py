"""What an error, Ctrl-C or a lack of memory leaves behind, wherever it comes: everything that it doesn't concern."""

import gc
import itertools
import signal
import threading

import pytest
from recording import recorded

import minitensor as mt
import minitensor.nn.functional as F

C = mt._C


def late_error(kind):
    """A value that can't be computed, which is found out when a recording runs."""
    if kind == "floor_divide":
        return (mt.tensor([1, 2]) // mt.tensor([0, 1])).sum()
    if kind == "remainder":
        return (mt.tensor([1, 2]) % mt.tensor([0, 1])).sum()
    if kind == "leaf index":
        return mt.ones(3).index_select(0, mt.tensor([5])).sum()
    if kind == "computed index":
        return mt.ones(3)[mt.tensor([5]) + 1].sum()
    return F.cross_entropy(mt.ones(3, 3), mt.tensor([0, 1, 7]))


ERRORS = {
    "floor_divide": ZeroDivisionError,
    "remainder": ZeroDivisionError,
    "leaf index": IndexError,
    "computed index": IndexError,
    "label": IndexError,
}
OPTIONS = [{}, {"min_cluster_size": 100}, {"auto_jit": 1}, {"enable_lazy_compilation": False}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_that_the_program_catches(kind, options):
    w, part = mt.zeros(4), mt.zeros(3)
    with recorded(**options):
        for step in range(1, 4):
            w.add_(1.5)
            part[1:].mul_(2).add_(1)
            bad = late_error(kind)
            after, doubled = bad + 1, w * 2
            with pytest.raises(ERRORS[kind]):
                bad.item()
            assert doubled.tolist() == [3.0 * step] * 4
            for lost in (bad, after):
                with pytest.raises(RuntimeError, match=f"never computed: .*{ERRORS[kind].__name__}.*recorded as .*:"):
                    lost.item()
    assert w.tolist() == [4.5] * 4
    assert part.tolist() == [0, 7, 7]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_is_written_with_what_failed_is_what_it_was_then(options):
    w, overwritten, unwritten = mt.arange(4.0), mt.zeros(4), mt.zeros(4)
    with recorded(**options):
        fresh = mt.ones(4) * 3
        for t in (w, overwritten, fresh):
            t.add_(1)
        bad = mt.ones(1) * late_error("label")
        unwritten.copy_(bad)
        later = mt.ones(4)
        for t in (w, overwritten, fresh, later):
            t[:2].mul_(2)  # after the error, and before what depends on it
            t.index_add_(0, mt.tensor([1]), bad)
            t.sub_(1)
        overwritten.fill_(5)
        overwritten[0] = 6
        read = w * 2
        with pytest.raises(IndexError):
            read.sum().item()
        assert (w + 0).tolist() == [1, 2, 3, 4]
    assert w.tolist() == [1, 2, 3, 4]
    assert overwritten.tolist() == [6, 5, 5, 5]
    assert fresh.tolist() == [4, 4, 4, 4]
    assert unwritten.tolist() == [0, 0, 0, 0]
    for t in (later, read):
        with pytest.raises(RuntimeError, match="never computed"):
            t.tolist()


@pytest.mark.parametrize("scope", [recorded, mt.jit_scope], ids=["recorded", "jit_scope"])
def test_a_bad_label_costs_no_weights(scope):
    model = mt.nn.Linear(3, 3)
    optimizer = mt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = mt.randn(4, 3)

    def step(labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), mt.tensor(labels))
        loss.backward()
        optimizer.step()
        return loss

    step([0, 1, 2, 0])
    before = [p.tolist() for p in model.parameters()]
    with pytest.raises(IndexError), scope():
        step([0, 1, 7, 0]).item()
    assert [p.tolist() for p in model.parameters()] == before
    with scope():
        step([0, 1, 2, 0])
    assert [p.tolist() for p in model.parameters()] != before


@pytest.mark.at_once(reason="recorded, nothing is written before it runs")
def test_a_write_that_is_interrupted_counts():
    """What is half written is another content for the formulas that saved it."""
    w, x = mt.ones(3, requires_grad=True), mt.ones(3)
    y = w * x
    for write in (x.lgamma_, x.normal_, lambda: x.add_(w.detach())):
        version = x._version
        C._arm_fault("kernel", 0, True)
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                write()
        finally:
            C._arm_fault("", -1)
            signal.signal(signal.SIGINT, handler)
        assert x._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# ---- faults at every place in turn


def training():
    model = mt.nn.Sequential(mt.nn.Linear(5, 4), mt.nn.Tanh(), mt.nn.Linear(4, 2))
    parameters = list(model.parameters())
    means, squares = ([mt.zeros_like(p) for p in parameters] for _ in range(2))
    x, labels = mt.randn(6, 5), mt.tensor([0, 1, 1, 0, 1, 0])
    for p in parameters:
        p.grad = mt.zeros_like(p)

    def step():
        for p in parameters:
            p.grad.zero_()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        with mt.no_grad():
            for p, m, s in zip(parameters, means, squares, strict=True):
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                s.mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
                p.addcdiv_(m, s.sqrt().add_(1e-8), value=-0.1)
        return [loss]

    return [*parameters, *means, *squares, *(p.grad for p in parameters)], step


def momentum():
    w = mt.randn(6, 3).requires_grad_()
    optimizer = mt.optim.SGD([w], lr=0.1, momentum=0.9, nesterov=True)
    x = mt.randn(4, 6)

    def step():
        optimizer.zero_grad(set_to_none=False)
        ((x @ w).relu() ** 2).mean().backward()
        optimizer.step()
        return []

    step()
    return [w, w.grad, optimizer.state[w]["momentum_buffer"]], step


def views():
    t = mt.arange(12.0).reshape(3, 4)

    def step():
        t[1:].mul_(2)
        row = t.T[2]
        row.add_(t[0, :3])
        t.view(-1)[::2] = 7
        return [t.sum(0), row * 2]

    return [t], step


def overwritten():
    a, b = mt.randn(50), mt.randn(50)

    def step():
        c = a * b + 1
        a.copy_(b)
        b.fill_(2.5)
        b.add_(c)
        a.exp_()
        return [c, a + b]

    return [a, b], step


def drawn():
    x = mt.zeros(40)

    def step():
        x.normal_()
        y = F.dropout(mt.ones(40), 0.5)
        x.add_(y).uniform_(-1, 1)
        return [y, mt.rand(5), mt.randperm(6)]

    return [x], step


def indices():
    table, at = mt.randn(8, 3), mt.tensor([1, 5, 1])
    count = mt.zeros(8, dtype=mt.int64)

    def step():
        rows = table[at]
        table.index_add_(0, at, rows)
        count.scatter_add_(0, at, mt.ones(3, dtype=mt.int64))
        q = count // (count + 1)
        return [rows, q, table.sort(0).values, table.topk(2).indices]

    return [table, count], step


def products():
    a, b, out = mt.randn(20, 30), mt.randn(30, 20), mt.zeros(20, 20)

    def step():
        out.addmm_(a, b)
        out.tanh_()
        kept = (out @ out.T).softmax(-1)
        out.sub_(kept.mean(0))
        return [kept, mt.nn.functional.conv1d(kept[None], mt.ones(2, 20, 3))]

    return [out], step


def gradients():
    w = mt.randn(5).requires_grad_()
    w.grad = mt.zeros(5)

    def step():
        with mt.enable_grad():
            (w * w[[1, 0, 3, 2, 4]]).sum().backward()
        (g,) = mt.autograd.grad((w**3).sum(), w, create_graph=True)
        (h,) = mt.autograd.grad(g.sum(), w)
        return [g.detach(), h]

    return [w.grad], step


def halves():
    x, y = mt.randn(70).bfloat16(), mt.randn(70).half()

    def step():
        x.mul_(1.5)
        y.add_(x.half())
        return [x.float() + y, (x.double() > 0).sum(), mt.complex(x.float(), y.float()).abs()]

    return [x, y], step


def tagged():
    x, y = mt.randn(30), mt.randn(30)

    def step():
        with mt.jit_scope(compile_ops=False):
            x.mul_(2)
        with mt.jit_scope():
            y.add_(x.exp().log1p() * 3)
        return [x + y, mt.where(x > 0, x, y)]

    return [x, y], step


def best_effort():
    x = mt.randn(30)

    def inner(t, n):
        t.mul_(n)
        return t.sin() + t.cos() * n

    function = mt.function(inner)

    def step():
        return [function(x, 3), function(x, 2)]

    return [x], step


def linear_algebra():
    a = mt.randn(6, 6)

    def step():
        a.add_(mt.eye(6) * 5)
        solved = mt.linalg.solve(a, mt.ones(6))
        a.div_(mt.linalg.norm(a))
        return [solved, mt.fft.fft(solved).real, a.cumsum(0)]

    return [a], step


PROGRAMS = [
    training,
    momentum,
    views,
    overwritten,
    drawn,
    indices,
    products,
    gradients,
    halves,
    tagged,
    best_effort,
    linear_algebra,
]  # fmt: skip


def bits(t):
    """What is in a tensor, or why nothing is."""
    try:
        return t.detach().clone().tolist()
    except RuntimeError as error:
        if "never computed" not in str(error):
            raise
        return None


class Eagerly:
    """What a program gives eagerly: its state before and after a step, after two, and the results of the step."""

    def __init__(self, program):
        mt.manual_seed(3)
        state, step = program()
        self.before = [repr(bits(t)) for t in state]
        self.results = [repr(bits(t)) for t in step()]
        self.after = [repr(bits(t)) for t in state]
        step()
        self.twice = [repr(bits(t)) for t in state]


def with_fault(program, place, at, interrupts, options):
    """(state, results or None, the error, its step, whether the place was reached) of a recorded step with a fault."""
    mt.manual_seed(3)
    state, step = program()
    error, results = None, None
    if place == "compiler":
        C.clear_plan_cache()
        mt.jit.cache_clear()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    # Other packages' callbacks (JAX, Hypothesis) run in a collection: an interrupt there is theirs, and is lost.
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    try:
        C._arm_fault(place, at, interrupts)
        with recorded(**options):
            results = step()
    except (RuntimeError, MemoryError, KeyboardInterrupt) as caught:
        error = caught
    finally:
        reached = C._fault_passages() > at
        C._arm_fault("", -1)
        signal.signal(signal.SIGINT, handler)
        gc.callbacks[:] = callbacks
    return state, results, error, step, reached


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("place", ["launch", "compiler", "allocation", "kernel"])
@pytest.mark.parametrize("interrupts", [False, True], ids=["error", "interrupt"])
@pytest.mark.compiler_fails(reason="on purpose")
@pytest.mark.at_once(reason="it records by itself")
def test_a_fault_anywhere(program, place, interrupts):
    eagerly = Eagerly(program)
    # Where no op is at fault, everything is computed all the same.
    whole = interrupts or place in ("launch", "compiler")
    for options in ({}, {"min_cluster_size": 100}):
        at = 0
        while True:
            state, results, error, step, reached = with_fault(program, place, at, interrupts, options)
            if not reached:
                assert error is None
                break
            where = f"{place} {at}, {options}: {error!r}"
            known = [repr(bits(t)) for t in state]
            if whole and results is not None:
                assert known == eagerly.after, where
                assert [repr(bits(t)) for t in results] == eagerly.results, where
            assert "None" not in known, where
            # The process goes on.
            with recorded(**options):
                step()
            if known == eagerly.after:
                assert [repr(bits(t)) for t in state] == eagerly.twice, where
            at += 1 if at < 24 else 5


def products_without_memory():
    w, tall, column = mt.randn(90, 90), mt.randn(700, 90), mt.randn(90)
    m, v = mt.zeros(90, 90), mt.ones(700)

    def step():
        w.sub_(m * 0.5)
        m.mul_(0.9).add_(w)
        v.mul_(tall.T[:, ::7].sum())
        h = w.T @ m.T
        v.add_(tall @ column)
        column.copy_((h @ tall.T) @ v)
        return [h @ w, tall.T @ v, w.T @ column]

    return [w, m, v, column], step


def sorts_without_memory():
    w, v = mt.randn(30, 5), mt.randn(30, 5)

    def step():
        v.mul_(2).add_(1)
        w.sub_(w.sort(0).values)
        v.sub_(v.topk(3).values.sum())
        return [w.sum(0)]

    return [w, v], step


def library_without_memory():
    w, v = mt.randn(6, 6), mt.randn(6)

    def step():
        v.mul_(2).add_(1)
        solved = mt.linalg.solve_triangular(w, v[:, None], upper=True)
        w.sub_(solved.mean())
        v.add_(mt.fft.fft(v).real.cumsum(0))
        return [solved]

    return [w, v], step


@pytest.mark.parametrize("program", [products_without_memory, sorts_without_memory, library_without_memory])
@pytest.mark.at_once(reason="it records by itself")
def test_a_lack_of_memory_in_the_middle_of_a_launch(program):
    """What a launch writes over is not lost with the call inside it that lacks memory, and products do without."""
    mt.manual_seed(3)
    state, step = program()
    results = step()
    eagerly = [bits(t) for t in (*state, *results)]
    compiled = {"enable_lazy_compilation": False}
    with recorded(**compiled):
        program()[1]()

    def recorded_step(at, step, results, errors):
        # A thread has no memory for temporary values yet.
        C._arm_fault("allocation", at, False)
        try:
            with recorded(**compiled):
                results.extend(step())
        except MemoryError as error:
            errors.append(error)

    for at in itertools.count():
        mt.manual_seed(3)
        state, step = program()
        results, errors = [], []
        try:
            thread = threading.Thread(target=recorded_step, args=(at, step, results, errors))
            thread.start()
            thread.join()
            reached = C._fault_passages() > at
        finally:
            C._arm_fault("", -1)
        known = [bits(t) for t in (*state, *results)]
        assert None not in known[: len(state)], f"{at}: {errors}"
        if not errors:
            assert known == eagerly, at
        if not reached:
            break
    assert at > 3


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_random_programs_with_errors(options):
    from fuzz.faults import difference

    for seed in range(15):
        assert difference(seed, [options]) is None
