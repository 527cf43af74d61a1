"""Derivatives of functions of nested arguments.

A transform differentiates with respect to tensors of its own: aliases of the arguments, which the tape connects with
them. So transforms nest, and variables of different levels are never confused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._vmap import vmap
from minitensor._vmap.tree import flatten, map_leaves
from minitensor.autograd import gradients
from minitensor.autograd.function import Function
from minitensor.autograd.grad_mode import inference_mode

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]

Tensor = _C.Tensor


class _Level(_C.Context):
    """A transform in force: everything is recorded, and nothing written that the function was not given.

    It counts how many there are: what an inner one computes, an outer one may differentiate.
    """

    __slots__ = ("_given",)

    def __init__(self, *given: Any) -> None:
        """With the function's arguments."""
        self._given = _tensors(given)

    def _now(self) -> tuple[int, bool, int]:
        return _C.recording(), _C.is_inference_mode_enabled(), _C.transform_depth()

    def _set(self) -> bool:  # whether there is a transform around it
        _C.set_recording(1)
        _C.set_inference_mode(False)
        _C.begin_transform(self._given)
        return _C.transform_depth() > 1

    def _restore(self, before: tuple[int, bool, int]) -> None:
        recording, inference, depth = before
        while _C.transform_depth() > depth:
            _C.end_transform()
        _C.set_inference_mode(inference)
        _C.set_recording(recording)


def _refuse_complex(what: str, value: Any, which: str) -> None:
    for place, tensor in enumerate(flatten(value)[0]):
        if isinstance(tensor, Tensor) and tensor.is_complex():
            raise RuntimeError(
                f"{what}: Expected all {which} to be real but received complex tensor at flattened input idx: {place}"
            )


