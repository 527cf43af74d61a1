"""Graphs: ops that are called when a session runs, with placeholders as their leaves.

A node is a call of minitensor's functions that waits for its operands. Nothing is optimised or run here: a session
calls the nodes that it needs, and what that records is the program.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minitensor import _C, _forks
from minitensor.compat.v1.framework.inference import REFUSALS, Found, as_tensor, infer, probes
from minitensor.compat.v1.framework.shapes import TensorShape

__all__ = [
    "Graph",
    "GraphKeys",
    "Operation",
    "Tensor",
    "add_to_collection",
    "control_dependencies",
    "device",
    "get_collection",
    "get_default_graph",
    "name_scope",
    "needed",
    "reset_default_graph",
    "set_random_seed",
]

_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/-]*")
_numbers = itertools.count()


class GraphKeys:
    """The names of the usual collections."""

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    GLOBAL_STEP = "global_step"
    TRAIN_OP = "train_op"
    SUMMARIES = "summaries"
    UPDATE_OPS = "update_ops"


class Operation:
    """A call that waits for its operands. `place` is the file and the line that made it."""

    __slots__ = (
        "__weakref__",
        "_call",
        "control_inputs",
        "graph",
        "held",
        "host_call",
        "host_inputs",
        "inputs",
        "jit_scope",
        "kind",
        "name",
        "number",
        "outputs",
        "place",
        "type",
    )

    def __init__(self, graph: Graph, kind: str, type: str, name: str, inputs: Sequence[Tensor]) -> None:
        """`kind`: `pure`, `writes` a variable, `gradients`, or a leaf's; or by what else its call takes.

        That is a generator (`random`), or the session's store (`control`).
        """
        self.graph = graph
        self.kind = kind
        self.type = type
        self.name = name
        self.inputs = list(inputs)
        self.control_inputs: list[Operation] = []
        self.outputs: list[Tensor] = []
        self.number = next(_numbers)
        caller = _C.caller()
        self.place: tuple[str, int] = ("<unknown>", 0) if caller is None else (caller[0], caller[1])
        self.jit_scope: Any = None
        self.held: Any = None
        self._call: Callable[..., Any] = lambda: ()
        # Operands that the call takes as arrays, and what is called if all of them are such.
        self.host_inputs: frozenset[int] = frozenset()
        self.host_call: Callable[..., Any] | None = None

    def call(self, *values: Any, device: str = "cpu", **named: Any) -> Any:
        """Run it on tensors, and on arrays of integers that came of shapes."""
        if self.host_call is not None and all(isinstance(value, np.ndarray) for value in values):
            return np.asarray(self.host_call(*values))
        prepared = []
        for place, value in enumerate(values):
            if place not in self.host_inputs:
                value = as_tensor(value, device)
            elif isinstance(value, _C.Tensor):
                value = np.asarray(value.tolist(), np.int32)
            prepared.append(value)
        return self._call(*prepared, **named)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run it in the session, or in the default one."""
        _session(session, "run").run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


class _Operand:
    """What can be evaluated. Operators come from :mod:`minitensor.compat.v1.framework.operators`."""

    __slots__ = ()
    __array_priority__ = 100
    __array_ufunc__ = None

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Its value, as NumPy's, in the session, or in the default one."""
        return _session(session, "eval").run(self, feed_dict)

    def __bool__(self) -> bool:
        raise TypeError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed: its value is known when a session runs. "
            "Use `if t is not None:` to ask whether there is a tensor, and tf.where to choose by values."
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("Tensor objects are not iterable when eager execution is not enabled. Use tf.unstack.")


class Tensor(_Operand):
    """A result of an op, which has a value when a session runs."""

    __slots__ = ("_shape", "dtype", "op", "probes", "value_index")

    def __init__(self, op: Operation, value_index: int, found: Found) -> None:
        """`found`: dtype, shape, and what stands for it in inference."""
        self.op = op
        self.value_index = value_index
        self.dtype, self._shape, self.probes = found

    @property
    def name(self) -> str:
        """The op's name and which result it is: `x:0`."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def graph(self) -> Graph:
        """The graph that it is in."""
        return self.op.graph

    @property
    def shape(self) -> TensorShape:
        """What is known of its shape."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """What is known of its shape."""
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Add to what is known of its shape; ValueError if that contradicts it."""
        merged = self._shape.merge_with(shape)
        if merged != self._shape:
            self._shape, self.probes = merged, probes(merged, self.dtype)

    def __repr__(self) -> str:
        sizes = "" if self._shape.ndims is None else f" shape={self._shape}"
        return f"<tf.Tensor '{self.name}'{sizes} dtype={str(self.dtype).rpartition('.')[2]}>"


