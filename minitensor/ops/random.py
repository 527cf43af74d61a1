"""Ops that draw random numbers: Philox, keyed by the generator's seed and the op's place in its stream."""

from __future__ import annotations

from typing import Any

from minitensor._C import Op
from minitensor.ops.pointwise import called
from minitensor.ops.row import elementwise, random, underived

__all__: list[str] = []

_PLACE = "its place in the random stream is a value that compiled code does not take yet"
uniform = random(
    "uniform(int[] size, float low=0.0, float high=1.0, *, dtype? dtype=None, device? device=None)",
    "Uniform numbers in [low, high).",
    function=False,
    why=_PLACE,
)
normal = random(
    "normal(int[] size, float mean=0.0, float std=1.0, *, dtype? dtype=None, device? device=None)",
    "Normally distributed numbers.",
    why=_PLACE,
)
randint = random(
    "randint(int low, int high, int[] size, *, dtype? dtype=None, device? device=None)",
    "Uniform integers in [low, high).",
    why=_PLACE,
)
randperm = random(
    "randperm(int n, *, dtype? dtype=None, device? device=None)", "A random permutation of 0..n-1.", why=_PLACE
)

# ---- PyTorch's numbers for the CPU: words of MT19937, in order

_SEQUENCE = "its numbers are words of one sequence, which its kernel draws in order"
_MADE = "*, dtype? dtype=None, device? device=None)"
torch_uniform = random(
    f"_mt19937_uniform(int[] size, float low=0.0, float high=1.0, {_MADE}",
    "Uniform numbers in [low, high), as PyTorch draws them.",
    why=_SEQUENCE,
)
torch_normal = random(
    f"_mt19937_normal(int[] size, float mean=0.0, float std=1.0, bool one_by_one=False, {_MADE}",
    "Normally distributed numbers, as PyTorch draws them: in groups of 16, or one by one.",
    why=_SEQUENCE,
)
torch_integers = random(
    f"_mt19937_integers(int[] size, int low, int last, int bits=0, {_MADE}",
    "Integers from low to last, as PyTorch draws them: of words of so many bits, 0: by the range.",
    why=_SEQUENCE,
)
torch_permutation = random(
    f"_mt19937_permutation(int n, {_MADE}", "A permutation of 0 to n - 1, as PyTorch draws it.", why=_SEQUENCE
)
torch_bernoulli = random(
    f"_mt19937_bernoulli(int[] size, float p, {_MADE}", "1 with probability p, as PyTorch draws it.", why=_SEQUENCE
)
torch_exponential = random(
    f"_mt19937_exponential(int[] size, float lambd=1.0, {_MADE}",
    "Numbers of the exponential distribution, as PyTorch draws them.",
    why=_SEQUENCE,
)
torch_cauchy = random(
    f"_mt19937_cauchy(int[] size, float median=0.0, float sigma=1.0, {_MADE}",
    "Numbers of the Cauchy distribution, as PyTorch draws them.",
    why=_SEQUENCE,
)
torch_geometric = random(
    f"_mt19937_geometric(int[] size, float p, {_MADE}",
    "Numbers of the geometric distribution, as PyTorch draws them.",
    why=_SEQUENCE,
)
torch_log_normal = random(
    f"_mt19937_log_normal(int[] size, float mean=1.0, float std=2.0, {_MADE}",
    "Numbers of the log-normal distribution, as PyTorch draws them.",
    why=_SEQUENCE,
)
torch_multinomial = random(
    "_mt19937_multinomial(Tensor input, int num_samples)",
    "Indices into each row of input by its weights, with replacement, as PyTorch draws them.",
    why=_SEQUENCE,
)
torch_poisson = random(
    "_mt19937_poisson(Tensor input)",
    "Samples of the Poisson distribution of the rates in input, as PyTorch draws them.",
    why=_SEQUENCE,
)
torch_binomial = random(
    "_mt19937_binomial(Tensor count, Tensor prob)",
    "Samples of the binomial distribution, as PyTorch draws them.",
    vjp=underived("binomial"),
    why=_SEQUENCE,
)

# ---- samples of parameters that are tensors: their gradients are those of the sample at its place among all samples
# (Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", NeurIPS 2018)


def _dirichlet_vjp(g: Any, out: Any, concentration: Any) -> Any:
    total = concentration.sum(-1, True).expand_as(concentration)
    return dirichlet_grad(out, concentration, total) * (g - (g * out).sum(-1, True))


standard_gamma_grad: Op = elementwise(
    "_standard_gamma_grad(Tensor input, Tensor output)",
    "The derivative of a sample `output` of the gamma distribution of shape `input` by that shape.",
    lower=called("_standard_gamma_grad"),
    vjp=underived("_standard_gamma_grad"),
)
dirichlet_grad: Op = elementwise(
    "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total)",
    "The derivative of a component of a Dirichlet sample by its concentration `alpha` among `total`, over 1 - x.",
    lower=called("_dirichlet_grad"),
    vjp=underived("_dirichlet_grad"),
)
standard_gamma = random(
    "_standard_gamma(Tensor input)",
    "Samples of the gamma distribution of the shapes in input and scale 1.",
    vjp=lambda g, out, concentration: g * standard_gamma_grad(concentration, out),
    why=_PLACE,
)
sample_dirichlet = random(
    "_sample_dirichlet(Tensor input)",
    "Samples of the Dirichlet distribution of the concentrations in input's last dimension.",
    vjp=_dirichlet_vjp,
    why=_PLACE,
)
