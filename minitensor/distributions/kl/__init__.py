"""The Kullback-Leibler divergence: the mean of log p(x) - log q(x) for x drawn from p, in nats."""

from minitensor.distributions.kl import infinite, mixed, same
from minitensor.distributions.kl.registry import _KL_REGISTRY, kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]