class _Scopes(threading.local):
    """What a thread is in, of one graph."""

    def __init__(self) -> None:
        self.name = ""
        self.control: list[Operation] = []
        self.jit: Any = None
        self.variables: Any = None


class Graph:
    """Ops with their names, and collections of what belongs together."""

    def __init__(self) -> None:
        self._lock = _forks.lock()
        self._operations: dict[str, Operation] = {}
        self._names: dict[str, int] = {}
        self._collections: dict[Any, list[Any]] = {}
        self._finalized = False
        self.scopes = _Scopes()
        self.seed: int | None = None
        self.variables_by_name: dict[str, Any] = {}

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Ops that this thread makes inside are of this graph."""
        _stack.graphs.append(self)
        try:
            yield self
        finally:
            _stack.graphs.remove(self)

    def unique_name(self, name: str) -> str:
        """The name in the scope that is open, with `_1` and so on if it is taken."""
        full = f"{self.scopes.name}{name}"
        with self._lock:
            while True:
                count = self._names.get(full, 0)
                self._names[full] = count + 1
                if count == 0:
                    return full
                candidate = f"{full}_{count}"
                if candidate not in self._names:
                    self._names[candidate] = 1
                    return candidate

    def add(
        self,
        type: str,
        call: Callable[..., Any],
        inputs: Sequence[Tensor] = (),
        *,
        name: str | None = None,
        kind: str = "pure",
        found: list[Found] | None = None,
        probe: Callable[..., Any] | None = None,
        host_inputs: Sequence[int] = (),
        host_call: Callable[..., Any] | None = None,
        hints: Sequence[int] = (),
    ) -> Operation:
        """Make an op of a call.

        What it gives is `found`, or inferred by `probe`, which is the call itself unless said otherwise; a call that
        would refuse all values of such shapes is a ValueError.
        """
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        for tensor in inputs:
            if tensor.graph is not self:
                raise ValueError(f"{tensor!r} must be from the same graph as the op {type} that takes it.")
        if name is not None and not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' is not a valid scope name")
        # A name that ends with "/" is meant as it is: that of a scope.
        op = Operation(self, kind, type, name or type, inputs)
        op._call, op.host_inputs, op.host_call = call, frozenset(host_inputs), host_call
        if found is None:

            def probed(*values: Any) -> Any:
                if probe is not None:
                    return probe(*values)
                return op.call(*values, device="meta")

            try:
                found = infer(probed, inputs, hints)
            except REFUSALS as error:
                shapes = ", ".join(_brackets(tensor.shape) for tensor in inputs)
                text = f"{error} for '{self.scopes.name}{name or type}' (op: '{type}') with input shapes: {shapes}."
                raise ValueError(text) from None
        op.name = name[:-1] if name and name.endswith("/") else self.unique_name(name or type)
        op.outputs = [Tensor(op, place, each) for place, each in enumerate(found)]
        op.control_inputs = [other for other in self.scopes.control if other is not op]
        op.jit_scope = self.scopes.jit
        with self._lock:
            self._operations[op.name] = op
        return op

    def get_operations(self) -> list[Operation]:
        """All ops, in the order in which they were made."""
        with self._lock:
            return sorted(self._operations.values(), key=lambda op: op.number)

    def get_operation_by_name(self, name: str) -> Operation:
        """The op of that name; KeyError if there is none."""
        found = self._operations.get(name)
        if found is None:
            raise KeyError(f"The name '{name}' refers to an Operation not in the graph.")
        return found

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor of a name such as `x:0`; KeyError if there is none, ValueError for an op's name."""
        op, colon, index = name.partition(":")
        if not colon or not index.isdigit():
            raise ValueError(f"The name '{name}' looks like an operation's; a tensor's is '<op_name>:<output_index>'.")
        outputs = self._operations[op].outputs if op in self._operations else []
        if int(index) >= len(outputs):
            raise KeyError(f"The name '{name}' refers to a Tensor which does not exist.")
        return outputs[int(index)]

    def as_graph_element(self, thing: Any) -> Any:
        """The tensor or op of this graph that an object or a name stands for; TypeError or ValueError if none does."""
        if isinstance(thing, str):
            return self.get_tensor_by_name(thing) if ":" in thing else self.get_operation_by_name(thing)
        element = getattr(thing, "graph_element", thing)
        if not isinstance(element, Tensor | Operation):
            raise TypeError(f"Can not convert a {type(thing).__name__} into a Tensor or Operation: {thing!r}")
        if element.graph is not self:
            raise ValueError(f"{element!r} is not an element of this graph.")
        return element

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Put something in a collection."""
        with self._lock:
            self._collections.setdefault(name, []).append(value)

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """What is in a collection; with `scope`, things whose names begin with what that pattern matches."""
        with self._lock:
            found = list(self._collections.get(name, ()))
        return [each for each in found if re.match(scope, each.name)] if scope else found

    def finalize(self) -> None:
        """Refuse further ops."""
        self._finalized = True

    @property
    def finalized(self) -> bool:
        """Whether further ops are refused."""
        return self._finalized

    @contextlib.contextmanager
    def control_dependencies(self, inputs: Any) -> Iterator[None]:
        """Ops made inside run after these; None forgets those from outside."""
        before = self.scopes.control
        added = [] if inputs is None else [self.as_graph_element(each) for each in inputs]
        ops = [each.op if isinstance(each, Tensor) else each for each in added]
        self.scopes.control = [] if inputs is None else [*before, *ops]
        try:
            yield
        finally:
            self.scopes.control = before

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Names of ops made inside begin with this one; a name that ends with `/` is a scope to be gone on with."""
        before = self.scopes.name
        if not name:
            inside = ""
        elif name.endswith("/"):
            inside = name
        else:
            if not _NAME.fullmatch(name):
                raise ValueError(f"'{name}' is not a valid scope name")
            inside = f"{self.unique_name(name)}/"
        self.scopes.name = inside
        try:
            yield inside
        finally:
            self.scopes.name = before


