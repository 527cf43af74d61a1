"""Derive the polynomials of ``csrc/kernels/cpu/math_*.h`` that ``fit_polynomials.py`` does not.

Weighted minimax fits like there, of functions that need mpmath (which nothing else here does). Prints the coefficients
from the lowest order up, rounded to the format, and the largest weighted error as a power of two::

    python scripts/fit_functions.py [float32|float64] [NAME]
"""

import sys
from collections.abc import Callable

import numpy as np
from mpmath import mp, mpf

mp.prec = 300
Function = Callable[[mpf], mpf]


def horner(coefficients: list[mpf], x: mpf) -> mpf:
    """Evaluate a polynomial."""
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def remez(f: Function, weight: Function, low: mpf, high: mpf, count: int) -> list[mpf]:
    """Find the ``count`` coefficients with the smallest maximum of ``weight * |f - p|``."""
    size = 24 * (count + 2)
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (size - 1)) for i in range(size)]
    values, weights = [f(x) for x in grid], [abs(weight(x)) for x in grid]
    points = [round(i * (size - 1) / count) for i in range(count + 1)]
    coefficients: list[mpf] = []
    for _ in range(10):
        system = mp.matrix(count + 1, count + 1)
        for i, p in enumerate(points):
            for k in range(count):
                system[i, k] = grid[p] ** k
            system[i, count] = (-1) ** i / weights[p]
        *coefficients, level = mp.lu_solve(system, mp.matrix([values[p] for p in points]))
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
        if len(peaks) <= count or worst <= abs(level) * mpf("1.001"):
            break
        points = peaks
    return coefficients


def erfcx_of(u: mpf) -> mpf:
    """(1 + 2a) exp(a^2) erfc(a) with a = 3.75 (1 + u) / (1 - u)."""
    a = mpf("3.75") * (1 + u) / (1 - u)
    return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)


def erfinv_of(w: mpf) -> mpf:
    """erfinv(x) / x with w = -log(1 - x^2)."""
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x if w else mp.sqrt(mp.pi) / 2


