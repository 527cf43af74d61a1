"""Constraints: the sets that parameters and samples lie in.

A constraint checks a tensor event by event: `check(value)` has a bool for each, of shape value.shape[:-event_dim].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import minitensor as mt

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


class Constraint:
    """A set of values. `is_discrete` and `event_dim` say what kind of values, and how many dimensions one has."""

    is_discrete: Any = False
    event_dim: Any = 0
    _shown: tuple[str, ...] = ()

    def check(self, value: Any) -> Any:
        """Whether each event of a tensor is in the set: a bool tensor."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """The class's name and the bounds."""
        bounds = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__.removeprefix('_')}({bounds})"


class _Dependent(Constraint):
    """Stands for what depends on other parameters."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> Any:
        """As it was given."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> Any:
        """As it was given."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Any:
        """The same with other answers."""
        if is_discrete is NotImplemented:
            is_discrete = self._is_discrete
        if event_dim is NotImplemented:
            event_dim = self._event_dim
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Any) -> Any:
        """ValueError: it can't be known."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of an instance that is a constraint, and of the class a dependent one."""

    def __init__(
        self, fn: Callable[..., Any] | None = None, *, is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:  # fmt: skip
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Any:
        """As a decorator with arguments."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Holds where the base constraint does for all of the last `reinterpreted_batch_ndims` dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        for given, wanted, what in (
            (base_constraint, Constraint, "base_constraint must be a Constraint"),
            (reinterpreted_batch_ndims, int, "reinterpreted_batch_ndims must be an int"),
        ):
            if not isinstance(given, wanted):
                raise AssertionError(f"{what}, got {type(given).__name__}")
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> Any:
        """The base's."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        """The base's, and those dimensions."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        """All of the base's checks of an event."""
        result = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if result.ndim < n:
            raise ValueError(f"Expected value.dim() >= {self.base_constraint.event_dim + n} but got {value.dim()}")
        return result.reshape(*result.shape[: result.ndim - n], -1).all(-1)

    def __repr__(self) -> str:
        """The base and the number of dimensions."""
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: the components', checked with a dimension for these before the event's."""

    def __init__(self, base_constraint: Constraint) -> None:
        """`base_constraint`: the support of the components."""
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> Any:
        """The components'."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        """The components'."""
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        """Whether each event is in the support of all components."""
        if value.ndim < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        result = self.base_constraint.check(value.unsqueeze(value.ndim - self.event_dim))
        extra = value.ndim - self.event_dim
        return result.reshape(*result.shape[:extra], -1).all(-1)

    def __repr__(self) -> str:
        """The components' support."""
        return f"{type(self).__name__}({self.base_constraint!r})"


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
        tolerance = mt.finfo(value.dtype).eps * value.shape[-1] * 10
        unit = ((mt.linalg.vector_norm(value, dim=-1) - 1).abs() < tolerance).all(-1)
        return _LowerCholesky().check(value) & unit


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        """The same for all matrices of a tensor."""
        return mt.full(tuple(value.shape[:-2]), value.shape[-2] == value.shape[-1], dtype=mt.bool, device=value.device)


class _Symmetric(_Square):
    """Symmetric matrices, to 1e-6."""

    def check(self, value: Any) -> Any:
        """Each matrix by itself."""
        square = super().check(value)
        if not bool(square.all()):
            return square
        return mt.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without eigenvalues below zero."""

    def check(self, value: Any) -> Any:
        """Each matrix by itself."""
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return (mt.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with a Cholesky factor."""

    def check(self, value: Any) -> Any:
        """Each matrix by itself."""
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return mt.linalg.cholesky_ex(value).info == 0


class _Joined(Constraint):
    """Constraints of the parts of a tensor along one dimension."""

    cseq: list[Any]
    dim: int

    def _take(self, cseq: Sequence[Any], dim: int) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> Any:
        """Whether any part is."""
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Joined):
    """Of the parts of given lengths along a dimension, each has its constraint."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self._take(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths must have {len(self.cseq)} entries, got {len(self.lengths)}")
        super().__init__()

    @property
    def event_dim(self) -> Any:
        """The greatest of the parts'."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Any:
        """The checks of the parts, joined along the dimension."""
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} is out of range for a value of {value.dim()} dimensions")
        parts = value.split(self.lengths, self.dim)
        return mt.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Joined):
    """Of the slices along a dimension, each has its constraint."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        self._take(cseq, dim)
        super().__init__()

    @property
    def event_dim(self) -> Any:
        """The greatest of the slices', and one more where the dimension is within the event."""
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Any) -> Any:
        """The checks of the slices, stacked along the dimension."""
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} is out of range for a value of {value.dim()} dimensions")
        slices = value.unbind(self.dim)
        return mt.stack([c.check(v) for c, v in zip(self.cseq, slices, strict=True)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
