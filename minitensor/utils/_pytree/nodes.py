"""The classes of containers, and the table where each has how it is taken apart."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from minitensor import _C
from minitensor.utils._pytree.keys import GetAttrKey, KeyEntry, MappingKey, SequenceKey

__all__ = [
    "NODES_BY_NAME",
    "SUPPORTED_NODES",
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "NodeDef",
    "PyTree",
    "ToDumpableContextFn",
    "UnflattenFn",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "node_type",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
]

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = Callable[[Any], tuple[list[Any], Any]]
UnflattenFn = Callable[[Iterable[Any], Any], Any]
ToDumpableContextFn = Callable[[Any], Any]
FromDumpableContextFn = Callable[[Any], Any]


class NodeDef(NamedTuple):
    """What is known of a class of containers."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[KeyEntry, Any]], Any]] | None
    name: str | None
    """Its name in a dump; None: it can't be dumped."""
    to_dumpable: ToDumpableContextFn | None
    from_dumpable: FromDumpableContextFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
NODES_BY_NAME: dict[str, NodeDef] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[KeyEntry, Any]], Any]] | None = None,
) -> None:
    """Make a class one of containers.

    `flatten_fn(x)` gives its children and a context, `unflatten_fn(children, context)` one again;
    `flatten_with_keys_fn(x)` gives pairs of a key and a child. With a `serialized_type_name` specs can be dumped; a
    context that JSON doesn't know has two functions for that. ValueError if the class is registered.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    _enter(
        NodeDef(
            cls, flatten_fn, unflatten_fn, flatten_with_keys_fn, serialized_type_name, to_dumpable_context,
            from_dumpable_context,
        )
    )  # fmt: skip


def _enter(node: NodeDef) -> None:
    SUPPORTED_NODES[node.type] = node
    if node.name is not None:
        NODES_BY_NAME[node.name] = node


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Make a dataclass one of containers, whose children are its fields; those that are None are left out."""
    from dataclasses import fields

    names = [f.name for f in fields(cls) if f.init] if field_names is None else list(field_names)
    names = [name for name in names if name not in (drop_field_names or ())]

    def flatten(x: Any) -> tuple[list[Any], Any]:
        present = [name for name in names if getattr(x, name) is not None]
        return [getattr(x, name) for name in present], present

    def with_keys(x: Any) -> tuple[list[tuple[KeyEntry, Any]], Any]:
        children, present = flatten(x)
        return [(GetAttrKey(name), child) for name, child in zip(present, children, strict=True)], present

    def unflatten(children: Iterable[Any], present: Any) -> Any:
        given = dict.fromkeys(names)
        given.update(zip(present, children, strict=True))
        return cls(**given)

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=with_keys
    )


def register_constant(cls: type) -> None:
    """Make objects of a class a part of the structure, compared by `==`, rather than leaves."""
    register_pytree_node(cls, lambda x: ([], x), lambda _, context: context, flatten_with_keys_fn=lambda x: ([], x))


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class is one of named tuples."""
    fields = getattr(cls, "_fields", None)
    return isinstance(cls, type) and issubclass(cls, tuple) and type(fields) is tuple


def is_namedtuple_instance(obj: object) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object | type) -> bool:
    """Whether it is a named tuple, or a class of these."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """Whether a class is one of named results, as of `max` or `os.stat`."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "n_fields", None), int)


def is_structseq_instance(obj: object) -> bool:
    """Whether an object is of such a class."""
    return is_structseq_class(type(obj))


def is_structseq(obj: object | type) -> bool:
    """Whether it is of such a class, or is one."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


# ---- the containers of Python


def _sequence(kind: Any, name: str) -> NodeDef:
    return NodeDef(
        kind, lambda x: (list(x), None), lambda children, _: kind(children),
        lambda x: ([(SequenceKey(i), item) for i, item in enumerate(x)], None), name, None, None,
    )  # fmt: skip


def _mapping(kind: Any, name: str) -> NodeDef:
    return NodeDef(
        kind, lambda x: (list(x.values()), list(x)), lambda children, keys: kind(zip(keys, children, strict=True)),
        lambda x: ([(MappingKey(key), item) for key, item in x.items()], list(x)), name, None, None,
    )  # fmt: skip


def _name_of(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _class_named(name: str) -> Any:
    import importlib

    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


_NAMED = NodeDef(
    namedtuple, lambda x: (list(x), type(x)), lambda children, cls: cls(*children),
    lambda x: ([(GetAttrKey(f), item) for f, item in zip(x._fields, x, strict=True)], type(x)),
    "collections.namedtuple", _name_of, _class_named,
)  # fmt: skip
_DEFAULT = NodeDef(
    defaultdict, lambda x: (list(x.values()), [x.default_factory, list(x)]),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    lambda x: ([(MappingKey(key), item) for key, item in x.items()], [x.default_factory, list(x)]),
    "collections.defaultdict",
    lambda context: {
        "default_factory_module": getattr(context[0], "__module__", None),
        "default_factory_name": getattr(context[0], "__qualname__", None), "dict_context": context[1],
    },
    lambda d: [
        d["default_factory_name"] and _class_named(f"{d['default_factory_module']}.{d['default_factory_name']}"),
        d["dict_context"],
    ],
)  # fmt: skip
_DEQUE = NodeDef(
    deque, lambda x: (list(x), x.maxlen), deque,
    lambda x: ([(SequenceKey(i), item) for i, item in enumerate(x)], x.maxlen), "collections.deque", None, None,
)  # fmt: skip
for _node in (
    _sequence(tuple, "builtins.tuple"), _sequence(list, "builtins.list"), _mapping(dict, "builtins.dict"), _NAMED,
    _mapping(OrderedDict, "collections.OrderedDict"), _DEFAULT, _DEQUE, _sequence(_C.Size, "minitensor.Size"),
):  # fmt: skip
    _enter(_node)


def node_type(tree: Any) -> Any:
    """The key of the node's definition; None for a leaf."""
    kind = type(tree)
    if kind in SUPPORTED_NODES:
        return kind
    if issubclass(kind, tuple):
        if is_namedtuple_class(kind):
            return namedtuple
        if kind.__module__ == f"{_C.shown_package()}.return_types":
            _enter(_sequence(kind, _name_of(kind)))
            return kind
    return None
