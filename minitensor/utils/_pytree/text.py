"""Structures as text: for people, and as JSON in PyTorch's format."""

from __future__ import annotations

import json
from typing import Any

from minitensor.utils._pytree.nodes import NODES_BY_NAME, SUPPORTED_NODES
from minitensor.utils._pytree.spec import TreeSpec

__all__ = ["treespec_dumps", "treespec_loads", "treespec_pprint"]


class _Dots:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as a tree with stars for leaves."""
    return repr(treespec.unflatten([_Dots() for _ in range(treespec.num_leaves)]))


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_NODES[spec.type]
    if node.name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your _register_pytree_node call "
            "with a `serialized_type_name` kwarg."
        )
    context = spec.context if node.to_dumpable is None else node.to_dumpable(spec.context)
    try:
        text = json.dumps(context)
    except TypeError as error:
        raise TypeError(
            f"Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
            f"using _register_pytree_node: {spec.type}"
        ) from error
    return {"type": node.name, "context": text, "children_spec": [_to_json(c) for c in spec.children_specs]}


def _from_json(given: dict[str, Any]) -> TreeSpec:
    if given["type"] is None:
        return TreeSpec(None)
    if given["type"] not in NODES_BY_NAME:
        raise NotImplementedError(f"Deserialization of {given['type']} in pytree is not registered.")
    node = NODES_BY_NAME[given["type"]]
    context = json.loads(given["context"])
    context = context if node.from_dumpable is None else node.from_dumpable(context)
    return TreeSpec(node.type, context, [_from_json(c) for c in given["children_spec"]])


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure as JSON, in PyTorch's format; ValueError for an unknown protocol (there is 1)."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    if protocol not in (None, 1):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return json.dumps([1, _to_json(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote."""
    protocol, given = json.loads(serialized)
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return _from_json(given)
