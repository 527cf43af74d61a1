"""Distributions of matrices: Wishart's, and that of Lewandowski, Kurowicka and Joe for correlations.

Wishart, "The generalised product moment distribution" (Biometrika 20A, 1928), sampled by Bartlett's decomposition
(Smith and Hocking, Algorithm AS 53, 1972); Lewandowski, Kurowicka and Joe, "Generating random correlation matrices
based on vines and extended onion method" (Journal of Multivariate Analysis 100, 2009).
"""

from __future__ import annotations

import math
from numbers import Number
from typing import Any, ClassVar

from minitensor import linalg
from minitensor._C import Size
from minitensor._functions.offered import (
    arange,
    as_tensor,
    broadcast_shapes,
    cat,
    cholesky_solve,
    diag_embed,
    digamma,
    lgamma,
    mvlgamma,
    randn,
    tensor,
    tril_indices,
    where,
    zeros_like,
)
from minitensor.autograd import no_grad
from minitensor.distributions import constraints
from minitensor.distributions.beta import Beta
from minitensor.distributions.distribution import Distribution, ExponentialFamily
from minitensor.distributions.gamma import Chi2
from minitensor.distributions.multivariate_normal import factor_of_precision, inverse_of, log_diagonal
from minitensor.distributions.parameters import lazy_property
from minitensor.dtypes import finfo

__all__ = ["LKJCholesky", "Wishart"]


def _multivariate_digamma(x: Any, p: int) -> Any:
    """The derivative of the logarithm of the multivariate gamma function."""
    steps = arange(p, dtype=x.dtype, device=x.device) / 2
    return digamma(x.unsqueeze(-1) - steps).sum(-1)


class Wishart(ExponentialFamily):
    """The distribution of the sum of z z^T over `df` normal vectors; of any df above n - 1.

    The covariance of the vectors is given by itself, its inverse or its factor.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _event_dims: ClassVar = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
    _kept = ("_factor",)

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        """`df`: a number or a tensor; exactly one of the matrices, (..., n, n), batches broadcast."""
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        named = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(named) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = named
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, Number):
            df = tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = broadcast_shapes(tuple(df.shape), tuple(matrix.shape[:-2]))
        n = matrix.shape[-1]
        self.df = df.expand(batch)
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        self.__dict__[name] = matrix.expand(*batch, n, n)
        self._event_shape = Size((n, n))
        super().__init__(Size(batch), self._event_shape, validate_args=validate_args)
        if scale_tril is not None:
            self._factor = scale_tril
        elif covariance_matrix is not None:
            self._factor = linalg.cholesky(covariance_matrix)
        else:
            self._factor = factor_of_precision(precision_matrix)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """df is above n - 1."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def _full(self, matrix: Any) -> Any:
        return matrix.expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The covariance's lower Cholesky factor."""
        return self._full(self._factor)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance of the vectors."""
        return self._full(self._factor @ self._factor.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """Its inverse."""
        return self._full(inverse_of(self._factor))

    def _of_matrices(self) -> Any:
        return self.df.reshape(*self._batch_shape, 1, 1)

    @property
    def mean(self) -> Any:
        """df V."""
        return self._of_matrices() * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """(df - n - 1) V; NaN unless df is above n + 1."""
        factor = self._of_matrices() - self._event_shape[-1] - 1
        return where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        """df (V_ij^2 + V_ii V_jj)."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._of_matrices() * (v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Any:
        """L A A^T L^T: A has normal samples below its diagonal and roots of chi-squared ones on it.

        These have df, df - 1, ... degrees of freedom. No sample is singular, so that nothing is drawn again, whatever
        `max_try_correction` says.
        """
        n = self._event_shape[-1]
        steps = arange(n, dtype=self.df.dtype, device=self.df.device)
        roots = Chi2(self.df.unsqueeze(-1) - steps, validate_args=False).rsample(sample_shape).sqrt()
        rows, columns = tril_indices(n, n, -1)
        root = diag_embed(roots)
        root[..., rows, columns] = randn((*roots.shape[:-1], len(rows)), dtype=root.dtype, device=root.device)
        product = self._factor @ root
        return product @ product.mT

    def log_prob(self, value: Any) -> Any:
        """((df - n - 1) log det X - tr(V^-1 X)) / 2, less the logarithm of the norm."""
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[-1]
        norm = self.df * (0.5 * n * math.log(2.0) + log_diagonal(self._factor)) + mvlgamma(self.df / 2, n)
        trace = cholesky_solve(value, self._factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        return 0.5 * (self.df - n - 1) * linalg.slogdet(value).logabsdet - 0.5 * trace - norm

    def entropy(self) -> Any:
        """(n + 1) (n log 2 / 2 + log det L) + log gamma_n(df / 2) - (df - n - 1) / 2 digamma_n(df / 2) + n df / 2."""
        n, half = self._event_shape[-1], self.df / 2
        size = 0.5 * n * math.log(2.0) + log_diagonal(self._factor)
        of_gamma = mvlgamma(half, n) - 0.5 * (self.df - n - 1) * _multivariate_digamma(half, n)
        return (n + 1) * size + of_gamma + half * n

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * (n * math.log(2.0) - linalg.slogdet(-2 * x).logabsdet) + mvlgamma(half, n)


class LKJCholesky(Distribution):
    """Cholesky factors L of correlation matrices, L L^T with a density proportional to its determinant^(c - 1).

    `concentration` 1 is the uniform distribution of correlation matrices; above it they are nearer to the identity.
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _event_dims: ClassVar = {"concentration": 0}
    _kept = ("dim",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        """`dim`: the matrices' size, 2 or more; `concentration`: a number or a tensor."""
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration = as_tensor(concentration, dtype=getattr(concentration, "dtype", None))
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Any:
        """The onion method: row i has a beta distributed length below its diagonal, in a uniform direction."""
        with no_grad():
            c = self.concentration
            rows = arange(1, self.dim, dtype=c.dtype, device=c.device)
            last = (c + 0.5 * (self.dim - 1)).unsqueeze(-1)
            # Row i has i numbers below the diagonal; the first has none, but a length is drawn for it in PyTorch, too.
            rows = cat([rows[:1], rows])
            squares = Beta(0.5 * rows, last - 0.5 * rows, validate_args=False).sample(sample_shape)[..., 1:]
            normal = randn((*sample_shape, *self._batch_shape, self.dim, self.dim), dtype=c.dtype, device=c.device)
            below = normal.tril(-1)[..., 1:, :]
            below = below / linalg.vector_norm(below, dim=-1, keepdim=True) * squares.sqrt().unsqueeze(-1)
            below = cat([zeros_like(below[..., :1, :]), below], -2)
            left = (1 - below.square().sum(-1)).clamp(min=finfo(c.dtype).tiny)
            return below + diag_embed(left.sqrt())

    def log_prob(self, value: Any) -> Any:
        """The sum of (2 c - 2 + n - i) log L_ii over rows i from 2, less the logarithm of the norm."""
        if self._validate_args:
            self._validate_sample(value)
        c, n = self.concentration, self.dim
        rows = arange(2, n + 1, dtype=c.dtype, device=c.device)
        powers = 2 * (c - 1).unsqueeze(-1) + n - rows
        density = (powers * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        more = n - 1
        alpha = c + 0.5 * more
        norm = 0.5 * more * math.log(math.pi) + mvlgamma(alpha - 0.5, more) - lgamma(alpha) * more
        return density - norm
