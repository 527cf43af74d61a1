"""Every reason why an op stays eager has a fix, and with the fix applied the op is compiled.

Each case is a program, or a graph where no program leads there on this machine, before and after its fix; `op` is the
one that the reason is about.
"""

import numpy as np
import pytest
from clustering.clustering_graphs import OPAQUE, Build
from processes import run
from recording import recorded

import minitensor as mt
from minitensor import extend
from minitensor_jit import api
from minitensor_jit.clustering.pipeline import cluster
from minitensor_jit.clustering.state import ClusteringState
from minitensor_jit.clustering.unclustered_reason import Reason
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.report import Report
from minitensor_jit.passes.algebraic_simplifier import AlgebraicSimplifier

CASES = {}


def case(code, op):
    """A test function that calls `before` and `after` of the fix: they give an account each."""

    def enter(make):
        CASES[code] = op, make
        return make

    return enter


def checked(report):
    """What became of each op: "compiled", or the code of the reason. The account adds up to all ops."""
    account = report.to_json()
    found = {row["op"]: "compiled" for group in account["clusters"] for row in group["ops"]}
    found |= {row["op"]: group["code"] for group in account["eager"] for row in group["ops"]}
    compiled = sum(row["count"] * group["runs"] for group in account["clusters"] for row in group["ops"])
    eager = sum(row["count"] for group in account["eager"] for row in group["ops"])
    assert (compiled, eager) == (account["ops"]["compiled"], account["ops"]["eager"])
    assert compiled + eager == account["ops"]["total"]
    percents = [group["percent"] for group in (*account["clusters"], *account["eager"])]
    assert sum(percents) == pytest.approx(100)
    if account["ops"]["total"]:
        assert f"{100 * compiled / account['ops']['total']:.1f} % compiled" in report.text()
    for group in account["eager"]:
        assert group["fix"] in report.text()
    return found


def program(fn, *args, **options):
    """The account of a recorded program."""
    report = Report()
    mt._C.clear_plan_cache()
    previous = api._keep_account(report)
    try:
        with recorded(**options):
            kept = fn(*args)
    finally:
        api._keep_account(previous)
        mt._C.clear_plan_cache()
    assert kept is not None
    return checked(report)


def graph(build, **options):
    """The account of a graph."""
    report = Report()
    options = JitOptions(**({"auto_jit": 2, "cpu_global_jit": True} | options))
    report.record_trace(build, cluster(build, options, ClusteringState()))
    return checked(report)


X = mt.arange(8.0) - 3


@case("not-compilable", "the selection")
def data_dependent_shape(monkeypatch):
    def before(x):
        return (x[x > 0] * 2).sum()

    def after(x):
        return mt.where(x > 0, x * 2, 0).sum()

    assert before(X).item() == after(X).item()
    with_fix = program(after, X)
    assert set(with_fix.values()) == {"compiled"}
    return {"the selection": program(before, X)["masked_select"]}, {"the selection": with_fix["where"]}


@case("clustering-off", "mul")
def clustering_off(monkeypatch):
    def in_a_scope(x):
        with mt.jit_scope():
            return x * 2

    assert program(in_a_scope, X, auto_jit=0) == {"mul": "compiled"}
    return program(lambda x: x * 2, X, auto_jit=0), program(lambda x: x * 2, X, auto_jit=2, cpu_global_jit=True)


@case("device-rule", "mul")
def device_rule(monkeypatch):
    return program(lambda x: x * 2, X, cpu_global_jit=False), program(lambda x: x * 2, X)


@case("unknown-device", "tanh")
def unknown_device(monkeypatch):
    def on(device):
        build = Build()
        return build.done(build.chain(build.arg(0), 4, device=device))

    return graph(on("abacus")), graph(on("cpu"))


@case("scope-excludes", "mul")
def scope_excludes(monkeypatch):
    def before(x):
        with mt.jit_scope(compile_ops=False):
            return x * 2

    return program(before, X), program(lambda x: x * 2, X)


