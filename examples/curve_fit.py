"""Fits a damped oscillation to noisy measurements by Newton's method, with exact second derivatives from autograd.

The curve is a * exp(-b t) * cos(w t + p) + c. The steps are damped as in Levenberg and Marquardt's method: a multiple
of the identity is added to the Hessian until the step lowers the error. It prints the parameters that it finds, with
their standard errors from the Hessian, beside those that the measurements were made with.
"""

import argparse
import sys

import numpy as np
from tqdm import tqdm

import minitensor as mt

NAMES = ("amplitude", "decay", "frequency", "phase", "offset")
TRUE = (2.0, 0.3, 4.0, 0.5, -0.7)
START = (1.2, 0.1, 3.8, 0.0, 0.0)
NOISE = 0.05


def curve(parameters: mt.Tensor, t: mt.Tensor) -> mt.Tensor:
    """The damped oscillation at times t."""
    amplitude, decay, frequency, phase, offset = parameters.unbind(0)
    return amplitude * mt.exp(-decay * t) * mt.cos(frequency * t + phase) + offset


def measurements(count: int, seed: int) -> tuple[mt.Tensor, mt.Tensor]:
    """Return times and noisy values."""
    generator = np.random.default_rng(seed)
    t = np.sort(generator.uniform(0, 6, count))
    a, b, w, p, c = TRUE
    return mt.from_numpy(t), mt.from_numpy(
        a * np.exp(-b * t) * np.cos(w * t + p) + c + NOISE * generator.normal(size=count)
    )


def derivatives(parameters: mt.Tensor, t: mt.Tensor, y: mt.Tensor) -> tuple[mt.Tensor, mt.Tensor, mt.Tensor]:
    """Return half the sum of squared errors, its gradient and its Hessian."""
    parameters = parameters.detach().requires_grad_()
    error = (curve(parameters, t) - y).square().sum() / 2
    (gradient,) = mt.autograd.grad(error, parameters, create_graph=True)
    rows = [mt.autograd.grad(g, parameters, retain_graph=True)[0] for g in gradient.unbind(0)]
    return error.detach(), gradient.detach(), mt.stack(rows)


def fit(args: argparse.Namespace) -> tuple[mt.Tensor, mt.Tensor, list[float]]:
    """Return the parameters, the Hessian there, and the error of every step."""
    t, y = measurements(args.points, args.seed)
    parameters = mt.tensor(START, dtype=mt.float64)
    error, gradient, hessian = derivatives(parameters, t, y)
    damping, errors = 1.0, []
    progress = tqdm(range(args.steps), unit="step", disable=None)
    for _ in progress:
        step = mt.linalg.solve(hessian + damping * mt.eye(len(START), dtype=mt.float64), gradient)
        trial = parameters - step
        outcome = derivatives(trial, t, y)
        if outcome[0].item() < error.item():
            parameters, (error, gradient, hessian) = trial, outcome
            damping /= 4
        else:
            damping *= 4
        errors.append(error.item())
        progress.set_postfix(error=f"{errors[-1]:.4g}", refresh=False)
    return parameters, hessian, errors


def main(argv: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=500, metavar="N", help="measurements (%(default)s)")
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="of Newton's method (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise (%(default)s)")
    parser.add_argument("--print_losses", action="store_true", help="print the error of every step, in hexadecimal")
    args = parser.parse_args(argv)
    if args.points <= len(START) or args.steps < 1:
        parser.error(f"--points must be more than {len(START)} and --steps at least 1")
    parameters, hessian, errors = fit(args)
    if args.print_losses:
        for error in errors:
            print(error.hex())
    deviation = (2 * errors[-1] / (args.points - len(START))) ** 0.5
    spread = mt.linalg.inv(hessian).diagonal().sqrt() * deviation
    for name, found, error, true in zip(NAMES, parameters.tolist(), spread.tolist(), TRUE, strict=True):
        print(f"{name:>9}: {found:8.4f} +- {error:.4f}  (true: {true})")
    print(f"noise: {deviation:.4f}  (true: {NOISE})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