def problems(single: bool) -> dict[str, tuple[Function, Function, mpf, mpf, int]]:
    """Return for each polynomial the function, its weight, the interval, and the number of coefficients."""
    first = mpf("1e-8")  # fits in a squared argument start just above zero
    quarter = (mp.pi / 4 * mpf("1.0001")) ** 2
    eighth = mp.tan(mp.pi / 8) ** 2 * mpf("1.0001")
    root = mp.sqrt
    middle = mpf("2.5") if single else mpf("3.125")
    edge = mpf("-0.765") if single else mpf("-0.751")
    return {
        # 2^r = 1 + r p(r)
        "exp2": (
            lambda r: (mpf(2) ** r - 1) / r if r else mp.ln(2),
            lambda r: r, mpf("-0.5001"), mpf("0.5001"), 7 if single else 13,
        ),
        # sin(r) = r + r^3 p(r^2)
        "sin": (
            lambda z: (mp.sin(root(z)) / root(z) - 1) / z,
            lambda z: z * root(z) / mp.sin(root(z)), first, quarter, 4 if single else 7,
        ),
        # cos(r) = 1 + r^2 (-1/2 + r^2 p(r^2))
        "cos": (
            lambda z: ((mp.cos(root(z)) - 1) / z + mpf(1) / 2) / z,
            lambda z: z * z / mp.cos(root(z)), first, quarter, 3 if single else 7,
        ),
        # atan(t) = t + t^3 p(t^2)
        "atan": (
            lambda z: (mp.atan(root(z)) / root(z) - 1) / z,
            lambda z: z * root(z) / mp.atan(root(z)), first, eighth, 5 if single else 13,
        ),
        # asin(a) = a + a^3 p(a^2) up to 1/2
        "asin": (
            lambda z: (mp.asin(root(z)) / root(z) - 1) / z,
            lambda z: z * root(z) / mp.asin(root(z)), first, mpf("0.2501"), 5 if single else 13,
        ),
        # sinh(a) = a + a^3 p(a^2) up to 1
        "sinh": (
            lambda z: (mp.sinh(root(z)) / root(z) - 1) / z,
            lambda z: z * root(z) / mp.sinh(root(z)), first, mpf("1.0001"), 4 if single else 8,
        ),
        # erf(a) = a + a p(a^2) up to 1
        "erf_near": (
            lambda z: mp.erf(root(z)) / root(z) - 1,
            lambda z: root(z) / mp.erf(root(z)), first, mpf("1.0001"), 7 if single else 13,
        ),
        # erf(a) = 1 - exp(-p(a - 1)) beyond; to where it is 1
        "erf_far": (
            lambda t: -mp.log(mp.erfc(1 + t)),
            lambda t: mp.erfc(1 + t), mpf(0), mpf("2.95") if single else mpf(5), 8 if single else 20,
        ),
        # erf(x / sqrt(2)) = x p((x^2 - 16) / 16) up to sqrt(32), for gelu: float32 only
        "normal": (
            lambda u: mp.erf(root((u + 1) * 8)) / root((u + 1) * 16),
            lambda u: root((u + 1) * 16) / mp.erf(root((u + 1) * 8)),
            mpf("-0.99999999"), mpf(1), 18 if single else 1,
        ),
        # (1 + 2a) exp(a^2) erfc(a) in u = (a - 3.75) / (a + 3.75), a = 0 .. 28 (Shepherd and Laframboise, 1981)
        "erfc": (
            erfcx_of, lambda u: 1 / erfcx_of(u), mpf(-1), mpf("0.7639"), 12 if single else 27,
        ),
        # erfinv(x) = x p(w - middle) with w = -log(1 - x^2), for w = 0 .. 2 middle (Giles, 2012)
        "erfinv_near": (
            lambda u: erfinv_of(u + middle),
            lambda u: 1 / erfinv_of(u + middle), -middle, middle + mpf("0.001"), 9 if single else 24,
        ),
        # the same in sqrt(w) - middle; float64: up to 4, and in sqrt(w) - 5 beyond
        "erfinv_far": (
            lambda u: erfinv_of((u + (3 if single else mpf("3.25"))) ** 2),
            lambda u: 1 / erfinv_of((u + (3 if single else mpf("3.25"))) ** 2),
            edge, mpf("1.01") if single else mpf("0.751"), 9 if single else 19,
        ),
        "erfinv_farthest": (
            lambda u: erfinv_of((u + 5) ** 2),
            lambda u: 1 / erfinv_of((u + 5) ** 2), mpf("-1.001"), mpf("1.005"), 1 if single else 17,
        ),
        # log(m) = 2 s + s^3 (2/3 + s^2 p(s^2)) with s = (m - 1) / (m + 1)
        "pow_log": (
            lambda z: ((mp.log((1 + root(z)) / (1 - root(z))) / root(z) - 2) / z - mpf(2) / 3) / z,
            lambda z: z * z, first, mpf("0.0401"), 4 if single else 9,
        ),
        # exp(r) = 1 + r + r^2 p(r)
        "pow_exp": (
            lambda r: (mp.exp(r) - 1 - r) / r**2 if abs(r) > mpf("1e-30") else mpf(1) / 2,
            lambda r: r**2 / mp.exp(r), mpf("-0.3467"), mpf("0.3467"), 6 if single else 11,
        ),
    }  # fmt: skip


def main(dtype: str, only: str | None) -> None:
    """Print every table."""
    for name, (f, weight, low, high, count) in problems(dtype == "float32").items():
        if only not in (None, name):
            continue
        # These are computed in float64 also for float32.
        kind = np.float64 if name.startswith(("pow", "erfc")) else np.dtype(dtype).type
        coefficients = [float(kind(float(c))) for c in remez(f, weight, low, high, count)]
        rounded = [mpf(c) for c in coefficients]
        error = max(
            abs(weight(x) * (f(x) - horner(rounded, x))) for x in [low + (high - low) * i / 501 for i in range(502)]
        )
        print(f"{name} {dtype}: largest error 2^{float(mp.log(error, 2)):.2f}")
        print("".join(f"    {c.hex()},\n" for c in coefficients), end="", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "float32", sys.argv[2] if len(sys.argv) > 2 else None)
