"""What every distribution has, and what those of the exponential family have beyond it."""

from __future__ import annotations

from typing import Any, ClassVar

from minitensor import autograd
from minitensor._C import Size, Tensor
from minitensor._functions.offered import exp
from minitensor._warning import warn
from minitensor.autograd import enable_grad, no_grad
from minitensor.distributions import constraints
from minitensor.distributions.parameters import lazy_property, sum_rightmost

__all__ = ["Distribution", "ExponentialFamily"]


class Distribution:
    """A distribution of random tensors.

    A sample has shape sample_shape + batch_shape + event_shape: one independent draw for each entry of the first two,
    of which those in a batch have parameters of their own.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _event_dims: ClassVar[dict[str, int]]
    """Of a class that leaves `expand` to this one: the attributes to expand, and how many trailing dimensions of each
    belong to one event."""

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and arguments are checked where `validate_args` does not say it."""
        if value not in (True, False):
            raise ValueError(f"expected a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        """Keep the shapes, and check the parameters, which a subclass has set before."""
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            found = self.arg_constraints
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation."
            )
            return
        for name, constraint in found.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # it is made of another one
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n"
                    f"{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its parameters expanded to a batch shape, without copies."""
        owner: Any = next((c for c in type(self).__mro__ if "_event_dims" in vars(c)), None)
        if owner is None:
            raise NotImplementedError(f"{type(self)} does not implement expand")
        new = self._get_checked_instance(owner, _instance)
        batch_shape = Size(batch_shape)
        for name, value in self.__dict__.items():
            if name in owner._event_dims:
                event = tuple(value.shape[value.ndim - owner._event_dims[name] :])
                new.__dict__[name] = value.expand(tuple(batch_shape) + event)
            elif name not in ("_batch_shape", "_event_shape", "_validate_args") and name in owner._kept:
                new.__dict__[name] = value
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    _kept: ClassVar[tuple[str, ...]] = ()
    """Attributes that an expanded distribution takes over as they are."""

    @property
    def batch_shape(self) -> Any:
        """The shape of the batch of parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one draw."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The constraint of each parameter, by its name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The mean, with shape batch_shape + event_shape."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The place of the greatest density or probability."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance of each element."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws that are functions of the parameters, with their gradients."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """Deprecated: `sample((n,))`."""
        warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.", FutureWarning)
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability at a value, with the shape of its batch."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of a draw not above the value."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The value whose `cdf` is given."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values that a draw can have, in a new first dimension; with `expand`, in the batch's shape."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy in nats, with shape batch_shape."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """exp of the entropy."""
        return exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """ValueError if a value can't be an argument of log_prob or cdf: its type, its shape, its support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        dims = len(self._event_shape)
        if tuple(value.shape[value.ndim - dims :] if dims <= value.ndim else value.shape) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape[max(value.ndim - dims, 0) :]} vs {self._event_shape}."
            )
        expected = (*self._batch_shape, *self._event_shape)
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {Size(expected)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation."
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An instance for `expand` to fill. A subclass with an `__init__` of its own must know better."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self))

    def __repr__(self) -> str:
        """The class and its parameters: single ones by value, others by shape."""
        names = [name for name in self.arg_constraints if name in self.__dict__]
        shown = (f"{n}: {v if v.numel() == 1 else v.size()}" for n in names for v in (self.__dict__[n],))
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """A distribution with density exp(<t(x), theta> - F(theta) + k(x)), with natural parameters theta.

    Nielsen and Nock, "Entropies and cross-entropies of exponential families" (ICIP 2010), have its entropy and its
    divergences by F and its gradient.
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        """theta: one tensor or several."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        """F at natural parameters."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of k(x)."""
        raise NotImplementedError

    def _at_natural_parameters(self) -> tuple[list[Any], Any, Any]:
        """theta as leaves, F there, and the gradients of F."""
        theta = [p.detach().requires_grad_() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*theta)
            slopes = autograd.grad(normalizer.sum(), theta, create_graph=True)
        return theta, normalizer, slopes

    def entropy(self) -> Any:
        """F(theta) - <theta, grad F(theta)> - E[k(x)]."""
        theta, normalizer, slopes = self._at_natural_parameters()
        result = normalizer - self._mean_carrier_measure
        for p, slope in zip(theta, slopes, strict=True):
            result = result - sum_rightmost(p * slope, p.ndim - len(self._batch_shape))
        return result
