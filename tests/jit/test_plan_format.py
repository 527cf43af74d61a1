"""Plans on disk, field by field: those that are not for the trace at hand are not run."""

import struct

import numpy as np
import pytest

import minitensor as mt
from minitensor_jit.cache.plan_store import PlanStore
from minitensor_jit.clustering.pipeline import cluster
from minitensor_jit.compiler import launcher

pytestmark = pytest.mark.at_once(reason="it compiles by itself")


class KeptPlan:
    """The bytes of a plan of launches: [[type, inputs, outputs, inside, what else]], values and checks at the end."""

    def __init__(self, kept):
        self._rest = bytes(kept)
        self.steps = self._list(self._step)
        self.deferred = self._list(self._value)
        self.checks = self._list(lambda: self._take("<Iqqq"))
        assert not self._rest

    def _take(self, form):
        taken = list(struct.unpack_from(form, self._rest))
        self._rest = self._rest[struct.calcsize(form) :]
        return taken

    def _list(self, each):
        (count,) = self._take("<I")
        return [each() for _ in range(count)]

    def _value(self):
        return self._take("<BBI")

    def _input(self):
        (kind,) = self._take("<B")
        return [kind, self._take("<BBIB" if kind == 0 else "<I" if kind == 1 else "<q")]

    def _step(self):
        (kind,) = self._take("<B")
        assert kind == 0  # a launch
        return {
            "inputs": self._list(self._input),
            "outputs": self._list(self._value),
            "inside": self._list(lambda: self._take("<I")),
            "rest": self._take("<QqBB"),
        }

    def bytes(self):
        def listed(items, form):
            return struct.pack("<I", len(items)) + b"".join(struct.pack(form, *item) for item in items)

        made = struct.pack("<I", len(self.steps))
        for step in self.steps:
            made += struct.pack("<BI", 0, len(step["inputs"]))
            for kind, slot in step["inputs"]:
                made += struct.pack("<B" + ("BBIB", "I", "q")[kind], kind, *slot)
            made += listed(step["outputs"], "<BBI") + listed(step["inside"], "<I") + struct.pack("<QqBB", *step["rest"])
        return made + listed(self.deferred, "<BBI") + listed(self.checks, "<Iqqq")


def changes_of(plan):
    """Each of what makes a plan one of another trace, by name; `plan` has one launch."""
    (launch,) = plan.steps
    nodes = 1 + max(node for (node,) in launch["inside"])
    tensors = 1 + max(slot[2] for kind, slot in launch["inputs"] if kind == 0 and slot[0] == 2)
    numbers = 1 + max(slot[2] for kind, slot in launch["inputs"] if kind == 0 and slot[0] == 3)
    value = [slot for kind, slot in launch["inputs"] if kind == 0]

    def sets(where, place, to):
        def change():
            where[place] = to

        return change

    yield "a value of a node that there isn't", sets(launch["outputs"][-1], 2, nodes)
    yield "a second result of a node", sets(launch["outputs"][-1], 1, launch["outputs"][-1][1] + 1)
    yield "an input as a result", sets(launch["outputs"][-1], slice(0, 3), [2, 0, 0])
    yield "no value", sets(value[0], 0, 0)
    yield "a value of an unknown kind", sets(value[0], 0, 4)
    yield "an input that there isn't", sets(value[0], slice(0, 3), [2, 0, tensors])
    yield "a number that there isn't", sets(value[0], slice(0, 3), [3, 0, numbers])
    yield "a value that is made by it", sets(value[0], slice(0, 3), [1, *launch["outputs"][-1][1:]])
    yield "a dtype that there isn't", sets(value[0], 3, 200)
    yield "a node inside that there isn't", sets(launch["inside"][-1], 0, nodes)
    yield "a random op that there isn't", sets(launch["inputs"], 0, [1, [nodes]])
    yield "a result less", lambda: launch["outputs"].pop()
    yield "a result that is kept and that there isn't", lambda: plan.deferred.append([1, 0, nodes])
    yield "an input that is kept", lambda: plan.deferred.append([2, 0, 0])
    yield "a check of an input that there isn't", lambda: plan.checks.append([tensors, 0, 1, 0])
    yield "no launch", lambda: plan.steps.clear()


CHANGES = 16  # that `changes_of` makes


@pytest.mark.parametrize("number", range(CHANGES))
def test_a_plan_for_another_trace_is_not_run(tmp_path, monkeypatch, number):
    """With a sound checksum, each index is beyond what the trace has by one."""

    def fn(x, i):
        return (x * 2.5 + 3.5)[i].tanh(), x.exp()

    def run():
        mt.jit.cache_clear()  # as if in a new process
        with mt.jit.options(persistent_cache_directory=str(tmp_path / "code")):
            for got, want in zip(mt.function(fn, jit_compile=True)(*given), fn(*given), strict=True):
                assert np.array_equal(got.numpy(), want.numpy())

    given = mt.linspace(-0.9, 0.9, 12).reshape(3, 4), mt.tensor([2, 0])
    compilations, load, kept = [], PlanStore.load, []
    monkeypatch.setattr(launcher, "cluster", lambda *args: compilations.append(args) or cluster(*args))
    for _ in range(2):
        run()
        assert len(compilations) == 1

    def loaded(self, signature, name):
        data, code = load(self, signature, name)
        plan = KeptPlan(data)
        assert plan.bytes() == bytes(data)
        changes = list(changes_of(plan))
        assert len(changes) == CHANGES
        what, change = changes[number]
        kept.append(what)
        change()
        return plan.bytes(), code

    monkeypatch.setattr(PlanStore, "load", loaded)
    run()
    assert len(compilations) == 2, kept
    assert len(kept) == 1
