"""Probability distributions: samples, densities, moments and divergences, with gradients.

A score function's gradient comes of `log_prob`: `loss = -dist.log_prob(action) * reward`. A pathwise one comes of
`rsample()`, where a distribution has it: samples are then functions of the parameters.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import

from minitensor.distributions import constraints, parameters, transforms
from minitensor.distributions.bernoulli import Bernoulli, ContinuousBernoulli, Geometric
from minitensor.distributions.beta import Beta, Dirichlet, Kumaraswamy
from minitensor.distributions.categorical import Categorical, OneHotCategorical, OneHotCategoricalStraightThrough
from minitensor.distributions.compound import Independent, MixtureSameFamily, TransformedDistribution
from minitensor.distributions.constraint_registry import biject_to, transform_to
from minitensor.distributions.counts import Binomial, Multinomial, NegativeBinomial, Poisson
from minitensor.distributions.distribution import Distribution, ExponentialFamily
from minitensor.distributions.exponential import Exponential, Gumbel, Laplace, Uniform, Weibull
from minitensor.distributions.gamma import Chi2, FisherSnedecor, Gamma, InverseGamma, StudentT
from minitensor.distributions.half import HalfCauchy, HalfNormal
from minitensor.distributions.kl import _KL_REGISTRY, kl_divergence, register_kl
from minitensor.distributions.matrices import LKJCholesky, Wishart
from minitensor.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from minitensor.distributions.normal import LogisticNormal, LogNormal, Normal
from minitensor.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from minitensor.distributions.tails import Cauchy, GeneralizedPareto, Pareto
from minitensor.distributions.transforms import *  # noqa: F403
from minitensor.distributions.von_mises import VonMises

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
]
__all__ += transforms.__all__

# PyTorch has a module for each distribution; its names lead to the family's.
_PYTORCH_MODULES = {
    "bernoulli": ("geometric", "continuous_bernoulli"),
    "beta": ("dirichlet", "kumaraswamy"),
    "categorical": ("one_hot_categorical",),
    "compound": ("independent", "mixture_same_family", "transformed_distribution"),
    "counts": ("binomial", "multinomial", "negative_binomial", "poisson"),
    "distribution": ("exp_family",),
    "exponential": ("gumbel", "laplace", "uniform", "weibull"),
    "gamma": ("chi2", "fishersnedecor", "inverse_gamma", "studentT"),
    "half": ("half_cauchy", "half_normal"),
    "matrices": ("lkj_cholesky", "wishart"),
    "multivariate_normal": ("lowrank_multivariate_normal",),
    "normal": ("log_normal", "logistic_normal"),
    "parameters": ("utils",),
    "relaxed": ("relaxed_bernoulli", "relaxed_categorical"),
    "tails": ("cauchy", "generalized_pareto", "pareto"),
}
for _family, _names in _PYTORCH_MODULES.items():
    for _name in _names:
        _module = _sys.modules[f"{__name__}.{_name}"] = _import(f"{__name__}.{_family}")
        globals()[_name] = _module
