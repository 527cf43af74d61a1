"""Trees of Python's containers: taken apart into leaves and a :class:`TreeSpec`, and put together again.

Containers are tuple, list, dict, named tuples, OrderedDict, defaultdict, deque, the named results of ops, `Size`, and
the classes that :func:`register_pytree_node` adds; each by its exact class. All else, None too, is a leaf. The names
are those of PyTorch's `torch.utils._pytree`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import UnionType
from typing import Any

from minitensor.utils._pytree.keys import GetAttrKey, KeyEntry, KeyPath, MappingKey, SequenceKey, key_get, keystr
from minitensor.utils._pytree.nodes import (
    SUPPORTED_NODES,
    Context,
    DumpableContext,
    FlattenFn,
    FromDumpableContextFn,
    PyTree,
    ToDumpableContextFn,
    UnflattenFn,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    node_type,
    register_constant,
    register_dataclass,
    register_pytree_node,
)
from minitensor.utils._pytree.spec import LeafSpec, PyTreeSpec, TreeSpec
from minitensor.utils._pytree.text import treespec_dumps, treespec_loads, treespec_pprint

__all__ = [
    "SUPPORTED_NODES",
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "PyTree",
    "PyTreeSpec",
    "SequenceKey",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]


_IsLeaf = Callable[[Any], bool] | None
_Types = Any  # a type, a tuple of types, a union, or a predicate


def _flatten(tree: Any, leaves: list[Any], is_leaf: _IsLeaf) -> TreeSpec:
    kind = None if is_leaf is not None and is_leaf(tree) else node_type(tree)
    if kind is None:
        leaves.append(tree)
        return TreeSpec(None)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_flatten(tree: Any, is_leaf: _IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree in order, and its structure; `is_leaf(x)`: where to stop."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of that structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_is_leaf(tree: Any, is_leaf: _IsLeaf = None) -> bool:
    """Whether it is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or node_type(tree) is None


def tree_iter(tree: Any, is_leaf: _IsLeaf = None) -> Iterator[Any]:
    """The leaves, one after the other."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: _IsLeaf = None) -> list[Any]:
    """The leaves."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: _IsLeaf = None) -> TreeSpec:
    """The structure."""
    return _flatten(tree, [], is_leaf)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: _IsLeaf = None) -> Any:
    """The tree of what `func` gives for each leaf, and for what is in its place in the other trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten([func(*each) for each in zip(leaves, *map(spec.flatten_up_to, rests), strict=True)])


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: _IsLeaf = None) -> Any:
    """Call `func` for each leaf, for what it does, and return the tree."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for each in zip(leaves, *map(spec.flatten_up_to, rests), strict=True):
        func(*each)
    return tree


def _chosen(types: _Types) -> Callable[[Any], bool]:
    if isinstance(types, (type, tuple, UnionType)):
        return lambda x: isinstance(x, types)
    if callable(types):
        return types  # type: ignore[no-any-return]
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def tree_map_only(types: _Types, /, func: Callable[[Any], Any], tree: Any, is_leaf: _IsLeaf = None) -> Any:
    """`tree_map` for leaves of some types, or that fulfil a predicate; others stay."""
    chosen = _chosen(types)
    return tree_map(lambda x: func(x) if chosen(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(types: _Types, /, func: Callable[[Any], Any], tree: Any, is_leaf: _IsLeaf = None) -> Any:
    """`tree_map_` for leaves of some types, or that fulfil a predicate."""
    chosen = _chosen(types)
    return tree_map_(lambda x: func(x) if chosen(x) else None, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: _IsLeaf = None) -> bool:
    """Whether all leaves fulfil a predicate."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: _IsLeaf = None) -> bool:
    """Whether a leaf fulfils a predicate."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(types: _Types, /, pred: Callable[[Any], bool], tree: Any, is_leaf: _IsLeaf = None) -> bool:
    """Whether all leaves of some types fulfil a predicate."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, types))


def tree_any_only(types: _Types, /, pred: Callable[[Any], bool], tree: Any, is_leaf: _IsLeaf = None) -> bool:
    """Whether a leaf of some types fulfils a predicate."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, types))


def _paths(tree: Any, path: KeyPath, is_leaf: _IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = SUPPORTED_NODES[node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a flatten_with_keys_fn argument "
            "to register_pytree_node."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _paths(child, (*path, key), is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: _IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Pairs of the way to a leaf, a tuple of keys, and the leaf."""
    return list(_paths(tree, (), is_leaf))


def tree_flatten_with_path(tree: Any, is_leaf: _IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """`tree_leaves_with_path`, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: _IsLeaf = None) -> Any:
    """`tree_map` of a function that gets the way to the leaf first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = map(spec.flatten_up_to, rests)
    return spec.unflatten([func(*pair, *rest) for pair, *rest in zip(pairs, *others, strict=True)])


# What libraries call that PyTorch does not document.
_get_node_type = node_type
_dict_flatten, _dict_unflatten = SUPPORTED_NODES[dict].flatten_fn, SUPPORTED_NODES[dict].unflatten_fn
_dict_flatten_with_keys = SUPPORTED_NODES[dict].flatten_with_keys_fn
_register_pytree_node = register_pytree_node
