"""Derive ``csrc/kernels/cpu/special/tables.h``: Chebyshev series of what the special functions are made of.

Each is expanded in u = -1 .. 1, which stands for an interval of the function's argument, with 60-digit arithmetic
(mpmath), and cut where the terms are below 2^-57 of the largest. The forms are classical: erfc as in Shepherd and
Laframboise (Math. Comp. 36, 1981), Bessel functions and Airy's with the leading behaviour divided out (DLMF 9.7, 10.17,
10.25, 10.40)::

    python scripts/fit_special.py > csrc/kernels/cpu/special/tables.h
"""

from collections.abc import Callable

from mpmath import mp, mpf

mp.dps = 60
Function = Callable[[mpf], mpf]
TERMS = 64


def chebyshev(f: Function) -> list[mpf]:
    """The coefficients of the series of ``f`` on -1 .. 1; the first is halved already."""
    nodes = [mp.cos(mp.pi * (j + mpf(1) / 2) / TERMS) for j in range(TERMS)]
    values = [f(u) for u in nodes]
    series = []
    for k in range(TERMS):
        total = mp.fsum(v * mp.cos(mp.pi * k * (j + mpf(1) / 2) / TERMS) for j, v in enumerate(values))
        series.append(total * (2 if k else 1) / TERMS)
    largest = max(map(abs, series))
    while abs(series[-1]) < largest * mpf(2) ** -57:
        series.pop()
    return series


def large(limit: int, f: Function) -> Function:
    """f(x) for x = limit .. infinity, in u with x = 2 limit / (u + 1)."""
    return lambda u: f(2 * limit / (u + 1))


def small(limit: int, f: Function) -> Function:
    """f(x) for x = 0 .. limit, in u = 2 (x / limit)^2 - 1."""
    return lambda u: f(limit * mp.sqrt((u + 1) / 2))


def squares(limit: int, f: Function) -> Function:
    """f(x) for x = limit .. infinity, in u = 2 (limit / x)^2 - 1."""
    return lambda u: f(limit / mp.sqrt((u + 1) / 2))


def hankel(order: int, limit: int, quadrature: bool) -> Function:
    """P and Q x / limit of J = sqrt(2 / (pi x)) (P cos t - Q sin t), t = x - (order / 2 + 1 / 4) pi (DLMF 10.17.3)."""

    def value(x: mpf) -> mpf:
        t = x - (mpf(order) / 2 + mpf(1) / 4) * mp.pi
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        scale = mp.sqrt(mp.pi * x / 2)
        if quadrature:
            return scale * (y * mp.cos(t) - j * mp.sin(t)) * x / limit
        return scale * (j * mp.cos(t) + y * mp.sin(t))

    return value


def airy_parts(quadrature: bool) -> Function:
    """P and Q z of Ai(-x) = (P cos(z - pi/4) + Q sin(z - pi/4)) / (sqrt(pi) x^(1/4)), z = 2/3 x^(3/2) (DLMF 9.7.9)."""

    def value(z: mpf) -> mpf:
        x = (3 * z / 2) ** (mpf(2) / 3)
        t = z - mp.pi / 4
        a, b = mp.airyai(-x), mp.airybi(-x)
        scale = mp.sqrt(mp.pi) * x ** (mpf(1) / 4)
        if quadrature:
            return scale * (a * mp.sin(t) + b * mp.cos(t)) * z
        return scale * (a * mp.cos(t) - b * mp.sin(t))

    return value


def airy_decay(z: mpf) -> mpf:
    """2 sqrt(pi) x^(1/4) e^z Ai(x), z = 2/3 x^(3/2) (DLMF 9.7.5)."""
    x = (3 * z / 2) ** (mpf(2) / 3)
    return 2 * mp.sqrt(mp.pi) * x ** (mpf(1) / 4) * mp.exp(z) * mp.airyai(x)


def inverse_erfc(q: mpf) -> mpf:
    """The x with erfc(x) = q."""
    guess = mp.sqrt(-mp.log(q)) * mpf("0.9") if q < mpf("0.1") else mp.erfinv(1 - q)
    return mp.findroot(lambda x: mp.log(mp.erfc(x)) - mp.log(q), guess)


def tail(low: str, high: str) -> Function:
    """The x with erfc(x) = exp(-t^2), in u for t = low .. high."""
    middle, half = (mpf(low) + mpf(high)) / 2, (mpf(high) - mpf(low)) / 2
    return lambda u: inverse_erfc(mp.exp(-((middle + half * u) ** 2)))


