"""PyTorch's older functions of nested arguments, whose methods are of an instance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minitensor import _C
from minitensor.autograd.function import Function

__all__ = ["NestedIOFunction"]

Tensor = _C.Tensor


class NestedIOFunction(Function):
    """A function whose arguments and results are tuples, lists and dicts of tensors, nested in any way.

    A subclass has `forward_extended(self, *args)` and `backward_extended(self, *gradients)`. The latter gets gradients
    nested as the results are, None for those without, and returns them nested as the arguments are. An instance is
    called once, with the arguments. A new function is better a :class:`Function`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._ctx: Any = None
        self._saved: Any = None
        self._results: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the results. TypeError for keywords, RuntimeError for a second call."""
        if kwargs:
            raise TypeError(f"{type(self).__name__} takes no keywords, got {', '.join(kwargs)}")
        if self._ctx is not None:
            raise RuntimeError(f"an instance of {type(self).__name__} is called once: make another one")
        flat = _Flat.apply(self, args, *_tensors(args))
        return _nested(self._results, flat if isinstance(flat, tuple) else (flat,))

    def forward(self, *args: Any) -> Any:  # type: ignore[override]  # of an instance, as in PyTorch
        """Compute the results of a flat list of tensors: `forward_extended` is what a subclass has."""
        self._results = self.forward_extended(*args)
        return tuple(_tensors(self._results))

    def backward(self, *gradients: Any) -> Any:  # type: ignore[override]
        """The gradients of the arguments, flat, of those of the results, flat."""
        found = self.backward_extended(*_as_arguments(_nested(self._results, gradients)))
        return tuple(_leaves(found))

    def forward_extended(self, *args: Any) -> Any:
        """Compute the results."""
        raise NotImplementedError("You must implement forward_extended.")

    def backward_extended(self, *gradients: Any) -> Any:
        """Give the gradients of the arguments."""
        raise NotImplementedError("You must implement backward_extended.")

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep nested tensors for `saved_tensors`."""
        self._saved = tensors
        self._ctx.save_for_backward(*_tensors(tensors))

    @property
    def saved_tensors(self) -> Any:
        """What `save_for_backward` was given."""
        return _nested(self._saved, self._ctx.saved_tensors)

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which arguments were changed."""
        self._ctx.mark_dirty(*_tensors(tensors))

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which results have no gradient."""
        self._ctx.mark_non_differentiable(*_tensors(tensors))

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Which of the arguments' tensors, in order, want a gradient."""
        return tuple(self._ctx.needs_input_grad[2:])


class _Flat(Function):
    @staticmethod
    def forward(ctx: Any, function: NestedIOFunction, args: tuple[Any, ...], *tensors: Any) -> Any:
        function._ctx, ctx.function, ctx.count = ctx, function, len(tensors)
        return function.forward(*_nested(args, tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        function = ctx.function
        flat = function.backward(*gradients)
        if len(flat) != ctx.count:
            raise RuntimeError(
                f"{type(function).__name__}.backward_extended gave {len(flat)} gradients for {ctx.count} tensors; None "
                "stands for one that has none"
            )
        return None, None, *flat


def _as_arguments(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _leaves(part)]
    return _leaves(list(value.values())) if isinstance(value, dict) else [value]


def _tensors(value: Any) -> list[Any]:
    return [leaf for leaf in _leaves(value) if isinstance(leaf, Tensor)]


def _nested(like: Any, tensors: Iterable[Any]) -> Any:
    """`like` with other tensors in the places of its own."""
    given = iter(tensors)

    def copied(value: Any) -> Any:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(copied, value))
        if isinstance(value, (tuple, list)):
            return type(value)(map(copied, value))
        if isinstance(value, dict):
            return {key: copied(part) for key, part in value.items()}
        return next(given) if isinstance(value, Tensor) else value

    return copied(like)
