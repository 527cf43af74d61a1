"""A table of distributions: how each is made, values in its support, and what SciPy calls it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

__all__ = ["CASES", "Case", "build", "leaves"]


class Case(NamedTuple):
    """One distribution; arrays among the arguments become float64 tensors."""

    name: str
    arguments: dict[str, Any]
    values: Any
    scipy: Any = None


def _a(*numbers: Any) -> Any:
    return np.array(numbers, np.float64)


_P = _a(0.1, 0.45, 0.8)
_LOGITS = _a(-2.0, 0.1, 1.5)
_WEIGHTS = _a([0.2, 0.3, 0.5], [0.6, 0.3, 0.1])
_COVARIANCE = _a([2.0, 0.3, -0.4], [0.3, 1.0, 0.2], [-0.4, 0.2, 0.7])
_FACTOR = np.linalg.cholesky(_COVARIANCE)
_MEAN = _a(0.5, -1.0, 2.0)
_ROWS = _a([0.1, -0.5, 1.7], [1.5, 0.2, 2.2])
_W, _D = _a([1.0], [0.5], [-0.3]), _a(0.4, 0.9, 1.3)
_SIMPLEX = _a([0.2, 0.3, 0.5], [0.7, 0.2, 0.1])
_MATRICES = np.stack([_COVARIANCE * 1.5, np.eye(3) * 2.0 + 0.1])
_CORRELATIONS = np.stack([np.eye(3), np.linalg.cholesky(_a([1, 0.3, -0.2], [0.3, 1, 0.4], [-0.2, 0.4, 1]))])

CASES = [
    Case("Bernoulli", {"probs": _P}, _a(0, 1, 1), stats.bernoulli(_P)),
    Case("Bernoulli", {"logits": _LOGITS}, _a(0, 1, 1), stats.bernoulli(1 / (1 + np.exp(-_LOGITS)))),
    Case("Beta", {"concentration1": _a(0.5, 2, 3), "concentration0": _a(0.7, 1, 4)}, _a(0.1, 0.5, 0.9),
         stats.beta(_a(0.5, 2, 3), _a(0.7, 1, 4))),
    Case("Binomial", {"total_count": 5, "probs": _P}, _a(0, 2, 5), stats.binom(5, _P)),
    Case("Binomial", {"total_count": 4, "logits": _LOGITS}, _a(0, 2, 4), stats.binom(4, 1 / (1 + np.exp(-_LOGITS)))),
    Case("Categorical", {"probs": _WEIGHTS}, np.array([0, 2])),
    Case("Categorical", {"logits": np.log(_WEIGHTS) + 1}, np.array([1, 2])),
    Case("Cauchy", {"loc": _a(0.3, -1, 2), "scale": _a(0.5, 1, 3)}, _a(0, 0.5, 40),
         stats.cauchy([0.3, -1, 2], [0.5, 1, 3])),
    Case("Chi2", {"df": _a(0.7, 2, 11)}, _a(0.3, 1, 9), stats.chi2([0.7, 2, 11])),
    Case("ContinuousBernoulli", {"probs": _a(0.1, 0.4995, 0.9)}, _a(0.2, 0.5, 0.7)),
    Case("ContinuousBernoulli", {"logits": _LOGITS}, _a(0.2, 0.5, 0.7)),
    Case("Dirichlet", {"concentration": _a([0.5, 2, 3], [1, 1, 4])}, _SIMPLEX),
    Case("Exponential", {"rate": _a(0.3, 1, 4)}, _a(0.1, 1, 2), stats.expon(scale=1 / _a(0.3, 1, 4))),
    Case("FisherSnedecor", {"df1": _a(1, 3, 8), "df2": _a(5, 6, 9)}, _a(0.1, 1, 4), stats.f([1, 3, 8], [5, 6, 9])),
    Case("Gamma", {"concentration": _a(0.5, 2, 30), "rate": _a(0.7, 1, 4)}, _a(0.1, 1, 7),
         stats.gamma([0.5, 2, 30], scale=1 / _a(0.7, 1, 4))),
    Case("GeneralizedPareto", {"loc": _a(0, 1, 2), "scale": _a(1, 2, 0.5), "concentration": _a(0.2, -0.5, 0)},
         _a(0.5, 3, 4), stats.genpareto([0.2, -0.5, 0], [0, 1, 2], [1, 2, 0.5])),
    Case("Geometric", {"probs": _P}, _a(0, 2, 5), stats.geom(_P, loc=-1)),
    Case("Geometric", {"logits": _LOGITS}, _a(0, 2, 5), stats.geom(1 / (1 + np.exp(-_LOGITS)), loc=-1)),
    Case("Gumbel", {"loc": _a(0.3, -1, 2), "scale": _a(0.5, 1, 3)}, _a(0, 0.5, 4),
         stats.gumbel_r([0.3, -1, 2], [0.5, 1, 3])),
    Case("HalfCauchy", {"scale": _a(0.5, 1, 3)}, _a(0.1, 0.5, 40), stats.halfcauchy(scale=[0.5, 1, 3])),
    Case("HalfNormal", {"scale": _a(0.5, 1, 3)}, _a(0.1, 0.5, 4), stats.halfnorm(scale=[0.5, 1, 3])),
    Case("InverseGamma", {"concentration": _a(3.5, 2.5, 5), "rate": _a(0.7, 1, 4)}, _a(0.1, 1, 2),
         stats.invgamma([3.5, 2.5, 5], scale=[0.7, 1, 4])),
    Case("Kumaraswamy", {"concentration1": _a(1.5, 2, 3), "concentration0": _a(1.7, 1.5, 4)}, _a(0.1, 0.5, 0.9)),
    Case("LKJCholesky", {"dim": 3, "concentration": _a(0.7, 2)}, _CORRELATIONS),
    Case("Laplace", {"loc": _a(0.3, -1, 2), "scale": _a(0.5, 1, 3)}, _a(0, 0.5, 4),
         stats.laplace([0.3, -1, 2], [0.5, 1, 3])),
    Case("LogNormal", {"loc": _a(0.3, -1, 2), "scale": _a(0.5, 1, 0.3)}, _a(0.2, 0.5, 4),
         stats.lognorm([0.5, 1, 0.3], scale=np.exp([0.3, -1, 2]))),
    Case("LogisticNormal", {"loc": _a([0.3, -1], [0, 1]), "scale": _a([0.5, 1], [1, 2])}, _SIMPLEX),
    Case("LowRankMultivariateNormal", {"loc": _MEAN, "cov_factor": _W, "cov_diag": _D}, _ROWS),
    Case("Multinomial", {"total_count": 4, "probs": _WEIGHTS}, _a([1, 0, 3], [2, 2, 0])),
    Case("Multinomial", {"total_count": 4, "logits": np.log(_WEIGHTS) + 1}, _a([1, 0, 3], [2, 2, 0])),
    Case("MultivariateNormal", {"loc": _MEAN, "covariance_matrix": _COVARIANCE}, _ROWS),
    Case("MultivariateNormal", {"loc": _ROWS, "precision_matrix": _COVARIANCE}, _ROWS + 0.3),
    Case("MultivariateNormal", {"loc": _MEAN, "scale_tril": _FACTOR}, _ROWS),
    Case("NegativeBinomial", {"total_count": _a(1, 2.5, 6), "probs": _P}, _a(0, 2, 5),
         stats.nbinom([1, 2.5, 6], 1 - _P)),
    Case("NegativeBinomial", {"total_count": 3.0, "logits": _LOGITS}, _a(0, 2, 5),
         stats.nbinom(3, 1 / (1 + np.exp(_LOGITS)))),
    Case("Normal", {"loc": _a(0.3, -1, 2), "scale": _a(0.5, 1, 3)}, _a(0, 0.5, 4),
         stats.norm([0.3, -1, 2], [0.5, 1, 3])),
    Case("OneHotCategorical", {"probs": _WEIGHTS}, _a([0, 1, 0], [1, 0, 0])),
    Case("OneHotCategoricalStraightThrough", {"logits": np.log(_WEIGHTS)}, _a([0, 1, 0], [1, 0, 0])),
    Case("Pareto", {"scale": _a(1, 2, 0.5), "alpha": _a(2.5, 3, 4)}, _a(1.5, 3, 4),
         stats.pareto([2.5, 3, 4], scale=[1, 2, 0.5])),
    Case("Poisson", {"rate": _a(0.5, 3, 40)}, _a(0, 2, 41), stats.poisson([0.5, 3, 40])),
    Case("RelaxedBernoulli", {"temperature": _a(0.7), "probs": _P}, _a(0.2, 0.5, 0.7)),
    Case("RelaxedBernoulli", {"temperature": _a(2.0), "logits": _LOGITS}, _a(0.2, 0.5, 0.7)),
    Case("RelaxedOneHotCategorical", {"temperature": _a(0.7), "probs": _WEIGHTS}, _SIMPLEX),
    Case("StudentT", {"df": _a(0.7, 2.5, 11), "loc": _a(0.3, -1, 2), "scale": _a(0.5, 1, 3)}, _a(0, 0.5, 40),
         stats.t([0.7, 2.5, 11], [0.3, -1, 2], [0.5, 1, 3])),
    Case("Uniform", {"low": _a(0, -1, 2), "high": _a(1, 1, 5)}, _a(0.5, 0.2, 3), stats.uniform([0, -1, 2], [1, 2, 3])),
    Case("VonMises", {"loc": _a(0.3, -1, 2), "concentration": _a(0.01, 1, 30)}, _a(0, 0.5, 2.5),
         stats.vonmises([0.01, 1, 30], [0.3, -1, 2])),
    Case("Weibull", {"scale": _a(1, 2, 0.5), "concentration": _a(1.5, 3, 4)}, _a(1.5, 3, 0.4),
         stats.weibull_min([1.5, 3, 4], scale=[1, 2, 0.5])),
    Case("Wishart", {"df": _a(5.0), "covariance_matrix": _COVARIANCE}, _MATRICES),
    Case("Wishart", {"df": _a(4.5, 6.0), "precision_matrix": _COVARIANCE}, _MATRICES),
    Case("Wishart", {"df": 7, "scale_tril": _FACTOR}, _MATRICES),
]  # fmt: skip


def leaves(case: Case, package: Any, requires_grad: bool = False) -> dict[str, Any]:
    """The arguments as tensors of a package (this one or PyTorch)."""

    def made(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        value = value[0] if case.name.startswith("Relaxed") and value.shape == (1,) else value
        return package.tensor(value.tolist(), dtype=package.float64, requires_grad=requires_grad)

    return {key: made(value) for key, value in case.arguments.items()}


def build(case: Case, package: Any, **options: Any) -> Any:
    """The distribution in a package."""
    return getattr(package.distributions, case.name)(**leaves(case, package), **options)
