"""jit_scope and attr_scope: predicates, gradients of their own, and the attribute of single ops."""

import collections
import functools
import inspect
import re

import numpy as np
import pytest

import minitensor as mt
from minitensor_jit.clustering import scope_predicate


def accounts(fn, *args):
    return mt.jit.explain(fn)(*args).to_json()


def clusters_of(report):
    return [sorted(row["op"] for row in entry["ops"] for _ in range(row["count"])) for entry in report["clusters"]]


def scope_only(fn, *args):
    """The account of a call in which only scopes ask for compiling."""
    from minitensor_jit.api import _keep_account
    from minitensor_jit.inspect.report import Report

    report = Report()
    mt._C.clear_plan_cache()
    previous = _keep_account(report)
    try:
        fn(*args)
    finally:
        _keep_account(previous)
        mt._C.clear_plan_cache()
    return report.to_json()


def test_a_predicate_decides_op_by_op():
    seen = []

    def no_exp(node):
        seen.append((node.op, node.kind, node.attr["shape"], node.device))
        return node.op != "exp"

    def fn(x):
        with mt.jit_scope(compile_ops=no_exp):
            return mt.exp(mt.tanh(x) * 2.5) + mt.sin(x)

    x = mt.rand(7)
    np.testing.assert_array_equal(fn(x).numpy(), (mt.exp(mt.tanh(x) * 2.5) + mt.sin(x)).numpy())
    assert ("tanh", "elementwise", (7,), "cpu") in seen
    report = scope_only(fn, x)
    assert [row["op"] for entry in report["eager"] for row in entry["ops"]] == ["exp"]
    assert report["eager"][0]["code"] == "scope-excludes"
    assert sorted(op for ops in clusters_of(report) for op in ops) == ["add", "mul", "sin", "tanh"]
    assert report["ops"]["total"] == report["ops"]["compiled"] + report["ops"]["eager"]


def test_a_predicate_may_be_a_tuple_that_can_be_called():
    class Named(collections.namedtuple("Named", ["first", "second"])):
        def __call__(self, node):
            return node.op in self

    def fn(x):
        with mt.jit_scope(Named("exp", "mul")):
            return mt.exp(x) * 2 - 1

    assert clusters_of(scope_only(fn, mt.ones(4))) == [["exp", "mul"]]


def test_predicates_of_the_same_code_share_plans():
    x = mt.rand(5)

    def fn(limit):
        with mt.jit_scope(lambda node: node.attr["shape"][0] > limit):
            return (x + 1.0) * x

    fn(1)
    misses = mt.jit.cache_info()["misses"]
    fn(1)
    assert mt.jit.cache_info()["misses"] == misses
    fn(2)
    assert mt.jit.cache_info()["misses"] == misses + 1


CONTAINERS = [
    lambda k: {"exp", "mul"},
    lambda k: ["exp", "mul"],
    lambda k: ("exp", ["mul"]),
    lambda k: {"exp": 1, "mul": [2.5]},
    lambda k: frozenset({"exp"}),
    lambda k: re.compile("exp"),
]


@pytest.mark.parametrize("make", CONTAINERS)
def test_a_predicate_that_is_made_at_every_turn_is_known_by_what_it_closed_over(make):
    x = mt.rand(5)

    class Chosen:
        def choose(self, node):
            return node.op != "exp"

    chosen = Chosen()
    pattern = re.compile("exp")

    def turn(k):
        names = make(k) if make is not CONTAINERS[-1] else pattern
        given = functools.partial(lambda known, node: node.op in str(known), names)
        for predicate in (lambda node: node.op in str(names), given, chosen.choose):
            with mt.jit_scope(predicate):
                y = mt.exp(x) * 2.5
            y.tolist()

    turn(0)
    misses, known = mt.jit.cache_info()["misses"], len(scope_predicate._predicates)
    for k in range(20):
        turn(k)
    assert mt.jit.cache_info()["misses"] == misses
    assert len(scope_predicate._predicates) == known


def test_a_predicate_whose_container_changes_is_asked_again():
    x, names = mt.rand(5), {"exp"}

    def fn(x):
        with mt.jit_scope(lambda node: node.op in names):
            return mt.exp(x) * 2.5 - 1

    assert clusters_of(scope_only(fn, x)) == [["exp"]]
    names.add("mul")
    assert clusters_of(scope_only(fn, x)) == [["exp", "mul"]]


