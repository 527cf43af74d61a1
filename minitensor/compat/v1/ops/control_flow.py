"""`cond` and `while_loop`: ops whose parts run when, and as often as, a run decides.

The functions that a script gives are called once, and make ops of the same graph. The op that stands for them takes
what these ops need from outside, and calls them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor.autograd import no_grad
from minitensor.compat.v1.framework.constants import convert_to_tensor, placeholder
from minitensor.compat.v1.framework.graph import Operation, Tensor, get_default_graph, name_scope, needed
from minitensor.compat.v1.framework.inference import Found, probes
from minitensor.compat.v1.framework.shapes import TensorShape
from minitensor.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["cond", "while_loop"]


class _Part:
    """The ops that a function made, and what they take from outside."""

    def __init__(self, what: str, function: Callable[..., Any], *args: Any) -> None:
        """ValueError for a function that makes gradients, or returns nothing."""
        graph = get_default_graph()
        before = set(graph.get_operations())
        with graph.control_dependencies(None):
            returned = function(*args)
            flat, self.structure = tree_flatten(returned)
            if any(each is None for each in flat) or not flat:
                raise ValueError(f"{what} must return a value, got {returned!r}")
            self.elements = [each if isinstance(each, Operation) else convert_to_tensor(each) for each in flat]
        self.results = [each for each in self.elements if isinstance(each, Tensor)]
        self.outside = _outside(self.elements, before)
        self.ops = [op for op in needed(self.elements, self.outside) if op not in before]
        if any(op.kind == "gradients" for op in self.ops):
            raise ValueError(f"tf.gradients in {what} is not here: take gradients outside")

    def run(self, store: Any, known: dict[Tensor, Any]) -> list[Any]:
        """What the ops give, where `known` has the values of what they take."""
        for op in self.ops:
            if op.kind in ("variable", "constant"):
                known[op.outputs[0]] = store.tensor(op.held) if op.kind == "variable" else op.held
                continue
            if op.kind == "writes":
                operands = [store.tensor(t.op.held) if t.op.kind == "variable" else known[t] for t in op.inputs]
                with no_grad():
                    result = op.call(*operands)
            else:
                named = {"random": {"generator": store.generator(op)} if op.kind == "random" else {},
                         "control": {"store": store}}.get(op.kind, {})  # fmt: skip
                result = op.call(*[known[t] for t in op.inputs], **named)
            values = result if isinstance(result, list | tuple) else [result]
            known.update(zip(op.outputs, values, strict=False))
        return [known[t] for t in self.results]

    def returned(self, outputs: Sequence[Tensor], op: Operation) -> Any:
        """What stands for what the function returned: results of an op, the op itself where there is none."""
        rest = iter(outputs)
        return tree_unflatten([next(rest) if isinstance(e, Tensor) else op for e in self.elements], self.structure)


def _outside(elements: Sequence[Any], before: set[Operation]) -> list[Tensor]:
    """The tensors that were there before, which these are made of."""
    found: dict[Tensor, None] = {}
    seen: set[Operation] = set()
    waiting = list(elements)
    while waiting:
        each = waiting.pop()
        op = each if isinstance(each, Operation) else each.op
        if op in before:
            if isinstance(each, Tensor):
                found[each] = None
        elif op not in seen:
            seen.add(op)
            waiting += [*op.inputs, *op.control_inputs]
    return list(found)


class _Held:
    """What a program asks of such an op: the variables that its parts read."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self.variables = [op.held for part in parts for op in part.ops if op.kind == "variable"]


