"""torchdiffeq: every solver against the exact solution of a linear equation, and gradients against each other."""

import math

import pytest
import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

METHODS = {
    "dopri8": 1e-4, "dopri5": 1e-5, "bosh3": 1e-4, "fehlberg2": 1e-4, "adaptive_heun": 1e-3, "euler": 3e-2,
    "midpoint": 1e-3, "rk4": 1e-5, "heun3": 1e-4, "explicit_adams": 2e-2, "implicit_adams": 1e-3, "scipy_solver": 1e-4,
}  # fmt: skip


class Turning(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64))

    def forward(self, t, y):
        return y @ self.matrix.T


@pytest.mark.parametrize("method", METHODS)
def test_solutions(method):
    times = torch.linspace(0, 1, 51, dtype=torch.float64)
    options = {"options": {"solver": "RK45"}} if method == "scipy_solver" else {}
    with torch.no_grad():
        found = odeint(Turning(), torch.tensor([1.0, 0.0], dtype=torch.float64), times, method=method, **options)
    exact = torch.stack([times.cos(), times.sin()], 1)
    assert (found - exact).abs().max().item() < METHODS[method]


@pytest.mark.parametrize("method", [method for method in METHODS if method != "scipy_solver"])
def test_gradients(method):
    times = torch.linspace(0, 1, 21, dtype=torch.float64)
    found = []
    for solve in (odeint, odeint_adjoint):
        model, start = Turning(), torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
        solve(model, start, times, method=method)[-1].sum().backward()
        found.append(torch.cat([model.matrix.grad.flatten(), start.grad]))
    assert (found[0] - found[1]).abs().max().item() < 1e-1
    assert found[0].isfinite().all()


def test_events():
    time, _ = odeint_event(
        Turning(), torch.tensor([1.0, 0.0], dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64),
        event_fn=lambda t, y: y[0], method="dopri5", atol=1e-9, rtol=1e-9,
    )  # fmt: skip
    assert time.item() == pytest.approx(math.pi / 2, abs=1e-6)
