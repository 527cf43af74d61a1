"""Programs of scientific computing: iterations over vectors, matrices and grids."""

import minitensor as mt
from benchmarks.programs.case import program


@program(iterations=900)
def power_iteration(iterations):
    """The largest eigenvalue of a matrix, read until it stays."""
    mt.manual_seed(0)
    a = mt.randn(200, 200)
    a = a @ a.T
    v, before = mt.ones(200), 0.0
    for _ in range(iterations):
        v = a @ v
        norm = v.norm()
        v = v / norm
        if abs(norm.item() - before) < 1e-9:
            break
        before = norm.item()
    return before, v.sum()


@program(iterations=500, pays=True)
def page_rank(iterations):
    """Ranks of the nodes of a random graph, without a look."""
    mt.manual_seed(1)
    links = (mt.rand(400, 400) < 0.02).float()
    links = links / links.sum(dim=0).clamp(min=1)
    rank = mt.ones(400) / 400
    for _ in range(iterations):
        rank = 0.85 * (links @ rank) + 0.15 / 400
        rank = rank / rank.sum()
    return rank.max(), rank.argmax()


@program(iterations=160, pays=True)
def bodies(iterations):
    """Sixty-four bodies that attract each other."""
    mt.manual_seed(2)
    x, v, m = mt.randn(64, 3), mt.zeros(64, 3), mt.rand(64)
    for _ in range(iterations):
        d = x.unsqueeze(0) - x.unsqueeze(1)
        r = (d.square().sum(dim=2) + 0.05).rsqrt()
        v = v + 0.001 * (d * (m * r * r * r).unsqueeze(2)).sum(dim=1)
        x = x + 0.001 * v
    return x.abs().sum(), v.square().sum()


@program(iterations=140, pays=True)
def diffusion(iterations):
    """Heat on a square plate by finite differences."""
    u = mt.zeros(256, 256)
    u[100:150, 100:150] = 1
    for _ in range(iterations):
        inner = u[1:-1, 1:-1]
        new = inner + 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner)
        u = mt.nn.functional.pad(new, (1, 1, 1, 1))
    return u.sum(), u.max()


@program(iterations=300, pays=True)
def waves(iterations):
    """A wave on a ring, its energy read now and then."""
    x = mt.linspace(0, 1, 4096)
    u = (-(x - 0.5).square() * 500).exp()
    before = u.clone()
    energies = []
    for iteration in range(iterations):
        u, before = 2 * u - before + 0.2 * (u.roll(1) - 2 * u + u.roll(-1)), u
        if iteration % 100 == 99:
            energies.append((u - before).square().sum().item())
    return energies


@program(iterations=550)
def conjugate_gradients(iterations):
    """Systems of equations, each solved until the residual is small."""
    mt.manual_seed(3)
    a = mt.randn(60, 60)
    a = a @ a.T + 60 * mt.eye(60)
    solved = mt.zeros(())
    for iteration in range(iterations // 20 + 1):
        b = mt.randn(60)
        x, r = mt.zeros(60), b
        p, rr = r, r @ r
        while rr.item() > 1e-8 * (1 + iteration % 3):
            ap = a @ p
            step = rr / (p @ ap)
            x, r = x + step * p, r - step * ap
            new = r @ r
            p, rr = r + new / rr * p, new
        solved += x.abs().sum()
    return solved


@program(iterations=800)
def kalman_filter(iterations):
    """Track a point that moves, from noisy places."""
    mt.manual_seed(4)
    f = mt.tensor([[1.0, 0.1], [0.0, 1.0]])
    h = mt.tensor([[1.0, 0.0]])
    q, r = 0.01 * mt.eye(2), mt.tensor([[0.25]])
    x, p = mt.zeros(2, 1), mt.eye(2)
    seen = mt.arange(iterations) * 0.05 + 0.5 * mt.randn(iterations)
    for t in range(iterations):
        x, p = f @ x, f @ p @ f.T + q
        gain = p @ h.T / (h @ p @ h.T + r)
        x = x + gain * (seen[t] - h @ x)
        p = p - gain @ h @ p
    return x, p


@program(iterations=500, pays=True)
def lorenz(iterations):
    """A thousand beginnings of Lorenz' system by the method of Runge and Kutta."""
    mt.manual_seed(5)
    s = mt.randn(3, 1000)

    def slope(s):
        x, y, z = s
        return mt.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    for _ in range(iterations // 2):
        k1 = slope(s)
        k2 = slope(s + 0.005 * k1)
        k3 = slope(s + 0.005 * k2)
        s = s + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + slope(s + 0.01 * k3))
    return s.mean(dim=1)


@program(iterations=90)
def integrals(iterations):
    """Trapezium rule with twice the points until the result stays."""
    found = []
    for iteration in range(iterations):
        before, n = 0.0, 16
        while n < 20000:
            x = mt.linspace(0, 2 + 0.01 * iteration, n + 1, dtype=mt.float64)
            now = mt.trapezoid((x * x).sin() * (-x).exp(), x).item()
            if abs(now - before) < 1e-7:
                break
            before, n = now, 2 * n
        found.append(now)
    return sum(found)
