"""The structures of trees."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any

from minitensor.utils._pytree.nodes import SUPPORTED_NODES, node_type

__all__ = ["LeafSpec", "PyTreeSpec", "TreeSpec"]


class TreeSpec:
    """The structure of a tree: the class and context of each container."""

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any = None, children_specs: Any = ()) -> None:
        """`type` None: a leaf."""
        self.type, self._context, self._children = type, context, list(children_specs)
        self.num_children = len(self._children)
        self.num_leaves = sum(child.num_leaves for child in self._children) if type is not None else 1
        self.num_nodes = 1 + sum(child.num_nodes for child in self._children)

    @property
    def context(self) -> Any:
        """What the container has beside its children."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The structures of the children."""
        return self._children

    def is_leaf(self) -> bool:
        """Whether it stands for a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self._children[index]

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of `tree` in the places of the leaves; ValueError where the structures differ."""
        found: list[Any] = []
        self._take(tree, found)
        return found

    def _take(self, tree: Any, found: list[Any]) -> None:
        if self.type is None:
            found.append(tree)
            return
        kind = node_type(tree)
        mappings = (dict, OrderedDict, defaultdict)
        both = self.type in mappings and kind in mappings
        if kind != self.type and not both:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        if both:
            keys = self._context[1] if self.type is defaultdict else self._context
            if set(keys) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {sorted(keys, key=str)}, got {sorted(tree, key=str)}.")
            children = [tree[key] for key in keys]
        elif self.type is not deque and context != self._context:
            raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
        for spec, child in zip(self._children, children, strict=True):
            spec._take(child, found)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """A tree of these leaves; ValueError if there are too few or too many."""
        given = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(given))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        return SUPPORTED_NODES[self.type].unflatten_fn([c._build(leaves) for c in self._children], self._context)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self._context, self._children) == (other.type, other._context, other._children)

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, tuple(map(hash, self._children))))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        parts = [child.__repr__(indent + 2) for child in self._children]
        inner = f",\n{' ' * (indent + 2)}".join(parts)
        return f"TreeSpec({self.type.__name__}, {self._context!r}, [{inner}])"


PyTreeSpec = TreeSpec


class _LeafMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TreeSpec) and instance.is_leaf()


class LeafSpec(TreeSpec, metaclass=_LeafMeta):
    """The structure of a leaf."""

    __slots__ = ()

    def __new__(cls) -> Any:
        """Make a TreeSpec without children."""
        return TreeSpec(None)