def _variable(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    if not (leaf.is_floating_point() or leaf.is_complex()):
        raise RuntimeError(f"only Tensors of floating point and complex dtype can require gradients, got {leaf.dtype}")
    if leaf.is_inference():
        leaf = leaf.clone()  # the mode is off here
    if _C.is_recorded(leaf):
        return leaf.alias()
    # What is behind a mapped tensor keeps its history: an outer transform may differentiate it.
    return (leaf.alias() if _C.vmap_level(leaf) else leaf.detach()).requires_grad_(True)


def _variables(value: Any) -> tuple[Any, list[Any]]:
    """The structure with variables of this level in it, and those that can be differentiated."""
    leaves, rebuild = flatten(value)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
    made = [_variable(leaf) for leaf in leaves]
    return rebuild(made), [m for m in made if m.requires_grad]


def _needs_graph(nested: bool, outputs: list[Any], variables: list[Any]) -> bool:
    """Whether anything but this level's variables wants gradients of the outputs."""
    if nested or any(not v.is_leaf or _behind_requires_grad(v) for v in variables):
        return True
    return gradients.reaches_others(outputs, variables)


def _behind_requires_grad(tensor: Any) -> bool:
    while level := _C.vmap_level(tensor):
        tensor = _C.vmap_unwrap(tensor, level)[0]
        if tensor.requires_grad:
            return True
    return False


def _tensors(value: Any) -> list[Any]:
    return [leaf for leaf in flatten(value)[0] if isinstance(leaf, Tensor)]


def _is_continuous(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _gradients(outputs: list[Any], inputs: list[Any], seeds: list[Any], graph: bool, retain: bool = False) -> list[Any]:
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    if not pairs or not inputs:
        return [None] * len(inputs)
    outs, given = zip(*pairs, strict=True)
    return list(
        gradients.grad(outs, inputs, given, create_graph=graph, retain_graph=retain or graph, allow_unused=True)
    )


def _passed(outputs: list[Any], inputs: list[Any], seeds: list[Any], graph: bool) -> list[Any]:
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if _C.is_recorded(o)]
    if not pairs or not inputs:
        return [None] * len(inputs)
    return list(gradients.passed([o for o, _ in pairs], inputs, [s for _, s in pairs], graph, graph))


def _duals(value: Any) -> tuple[Any, list[Any]]:
    """The structure with results of variables of this level in it, which may be written to, and the variables."""
    leaves, rebuild = flatten(value)
    for leaf in leaves:
        if isinstance(leaf, Tensor) and not (leaf.is_floating_point() or leaf.is_complex()):
            raise ValueError(f"Expected primal to be floating point or complex, but got: {leaf.dtype}")
    made = [_variable(leaf) for leaf in leaves]
    return rebuild([_writable(m) for m in made]), [m for m in made if isinstance(m, Tensor) and m.requires_grad]


def _writable(variable: Any) -> Any:
    if not isinstance(variable, Tensor) or _C.vmap_level(variable) or not variable.is_leaf:
        return variable
    return _C.take_history(_C.detach_handle(variable), variable.alias())


def _zeros_for_none(found: list[Any], like: list[Any]) -> list[Any]:
    return [x.detach().new_zeros(tuple(x.shape)) if g is None else g for g, x in zip(found, like, strict=True)]


def _release(value: Any, graph: bool) -> Any:
    """Results without the history of this level, where nobody outside has a part in it.

    To be called where the results go: under no_grad only what goes forward has a part in them.
    """
    recording = _C.recording() if graph else 0
    if recording == 1:
        return value
    if recording == 2:
        return map_leaves(lambda leaf: leaf.alias() if isinstance(leaf, Tensor) else leaf, value)
    return map_leaves(lambda leaf: _C.detach_handle(leaf) if isinstance(leaf, Tensor) else leaf, value)


class _Forward(_C.Context):
    """A derivative that goes forward is being taken: no_grad doesn't stop it."""

    def _now(self) -> bool:
        return _C.is_forward_mode()

    def _set(self) -> None:
        _C.set_forward_mode(True)

    def _restore(self, before: bool) -> None:
        _C.set_forward_mode(before)


def _chosen(argnums: int | tuple[int, ...], args: tuple[Any, ...], what: str) -> tuple[int, ...]:
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    places = []
    for i in wanted:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
        places.append(i % len(args))
    if len(set(places)) != len(places):
        raise RuntimeError(f"{what}: argnums elements must be unique but received {wanted}")
    return tuple(places)


def _replaced(args: tuple[Any, ...], places: tuple[int, ...], values: tuple[Any, ...]) -> list[Any]:
    given = list(args)
    for place, value in zip(places, values, strict=True):
        given[place] = value
    return given


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives (the gradient of `func` with respect to the arguments `argnums`, what `func` gives).

    `func` gives one number, or with `has_aux` (the number, anything else).
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with _Level(args, kwargs) as nested:
            places = _chosen(argnums, args, "grad")
            inputs, variables = _variables(tuple(args[i] for i in places))
            result = func(*_replaced(args, places, inputs), **kwargs)
            aux = None
            if has_aux:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is "
                        "True"
                    )
                result, aux = result
            if not isinstance(result, Tensor):
                raise RuntimeError(
                    f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(result)}"
                )
            if result.ndim != 0:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                    f"{result.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            graph = _needs_graph(nested, [result, *_tensors(aux)], variables)
            found = iter(_zeros_for_none(_gradients([result], variables, [None], graph), variables))
            taken = map_leaves(lambda leaf: next(found) if _is_variable(leaf) else leaf, inputs)
            value = (result, aux) if has_aux else result
            gradient = taken[0] if isinstance(argnums, int) else taken
        return _release(gradient, graph), _release(value, graph)

    return wrapped


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.requires_grad


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func` by the arguments `argnums`; with `has_aux`, (it, aux)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), a function from cotangents of the result to the primals'); with `has_aux` (.., .., aux)."""
    with _Level(primals) as nested:
        inputs, variables = _variables(primals)
        result = func(*inputs)
        aux = None
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    "vjp(f, *primals): output of function f should be a tuple: (output, aux) if has_aux is True"
                )
            result, aux = result
        outputs = _tensors(result)
        if not outputs:
            raise RuntimeError("vjp(f, *primals): Expected f(*primals) to return at least one tensor")
        for out in outputs:
            if not _is_continuous(out):
                raise RuntimeError(
                    f"vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{out.dtype}"
                )
        graph = _needs_graph(nested, outputs, variables)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds = _tensors(cotangents)
        if len(seeds) != len(outputs):
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function: {len(outputs)} tensors, got {len(seeds)}"
            )
        wanted = create_graph if create_graph is not None else graph or any(s.requires_grad for s in seeds)
        with inference_mode(False):
            found = iter(_zeros_for_none(_gradients(outputs, variables, seeds, wanted, True), variables))
            taken = map_leaves(lambda leaf: next(found) if _is_variable(leaf) else leaf, inputs)
        return _release(taken, wanted)

    shown = _release(result, graph)
    return (shown, vjp_fn, _release(aux, graph)) if has_aux else (shown, vjp_fn)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """(func(*primals), its derivative along the tangents); with `has_aux` (.., .., aux).

    It is the gradient of the gradient: the vjp is linear in its cotangent, and its own vjp is the jvp. `no_grad` in
    `func` ends what goes backward, and not this.
    """
    if not isinstance(primals, tuple):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call "
                           f"f(*primals). Got {type(primals)}")  # fmt: skip
    if not isinstance(tangents, tuple) or len(tangents) != len(primals):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure."
        )
    recorded = _C.recording() != 0
    with _Level(primals, tangents) as nested:
        with _Forward():
            inputs, variables = _duals(primals)
            directions = _directions(primals, tangents)
            result = func(*inputs)
            aux = None
            if has_aux:
                result, aux = result
            if not all(isinstance(leaf, Tensor) for leaf in flatten(result)[0]):
                raise RuntimeError(
                    f"jvp(f, primals, tangents): expected f(*primals) to return only tensors, got {type(result)}"
                )
            outputs = [out for out in _tensors(result) if _is_continuous(out)]
            outer = nested or any(d.requires_grad for d in directions)
            graph = recorded and (outer or _needs_graph(nested, outputs, variables))
            dummies = [o.detach().new_zeros(tuple(o.shape)).requires_grad_(True) for o in outputs]
            first = _passed(outputs, variables, dummies, True)
        pairs = [(f, d) for f, d in zip(first, directions, strict=True) if f is not None]
        found = _passed([f for f, _ in pairs], dummies, [d for _, d in pairs], graph)
        if strict and any(g is None for g in found):
            raise RuntimeError("jvp(f, primals, tangents, strict=True): an output of f does not depend on the primals")
        derivatives = iter(_zeros_for_none(found, outputs))
        tangent = map_leaves(
            lambda leaf: next(derivatives) if _is_continuous(leaf) else leaf.new_zeros(leaf.shape), result
        )
    results = (_release(result, graph), _release(tangent, graph))
    return (*results, _release(aux, graph)) if has_aux else results


def _directions(primals: Any, tangents: Any) -> list[Any]:
    directions = []
    for x, t in zip(flatten(primals)[0], flatten(tangents)[0], strict=True):
        if not isinstance(x, Tensor):
            continue
        if tuple(x.shape) != tuple(t.shape):
            raise RuntimeError(
                "jvp(f, primals, tangents): Expected primal and tangent to have the same shape, got "
                f"{list(x.shape)} and {list(t.shape)}"
            )
        if x.is_floating_point() or x.is_complex():
            directions.append(t)
    return directions


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(func(*primals), the function from tangents to the derivative along them at that place).

    What that function gives depends on the tangents alone: the place is a constant to it, and so is all else that
    `func` reads.
    """
    value = func(*primals)
    place = map_leaves(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, primals)

    def forward(*tangents: Any) -> tuple[Any, ...]:
        return tuple(flatten(jvp(func, place, _like(place, tangents))[1])[0])

    def transposed(*cotangents: Any) -> tuple[Any, ...]:
        return tuple(flatten(vjp(func, *place)[1](_like(value, cotangents)))[0])

    def jvp_fn(*tangents: Any) -> Any:
        leaves = flatten(tangents)[0]
        if len(leaves) != len(flatten(place)[0]):
            raise RuntimeError(
                f"Expected the tangents {tangents} to have the same argspec as the primals {tuple(place)}"
            )
        return _like(value, _Linear.apply(forward, transposed, *leaves))

    return value, jvp_fn


def _like(structure: Any, leaves: Any) -> Any:
    given = iter(leaves)
    return map_leaves(lambda _: next(given), structure)


class _Linear(Function):
    """A linear function of tensors, and its transpose, which is its gradient's."""

    @staticmethod
    def forward(ctx: Any, function: Any, transposed: Any, *given: Any) -> tuple[Any, ...]:
        ctx.both = function, transposed
        return tuple(one.detach() if isinstance(one, Tensor) else one for one in function(*given))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        function, transposed = ctx.both
        return (None, None, *_Linear.apply(transposed, function, *gradients))


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func` with respect to the arguments `argnums`, by rows."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        _refuse_complex("jacrev", args, "inputs")
        places = _chosen(argnums, args, "jacrev")

        def of_chosen(*values: Any) -> Any:
            return func(*_replaced(args, places, values), **kwargs)

        result = vjp(of_chosen, *(args[i] for i in places), has_aux=has_aux)
        outputs, pull = result[0], result[1]
        leaves, rebuild = flatten(outputs)
        _refuse_complex("jacrev", leaves, "outputs")
        rows: list[Any] = []
        for i, out in enumerate(leaves):
            units = _units(out)

            def back(unit: Any, i: int = i) -> Any:
                seeds = [unit if k == i else o.new_zeros(tuple(o.shape)) for k, o in enumerate(leaves)]
                return pull(rebuild(seeds))

            found = vmap(back, chunk_size=chunk_size)(units)
            joined = map_leaves(functools.partial(_unfolded, out), found)
            rows.append(joined[0] if isinstance(argnums, int) else joined)
        jacobian = rebuild(rows)
        return (jacobian, result[2]) if has_aux else jacobian

    return wrapped