@case("too-small", "mul")
def too_small(monkeypatch):
    def in_a_scope(x):
        with mt.jit_scope():
            return x * 2

    assert program(in_a_scope, X, min_cluster_size=3) == {"mul": "compiled"}
    return program(lambda x: x * 2, X, min_cluster_size=3), program(lambda x: x * 2, X, min_cluster_size=1)


@case("cycle", "add")
def cycle(monkeypatch):
    def built(**blocker):
        build = Build()
        first = build.op("mul", build.arg(0), build.arg(0))
        between = build.op("middle", first, kind="elementwise", **blocker)
        return build.done(build.op("add", build.op("sub", between, first), first))

    return graph(built(compilable=OPAQUE), min_cluster_size=3), graph(built(), min_cluster_size=3)


@case("size-limit", "tanh")
def size_limit(monkeypatch):
    def chain(x):
        for _ in range(5):
            x = x.tanh()
        return x

    options = {"min_cluster_size": 2}
    return program(chain, X, max_cluster_size=4, **options), program(chain, X, max_cluster_size=5, **options)


@case("not-in-ops-to-cluster", "sum")
def not_in_ops(monkeypatch):
    def fn(x):
        return (x * 2).sum()

    assert program(fn, X, ops_to_cluster="PWRED")["sum"] == "compiled"
    return program(fn, X, ops_to_cluster="PW"), program(fn, X)


@case("excluded-op", "exp")
def excluded(monkeypatch):
    def fn(x):
        return (x * 2).exp()

    return program(fn, X, cluster_exclude_ops="exp"), program(fn, X)


@case("predicted-loss", "neg")
def predicted_loss(monkeypatch):
    def in_a_scope(x):
        with mt.jit_scope():
            return x.neg()

    assert program(in_a_scope, X, auto_jit=1) == {"neg": "compiled"}
    return program(lambda x: x.neg(), X, auto_jit=1), program(lambda x: x.neg(), X, auto_jit=2)


@case("trivial", "view")
def trivial(monkeypatch):
    def alone():
        build = Build()
        return build.done(build.view(build.opaque(build.arg(0))))

    def read():
        build = Build()
        return build.done(build.chain(build.view(build.opaque(build.arg(0))), 4))

    def must():
        build = Build()
        return build.done(build.view(build.arg(0), must_compile=True))

    assert graph(must())["view"] == "compiled"
    return graph(alone()), graph(read())


@case("kernel-alone", "cumsum")
def kernel_alone(monkeypatch):
    whole = mt.function(lambda x: x.cumsum(0), jit_compile=True)
    assert program(whole, X)["cumsum"] == "compiled"
    return program(lambda x: x.cumsum(0), X), program(lambda x: x.cumsum(0) * 2, X)


@case("declustered", "reshape")
def declustered(monkeypatch):
    def built(read_inside):
        build = Build()
        view = build.view(build.arg(0))
        other = build.op("reshape", view, kind="view")
        used = build.chain(view, 4)
        last = build.op("add", used, other) if read_inside else used
        return build.done(last) if read_inside else build.done(build.opaque(other), used)

    return graph(built(False)), graph(built(True))


@case("fuel", "exp")
def fuel(monkeypatch):
    script = """
import minitensor as mt
x = mt.tensor([1.0])
y = (x * 2).exp().tolist()
"""

    def explained(flags):
        said = run(script, f"--auto_jit=2 --cpu_global_jit --min_cluster_size=1 --explain {flags}").stderr
        assert ("--clustering_fuel is used up" in said) == bool(flags)
        assert ("fix: raise --clustering_fuel, or take it away" in said) == bool(flags)
        return {"exp": "fuel" if "exp" in said.partition("Left eager")[2] else "compiled"}

    return explained("--clustering_fuel=1"), explained("")


@case("compile-failed", "mul")
def compile_failed(monkeypatch):
    def fn(x):
        return x * 2.25 + 1

    def fail(self, module):
        raise KeyError("a defect")

    mt.jit.cache_clear()
    with monkeypatch.context() as defect:
        defect.setattr(AlgebraicSimplifier, "run", fail)
        before = program(fn, X)
    return before, program(fn, X)


