"""Programs with large arrays, whose time goes into memory and arithmetic."""

import math

import minitensor as mt
import minitensor.nn.functional as F
from benchmarks.programs.case import program


@program(iterations=14, few=1, pays=True)
def gelu_layer_norm(iterations):
    """Layer norm and gelu written out on a large matrix."""
    mt.manual_seed(0)
    x, scale, shift = mt.randn(512, 1024), mt.rand(1024), mt.rand(1024)
    for _ in range(iterations):
        d = x - x.mean(dim=-1, keepdim=True)
        y = d / (d.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt() * scale + shift
        x = 0.5 * y * (1 + (math.sqrt(2 / math.pi) * (y + 0.044715 * y * y * y)).tanh())
    return x.mean()


@program(iterations=12, few=1, pays=True)
def priced_options(iterations):
    """Prices of European calls by the formula of Black and Scholes, and their means."""
    mt.manual_seed(1)
    spot, strike, years = 50 + 100 * mt.rand(300_000), 50 + 100 * mt.rand(300_000), 0.1 + 2 * mt.rand(300_000)

    def normal(x):
        return 0.5 * (1 + (x / math.sqrt(2)).erf())

    means = []
    for iteration in range(iterations):
        rate, sigma = 0.01 + 0.001 * iteration, 0.2 + 0.01 * iteration
        root = sigma * years.sqrt()
        d1 = ((spot / strike).log() + (rate + sigma * sigma / 2) * years) / root
        price = spot * normal(d1) - strike * (-rate * years).exp() * normal(d1 - root)
        means.append(price.mean().item())
    return means


@program(iterations=40, few=2, pays=True)
def simulated_prices(iterations):
    """An Asian option by Monte Carlo: paths of a geometric Brownian motion."""
    mt.manual_seed(2)
    log_price, total = mt.zeros(50_000), mt.zeros(50_000)
    for _ in range(iterations):
        log_price = log_price + 0.0001 + 0.02 * mt.randn(50_000)
        total = total + 100 * log_price.exp()
    return (total / iterations - 100).clamp(min=0).mean()


@program(iterations=40, few=1)
def big_reductions(iterations):
    """Sums, extremes and norms of a large matrix, along each dimension."""
    mt.manual_seed(3)
    x = mt.randn(1000, 1000)
    found = []
    for iteration in range(iterations):
        column = x[:, iteration]
        found.append((x.sum(dim=0).max() + x.amax(dim=1).sum() + x.std() + column.norm()).item())
    return found


@program(iterations=22, few=1, pays=True)
def chain_of_ten(iterations):
    """Ten pointwise operations in a row on half a million numbers."""
    mt.manual_seed(4)
    x = mt.randn(500_000)
    for _ in range(iterations):
        y = ((x * 1.1 + 0.1).tanh() - x.sin()).abs() * 0.7
        x = (y * y + 0.3).sqrt() - 0.5
    return x.sum(), x.max()


@program(iterations=9, few=1)
def products_of_matrices(iterations):
    """Products of large matrices, with little between them."""
    mt.manual_seed(5)
    a, b = mt.randn(512, 512) / 23, mt.randn(512, 512) / 23
    for _ in range(2 * iterations):
        a = (a @ b).relu() + 0.1
        a = a / a.norm()
    return a.sum()


@program(iterations=14, few=1, pays=True)
def focal_loss(iterations):
    """A loss written out over many pixels, with its gradient."""
    mt.manual_seed(6)
    logits = mt.randn(200_000, requires_grad=True)
    target = (mt.rand(200_000) < 0.1).float()
    for _ in range(iterations):
        p = logits.sigmoid()
        likely = p * target + (1 - p) * (1 - target)
        loss = -((1 - likely).square() * likely.clamp(min=1e-6).log()).mean()
        (g,) = mt.autograd.grad(loss, logits)
        with mt.no_grad():
            logits -= 1000 * g
    return loss


@program(iterations=12, few=1)
def sorted_columns(iterations):
    """Quantiles and ranks of large columns."""
    mt.manual_seed(7)
    found = []
    for iteration in range(iterations):
        x = mt.randn(100_000 + 1000 * iteration)
        ordered, places = x.sort()
        found.append((ordered[len(x) // 10] + ordered[-len(x) // 10] + places[:100].float().mean()).item())
    return found


@program(iterations=30, few=1, pays=True)
def large_softmax(iterations):
    """Probabilities over a large vocabulary, at several temperatures, and their entropies."""
    mt.manual_seed(8)
    logits = mt.randn(64, 4000)
    entropies = []
    for iteration in range(iterations):
        p = F.softmax(logits / (0.5 + 0.05 * iteration), dim=1)
        entropies.append(-(p * (p + 1e-9).log()).sum(dim=1).mean().item())
    return entropies
