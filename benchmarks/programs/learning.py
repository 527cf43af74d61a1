"""Programs that learn without modules: classical methods, and training written out."""

import minitensor as mt
from benchmarks.programs.case import program


@program(iterations=60)
def k_means(iterations):
    """Cluster points until no centre moves, from several beginnings."""
    mt.manual_seed(0)
    x = mt.randn(2000, 4)
    inertia = []
    for _ in range(iterations // 6 + 1):
        centres = x[mt.randperm(2000)[:8]]
        for _ in range(12):
            nearest = mt.cdist(x, centres).argmin(dim=1)
            new = mt.stack([x[nearest == k].mean(dim=0) for k in range(8)])
            moved = (new - centres).abs().max()
            centres = new
            if moved < 1e-3:
                break
        inertia.append((x - centres[nearest]).square().sum().item())
    return inertia


@program(iterations=500, pays=True)
def logistic_regression(iterations):
    """Gradients written out, no look until the end."""
    mt.manual_seed(1)
    x = mt.randn(2000, 20)
    y = (x @ mt.randn(20) > 0).float()
    w = mt.zeros(20)
    for _ in range(iterations):
        w = w - 0.5 * (x.T @ ((x @ w).sigmoid() - y)) / 2000
    return w, ((x @ w > 0) == (y > 0)).float().mean()


@program(iterations=350, pays=True)
def adam_by_hand(iterations):
    """Adam (Kingma and Ba, 2015) on a product of two matrices."""
    mt.manual_seed(2)
    target = mt.randn(48, 48)
    parameters = [(mt.randn(48, 16) * 0.3).requires_grad_(), (mt.randn(16, 48) * 0.3).requires_grad_()]
    first, second = [mt.zeros_like(p) for p in parameters], [mt.zeros_like(p) for p in parameters]
    for step in range(1, iterations + 1):
        loss = (parameters[0] @ parameters[1] - target).square().mean()
        gradients = mt.autograd.grad(loss, parameters)
        with mt.no_grad():
            for i, g in enumerate(gradients):
                first[i] = 0.9 * first[i] + 0.1 * g
                second[i] = 0.999 * second[i] + 0.001 * g * g
                rate = 0.01 * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
                parameters[i] -= rate * first[i] / (second[i].sqrt() + 1e-8)
    return loss


@program(iterations=220)
def small_tensors(iterations):
    """Two hundred tensors updated again and again, which nobody reads."""
    mt.manual_seed(3)
    tensors = [mt.randn(4 + i % 5) for i in range(200)]
    for _ in range(iterations // 4):
        for t in tensors:
            t.mul_(0.99).add_(0.01)
    return mt.cat(tensors).sum()


@program(iterations=130)
def numpy_loading(iterations):
    """Batches from NumPy, normalised there, one epoch after the other."""
    import numpy as np

    generator = np.random.default_rng(4)
    images = generator.integers(0, 255, (640, 256)).astype(np.float32)
    labels = mt.from_numpy(generator.integers(0, 10, 640))
    w = mt.zeros(256, 10, requires_grad=True)
    losses = []
    for iteration in range(iterations):
        chosen = generator.permutation(640)[:64]
        x = mt.from_numpy((images[chosen] - 127) / 128)
        loss = mt.nn.functional.cross_entropy(x @ w, labels[mt.from_numpy(chosen)])
        (g,) = mt.autograd.grad(loss, w)
        with mt.no_grad():
            w -= 0.05 * g
        if iteration % 10 == 0:
            losses.append(float(loss.detach().numpy()))
    return losses


@program(iterations=12, few=2)
def principal_components(iterations):
    """Principal components of data sets of several sizes."""
    mt.manual_seed(5)
    found = []
    for iteration in range(iterations):
        x = mt.randn(300 + 50 * iteration, 24) * mt.linspace(1, 3, 24)
        x = x - x.mean(dim=0)
        values = mt.linalg.eigvalsh(x.T @ x / (len(x) - 1))
        found.append((values[-3:].sum() / values.sum()).item())
    return [round(value, 4) for value in found]


@program(iterations=260)
def mixture_of_gaussians(iterations):
    """Expectation and maximisation in one dimension until the likelihood stays."""
    mt.manual_seed(6)
    x = mt.cat([mt.randn(300) - 2, mt.randn(200) * 0.5 + 1.5])
    mean, variance, weight = mt.tensor([-1.0, 0.0, 1.0]), mt.ones(3), mt.ones(3) / 3
    before = -1e9
    for _ in range(iterations):
        log_p = weight.log() - 0.5 * variance.log() - (x.unsqueeze(1) - mean).square() / (2 * variance)
        total = log_p.logsumexp(dim=1)
        r = (log_p - total.unsqueeze(1)).exp()
        n = r.sum(dim=0)
        mean = (r * x.unsqueeze(1)).sum(dim=0) / n
        variance = (r * (x.unsqueeze(1) - mean).square()).sum(dim=0) / n
        weight = n / 500
        now = total.sum().item()
        if now < before - 1:
            break
        before = now
    return mean, variance, weight, before


@program(iterations=45)
def q_learning(iterations):
    """Values of places of a grid, learnt from walks."""
    import random

    generator = random.Random(7)
    q = mt.zeros(16, 4)
    for _ in range(iterations):
        place = 0
        for _ in range(20):
            action = int(q[place].argmax().item()) if generator.random() < 0.6 else generator.randrange(4)
            new = max(0, min(15, place + (1, -1, 4, -4)[action]))
            reward = 1.0 if new == 15 else -0.01
            q[place, action] += 0.3 * (reward + 0.9 * q[new].max() - q[place, action])
            place = new
            if place == 15:
                break
    return q
