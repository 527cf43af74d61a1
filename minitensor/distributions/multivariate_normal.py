"""Normal distributions of vectors: with any covariance, and with one of low rank and a diagonal.

Kotz, Balakrishnan and Johnson, "Continuous multivariate distributions", chapter 45; Woodbury, "Inverting modified
matrices" (1950), for the low rank.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor import linalg
from minitensor._C import Size
from minitensor._functions.offered import broadcast_shapes, cholesky_inverse, diag_embed, eye, flip
from minitensor.distributions import constraints
from minitensor.distributions.distribution import Distribution
from minitensor.distributions.parameters import lazy_property, standard_normal

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def factor_of_precision(precision: Any) -> Any:
    """The lower Cholesky factor of the inverse of P.

    With the order of rows and columns reversed P is L L^T; reversed again L^T is lower triangular, and its inverse the
    factor, without a product that would square the condition number.
    """
    reverse = flip(linalg.cholesky(flip(precision, (-2, -1))), (-2, -1)).mT
    identity = eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return linalg.solve_triangular(reverse, identity.expand(precision.shape), upper=False)


def solve_lower(factor: Any, rows: Any) -> Any:
    """L^-1 x for vectors in the last dimension, the batches broadcast."""
    batch = broadcast_shapes(tuple(factor.shape[:-2]), tuple(rows.shape[:-1]))
    n = rows.shape[-1]
    columns = rows.expand(*batch, n).unsqueeze(-1)
    return linalg.solve_triangular(factor.expand(*batch, n, n), columns, upper=False).squeeze(-1)


def log_diagonal(factor: Any) -> Any:
    """The sum of the logarithms of a matrix's diagonal."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def inverse_of(factor: Any) -> Any:
    """(L L^T)^-1."""
    return cholesky_inverse(factor)


class MultivariateNormal(Distribution):
    """The normal distribution of mean `loc` and a covariance, which is given by itself, its inverse or its factor."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _event_dims: ClassVar = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
    _kept = ("_factor",)

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        """`loc`: (..., n); exactly one of the matrices, (..., n, n), batches broadcast."""
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        named = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(named) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = named
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        self.loc = loc.expand(*batch, loc.shape[-1])
        self.__dict__[name] = matrix.expand(*batch, *matrix.shape[-2:])
        super().__init__(Size(batch), Size(loc.shape[-1:]), validate_args=validate_args)
        # In the shape that was given: one factor may serve many means.
        if scale_tril is not None:
            self._factor = scale_tril
        elif covariance_matrix is not None:
            self._factor = linalg.cholesky(covariance_matrix)
        else:
            self._factor = factor_of_precision(precision_matrix)

    def _full(self, matrix: Any) -> Any:
        n = self._event_shape[0]
        return matrix.expand(*self._batch_shape, n, n)

    @lazy_property
    def scale_tril(self) -> Any:
        """The covariance's lower Cholesky factor."""
        return self._full(self._factor)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._full(self._factor @ self._factor.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The covariance's inverse."""
        return self._full(inverse_of(self._factor))

    @property
    def mean(self) -> Any:
        """loc."""
        return self.loc

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The covariance's diagonal."""
        return self._factor.square().sum(-1).expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """loc + L z."""
        z = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + (self._factor @ z.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Any:
        """-|L^-1 (x - loc)|^2 / 2 - log det L - n log(2 pi) / 2."""
        if self._validate_args:
            self._validate_sample(value)
        z = solve_lower(self._factor, value - self.loc)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + z.square().sum(-1)) - log_diagonal(self._factor)

    def entropy(self) -> Any:
        """n (1 + log(2 pi)) / 2 + log det L."""
        n = self._event_shape[0]
        return (0.5 * n * (1.0 + math.log(2 * math.pi)) + log_diagonal(self._factor)).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors of covariance W W^T + D, with W of few columns and D diagonal.

    The inverse and the determinant come of the small matrix C = 1 + W^T D^-1 W.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _event_dims: ClassVar = {
        "loc": 1, "cov_factor": 2, "cov_diag": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2,
    }  # fmt: skip
    _kept = ("_w", "_d", "_small")

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        """`loc`: (..., n); `cov_factor`: W, (..., n, m); `cov_diag`: D, (..., n); batches broadcast."""
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = tuple(loc.shape[-1:])
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if tuple(cov_factor.shape[-2:-1]) != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if tuple(cov_diag.shape[-1:]) != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {Size(event)}")
        shapes = (tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1]))
        try:
            batch = broadcast_shapes(*shapes)
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(*batch, *event)
        self.cov_diag = cov_diag.expand(*batch, *event)
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        super().__init__(Size(batch), Size(event), validate_args=validate_args)
        self._w, self._d = cov_factor, cov_diag
        small = self._scaled() @ cov_factor
        self._small = linalg.cholesky(small + eye(small.shape[-1], dtype=small.dtype, device=small.device))

    def _scaled(self) -> Any:
        """W^T D^-1."""
        return self._w.mT / self._d.unsqueeze(-2)

    def _full(self, matrix: Any) -> Any:
        n = self._event_shape[0]
        return matrix.expand(*self._batch_shape, n, n)

    @property
    def mean(self) -> Any:
        """loc."""
        return self.loc

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @lazy_property
    def variance(self) -> Any:  # type: ignore[override]
        """The covariance's diagonal."""
        return (self._w.square().sum(-1) + self._d).expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The covariance's lower Cholesky factor."""
        # With R = D^-1/2 W it is D^1/2 times the factor of 1 + R R^T.
        root = self._d.sqrt().unsqueeze(-1)
        scaled = self._w / root
        inner = scaled @ scaled.mT
        inner = inner + eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        return self._full(root * linalg.cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """W W^T + D."""
        return self._full(self._w @ self._w.mT + diag_embed(self._d))

    @lazy_property
    def precision_matrix(self) -> Any:
        """D^-1 - A^T A, with A = L^-1 W^T D^-1 and C = L L^T."""
        a = self._within()
        return self._full(diag_embed(self._d.reciprocal()) - a.mT @ a)

    def _within(self) -> Any:
        scaled = self._scaled()
        batch = broadcast_shapes(tuple(self._small.shape[:-2]), tuple(scaled.shape[:-2]))
        m, n = scaled.shape[-2:]
        return linalg.solve_triangular(self._small.expand(*batch, m, m), scaled.expand(*batch, m, n), upper=False)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """loc + W z + D^1/2 z', with two normal vectors."""
        shape = self._extended_shape(sample_shape)
        z = standard_normal((*shape[:-1], self._w.shape[-1]), self.loc.dtype, self.loc.device)
        own = standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + (self._w @ z.unsqueeze(-1)).squeeze(-1) + self._d.sqrt() * own

    def log_prob(self, value: Any) -> Any:
        """The normal density, with the small matrix's inverse and determinant."""
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        inner = (self._within() @ away.unsqueeze(-1)).squeeze(-1)
        squares = (away.square() / self._d).sum(-1) - inner.square().sum(-1)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + self._log_det() + squares)

    def _log_det(self) -> Any:
        """The logarithm of the covariance's determinant."""
        return 2 * log_diagonal(self._small) + self._d.log().sum(-1)

    def entropy(self) -> Any:
        """(n (1 + log(2 pi)) + log det) / 2."""
        n = self._event_shape[0]
        return (0.5 * (n * (1.0 + math.log(2 * math.pi)) + self._log_det())).expand(self._batch_shape)
