"""Functions on tensors that vmap maps.

The tape has them at two places: around the handles that stand for slices, and around what is behind those. The first
is `Function.apply`'s business. The second is a Function too, whose forward and backward run the given one's on handles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minitensor import _C
from minitensor.autograd.function import Function, FunctionContext, gradients_of

__all__ = ["forward_mapped", "needs_gradient"]

Tensor = _C.Tensor


class VmapInfo(NamedTuple):
    """What a Function's own `vmap` is told."""

    batch_size: int
    randomness: str


class _AtLevel(_C.Context):
    """At another depth of maps, with what each of them says of random numbers."""

    def __init__(self, level: int, randomness: list[tuple[str, int]]) -> None:
        self._level, self._randomness = level, randomness

    def _now(self) -> tuple[int, list[tuple[str, int]]]:
        return _C.vmap_depth(), list(_randomness())

    def _set(self) -> int:
        self._restore((self._level, self._randomness))
        return self._level

    def _restore(self, before: tuple[int, list[tuple[str, int]]]) -> None:
        level, _randomness()[:] = before
        _C.set_vmap_depth(level)


def _randomness() -> list[tuple[str, int]]:
    from minitensor._vmap.rules import RANDOMNESS

    return RANDOMNESS.stack


def _outside(level: int) -> _AtLevel:
    """Where tensors of a level are seen as what is behind them."""
    return _AtLevel(level - 1, _randomness()[: level - 1])


def _inside(size: int, randomness: str) -> _AtLevel:
    """One level further in."""
    return _AtLevel(_C.vmap_depth() + 1, [*_randomness(), (randomness, size)])


class _Slices(NamedTuple):
    """A value as it is outside: what is behind a tensor, and whether that is mapped."""

    value: Any
    mapped: bool

    def at(self, level: int) -> Any:
        return _C.vmap_wrap(self.value, level) if self.mapped and self.value is not None else self.value


def _outer(value: Any, level: int) -> _Slices:
    if not isinstance(value, Tensor):
        return _Slices(value, False)
    return _Slices(*_C.vmap_unwrap(value, level))


class _Call(NamedTuple):
    """One call of a Function on handles."""

    cls: Any
    context: Any  # filled for the handles
    args: tuple[Any, ...]
    level: int
    size: int
    randomness: str
    compute: Callable[[], Any] | None  # forward; None for backward


def needs_gradient(value: Any) -> bool:
    """Whether a tensor, or what is behind it, wants a gradient."""
    if not isinstance(value, Tensor):
        return False
    level = _C.vmap_level(value)
    return value.requires_grad or (level > 0 and needs_gradient(_C.vmap_unwrap(value, level)[0]))


def forward_mapped(cls: Any, context: Any, args: tuple[Any, ...], level: int, compute: Callable[[], Any]) -> Any:
    """What `compute()`, forward on the handles, gives; what is behind the results has a history, too."""
    randomness, size = _randomness()[level - 1]
    call = _Call(cls, context, args, level, size, randomness, compute)
    outer = [_outer(a, level) for a in args]
    own_rule = cls.vmap is not Function.vmap
    if own_rule and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid "
            "ambiguity."
        )
    with _outside(level):
        if own_rule:
            return _by_own_rule(call, outer)
        outputs: list[Any] = []
        results = _Mapped.apply(call, outputs, *(o.value for o in outer if isinstance(o.value, Tensor)))
    single = not isinstance(results, tuple)
    dirty = {id(t) for t in context._dirty}
    handles = [
        before if id(before) in dirty else _Slices(result, _outer(before, level).mapped).at(level)
        for before, result in zip(outputs, (results,) if single else results, strict=True)
    ]
    # What is saved or named among the results is the handle that has the history.
    place = {id(before): handle for before, handle in zip(outputs, handles, strict=True)}
    context._given = tuple(place.get(id(t), t) for t in context._given)
    context._non_differentiable = tuple(place.get(id(t), t) for t in context._non_differentiable)
    return handles[0] if single else tuple(handles)