@case("not-yet-compiled", "mul")
def not_yet_compiled(monkeypatch):
    def fn(x):
        return x * 2.375 + 1

    before = program(fn, X, always_defer_compilation=True)
    return before, program(fn, X)


@case("measured-loss", "mul")
def measured_loss(monkeypatch):
    now = tick = 0

    def clock():
        nonlocal now
        now += tick
        return now

    def fn(x):
        nonlocal tick
        for turn in range(20):
            tick = 1000 if turn < 5 else 1  # the first runs launch
            y = x * 2.4375 + 1
            y.numpy()
        return y

    mt.jit.cache_clear()
    mt._C.set_policy_clock(clock)
    try:
        return program(fn, X), program(fn, X, measure_clusters=False)
    finally:
        mt._C.set_policy_clock(None)


@case("recording-loss", "mul")
def recording_loss(monkeypatch):
    script = """
import minitensor as mt
class Clock:
    now = 0
    pending = False
    def __call__(self):
        self.now += 2 if self.pending else 1
        self.pending = False
        return self.now
clock = Clock()
mt._C.set_policy_clock(clock)
x = mt.tensor([1.0])
for _ in range(100):
    y = x * 2.5 + 1
    clock.now += 2000 if y._is_pending else 1000
    y.numpy()
"""

    def explained(flags):
        said = run(script, f"--auto_jit=2 --cpu_global_jit --min_cluster_size=1 --explain {flags}").stderr
        lost = "recording was slower than running eagerly: it took 2.0 us, and eagerly 1.0 us" in said
        assert lost == (not flags)
        assert ("fix: read values less often" in said) == lost
        return {"mul": "recording-loss" if "mul" in said.partition("Left eager")[2] else "compiled"}

    return explained(""), explained("--measure_clusters=false")


@pytest.mark.compiler_fails(reason="on purpose")
@pytest.mark.parametrize("code", CASES)
def test_with_the_fix_the_op_is_compiled(code, monkeypatch):
    op, make = CASES[code]
    before, after = make(monkeypatch)
    assert before[op] == code
    assert after[op] == "compiled"


def test_every_reason_of_an_op_has_a_fix_and_a_case():
    about_ops = [reason for reason in Reason if reason not in (Reason.ARGUMENT, Reason.CONSTANT)]
    assert [reason.code for reason in about_ops if not reason.fix] == []
    assert {reason.code for reason in about_ops} - set(CASES) == set()


def test_an_op_of_the_users_own_between_two_others_says_which_it_is():
    @extend.op("sorted_between(Tensor input)", shape=lambda x: x)
    def between(x):
        return np.sort(x)

    def fn(x):
        first = x * 2
        return between(first) - first

    explained = mt.jit.explain(fn)(X)
    reasons = {row["op"]: group["code"] for group in explained.to_json()["eager"] for row in group["ops"]}
    assert reasons["sorted_between"] == "not-compilable"


def test_copies_of_memory_that_numpy_reaches_say_their_line_and_each_fix_ends_them():
    array = np.ones((100, 50), np.float32)
    x = mt.from_numpy(array)

    def program():
        y = (x * 2).sum()
        return y + x[:10].exp().sum()  # a part of it: this much is copied

    def copies():
        return [(c["count"], c["bytes"], c["line"] - first) for c in mt.jit.explain(program)().to_json()["copies"]]

    first = program.__code__.co_firstlineno
    assert copies() == [(1, 20_000, 1), (1, 2_000, 2)]
    x = x.clone()
    assert copies() == []
    x = mt.from_numpy(array)
    assert copies()
    del array
    assert copies() == []
    view = x.numpy()
    assert copies()
    assert view[0, 0] == 1
    assert "Copies of shared memory (2, 22,000 bytes)" in str(mt.jit.explain(program)())
