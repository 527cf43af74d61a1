"""Trees of containers against PyTorch's, and by hand."""

import re
import time
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import pytest

import minitensor as mt
import minitensor.utils._pytree as pytree

Pair = namedtuple("Pair", "x y")
TREES = [
    1, None, [1, (2, {"a": 3})], {"b": (1, 2), "a": [3, None]}, Pair(1, [2]), OrderedDict(b=1, a=(2,)),
    defaultdict(list, a=1), deque([1, 2], 3), (), {}, [[], ()],
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_round_trip(tree):
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec.num_leaves == len(leaves) == len(list(pytree.tree_iter(tree)))
    assert [pytree.key_get(tree, path) for path, _ in pytree.tree_leaves_with_path(tree)] == leaves
    if not isinstance(tree, Pair):
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


@pytest.mark.torch
@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_as_torch(tree):
    pytest.importorskip("torch")
    import torch.utils._pytree as theirs

    ours, spec = pytree.tree_flatten(tree)
    leaves, other = theirs.tree_flatten(tree)
    assert ours == leaves
    assert repr(spec) == repr(other)
    assert pytree.treespec_pprint(spec) == theirs.treespec_pprint(other)
    assert (spec.num_nodes, spec.num_children) == (other.num_nodes, other.num_children)
    if not isinstance(tree, (Pair, defaultdict)):
        assert pytree.treespec_dumps(spec) == theirs.treespec_dumps(other)
    ways = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    assert ways == [theirs.keystr(path) for path, _ in theirs.tree_leaves_with_path(tree)]


def test_maps():
    assert pytree.tree_map(lambda a, b: a + b, {"a": [1, 2]}, {"a": [10, 20]}) == {"a": [11, 22]}
    assert pytree.tree_map(len, [(1, 2), (3,)], is_leaf=lambda x: isinstance(x, tuple)) == [2, 1]
    assert pytree.tree_map_only(int, lambda x: -x, [1, "a", (2,)]) == [-1, "a", (-2,)]
    assert pytree.tree_map_only(lambda x: x == 1, str, [1, 2]) == ["1", 2]
    seen = []
    tree = [1, [2]]
    assert pytree.tree_map_(seen.append, tree) is tree
    assert pytree.tree_map_only_((int, str), seen.append, tree) is tree
    assert seen == [1, 2, 1, 2]
    assert pytree.tree_all(bool, [1, 1]) and not pytree.tree_all(bool, [1, 0])  # noqa: PT018
    assert pytree.tree_any(bool, [0, 1]) and not pytree.tree_any_only(int, bool, [0, "a"])  # noqa: PT018
    assert pytree.tree_all_only(int, bool, [1, ""])
    with_path = pytree.tree_map_with_path(lambda path, x: pytree.keystr(path) + str(x), {"a": [1], "p": Pair(2, 3)})
    assert with_path == {"a": ["['a'][0]1"], "p": Pair("['p'].x2", "['p'].y3")}


def test_tensors_and_named_results():
    found = mt.max(mt.ones(2, 3), 0)
    leaves, spec = pytree.tree_flatten([found, mt.Size([2, 3])])
    assert len(leaves) == 4
    values, size = spec.unflatten(leaves)
    assert type(values) is type(found)
    assert type(size) is mt.Size
    assert pytree.is_structseq(found)
    assert not pytree.is_namedtuple(found)
    assert pytree.is_structseq(time.gmtime())
    assert pytree.tree_is_leaf(time.gmtime())


def test_classes_of_ones_own():
    class Box:
        def __init__(self, inside):
            self.inside = inside

    with pytest.raises(ValueError, match="is already registered as pytree node"):
        pytree.register_pytree_node(list, lambda x: (x, None), lambda x, _: list(x))
    pytree.register_pytree_node(Box, lambda box: ([box.inside], "box"), lambda parts, _: Box(*parts))
    assert pytree.tree_map(lambda x: x + 1, [Box(1)])[0].inside == 2
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn"):
        pytree.tree_leaves_with_path(Box(1))
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        pytree.treespec_dumps(pytree.tree_structure(Box(1)))

    @dataclass
    class Point:
        x: int
        y: int | None = None

    pytree.register_dataclass(Point)
    assert pytree.tree_map(str, [Point(1), Point(2, 3)]) == [Point("1"), Point("2", "3")]
    assert [pytree.keystr(p) for p, _ in pytree.tree_leaves_with_path(Point(2, 3))] == [".x", ".y"]


WRONG = {
    "p.tree_unflatten([1, 2], p.tree_structure([1]))": "`leaves` has length 2 but the spec refers to a pytree that",
    "p.tree_map(print, [1, 2], [1])": "Node arity mismatch; expected 2, but got 1.",
    "p.tree_map(print, [1, 2], (1, 2))": "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>.",
    "p.tree_map(print, {'a': 1}, {'b': 1})": "Node keys mismatch",
    "p.treespec_loads('[2, {}]')": "Unknown protocol 2",
}


@pytest.mark.parametrize("expression", WRONG)
def test_errors(expression):
    with pytest.raises(ValueError, match=re.escape(WRONG[expression])):
        eval(expression, {"p": pytree})


def test_specs_compare_and_leaves_are_specs():
    assert pytree.tree_structure([1, 2]) == pytree.tree_structure([3, 4])
    assert pytree.tree_structure([1, 2]) != pytree.tree_structure((3, 4))
    assert isinstance(pytree.LeafSpec(), pytree.LeafSpec)
    assert pytree.LeafSpec() == pytree.tree_structure(1)
    assert len({pytree.tree_structure([1]), pytree.tree_structure([2])}) == 1