def _merged(a: Tensor, b: Tensor) -> Found:
    """What is known of a value that is one of two."""
    x, y = a.shape, b.shape
    if x.ndims is None or x.ndims != y.ndims:
        return a.dtype, TensorShape(None), None
    shape = TensorShape([m if m == n else None for m, n in zip(x.as_list(), y.as_list(), strict=True)])
    return a.dtype, shape, probes(shape, a.dtype)


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """What `true_fn` gives in runs where `pred` is true, else what `false_fn` gives; only that one's ops run.

    What both were made of before runs in any case. TypeError for a Python bool, and for results of other types;
    ValueError for other numbers of results. With `strict` a list of one stays a list.
    """
    true_fn, false_fn = true_fn or fn1, false_fn or fn2
    for what, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise TypeError(f"{what} must be callable.")
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool")
    assert true_fn is not None
    assert false_fn is not None
    with name_scope(name, "cond") as scope:
        given = convert_to_tensor(pred)
        if given.dtype is not _C.bool:
            raise TypeError(f"pred must be a bool, and {given!r} is not")
        yes, no = _Part("true_fn", true_fn), _Part("false_fn", false_fn)
        if len(yes.elements) != len(no.elements) or len(yes.results) != len(no.results):
            raise ValueError(
                f"true_fn and false_fn must return the same number of values, got {len(yes.elements)} and "
                f"{len(no.elements)}"
            )
        for a, b in zip(yes.results, no.results, strict=True):
            if a.dtype is not b.dtype:
                raise TypeError(f"Outputs of true_fn and false_fn must have the same type: {a!r}, {b!r}")
        outside = list(dict.fromkeys([*yes.outside, *no.outside]))

        def call(chosen: Any, *values: Any, store: Any) -> list[Any]:
            return (yes if chosen else no).run(store, dict(zip(outside, values, strict=True)))

        found = [_merged(a, b) for a, b in zip(yes.results, no.results, strict=True)]
        op = get_default_graph().add("Cond", call, [given, *outside], name=scope or "cond", kind="control", found=found)
        op.held = _Held([yes, no])
    result = yes.returned(op.outputs, op)
    single = isinstance(result, list | tuple) and len(result) == 1 and not strict
    return result[0] if single else result


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """What `body` makes of the variables, over and over as long as `cond` of them is true.

    A loop of one variable gives a tensor, others the structure of `loop_vars`. Sizes that change from one iteration to
    the next are None in `shape_invariants`; ValueError for others that change. Iterations run one after the other,
    and nothing is put elsewhere: `parallel_iterations` and `swap_memory` change nothing.
    """
    for what, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise TypeError(f"{what} must be callable.")
    flat, structure = tree_flatten(loop_vars)
    if not flat:
        raise ValueError("No loop variables provided")
    most = None if maximum_iterations is None else convert_to_tensor(maximum_iterations)
    with name_scope(name, "while") as scope:
        start = [convert_to_tensor(each) for each in flat]
        shapes = [tensor.shape for tensor in start]
        if shape_invariants is not None:
            leaves = tree_flatten(shape_invariants, is_leaf=lambda x: isinstance(x, TensorShape))[0]
            shapes = [TensorShape(shape) for shape in leaves]
            if len(shapes) != len(start):
                raise ValueError(f"{len(shapes)} shape_invariants for {len(start)} loop variables")
        places = [placeholder(t.dtype, shape) for t, shape in zip(start, shapes, strict=True)]
        given = tree_unflatten(places, structure)
        args = given if isinstance(given, list | tuple) else (given,)
        test, step = _Part("cond", cond, *args), _Part("body", body, *args)
        if len(test.results) != 1 or test.results[0].dtype is not _C.bool:
            raise TypeError("cond must return a boolean scalar tensor")
        if len(step.results) != len(places):
            raise ValueError(f"body returns {len(step.results)} values for {len(places)} loop variables")
        for before, after in zip(places, step.results, strict=True):
            if before.dtype is not after.dtype:
                raise TypeError(f"body makes {after!r} of a loop variable of {before.dtype}")
            if not before.shape.is_compatible_with(after.shape):
                raise ValueError(
                    f"The shape for {after.name} is not an invariant for the loop. It enters the loop with shape "
                    f"{before.shape}, but has shape {after.shape} after one iteration. Provide shape invariants."
                )
        inner = set(places)
        outside = [t for t in dict.fromkeys([*test.outside, *step.outside]) if t not in inner]
        count = len(places)

        def call(*values: Any, store: Any) -> list[Any]:
            now, rest = list(values[:count]), dict(zip(outside, values[count:], strict=False))
            left = None if most is None else int(values[-1])
            while left is None or left > 0:
                if not bool(test.run(store, {**rest, **dict(zip(places, now, strict=True))})[0]):
                    break
                now = step.run(store, {**rest, **dict(zip(places, now, strict=True))})
                left = None if left is None else left - 1
            return now if back_prop else [value.detach() if isinstance(value, _C.Tensor) else value for value in now]

        op = get_default_graph().add(
            "While", call, [*start, *outside, *([] if most is None else [most])], name=scope or "while",
            kind="control", found=[(p.dtype, p.shape, p.probes) for p in places],
        )  # fmt: skip
        op.held = _Held([test, step])
    if count == 1 and not return_same_structure:
        return op.outputs[0]
    return tree_unflatten(list(op.outputs), structure)
