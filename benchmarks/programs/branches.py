"""Programs whose values decide what comes next."""

import math
import random

import minitensor as mt
from benchmarks.programs.case import program


@program(iterations=2500)
def value_branches(iterations):
    """A walk that turns where it leaves a disc."""
    x, v = mt.tensor([0.3, 0.1]), mt.tensor([0.07, 0.11])
    bounces = 0
    for _ in range(iterations):
        x = x + v
        if x.square().sum() > 1:
            v = (0.1 * v.flip(0) - x).sub(0.01) * 0.1
            bounces += 1
    return bounces, x, v


def grown(depth, generator):
    """A random binary tree of at most `depth` levels, as nested pairs of numbers."""
    if depth == 0 or generator.random() < 0.2:
        return generator.randrange(20)
    return grown(depth - 1, generator), grown(depth - 1, generator)


@program(iterations=55)
def trees(iterations):
    """Train a recursive net: another tree at each step."""
    mt.manual_seed(0)
    generator = random.Random(0)
    table = mt.randn(20, 16).requires_grad_()
    w = (mt.randn(32, 16) * 0.25).requires_grad_()

    def encoded(tree):
        if isinstance(tree, int):
            return table[tree]
        return (mt.cat([encoded(tree[0]), encoded(tree[1])]) @ w).tanh()

    for _ in range(iterations):
        loss = (encoded(grown(5, generator)).sum() - 1).square()
        loss.backward()
        with mt.no_grad():
            for p in (table, w):
                if p.grad is not None:
                    p -= 0.01 * p.grad
                    p.grad = None
    return loss, w.sum(), table.sum()


@program(iterations=450)
def newton(iterations):
    """Roots of cubics by Newton's method until the residual is small."""
    roots, steps = [], 0
    for iteration in range(iterations):
        c = mt.tensor([1.0, 0.5 + iteration * 0.01, -2.0, 0.3 - iteration * 0.02])
        x = mt.tensor(1.5)
        for _ in range(20):
            f = ((c[0] * x + c[1]) * x + c[2]) * x + c[3]
            if abs(f.item()) < 1e-4:
                break
            x = x - f / ((3 * c[0] * x + 2 * c[1]) * x + c[2])
            steps += 1
        roots.append(x.item())
    return sum(roots), steps


@program(iterations=70)
def line_search(iterations):
    """Gradient descent on Rosenbrock's function with Armijo's rule."""
    x = mt.tensor([-1.2, 1.0, 0.7, -0.4], requires_grad=True)

    def value(x):
        return (100 * (x[1:] - x[:-1].square()).square() + (1 - x[:-1]).square()).sum()

    for _ in range(iterations):
        f = value(x)
        (g,) = mt.autograd.grad(f, x)
        rate, slope, before = 1.0, g.square().sum().item(), f.item()
        with mt.no_grad():
            while value(x - rate * g).item() > before - 1e-4 * rate * slope and rate > 1e-8:
                rate /= 2
            x -= rate * g
    return value(x), x


@program(iterations=1500)
def simulated_annealing(iterations):
    """Order thirty towns by reversing parts of a tour."""
    mt.manual_seed(1)
    generator = random.Random(1)
    towns = mt.rand(30, 2)
    tour = mt.arange(30)

    def length(tour):
        p = towns[tour]
        return (p - p.roll(1, 0)).square().sum(dim=1).sqrt().sum().item()

    best = length(tour)
    for iteration in range(iterations):
        i, j = sorted(generator.sample(range(31), 2))
        other = mt.cat([tour[:i], tour[i:j].flip(0), tour[j:]])
        new = length(other)
        if new < best or generator.random() < math.exp((best - new) * 50 * (1 + iteration / 100)):
            tour, best = other, new
    return best, tour


@program(iterations=2200)
def metropolis(iterations):
    """Sample from a mixture of two Gaussians."""
    mt.manual_seed(2)
    x, accepted, total = mt.zeros(2), 0, mt.zeros(2)

    def energy(x):
        return -mt.logaddexp(-(x - 1).square().sum(), -(x + 1).square().sum())

    now = energy(x)
    for _ in range(iterations):
        other = x + 0.7 * mt.randn(2)
        new = energy(other)
        if (now - new).exp() > mt.rand(()):
            x, now = other, new
            accepted += 1
        total += x
    return accepted, total


KERNELS = (mt.sin, mt.expm1, mt.tanh, mt.abs, mt.sigmoid, mt.neg, mt.cos, mt.relu, mt.log1p, mt.atan)


@program(iterations=1700)
def random_chains(iterations):
    """Five operations at random on a small matrix, with a look after each chain."""
    generator = random.Random(3)
    x = mt.linspace(-1, 1, 256).view(16, 16)
    found = 0.0
    for _ in range(iterations):
        y = x
        for _ in range(5):
            y = generator.choice(KERNELS)(y.clamp(-0.9, 4))
        found += y.mean().item()
    return found


@program(iterations=22, few=1)
def gradient_checks(iterations):
    """Gradients beside finite differences, in float64."""
    mt.manual_seed(4)
    worst = 0.0
    for _ in range(iterations):
        x = mt.randn(12, dtype=mt.float64, requires_grad=True)

        def f(x):
            return (x.tanh() * x.sin() + x.square().sum().log()).sum()

        (g,) = mt.autograd.grad(f(x), x)
        with mt.no_grad():
            for i in range(12):
                step = mt.zeros(12, dtype=mt.float64)
                step[i] = 1e-6
                numeric = (f(x + step) - f(x - step)) / 2e-6
                worst = max(worst, abs((numeric - g[i]).item()))
    return worst


@program(iterations=500)
def bisection(iterations):
    """Quantiles of a distribution, each to within a given width."""
    found = []
    for iteration in range(iterations):
        low, high, p = mt.tensor(-6.0), mt.tensor(6.0), (iteration + 1) / (iteration + 2) - 0.4
        while high - low > 0.01 + 0.02 * (iteration % 3):
            middle = (low + high) / 2
            if 0.5 * (1 + mt.erf(middle / math.sqrt(2))) < p:
                low = middle
            else:
                high = middle
        found.append(low.item())
    return sum(found)
