"""Variables: tensors that a session keeps from run to run, and that ops write."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minitensor import _C
from minitensor._C import float32
from minitensor.compat.v1 import initializers
from minitensor.compat.v1.framework.constants import as_dtype, convert_to_tensor
from minitensor.compat.v1.framework.graph import (
    Graph,
    GraphKeys,
    Operation,
    Tensor,
    _Operand,
    get_default_graph,
    name_scope,
)
from minitensor.compat.v1.framework.inference import probes
from minitensor.compat.v1.framework.shapes import TensorShape

__all__ = [
    "AUTO_REUSE", "Variable", "all_variables", "assign", "assign_add", "assign_sub", "get_variable",
    "global_variables", "global_variables_initializer", "group", "initialize_all_variables",
    "initialize_local_variables", "initialize_variables", "local_variables", "local_variables_initializer", "no_op",
    "trainable_variables", "variable_scope", "variables_initializer",
]  # fmt: skip

AUTO_REUSE = "AUTO_REUSE"


class Variable(_Operand):
    """A tensor that each session keeps; `initializer` gives it its first value, `assign` and optimizers others.

    Reading it gives what it holds when the reader runs.
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        collections: Sequence[Any] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
    ) -> None:
        """`initial_value`: a tensor, numbers, or a function that gives such; its shape must be known."""
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if not validate_shape or variable_def is not None:
            raise ValueError("a variable has the shape of its initial value: no validate_shape=False, no variable_def")
        graph = get_default_graph()
        own = name or "Variable"
        with graph.name_scope(own) as scope, graph.control_dependencies(None):
            first = convert_to_tensor(
                initial_value() if callable(initial_value) else initial_value, dtype, name="initial_value"
            )
            if not first.shape.is_fully_defined():
                raise ValueError(f"initial_value must have a shape specified: {first!r}")
            kept = [(first.dtype, first.shape, probes(first.shape, first.dtype))]
            op = graph.add("VariableV2", lambda: (), name=scope, kind="variable", found=kept)
            self.graph_element = op.outputs[0]
            self.initial_value = first
            op.held = self
            assigned = assign(self, first, name="Assign")
            self.initializer = assigned.op
        self.trainable = trainable
        names = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if trainable and GraphKeys.TRAINABLE_VARIABLES not in names:
            names.append(GraphKeys.TRAINABLE_VARIABLES)
        for each in names:
            graph.add_to_collection(each, self)

    @property
    def op(self) -> Operation:
        """The op that stands for it."""
        return self.graph_element.op

    @property
    def name(self) -> str:
        """The name of its value: `w:0`."""
        return self.graph_element.name

    @property
    def graph(self) -> Graph:
        """The graph that it is in."""
        return self.graph_element.graph

    @property
    def dtype(self) -> _C.dtype:
        """The dtype of its value."""
        return self.graph_element.dtype

    @property
    def shape(self) -> TensorShape:
        """Its shape, which is known."""
        return self.graph_element.shape

    def get_shape(self) -> TensorShape:
        """Its shape, which is known."""
        return self.graph_element.shape

    def value(self) -> Tensor:
        """The tensor of its value."""
        return self.graph_element

    def read_value(self) -> Tensor:
        """A copy of its value, made when those that it depends on have run."""
        from minitensor.compat.v1.framework.constants import identity

        return identity(self, name="read")

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
        """What gives it another value; see :func:`assign`."""
        return assign(self, value, name=name)

    def assign_add(self, delta: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
        """What adds to it; see :func:`assign_add`."""
        return assign_add(self, delta, name=name)

    def assign_sub(self, delta: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
        """What subtracts from it; see :func:`assign_sub`."""
        return assign_sub(self, delta, name=name)

    def load(self, value: Any, session: Any = None) -> None:
        """Give it a value in a session, without a graph."""
        from minitensor.compat.v1.framework.graph import _session

        _session(session, "load").store.load(self, value)

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={str(self.dtype).rpartition('.')[2]}_ref>"


def writes(
    type: str, call: Callable[..., Any], variables: Sequence[Variable], inputs: Sequence[Any], name: str | None
) -> Operation:
    """An op whose call writes variables: it takes their tensors first; it gives the first variable's value."""
    first = variables[0].graph_element
    refs = [variable.graph_element for variable in variables]
    op = first.graph.add(
        type, call, [*refs, *inputs], name=name, kind="writes", found=[(first.dtype, first.shape, first.probes)]
    )
    op.held = tuple(variables)
    return op


def _written(type: str, call: Callable[..., Any], ref: Any, value: Any, name: str | None) -> Tensor:
    if not isinstance(ref, Variable):
        raise TypeError(f"{type} takes a tf.Variable, not {ref!r}")
    tensor = convert_to_tensor(value, ref.dtype)
    if not tensor.shape.is_compatible_with(ref.shape):
        raise ValueError(f"Dimension 0 in both shapes must be equal for '{type}': variable {ref.name} has shape "
                         f"{ref.shape}, the value {tensor.shape}")  # fmt: skip

    def checked(kept: _C.Tensor, new: _C.Tensor) -> _C.Tensor:
        if kept.shape != new.shape:
            raise ValueError(
                f"{type} requires shapes of both tensors to match: {tuple(kept.shape)}, {tuple(new.shape)}"
            )
        call(kept, new)
        return kept

    return writes(type, checked, [ref], [tensor], name).outputs[0]


def assign(
    ref: Any, value: Any, validate_shape: bool = True, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """What gives a variable this value, of its shape and dtype; its result is the variable's new value."""
    return _written("Assign", lambda kept, new: kept.copy_(new), ref, value, name)


def assign_add(ref: Any, value: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """What adds this value to a variable; its result is the variable's new value."""
    return _written("AssignAdd", lambda kept, new: kept.add_(new), ref, value, name)


def assign_sub(ref: Any, value: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """What subtracts this value from a variable; its result is the variable's new value."""
    return _written("AssignSub", lambda kept, new: kept.sub_(new), ref, value, name)


def group(*inputs: Any, name: str | None = None) -> Operation:
    """An op that has run when all of these have; it has no result."""
    flat = [each for one in inputs for each in (one if isinstance(one, list | tuple) else [one])]
    graph = get_default_graph()
    with graph.control_dependencies(flat):
        return graph.add("NoOp", lambda: (), name=name or "group_deps", found=[])


def no_op(name: str | None = None) -> Operation:
    """An op that does nothing, after those that it depends on."""
    return get_default_graph().add("NoOp", lambda: (), name=name, found=[])


def global_variables(scope: str | None = None) -> list[Variable]:
    """All variables of the default graph."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """The variables of the default graph that optimizers change unless told otherwise."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Variable]:
    """The variables of the default graph that are in the collection for local ones."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def variables_initializer(var_list: Sequence[Variable], name: str = "init") -> Operation:
    """What gives these variables their initial values."""
    return group(*[variable.initializer for variable in var_list], name=name)


def global_variables_initializer() -> Operation:
    """What gives all variables that there are their initial values."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """What gives the variables of the collection for local ones their initial values."""
    return variables_initializer(local_variables())


all_variables, initialize_variables = global_variables, variables_initializer
initialize_all_variables = global_variables_initializer
initialize_local_variables = local_variables_initializer


class _VariableScope:
    """The variable scope that is open: the prefix of its variables' names, and whether they are there already."""

    def __init__(self, name: str, reuse: Any, initializer: Any, regularizer: Any) -> None:
        self.name = name
        self.reuse = reuse
        self.initializer = initializer
        self.regularizer = regularizer
        # How often each default name has been taken inside, since this scope was opened.
        self.taken: dict[str, int] = {}

    def reuse_variables(self) -> None:
        """Have `get_variable` take variables that are there, from here on."""
        self.reuse = True


def _current() -> _VariableScope:
    scopes = get_default_graph().scopes
    if scopes.variables is None:
        scopes.variables = _VariableScope("", False, None, None)
    found: _VariableScope = scopes.variables
    return found


def get_variable_scope() -> _VariableScope:
    """The variable scope that is open."""
    return _current()


@contextlib.contextmanager
def variable_scope(
    name_or_scope: Any,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    reuse: Any = None,
) -> Iterator[_VariableScope]:
    """Names of variables made inside begin with this one.

    Without a name it is `default_name`, with `_1` and so on the next times that the scope around it meets it.
    `reuse`: True takes those that are there, AUTO_REUSE also makes those that aren't.
    """
    graph, outer = get_default_graph(), _current()
    if isinstance(name_or_scope, _VariableScope):
        name, shown = name_or_scope.name, name_or_scope.name.rpartition("/")[2]
    else:
        own = default_name if name_or_scope is None else name_or_scope
        if own is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if name_or_scope is None:
            count = outer.taken.get(own, 0)
            outer.taken[own] = count + 1
            own = f"{own}_{count}" if count else own
        name, shown = f"{outer.name}/{own}" if outer.name else own, own
    inner = _VariableScope(
        name,
        reuse or outer.reuse,
        outer.initializer if initializer is None else initializer,
        regularizer or outer.regularizer,
    )
    graph.scopes.variables = inner
    try:
        with name_scope(shown):
            yield inner
    finally:
        graph.scopes.variables = outer


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
) -> Variable:
    """The variable of that name in the variable scope that is open: a new one, or, with `reuse`, that which is there.

    ValueError if there is one and shouldn't be, or the other way round, or if it has another shape or dtype.
    """
    graph, scope = get_default_graph(), _current()
    full = f"{scope.name}/{name}" if scope.name else name
    found: Variable | None = graph.variables_by_name.get(full)
    if found is not None:
        if not scope.reuse:
            file, line = found.op.place
            raise ValueError(f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or "
                             f"reuse=tf.AUTO_REUSE in VarScope? It was made at {file}:{line}")  # fmt: skip
        if shape is not None and not TensorShape(shape).is_compatible_with(found.shape):
            raise ValueError(f"Trying to share variable {full}, but specified shape {TensorShape(shape)} and found "
                             f"shape {found.shape}.")  # fmt: skip
        if dtype is not None and as_dtype(dtype) != found.dtype:
            raise ValueError(f"Trying to share variable {full}, but specified dtype {dtype} and found {found.dtype}.")
        return found
    if scope.reuse is True:
        raise ValueError(f"Variable {full} does not exist, or was not created with tf.get_variable(). Did you mean to "
                         "set reuse=tf.AUTO_REUSE in VarScope?")  # fmt: skip
    kind = float32 if dtype is None else as_dtype(dtype)
    chosen = initializer if initializer is not None else scope.initializer
    if chosen is None:
        chosen = (
            initializers.glorot_uniform_initializer() if kind.is_floating_point else initializers.zeros_initializer()
        )
    if callable(chosen):
        if shape is None:
            raise ValueError(f"Shape of a new variable ({full}) must be fully defined, but instead was <unknown>.")
        sizes = TensorShape(shape).as_list()
        # As `tf.zeros_initializer` without a call: a class there, a function here.
        own = getattr(initializers, getattr(chosen, "__name__", ""), None) is chosen
        make = chosen() if own or isinstance(chosen, type) else chosen
        initial: Any = functools.partial(make, sizes, kind)
    elif shape is not None:
        raise ValueError("If initializer is a constant, do not specify shape.")
    else:
        initial = chosen
    with graph.name_scope(None):
        made = Variable(initial, trainable, collections, name=full, dtype=dtype)
    graph.variables_by_name[full] = made
    cost = regularizer or scope.regularizer
    if cost is not None:
        graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, cost(made))
    return made