class _Stack(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self.sessions: list[Any] = []


_stack = _Stack()
_default = Graph()


def _session(session: Any, what: str) -> Any:
    found = session or (_stack.sessions[-1] if _stack.sessions else None)
    if found is None:
        raise ValueError(
            f"Cannot {what}(): No default session is registered. Use `with sess.as_default()` or {what}(session=sess)"
        )
    return found


def _brackets(shape: TensorShape) -> str:
    if shape.ndims is None:
        return "<unknown>"
    return "[" + ",".join("?" if size is None else str(size) for size in shape.as_list()) + "]"


def sessions() -> list[Any]:
    """The default sessions of this thread, the innermost last."""
    return _stack.sessions


def get_default_graph() -> Graph:
    """The graph that ops are added to: that of the innermost `as_default` of this thread, or the process's."""
    return _stack.graphs[-1] if _stack.graphs else _default


def reset_default_graph() -> None:
    """Begin with an empty graph; AssertionError inside an `as_default`."""
    global _default
    if _stack.graphs:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _default = Graph()


def control_dependencies(control_inputs: Any) -> contextlib.AbstractContextManager[None]:
    """Ops made inside run after these ops and tensors; None forgets those from outside."""
    return get_default_graph().control_dependencies(control_inputs)


class name_scope:  # noqa: N801  (called like a function)
    """Names of ops made inside begin with this one. As a context manager it gives the scope's full name."""

    def __init__(self, name: str | None, default_name: str | None = None, values: Any = None) -> None:
        """`default_name`: what is taken if `name` is None; `values` are for those who check them."""
        self._name = default_name if name is None else name

    def __enter__(self) -> str:
        self._scope = get_default_graph().name_scope(self._name)
        return self._scope.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._scope.__exit__(*exception)


def device(name: Any) -> contextlib.AbstractContextManager[None]:
    """Where the ops made inside run: on the CPU, as all of a graph do. ValueError for another device."""
    if name is not None and (not isinstance(name, str) or "cpu" not in name.lower()):
        raise ValueError(f"graphs run on '/cpu:0', not on {name!r}; minitensor's own tensors take device='cuda'")
    return contextlib.nullcontext()


def needed(elements: Sequence[Tensor | Operation], fed: Sequence[Tensor]) -> list[Operation]:
    """The ops behind tensors and ops, in the order in which they were made; what is fed needs none."""
    given = set(fed)
    found: set[Operation] = set()
    waiting = [e if isinstance(e, Operation) else e.op for e in elements if e not in given]
    while waiting:
        op = waiting.pop()
        if op in found:
            continue
        found.add(op)
        waiting += [tensor.op for tensor in op.inputs if tensor not in given]
        waiting += op.control_inputs
    return sorted(found, key=lambda op: op.number)


def add_to_collection(name: Any, value: Any) -> None:
    """Put something in a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """What is in a collection of the default graph."""
    return get_default_graph().get_collection(key, scope)


def set_random_seed(seed: int) -> None:
    """Have each session that runs the default graph draw the same random numbers, from its first run on."""
    get_default_graph().seed = seed
