"""Transforms from unconstrained numbers to what a constraint allows: `biject_to` and `transform_to`.

Those of `biject_to` have an inverse and a Jacobian's determinant. Those of `transform_to` need not; they are the
simpler ones, for optimisation.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from minitensor.distributions import constraints as c
from minitensor.distributions import transforms as t

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Factories of transforms by the class of constraint that they lead to."""

    def __init__(self) -> None:
        """Without factories."""
        self._registry: dict[type, Callable[[Any], Any]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Enter a factory for a class of constraints, or for that of a constraint; a decorator without factory."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, c.Constraint):
            constraint = type(constraint)
        if not (isinstance(constraint, type) and issubclass(constraint, c.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform to a constraint. NotImplementedError where none is known."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Any], Any]:
    def register(factory: Any) -> Any:
        for kind in kinds:
            for registry in (biject_to, transform_to):
                registry.register(kind, factory)
        return factory

    return register


@_both(c.real)
def _to_real(constraint: Any) -> Any:
    return t.identity_transform


def _of_parts(registry: ConstraintRegistry) -> None:
    registry.register(
        c.independent,
        lambda k: t.IndependentTransform(registry(k.base_constraint), k.reinterpreted_batch_ndims),
    )
    registry.register(c.cat, lambda k: t.CatTransform([registry(part) for part in k.cseq], k.dim, k.lengths))
    registry.register(c.stack, lambda k: t.StackTransform([registry(part) for part in k.cseq], k.dim))


_of_parts(biject_to)
_of_parts(transform_to)


@_both(c.positive, c.nonnegative, c.greater_than, c.greater_than_eq)
def _to_above(constraint: Any) -> Any:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.lower_bound, 1)])


@_both(c.less_than)
def _to_below(constraint: Any) -> Any:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.upper_bound, -1)])


@_both(c.interval, c.half_open_interval)
def _to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, Number) and low == 0 and isinstance(high, Number) and high == 1:
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


@_both(c.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Any:
    return t.CorrCholeskyTransform()


biject_to.register(c.simplex, lambda _: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda _: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda _: t.LowerCholeskyTransform())
transform_to.register(c.positive_definite, lambda _: t.PositiveDefiniteTransform())
transform_to.register(c.positive_semidefinite, lambda _: t.PositiveDefiniteTransform())
