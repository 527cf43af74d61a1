"""What a constraint is, and constraints made of constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor._functions.offered import cat, stack

__all__ = ["Constraint", "MixtureSameFamilyConstraint", "is_dependent"]


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
        return cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


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
        return stack([c.check(v) for c, v in zip(self.cseq, slices, strict=True)], self.dim)