def test_wrong_arguments():
    with pytest.raises(TypeError, match="compile_ops must be a bool or a function, not int"):
        mt.jit_scope(1)
    with pytest.raises(TypeError, match="separate_compiled_gradients must be a bool"):
        mt.jit_scope(True, 1)
    with pytest.raises(ValueError, match="there is no attribute '_XlaCompile'"):
        mt.jit.attr_scope({"_XlaCompile": True})
    with pytest.raises(TypeError, match="_MtCompile must be a bool or None"):
        mt.jit.attr_scope({"_MtCompile": 1})


@pytest.mark.parametrize("separate", [False, True])
def test_gradients_belong_to_the_scope_or_have_clusters_of_their_own(separate):
    w = mt.rand(6, requires_grad=True)

    def fn(x):
        with mt.jit_scope():
            pass
        mt._C.begin_recording()
        try:
            with mt.jit_scope(separate_compiled_gradients=separate):
                y = mt.tanh(x * w) * mt.sigmoid(x)
            (gradient,) = mt.autograd.grad(y, w, mt.ones(6))
            return gradient
        finally:
            mt._C.end_recording("the end of the test")

    x = mt.rand(6)
    y = mt.tanh(x * w) * mt.sigmoid(x)
    np.testing.assert_array_equal(fn(x).numpy(), mt.autograd.grad(y, w, mt.ones(6))[0].numpy())
    names = clusters_of(scope_only(fn, x))
    assert len(names) == (2 if separate else 1)
    if separate:
        assert any("tanh" in ops for ops in names)
        assert any("tanh" not in ops for ops in names)


def test_the_attribute_of_single_ops():
    def fn(x):
        a = mt.tanh(x) * 2.5
        with mt.jit.attr_scope({"_MtCompile": False}):
            b = mt.exp(a)
        with mt.jit.attr_scope({"_MtCompile": True}):
            return mt.sin(b) + a

    x = mt.rand(9)
    expected = mt.sin(mt.exp(mt.tanh(x) * 2.5)) + mt.tanh(x) * 2.5
    np.testing.assert_array_equal(fn(x).numpy(), expected.numpy())
    reasons = {row["op"]: entry["code"] for entry in accounts(fn, x)["eager"] for row in entry["ops"]}
    assert reasons["exp"] == "scope-excludes"
    report = scope_only(fn, x)
    assert clusters_of(report) == [["add", "sin"]]


def test_scopes_are_decorators():
    @mt.jit_scope(lambda node: True)
    def fn(x):
        return x * 2.0 + 1.0

    np.testing.assert_array_equal(fn(mt.ones(2)).numpy(), [3.0, 3.0])
    np.testing.assert_array_equal(fn(mt.ones(3)).numpy(), [3.0, 3.0, 3.0])


def test_a_scope_may_be_entered_again_inside_itself():
    scope, never = mt.jit_scope(), mt.jit.attr_scope({"_MtCompile": False})

    @scope
    def deeper(x, n):
        x = mt.exp(x) + 1 - 2 * x
        return deeper(x, n - 1) if n else x

    def fn(x):
        with never, scope:
            with scope:
                y = deeper(x, 2)
            y = mt.sin(y) + mt.cos(y)
        with never:
            return mt.tanh(y) * 2 + mt.sqrt(mt.abs(y))

    x = mt.linspace(0.1, 1, 10)
    # Each entry has a cluster of its own; those that are alike are listed once.
    alike = {tuple(ops) for ops in clusters_of(scope_only(fn, x))}
    assert alike == {("add", "exp", "mul", "sub"), ("add", "cos", "sin")}
    plain = x
    for _ in range(3):
        plain = mt.exp(plain) + 1 - 2 * plain
    plain = mt.sin(plain) + mt.cos(plain)
    assert mt.equal(fn(x), mt.tanh(plain) * 2 + mt.sqrt(mt.abs(plain)))


def test_a_scope_is_left_as_often_as_it_was_entered():
    scope = mt.jit_scope(compile_ops=True)
    with scope, scope:
        pass
    with pytest.raises(RuntimeError, match="the scope is left, but was not entered"):
        scope.__exit__(None, None, None)


def test_the_signature_is_there_for_help():
    assert str(inspect.signature(mt.jit_scope)) == "(compile_ops=True, separate_compiled_gradients=False)"
    with pytest.raises(TypeError, match=r"jit_scope\(\)"):
        mt.jit_scope(compile=True)
