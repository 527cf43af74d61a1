"""backward and grad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minitensor import _C
from minitensor._warning import as_shown, warn
from minitensor.autograd.graph import GradientEdge

Tensor = _C.Tensor


def clear_gradients(tensors: Iterable[Any], set_to_none: bool) -> None:
    """Drop the gradients of tensors, or set those that there are to zero."""
    for tensor in tensors:
        if set_to_none:
            tensor.grad = None
        elif tensor.grad is not None:
            if tensor.grad.grad_fn is not None:
                tensor.grad.detach_()
            else:
                tensor.grad.requires_grad_(False)
            tensor.grad.zero_()


# By iterators: up to Python 3.11, tuple() of a list reads freed memory where a finalizer changes the list meanwhile.
def _many(value: Any) -> tuple[Any, ...]:
    is_one = isinstance(value, (Tensor, GradientEdge)) or hasattr(value, "__torch_function__")
    return (value,) if is_one else tuple(iter(value))


def _overridden(function: Any, roots: tuple[Any, ...], given: tuple[Any, ...] | None, **options: Any) -> Any:
    """What an argument or a mode gives that takes the call over, in a tuple; or None."""
    relevant = roots + (given or ())
    if not _C._has_torch_function(relevant):
        return None
    if function is grad:
        return (_C._handle_torch_function(function, relevant, roots, given, **options),)
    return (_C._handle_torch_function(function, relevant, roots, inputs=given, **options),)


def _inputs(inputs: Any, caller: str) -> tuple[Any, ...]:
    if type(inputs) is not dict and isinstance(inputs, Mapping):
        raise TypeError(
            f"`inputs` argument to `{caller}()` must be a dict, not {type(inputs).__name__}. Other Mapping types are "
            "not supported."
        )
    given = _many(inputs.values() if type(inputs) is dict else inputs)
    if not given:
        raise RuntimeError(f"`inputs` argument to `{caller}()` cannot be empty.")
    return given


def _check(inputs: tuple[Any, ...]) -> None:
    for one in inputs:
        if not isinstance(one, (Tensor, GradientEdge)):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(one).__name__}")


def _place(value: Any) -> Any:
    """What the engine takes: tensors, and edges as pairs."""
    return (value.node, value.output_nr) if isinstance(value, GradientEdge) else value


def _seeds(tensors: Sequence[Any], gradients: Any) -> tuple[Any, ...]:
    if gradients is None:
        return (None,) * len(tensors)
    given = (gradients,) if isinstance(gradients, Tensor) else tuple(iter(gradients))
    for gradient in given:
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    if len(given) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(given)} gradients")
    return given


def _run(
    roots: Any, seeds: Any, wanted: Any, retain: bool, create: bool, unused: bool, accumulate: bool = False
) -> Any:
    places = None if wanted is None else tuple(map(_place, wanted))
    return _C.run_backward(tuple(map(_place, roots)), seeds, places, retain, create, unused, accumulate)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> Any:
    """Add the gradients of `tensors` to the `.grad` of the leaves they were computed from.

    `grad_tensors` are the gradients to start from, of the tensors' shapes; scalars start from 1. With `inputs`, which
    may be the values of a dict, only theirs are accumulated. `grad_variables` is the old name of `grad_tensors`.
    """
    if grad_variables is not None:
        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to backward(). Please only use "
                "`grad_tensors`."
            )
        grad_tensors = grad_variables
    if _C.vmap_depth():
        raise RuntimeError(
            as_shown(
                "backward() called inside of vmap, whose tensors are gone when it ends: use minitensor.func.grad or "
                "autograd.grad, or call backward() outside"
            )
        )
    wanted = None if inputs is None else _inputs(inputs, "backward")
    roots = _many(tensors)
    options = {"grad_tensors": grad_tensors, "retain_graph": retain_graph, "create_graph": create_graph}
    if taken := _overridden(backward, roots, wanted, **options):
        return taken[0]
    retain = create_graph if retain_graph is None else retain_graph
    if wanted is None:
        _run(roots, _seeds(roots, grad_tensors), None, retain, create_graph, False)
        return None
    _check(wanted)
    _run(roots, _seeds(roots, grad_tensors), wanted, retain, create_graph, True, accumulate=True)
    return None


def passed(
    outputs: Sequence[Any], inputs: Sequence[Any], seeds: Sequence[Any], create: bool, retain: bool
) -> tuple[Any, ...]:
    """One of the two passes that a derivative forward is made of: no_grad doesn't end it, and no hook is called."""
    return _C.run_backward(tuple(outputs), tuple(seeds), tuple(inputs), retain, create, True, False, True)