def tables() -> dict[str, tuple[str, Function]]:
    """What is expanded, by name, with what the comment says of it."""
    log = mp.log
    k = mpf("3.75")
    return {
        "erfcx": (
            "(1 + 2x) exp(x^2) erfc(x), x = 0 .. infinity, u = (x - 3.75) / (x + 3.75)",
            lambda u: (lambda x: (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x))(k * (1 + u) / (1 - u)),
        ),
        "erfinv_near": (
            "erfinv(y) / y, y = 0 .. 1/2, u = 8 y^2 - 1",
            lambda u: (lambda y: mp.erfinv(y) / y)(mp.sqrt((u + 1) / 8)),
        ),
        "erfinv_far": ("x with erfc(x) = exp(-t^2), t = 0.8 .. 3, u = (t - 1.9) / 1.1", tail("0.8", "3")),
        "erfinv_farther": ("the same, t = 3 .. 9, u = (t - 6) / 3", tail("3", "9")),
        "erfinv_farthest": ("the same, t = 9 .. 28, u = (t - 18.5) / 9.5", tail("9", "28")),
        "i0_small": ("exp(-x) I0(x), x = 0 .. 8, u = x / 4 - 1",
                     lambda u: mp.exp(-4 * (u + 1)) * mp.besseli(0, 4 * (u + 1))),
        "i1_small": ("exp(-x) I1(x) / x, x = 0 .. 8, u = x / 4 - 1",
                     lambda u: mp.exp(-4 * (u + 1)) * mp.besseli(1, 4 * (u + 1)) / (4 * (u + 1))),
        "i0_large": ("exp(-x) sqrt(x) I0(x), x = 8 .. infinity, u = 16 / x - 1",
                     large(8, lambda x: mp.exp(-x) * mp.sqrt(x) * mp.besseli(0, x))),
        "i1_large": ("exp(-x) sqrt(x) I1(x), x = 8 .. infinity, u = 16 / x - 1",
                     large(8, lambda x: mp.exp(-x) * mp.sqrt(x) * mp.besseli(1, x))),
        "k0_small": ("K0(x) + log(x / 2) I0(x), x = 0 .. 2, u = x^2 / 2 - 1",
                     small(2, lambda x: mp.besselk(0, x) + log(x / 2) * mp.besseli(0, x))),
        "k1_small": ("x (K1(x) - log(x / 2) I1(x)), x = 0 .. 2, u = x^2 / 2 - 1",
                     small(2, lambda x: x * (mp.besselk(1, x) - log(x / 2) * mp.besseli(1, x)))),
        "k0_large": ("exp(x) sqrt(x) K0(x), x = 2 .. infinity, u = 4 / x - 1",
                     large(2, lambda x: mp.exp(x) * mp.sqrt(x) * mp.besselk(0, x))),
        "k1_large": ("exp(x) sqrt(x) K1(x), x = 2 .. infinity, u = 4 / x - 1",
                     large(2, lambda x: mp.exp(x) * mp.sqrt(x) * mp.besselk(1, x))),
        "j0_small": ("J0(x), x = 0 .. 8, u = x^2 / 32 - 1", small(8, lambda x: mp.besselj(0, x))),
        "j1_small": ("J1(x) / x, x = 0 .. 8, u = x^2 / 32 - 1", small(8, lambda x: mp.besselj(1, x) / x)),
        "y0_small": ("Y0(x) - 2 / pi log(x) J0(x), x = 0 .. 8, u = x^2 / 32 - 1",
                     small(8, lambda x: mp.bessely(0, x) - 2 / mp.pi * log(x) * mp.besselj(0, x))),
        "y1_small": ("(Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x, x = 0 .. 8, u = x^2 / 32 - 1",
                     small(8, lambda x: (mp.bessely(1, x) - 2 / mp.pi * (log(x) * mp.besselj(1, x) - 1 / x)) / x)),
        "p0": ("P of order 0, x = 8 .. infinity, u = 128 / x^2 - 1", squares(8, hankel(0, 8, False))),
        "q0": ("Q x / 8 of order 0, x = 8 .. infinity, u = 128 / x^2 - 1", squares(8, hankel(0, 8, True))),
        "p1": ("P of order 1, x = 8 .. infinity, u = 128 / x^2 - 1", squares(8, hankel(1, 8, False))),
        "q1": ("Q x / 8 of order 1, x = 8 .. infinity, u = 128 / x^2 - 1", squares(8, hankel(1, 8, True))),
        "airy_small": ("Ai(x), x = -5 .. 2, u = (2x + 3) / 7", lambda u: mp.airyai((7 * u - 3) / 2)),
        "airy_decay": ("2 sqrt(pi) x^(1/4) exp(z) Ai(x), z = 2/3 x^(3/2) = 1.5 .. infinity, u = 3 / z - 1",
                       lambda u: airy_decay(3 / (u + 1))),
        "airy_p": ("P of Ai(-x), z = 7 .. infinity, u = 98 / z^2 - 1", squares(7, airy_parts(False))),
        "airy_q": ("Q z of Ai(-x), z = 7 .. infinity, u = 98 / z^2 - 1", squares(7, airy_parts(True))),
    }  # fmt: skip


def main() -> None:
    """Print the header."""
    print("// Chebyshev series, lowest order first; made by scripts/fit_special.py.\n#pragma once\n")
    print("namespace mt::cpu::special::tables {\n", flush=True)
    for name, (text, f) in tables().items():
        numbers = ", ".join(float(c).hex() for c in chebyshev(f))
        print(f"// {text}\ninline constexpr double {name}[] = {{{numbers}}};", flush=True)
    print("\n}  // namespace mt::cpu::special::tables")


if __name__ == "__main__":
    main()
