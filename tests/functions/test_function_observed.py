"""mt.function: when calls are observed, and what the log of one costs."""

import pytest

import minitensor as mt
from minitensor_jit.functions import recorder
from minitensor_jit.state import notes

pytestmark = pytest.mark.at_once(reason="it compiles by itself")


@pytest.fixture
def observed(monkeypatch):
    """The numbers of the calls that were observed, as `call` counts them."""
    found = []

    class Counted(recorder.Observer):
        def __init__(self, *args):
            found.append(Counted.call)
            super().__init__(*args)

    Counted.call = 0
    monkeypatch.setattr(recorder, "Observer", Counted)
    return found, Counted


def called(function, x, times, counted):
    hits = []
    for counted.call in range(1, times + 1):
        assert function(x).tolist() == function.__wrapped__(x).tolist()
        hits.append(function.hits)
    return hits


def test_calls_of_a_contest_are_not_observed_in_vain(observed):
    found, counted = observed
    network = mt.nn.Sequential(mt.nn.Linear(48, 80), mt.nn.ReLU(), mt.nn.Linear(80, 16))

    def step(x):
        return network(x).relu().tanh().exp().sum()

    compiled = mt.compile(step)
    hits = called(compiled, mt.randn(32, 48), 16, counted)
    # Five runs of the launches and five of their ops come first.
    assert found == [11]
    assert hits == [0] * 11 + [1, 2, 3, 4, 5]
    # What won is not timed again with less to do, and is with more, which its first call shows.
    assert called(compiled, mt.randn(8, 48), 3, counted) == [5, 6, 7]
    assert found == [11, 1]
    assert called(compiled, mt.randn(80, 48), 14, counted) == [7] * 11 + [8, 9, 10]
    assert found == [11, 1, 1, 11]


def test_kinds_of_arguments_are_settled_apart(observed):
    found, counted = observed
    network = mt.nn.Sequential(mt.nn.Linear(48, 80), mt.nn.Tanh(), mt.nn.Linear(80, 16))
    compiled = mt.compile(lambda x: network(x).relu().exp().sum())
    small, large = mt.randn(8, 48), mt.randn(80, 48)
    for n in range(11):
        assert len(found) == 0, n
        assert called(compiled, small, 1, counted) + called(compiled, large, 1, counted) == [0, 0]
    assert len(found) == 2
    assert called(compiled, small, 1, counted) + called(compiled, large, 1, counted) == [1, 2]


def test_what_is_compiled_as_a_whole_has_a_program_after_its_first_call(observed):
    found, counted = observed
    hits = called(mt.function(lambda x: (x * 3 + 1).sin().sum(), jit_compile=True), mt.randn(40), 4, counted)
    assert hits == [0, 1, 2, 3]
    assert found == [1]


def test_tensors_of_arguments_are_found_deep_in_what_is_read(observed):
    x, y = mt.ones(3), mt.ones(2)
    log = notes.Notes(((x,), {}))
    thing = object()
    guards = [(notes.Guard.CELL, thing, (("a", (1, frozenset({y}))),))]
    assert not log._read_argument(guards)
    for held in (x, (x,), ((y, (x,)),), frozenset({(y, x)})):
        assert log._read_argument([*guards, (notes.Guard.CELL, thing, (("b", held),))])
    assert not notes.Notes(((), {}))._read_argument([(notes.Guard.CELL, thing, (x,))])


def test_places_are_looked_up_only_for_what_is_told(monkeypatch):
    looked_up, where = [], notes._where
    monkeypatch.setattr(notes, "_where", lambda place: (looked_up.append(place), where(place))[1])
    stack = []

    def undoes(x):
        for _ in range(20):
            stack.append(1)
            stack.pop()
        return x * 2 + len(stack)

    def leaves(x):
        stack.append(1)
        return x * 2

    f = mt.function(undoes, jit_compile=True)
    assert [f(mt.ones(3)).tolist() for _ in range(3)] == [[2.0] * 3] * 3
    assert f.hits == 2
    assert looked_up == []
    g = mt.function(leaves, jit_compile=True)
    g(mt.ones(3))
    g(mt.ones(3))
    assert g.hits == 0
    assert len(looked_up) >= 1