def _units(like: Any) -> Any:
    from minitensor.ops import ROWS

    n = like.numel()
    return ROWS["eye"].call(n, dtype=like.dtype).reshape((n, *like.shape))


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func` with respect to the arguments `argnums`, by columns."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        _refuse_complex("jacfwd", args, "inputs")
        places = _chosen(argnums, args, "jacfwd")
        chosen, rebuild = flatten(tuple(args[i] for i in places))
        for x in chosen:
            if not isinstance(x, Tensor):
                raise RuntimeError(
                    f"jacfwd: Expected all inputs to be Tensors, got {type(x).__name__} in the arguments {argnums}"
                )
        if not chosen:
            raise RuntimeError("jacfwd: there is no Tensor to differentiate with respect to")

        def of_chosen(*values: Any) -> Any:
            return func(*_replaced(args, places, rebuild(list(values))), **kwargs)

        columns, aux = [], None
        for j, x in enumerate(chosen):
            # All of them are dual: what an inner transform keeps of one would be kept by the results.
            still = [zeros.new_zeros(tuple(zeros.shape)) for zeros in (one.detach() for one in chosen)]

            def push(unit: Any, j: int = j, still: list[Any] = still) -> Any:
                result = jvp(of_chosen, tuple(chosen), (*still[:j], unit, *still[j + 1 :]), has_aux=has_aux)
                _refuse_complex("jacfwd", result[0], "outputs")
                return (result[1], result[2]) if has_aux else result[1]

            found = vmap(push, randomness=randomness)(_units(x))
            if has_aux:
                found, aux = found[0], map_leaves(lambda a: a.select(0, 0), found[1])
            columns.append(flatten(map_leaves(functools.partial(_column, x), found)))
        # Each result's leaf becomes what the arguments are, with its Jacobians by their leaves.
        rows = [rebuild(list(row)) for row in zip(*(leaves for leaves, _ in columns), strict=True)]
        jacobian = columns[0][1]([row[0] for row in rows] if isinstance(argnums, int) else rows)
        return (jacobian, aux) if has_aux else jacobian

    return wrapped


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the Hessian of `func` with respect to the arguments `argnums`."""
    return jacfwd(jacrev(func, argnums), argnums)


def _unfolded(out: Any, gradient: Any) -> Any:
    """Gradients of all elements of `out`, with its shape before theirs."""
    return gradient.reshape((*out.shape, *gradient.shape[1:]))


def _column(x: Any, tangent: Any) -> Any:
    """Tangents for all elements of x, with x's shape after theirs."""
    return tangent.movedim(0, -1).reshape((*tangent.shape[1:], *x.shape))