def _by_own_rule(call: _Call, outer: list[_Slices]) -> Any:
    in_dims = tuple(0 if o.mapped else None for o in outer)
    info = VmapInfo(call.size, call.randomness)
    returned = call.cls.vmap(info, in_dims, *(o.value for o in outer))
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise RuntimeError(
            f"Expected the vmap staticmethod of {call.cls.__name__} to have two returns, an output and out_dims with "
            f"pytree structure compatible with the output. Got a {type(returned)} instead"
        )
    results, out_dims = returned
    single = not isinstance(results, (tuple, list))
    results = [results] if single else results
    dims = out_dims if isinstance(out_dims, (tuple, list)) else [out_dims] * len(results)
    if len(dims) != len(results):
        raise RuntimeError(f"{call.cls.__name__}.vmap returned {len(results)} results and {len(dims)} out_dims")
    handles = [_result(r, d, call.size).at(call.level) for r, d in zip(results, dims, strict=True)]
    returned = handles[0] if single else tuple(handles)
    if call.cls.setup_context is not Function.setup_context:
        call.cls.setup_context(call.context, call.args, returned)
    return returned


def _result(value: Any, dim: int | None, size: int) -> _Slices:
    if dim is not None:
        return _Slices(value.movedim(dim, 0), True)
    # A handle keeps the history of what is behind it; a tensor gets that of this call instead.
    if needs_gradient(value):
        return _Slices(value.unsqueeze(0).expand((size, *value.shape)), True)
    return _Slices(value, False)


class _Mapped(Function):
    """A Function of what is behind handles. Its arguments: the call, a list for the handles that come out, tensors."""

    @staticmethod
    def forward(ctx: Any, call: _Call, outputs: list[Any], *_behind: Any) -> Any:
        inner = call.context
        with _inside(call.size, call.randomness) as level:
            assert call.compute is not None
            result = call.compute()
            outputs += result if isinstance(result, (tuple, list)) else [result]
            results = [_outer(o, level) for o in outputs]
            saved = [_outer(t, level) for t in inner._given]
            ctx.attributes = {k: _outer(v, level) for k, v in vars(inner).items() if k not in _OWN_ATTRIBUTES}
            ctx.mark_dirty(*(_outer(t, level).value for t in inner._dirty))
            ctx.mark_non_differentiable(*(_outer(t, level).value for t in inner._non_differentiable))
            ctx.inputs = [_outer(a, level).mapped if isinstance(a, Tensor) else None for a in call.args]
        ctx.save_for_backward(*(s.value for s in saved))
        ctx.set_materialize_grads(inner._materialize)
        ctx.call = call._replace(context=None, args=(), compute=None)
        ctx.saved_mapped = [s.mapped for s in saved]
        ctx.results_mapped = [r.mapped for r in results]
        values = tuple(r.value for r in results)
        return values if isinstance(result, (tuple, list)) else values[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        call, inner = ctx.call, FunctionContext()
        behind = iter(ctx.needs_input_grad[2:])
        inner.needs_input_grad = tuple(mapped is not None and next(behind) for mapped in ctx.inputs)
        given = [_Slices(*both) for both in zip(gradients, ctx.results_mapped, strict=True)]
        saved = [_Slices(*both) for both in zip(ctx.saved_tensors, ctx.saved_mapped, strict=True)]
        with _inside(call.size, call.randomness) as level:
            inner._given = tuple(s.at(level) for s in saved)
            vars(inner).update({k: s.at(level) for k, s in ctx.attributes.items()})
            returned = gradients_of(call.cls, inner, [g.at(level) for g in given], len(ctx.inputs))
            found = [_outer(g, level) for g, mapped in zip(returned, ctx.inputs, strict=True) if mapped is not None]
        inputs = [mapped for mapped in ctx.inputs if mapped is not None]
        return None, None, *(_to_input(g, mapped, call.size) for g, mapped in zip(found, inputs, strict=True))


def _to_input(gradient: _Slices, mapped: bool, size: int) -> Any:
    value = gradient.value
    if value is None or gradient.mapped == mapped:
        return value
    return value.unsqueeze(0).expand((size, *value.shape)) if mapped else value.sum(0)


_OWN_ATTRIBUTES = set(vars(FunctionContext()))
