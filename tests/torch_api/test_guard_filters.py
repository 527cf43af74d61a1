"""`compile(options={"guard_filter_fn": ...})`: which guards a compiled function compares."""

import pickle

import numpy as np
import pytest

import minitensor as mt
from minitensor import compiler

pytestmark = pytest.mark.at_once(reason="it compiles by itself")

SCALE = 2.0
SCALES = [3.0]
WEIGHT = mt.ones(2)


def scaled(x):
    return x * SCALE


def scaled_by_item(x):
    return x * SCALES[0]


def weighted(x):
    return x * WEIGHT


OFFSETS = np.array([1.0, 2.0], np.float32)


def helper(x, plus=4.0):
    return x * plus


def helped(x):
    # An item of an array is its bytes, a length the list's, and a helper its code, defaults and names.
    return helper(x) + float(OFFSETS[1]) + len(SCALES)


class Model(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = mt.nn.Linear(2, 2, bias=False)
        self.scale = 2.0

    def forward(self, x):
        return self.linear(x) * self.scale


def compiled(fn, guard_filter):
    return mt.compile(fn, fullgraph=True, options={"guard_filter_fn": guard_filter})


def keep_all(entries):
    return [True] * len(entries)


@pytest.mark.parametrize(
    ("guard_filter", "notices"),
    [
        (None, True),
        (keep_all, True),
        (compiler.skip_guard_on_all_nn_modules_unsafe, True),
        (compiler.keep_tensor_guards_unsafe, False),
        (compiler.keep_portable_guards_unsafe, False),
        (compiler.skip_guard_on_globals_unsafe, False),
        (compiler.skip_all_guards_unsafe, False),
    ],
)
@pytest.mark.parametrize(("fn", "name", "new"), [(scaled, "SCALE", 5.0), (scaled_by_item, "SCALES", [5.0])])
def test_global_variables(monkeypatch, fn, name, new, guard_filter, notices):
    f = compiled(fn, guard_filter)
    x = mt.ones(2)
    before = f(x).tolist()
    assert f(x).tolist() == before
    assert (f.programs, f.hits) == (1, 1)
    monkeypatch.setitem(globals(), name, new)
    assert f(x).tolist() == ([5.0, 5.0] if notices else before)
    # Other arguments have a program of their own whatever was left out.
    assert f(mt.ones(3)).tolist() == [5.0] * 3


def test_what_a_global_variable_leads_to_is_global():
    f, compared = compiled(scaled_by_item, compiler.skip_guard_on_globals_unsafe), compiled(scaled_by_item, keep_all)
    x = mt.ones(2)
    assert f(x).tolist() == compared(x).tolist() == [3.0, 3.0]
    SCALES[0] = 4.0
    try:
        assert compared(x).tolist() == [4.0, 4.0]
        assert f(x).tolist() == [3.0, 3.0]
    finally:
        SCALES[0] = 3.0


@pytest.mark.parametrize(
    ("guard_filter", "notices"),
    [(keep_all, True), (compiler.skip_guard_on_globals_unsafe, False), (compiler.skip_all_guards_unsafe, False)],
)
def test_what_global_functions_and_arrays_hold(monkeypatch, guard_filter, notices):
    offsets = OFFSETS.copy()
    monkeypatch.setitem(globals(), "OFFSETS", offsets)
    f = compiled(helped, guard_filter)
    x = mt.ones(2)
    assert f(x).tolist() == f(x).tolist() == [7.0, 7.0]
    assert (f.programs, f.hits) == (1, 1)
    for change, wanted in [
        (lambda: monkeypatch.setattr(helper, "__defaults__", (5.0,)), 8.0),
        (lambda: offsets.__setitem__(1, 3.0), 9.0),
        (lambda: monkeypatch.setitem(globals(), "SCALES", [1.0, 1.0]), 10.0),
    ]:
        change()
        assert f(x).tolist() == [wanted if notices else 7.0] * 2


def test_modules():
    x = mt.ones(1, 2)

    def of_a_change(guard_filter, change):
        model = Model()
        with mt.no_grad():
            model.linear.weight.fill_(1.0)
        f = compiled(model, guard_filter)
        assert f(x).tolist() == [[4.0, 4.0]]
        weight = model.linear.weight  # a program goes with a parameter that it reads
        change(model)
        assert weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
        return f(x).tolist()

    def other_scale(model):
        model.scale = 10.0

    def other_weight(model):
        model.linear.weight = mt.nn.Parameter(mt.zeros(2, 2))

    assert of_a_change(None, other_scale) == of_a_change(keep_all, other_scale) == [[20.0, 20.0]]
    assert of_a_change(None, other_weight) == of_a_change(keep_all, other_weight) == [[0.0, 0.0]]
    inbuilt = compiler.skip_guard_on_inbuilt_nn_modules_unsafe
    assert of_a_change(inbuilt, other_scale) == [[20.0, 20.0]]
    assert of_a_change(inbuilt, other_weight) == [[4.0, 4.0]]
    for skips in (compiler.skip_guard_on_all_nn_modules_unsafe, compiler.skip_all_guards_unsafe):
        assert of_a_change(skips, other_scale) == [[4.0, 4.0]]
        assert of_a_change(skips, other_weight) == [[4.0, 4.0]]


def test_contents_are_read_whatever_is_compared():
    model = Model()
    f = compiled(model, compiler.skip_all_guards_unsafe)
    x = mt.ones(1, 2)
    f(x)
    with mt.no_grad():
        model.linear.weight.fill_(3.0)
    assert f(x).tolist() == [[12.0, 12.0]]
    assert (f.dynamo_ctx.programs, f.dynamo_ctx.hits) == (1, 1)


def test_entries():
    seen = []

    def look(entries):
        seen.extend(entries)
        return [True] * len(entries)

    model = Model()

    def fn(x):
        return model(x) * SCALE * SCALES[0] + WEIGHT

    compiled(fn, look)(mt.ones(1, 2))
    by_name = {entry.name: entry for entry in seen}
    scale = by_name["G['SCALE']"]
    assert (scale.guard_type, scale.derived_guard_types) == ("CONSTANT_MATCH", ("CONSTANT_MATCH",))
    assert (scale.has_value, scale.value, scale.is_global) == (True, 2.0, True)
    assert by_name["G['SCALES']"].value is SCALES
    contents = [entry for entry in seen if entry.value is SCALES and entry.guard_type == "EQUALS_MATCH"]
    assert [entry.is_global for entry in contents] == [True]
    cell = next(entry for entry in seen if entry.guard_type == "CLOSURE_MATCH" and entry.value is model)
    assert not cell.is_global
    own = next(e for e in seen if e.name == "scale of a Model" and e.value == 2.0)
    assert own.orig_guard.source.is_unspecialized_nn_module()
    assert not own.orig_guard.source.is_unspecialized_builtin_nn_module()
    tensors = [entry for entry in seen if entry.guard_type == "TENSOR_MATCH"]
    assert {(id(e.value), e.is_global) for e in tensors} == {(id(WEIGHT), True), (id(model.linear.weight), False)}
    assert compiler.keep_tensor_guards_unsafe(tensors).count(True) == 1
    assert compiler.keep_tensor_guards_unsafe(tensors, keep_parameters=True) == [True, True]
    absent = [entry for entry in seen if entry.guard_type == "DICT_CONTAINS"]
    assert absent
    assert not any(entry.has_value for entry in absent)


def test_a_change_that_a_call_makes_is_no_guard():
    counts = {"n": 0}

    def counted(x):
        counts["n"] += 1
        return x + 1

    f = mt.compile(counted, options={"guard_filter_fn": compiler.skip_all_guards_unsafe})
    for _ in range(3):
        f(mt.ones(2))
    assert counts["n"] == 3


@pytest.mark.parametrize(
    ("guard_filter", "message"),
    [
        (lambda entries: [True], r"expected \d+ answers, one a guard, got 1"),
        (lambda entries: [1] * len(entries), "expected bools, got int"),
    ],
)
def test_filters_with_wrong_answers(guard_filter, message):
    f = compiled(scaled, guard_filter)
    with pytest.raises(RuntimeError, match=message):
        f(mt.ones(2))
    assert (mt.ones(2) + 1).tolist() == [2.0, 2.0]  # nothing is recorded any more
    with pytest.raises(RuntimeError, match=message):
        f(mt.ones(2))


def test_an_error_of_a_filter_is_raised():
    def fails(entries):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        compiled(scaled, fails)(mt.ones(2))
    with pytest.raises(RuntimeError, match="guard_filter_fn is to be callable, got int"):
        compiled(scaled, 3)


def test_a_pickled_module_keeps_its_filter():
    f = pickle.loads(pickle.dumps(compiled(Model(), compiler.skip_all_guards_unsafe)))
    x = mt.ones(1, 2)
    before = f(x).tolist()
    f._orig_mod.scale = 10.0
    assert f(x).tolist() == before