def reaches_others(outputs: Sequence[Any], variables: Sequence[Any]) -> bool:
    """Whether gradients of the outputs arrive at leaves other than the variables."""
    own = {id(v) for v in variables}
    seen: set[Any] = set()
    waiting = [o.grad_fn for o in outputs if o.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.name() == "torch::autograd::AccumulateGrad":
            if id(node.variable) not in own:
                return True
            continue
        waiting += [child for child, _ in node.next_functions if child is not None]
    return False


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of `outputs` with respect to `inputs`, one for each input: a tuple, or a dict if `inputs` is one.

    Inputs and outputs are tensors or `graph.GradientEdge`s. An input that the outputs do not depend on is an error, or
    with allow_unused has the gradient None, or with materialize_grads zeros. With is_grads_batched the first dimension
    of `grad_outputs` counts independent gradients, which go through the graph at once, and the results have it too.
    `only_inputs` is deprecated and changes nothing.
    """
    wanted = _inputs(inputs, "grad")
    if type(inputs) is dict:
        found = grad(
            outputs,
            wanted,
            grad_outputs,
            retain_graph,
            create_graph,
            only_inputs,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
        return dict(zip(inputs, found, strict=True))
    roots = _many(outputs)
    taken = _overridden(
        grad,
        roots,
        wanted,
        grad_outputs=grad_outputs,
        retain_graph=retain_graph,
        create_graph=create_graph,
        only_inputs=only_inputs,
        allow_unused=allow_unused,
        is_grads_batched=is_grads_batched,
        materialize_grads=materialize_grads,
    )
    if taken:
        return taken[0]
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use minitensor.autograd.backward.",
            FutureWarning,
        )
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    _check(wanted)
    retain = create_graph if retain_graph is None else retain_graph
    unused = materialize_grads if allow_unused is None else allow_unused
    result: tuple[Any, ...]
    if is_grads_batched:
        result = _batched(roots, wanted, grad_outputs, retain, create_graph, unused)
    else:
        result = _run(roots, _seeds(roots, grad_outputs), wanted, retain, create_graph, unused)
    if materialize_grads:
        if any(g is None and isinstance(t, GradientEdge) for t, g in zip(wanted, result, strict=True)):
            raise RuntimeError(
                "materialize_grads cannot be used when the given input is a GradientEdge, since its shape is not known"
            )
        result = tuple(
            t.new_zeros(tuple(t.shape), requires_grad=create_graph) if g is None else g
            for t, g in zip(wanted, result, strict=True)
        )
    return result


def _batched(roots: Any, wanted: Any, grad_outputs: Any, retain: bool, create: bool, unused: bool) -> tuple[Any, ...]:
    from minitensor._vmap import vmap

    given = _seeds(roots, grad_outputs)
    positions = [i for i, g in enumerate(given) if g is not None]
    found: list[int] = []

    def one(*gradients: Any) -> tuple[Any, ...]:
        seeds: list[Any] = [None] * len(roots)
        for position, gradient in zip(positions, gradients, strict=True):
            seeds[position] = gradient
        results = _run(roots, tuple(seeds), wanted, retain, create, unused)
        found[:] = [i for i, g in enumerate(results) if g is not None]
        return tuple(results[i] for i in found)

    some = vmap(one, in_dims=0, out_dims=0)(*(given[i] for i in positions))
    placed = dict(zip(found, some, strict=True))
    return tuple(placed.get(i) for i in range(len(wanted)))
