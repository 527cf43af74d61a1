"""Derive the polynomials of ``csrc/kernels/cpu/math/functions.h`` and ``minitensor_jit/codegen/emitter/math.py``.

Each is a weighted minimax fit (Remez exchange on a dense grid, 70-digit arithmetic), rounded to the target format.
Prints the coefficients from the lowest order up, and the largest relative error of the function as a power of two::

    python scripts/fit_polynomials.py [float32|float64] [exp|exp2r|tanh|log|sin|cos]
"""

import sys
from collections.abc import Callable
from decimal import Decimal, getcontext

import numpy as np

getcontext().prec = 70
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")
LN2 = Decimal(2).ln()
Function = Callable[[Decimal], Decimal]


def nearest(x: Decimal, dtype: str) -> float:
    """``x`` rounded to ``dtype``; by way of float64, whose extra rounding does not matter for a coefficient."""
    return float(np.dtype(dtype).type(float(x)))


def series(x: Decimal, first: int) -> Decimal:
    """``sin`` (first=1) or ``cos`` (first=0) of ``x`` by its Taylor series."""
    total, term, n = Decimal(0), (x if first else Decimal(1)), first
    while abs(term) > Decimal("1e-75"):
        total, term, n = total + term, -term * x * x / ((n + 1) * (n + 2)), n + 2
    return total


def tanh(x: Decimal) -> Decimal:
    """Hyperbolic tangent."""
    return 1 - 2 / ((2 * x).exp() + 1)


def horner(coefficients: list[Decimal], x: Decimal) -> Decimal:
    """Evaluate a polynomial."""
    total = Decimal(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def solve(rows: list[list[Decimal]]) -> list[Decimal]:
    """Gaussian elimination of an augmented matrix."""
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(n):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[n] / row[i] for i, row in enumerate(rows)]


def remez(f: Function, weight: Function, low: Decimal, high: Decimal, count: int) -> tuple[list[Decimal], Decimal]:
    """Find the ``count`` coefficients with the smallest maximum of ``weight * |f - p|``, and that maximum."""
    size = 40 * (count + 2)  # even, so that 0, where weights vanish, is no point of a symmetric interval
    angles = [series(PI * i / (size - 1), 0) for i in range(size)]
    grid = [(low + high) / 2 - (high - low) / 2 * a for a in angles]
    values, weights = [f(x) for x in grid], [abs(weight(x)) for x in grid]
    points = [round(i * (size - 1) / count) for i in range(count + 1)]
    for _ in range(12):
        rows = []
        for i, p in enumerate(points):
            rows.append([grid[p] ** k for k in range(count)] + [(-1) ** i / weights[p], values[p]])
        *coefficients, level = solve(rows)
        errors = [w * (v - horner(coefficients, x)) for x, v, w in zip(grid, values, weights, strict=True)]
        peaks: list[int] = []
        for i, e in enumerate(errors):  # the largest error of each run of one sign
            if peaks and (e < 0) == (errors[peaks[-1]] < 0):
                peaks[-1] = max(peaks[-1], i, key=lambda k: abs(errors[k]))
            else:
                peaks.append(i)
        while len(peaks) > count + 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        worst = max(map(abs, errors))
        if len(peaks) <= count or worst <= abs(level) * Decimal("1.0001"):
            break
        points = peaks
    return coefficients, worst


def fit(
    f: Function, weight: Function, low: Decimal, high: Decimal, count: int, dtype: str
) -> tuple[list[float], Decimal]:
    """Minimax coefficients rounded to ``dtype``, and the largest weighted error with them."""
    coefficients = [nearest(c, dtype) for c in remez(f, weight, low, high, count)[0]]
    rounded = [Decimal(c) for c in coefficients]
    points = [low + (high - low) * i / 1001 for i in range(1002)]
    return coefficients, max(abs(weight(x) * (f(x) - horner(rounded, x))) for x in points)


def problems(dtype: str) -> dict[str, tuple[Function, Function, Decimal, Decimal, int]]:
    """Return for each polynomial the function, its weight, the interval, and the number of coefficients."""
    single = dtype == "float32"
    half_ln2 = LN2 / 2 * Decimal("1.0001")
    third = Decimal(1) / 3
    two_pi = Decimal(nearest(2 * PI, dtype))
    # Fits in a squared argument start just above zero; turns go up to 1/8.
    first, last = Decimal("1e-8"), Decimal(1) / 64
    return {
        # exp(r) = 1 + r + r^2 p(r)
        "exp": (
            lambda r: (r.exp() - 1 - r) / r**2,
            lambda r: r**2 / (r.exp() - 1),
            -half_ln2, half_ln2, 5 if single else 11,
        ),
        # exp(2r) = 1 + 2r + r^2 p(r)
        "exp2r": (
            lambda r: ((2 * r).exp() - 1 - 2 * r) / r**2,
            lambda r: r**2 / (2 * r).exp(),
            -half_ln2 / 2, half_ln2 / 2, 5 if single else 10,
        ),
        # tanh(a) = a + a^3 p(a^2) for a up to 0.6
        "tanh": (
            lambda z: (tanh(z.sqrt()) / z.sqrt() - 1) / z,
            lambda z: z * z.sqrt() / tanh(z.sqrt()),
            first, Decimal("0.6") ** 2, 5 if single else 11,
        ),
        # log(1 + f) = f + f^2 (-1/2 + f p(f))
        "log": (
            lambda f: ((1 + f).ln() - f + f * f / 2) / f**3,
            lambda f: f**3 / (1 + f).ln(),
            -third, third, 8 if single else 19,
        ),
        # sin(2 pi r) = r (2 pi + p(r^2)), where 2 pi is rounded and p has the rest of it
        "sin": (
            lambda z: series(2 * PI * z.sqrt(), 1) / z.sqrt() - two_pi,
            lambda z: z.sqrt() / series(2 * PI * z.sqrt(), 1),
            first, last, 5 if single else 8,
        ),
        # cos(2 pi r) = 1 + r^2 p(r^2)
        "cos": (
            lambda z: (series(2 * PI * z.sqrt(), 0) - 1) / z,
            lambda z: z / series(2 * PI * z.sqrt(), 0),
            first, last, 4 if single else 7,
        ),
    }  # fmt: skip


def main(dtype: str, only: str | None) -> None:
    """Print every table."""
    for name, problem in problems(dtype).items():
        if only in (None, name):
            coefficients, error = fit(*problem, dtype)
            print(f"{name} {dtype}: largest error 2^{float(error.ln() / LN2):.2f}")
            print("".join(f"    {c.hex()},\n" for c in coefficients), end="")
    if only is None:
        # x - n ln 2 in two steps: the first part has so few bits that n times it is exact.
        bits = 15 if dtype == "float32" else 42
        high = (LN2 * 2**bits).to_integral_value() / 2**bits
        low, log2e, two_pi = (nearest(c, dtype) for c in (LN2 - high, 1 / LN2, 2 * PI))
        print(f"ln2_high {float(high).hex()}, ln2_low {low.hex()}, log2e {log2e.hex()}, two_pi {two_pi.hex()}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "float32", sys.argv[2] if len(sys.argv) > 2 else None)
