"""Constraints: the sets that parameters and samples lie in.

A constraint checks a tensor event by event: `check(value)` has a bool for each, of shape value.shape[:-event_dim].
"""

from __future__ import annotations

from typing import Any

from minitensor import _C, linalg
from minitensor._functions.offered import full, isclose
from minitensor.distributions.constraint import (
    Constraint,
    MixtureSameFamilyConstraint,
    _Cat,
    _Dependent,
    _DependentProperty,
    _IndependentConstraint,
    _Stack,
    is_dependent,
)
from minitensor.dtypes import finfo

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors with one 1 and zeros."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        """Each vector by itself."""
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """What has bounds, of which either may be missing."""

    lower_bound: Any
    upper_bound: Any

    def __init__(self, *bounds: Any, **named: Any) -> None:
        given = dict(zip(self._shown, bounds, strict=False)) | named
        if len(bounds) + len(named) != len(self._shown) or set(given) != set(self._shown):
            raise TypeError(f"{type(self).__name__}() takes the arguments {', '.join(self._shown)}")
        self.__dict__.update(given)
        super().__init__()


class _IntegerInterval(_Bounded):
    """Integers, both bounds included."""

    is_discrete = True
    _shown = ("lower_bound", "upper_bound")

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Bounded):
    """Integers up to a bound, which is included."""

    is_discrete = True
    _shown = ("upper_bound",)

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    """Integers from a bound on, which is included."""

    is_discrete = True
    _shown = ("lower_bound",)

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    """All numbers, but NaN."""

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return value == value


class _GreaterThan(_Bounded):
    """Numbers above a bound."""

    _shown = ("lower_bound",)

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    """Numbers from a bound on."""

    _shown = ("lower_bound",)

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return self.lower_bound <= value


class _LessThan(_Bounded):
    """Numbers below a bound."""

    _shown = ("upper_bound",)

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return value < self.upper_bound


class _Interval(_Bounded):
    """Numbers between bounds, both included."""

    _shown = ("lower_bound", "upper_bound")

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    """Numbers from a bound on and below another."""

    _shown = ("lower_bound", "upper_bound")

    def check(self, value: Any) -> Any:
        """Each element by itself."""
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    """Vectors of numbers not below zero whose sum is 1, to 1e-6."""

    event_dim = 1

    def check(self, value: Any) -> Any:
        """Each vector by itself."""
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_Bounded):
    """Vectors of counts whose sum is the bound."""

    is_discrete = True
    event_dim = 1
    _shown = ("upper_bound",)

    def check(self, value: Any) -> Any:
        """Each vector by itself."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)

    def __repr__(self) -> str:
        """Without the bound, which is a tensor at times."""
        return "Multinomial()"


class _LowerTriangular(Constraint):
    """Matrices that are zero above the diagonal."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        """Each matrix by itself."""
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with numbers above zero on the diagonal."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        """Each matrix by itself."""
        return (value.tril() == value).flatten(-2).all(-1) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: lower Cholesky factors with rows of length 1."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        """Each matrix by itself; lengths within 10 eps for each column."""
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        unit = ((linalg.vector_norm(value, dim=-1) - 1).abs() < tolerance).all(-1)
        return _LowerCholesky().check(value) & unit


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        """The same for all matrices of a tensor."""
        return full(tuple(value.shape[:-2]), value.shape[-2] == value.shape[-1], dtype=_C.bool, device=value.device)


class _Symmetric(_Square):
    """Symmetric matrices, to 1e-6."""

    def check(self, value: Any) -> Any:
        """Each matrix by itself."""
        square = super().check(value)
        if not bool(square.all()):
            return square
        return isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without eigenvalues below zero."""

    def check(self, value: Any) -> Any:
        """Each matrix by itself."""
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return (linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with a Cholesky factor."""

    def check(self, value: Any) -> Any:
        """Each matrix by itself."""
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return linalg.cholesky_ex(value).info == 0


dependent: Any = _Dependent()
dependent_property: Any = _DependentProperty
independent: Any = _IndependentConstraint
boolean: Constraint = _Boolean()
one_hot: Constraint = _OneHot()
nonnegative_integer: Constraint = _IntegerGreaterThan(0)
positive_integer: Constraint = _IntegerGreaterThan(1)
integer_interval: Any = _IntegerInterval
real: Constraint = _Real()
real_vector: Constraint = independent(real, 1)
positive: Constraint = _GreaterThan(0.0)
nonnegative: Constraint = _GreaterThanEq(0.0)
greater_than: Any = _GreaterThan
greater_than_eq: Any = _GreaterThanEq
less_than: Any = _LessThan
multinomial: Any = _Multinomial
unit_interval: Constraint = _Interval(0.0, 1.0)
interval: Any = _Interval
half_open_interval: Any = _HalfOpenInterval
simplex: Constraint = _Simplex()
lower_triangular: Constraint = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
square: Constraint = _Square()
symmetric: Constraint = _Symmetric()
positive_semidefinite: Constraint = _PositiveSemidefinite()
positive_definite: Constraint = _PositiveDefinite()
cat: Any = _Cat
stack: Any = _Stack
