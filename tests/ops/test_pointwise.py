"""Pointwise functions against exact values, NumPy, and PyTorch's rules for dtypes, arguments and errors."""

import math

import numpy as np
import pytest

import minitensor as mt
import minitensor.nn.functional as F

# float32 from -10 to 10 and large; what NumPy computes in float64 is exact for it.
POINTS = np.concatenate([np.linspace(-10, 10, 4001), np.geomspace(1e-30, 1e30, 601)]).astype(np.float32)
NUMPY = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "exp2": np.exp2, "expm1": np.expm1, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
}  # fmt: skip
# Computed with mpmath.
EXACT = {
    "erfc": {-1.5: 1.9661051464753108, 0.3: 0.6713732405408726, 2.0: 0.004677734981047266, 9.0: 4.13703174651381e-37},
    "erfcx": {-2.0: 108.94090438997797, 0.5: 0.6156903441929259, 30.0: 0.01879588886141675},
    "erfinv": {-0.9: -1.1630871536766743, 0.25: 0.2253120550121781, 0.999: 2.3267537655135246},
    "ndtr": {-8.0: 6.220960574271784e-16, -0.5: 0.3085375387259869, 2.0: 0.9772498680518208},
    "log_ndtr": {-20.0: -203.91715537109727, -0.5: -1.1759117615936185, 3.0: -0.0013508099647481938},
    "ndtri": {0.001: -3.0902323061678136, 0.3: -0.5244005127080408, 0.9: 1.2815515655446006},
    "entr": {0.2: 0.3218875824868201, 3.0: -3.295836866004329},
    "gammaln": {-1.5: 0.860047015376481, 0.1: 2.252712651734206, 2.5: 0.2846828704729192, 40.0: 106.63176026064346},
    "digamma": {-1.25: 3.714139120213528, 0.5: -1.9635100260214235, 7.0: 1.8727843350984672},
    "i0": {0.5: 1.0634833707413236, 12.0: 18948.925349296307},
    "i0e": {3.0: 0.2430003541618254, 100.0: 0.03994437929909668},
    "i1": {-0.5: -0.2578943053908963, 12.0: 18141.348781638833},
    "i1e": {-3.0: -0.19682671329730086, 100.0: 0.03974415302513025},
    "modified_bessel_k0": {0.1: 2.4270690247020164, 1.5: 0.21380556264752573, 9.0: 5.0881312956459246e-05},
    "modified_bessel_k1": {0.1: 9.853844780870606, 1.5: 0.2773878004568438, 9.0: 5.363701637945195e-05},
    "scaled_modified_bessel_k0": {0.5: 1.5241093857739094, 50.0: 0.17680715585742934},
    "scaled_modified_bessel_k1": {0.5: 2.731009708211786, 50.0: 0.17856655855881556},
    "bessel_j0": {-1.0: 0.7651976865579666, 5.0: -0.1775967713143383, 30.0: -0.08636798358104021},
    "bessel_j1": {-1.0: -0.4400505857449335, 5.0: -0.32757913759146523, 30.0: -0.11875106261662294},
    "bessel_y0": {0.5: -0.44451873350670656, 5.0: -0.30851762524903376, 30.0: -0.11729573168666403},
    "bessel_y1": {0.5: -1.471472392670243, 5.0: 0.14786314339122683, 30.0: 0.08442557066174723},
    "airy_ai": {
        -12.0: -0.06655517505437313,
        -1.0: 0.5355608832923521,
        0.5: 0.23169360648083348,
        6.0: 9.947694360252889e-06,
    },
    "spherical_bessel_j0": {0.1: 0.9983341664682815, 3.0: 0.04704000268662241},
}  # fmt: skip


def ulps(got, want):
    """The distance in units in the last place of the exact values; 0 where both are the same special value."""
    with np.errstate(all="ignore"):
        spacing = np.spacing(np.abs(want.astype(got.dtype))).astype(np.float64)
        error = np.abs(got.astype(np.float64) - want) / spacing
        same = (got == want.astype(got.dtype)) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0, error)


@pytest.mark.parametrize("name", NUMPY)
def test_float32_is_within_two_places(name):
    with np.errstate(all="ignore"):
        want = NUMPY[name](POINTS.astype(np.float64))
        normal = ~(np.abs(want) < 1.2e-38)
    got = getattr(mt, name)(mt.tensor(POINTS)).numpy()
    assert ulps(got, want)[normal].max() <= 2


@pytest.mark.parametrize("name", NUMPY)
def test_float64_is_close_to_numpy(name):
    x = POINTS.astype(np.float64) * 1.37
    with np.errstate(all="ignore"):
        want = NUMPY[name](x)
    np.testing.assert_allclose(getattr(mt, name)(mt.tensor(x)).numpy(), want, rtol=2e-15, atol=0)


RISING = np.linspace(-6, 6, 77)
OTHER = np.cos(np.arange(77)) * 4
# Calls of two tensors, with NumPy's formula.
FORMULAS = {
    "frac": (lambda x, y: mt.frac(x), lambda x, y: x - np.trunc(x)),
    "fmod": (mt.fmod, np.fmod), "remainder": (mt.remainder, np.remainder), "hypot": (mt.hypot, np.hypot),
    "floor_divide": (mt.floor_divide, lambda x, y: np.floor(x / y)),
    "atan2": (mt.atan2, np.arctan2), "logaddexp": (mt.logaddexp, np.logaddexp),
    "logaddexp2": (mt.logaddexp2, np.logaddexp2),
    "lerp": (lambda x, y: mt.lerp(x, y, 0.3), lambda x, y: x + 0.3 * (y - x)),
    "addcmul": (lambda x, y: mt.addcmul(x, x, y, value=2), lambda x, y: x + 2 * x * y),
    "addcdiv": (lambda x, y: mt.addcdiv(x, x, y, value=2), lambda x, y: x + 2 * x / y),
    "leaky_relu": (lambda x, y: F.leaky_relu(x, 0.2), lambda x, y: np.where(x > 0, x, 0.2 * x)),
    "hardshrink": (lambda x, y: F.hardshrink(x, 1.5), lambda x, y: np.where(np.abs(x) > 1.5, x, 0)),
    "softshrink": (lambda x, y: F.softshrink(x, 1.5), lambda x, y: np.sign(x) * np.maximum(np.abs(x) - 1.5, 0)),
    "threshold": (lambda x, y: F.threshold(x, 1.0, 7.0), lambda x, y: np.where(x > 1, x, 7)),
    "hardswish": (lambda x, y: F.hardswish(x), lambda x, y: x * (x + 3).clip(0, 6) / 6),
    "hardsigmoid": (lambda x, y: F.hardsigmoid(x), lambda x, y: (x + 3).clip(0, 6) / 6),
    "elu": (lambda x, y: F.elu(x, 0.7), lambda x, y: np.where(x > 0, x, 0.7 * np.expm1(x))),
    "celu": (lambda x, y: F.celu(x, 0.7), lambda x, y: np.where(x > 0, x, 0.7 * np.expm1(x / 0.7))),
    "softplus": (lambda x, y: F.softplus(x, 2.0), lambda x, y: np.log1p(np.exp(2 * x)) / 2),
    "mish": (lambda x, y: F.mish(x), lambda x, y: x * np.tanh(np.log1p(np.exp(x)))),
    "silu": (lambda x, y: F.silu(x), lambda x, y: x / (1 + np.exp(-x))),
    "smooth_l1": (
        lambda x, y: F.smooth_l1_loss(x, y, reduction="none"),
        lambda x, y: np.where(np.abs(x - y) < 1, (x - y) ** 2 / 2, np.abs(x - y) - 0.5),
    ),
    "mse": (lambda x, y: F.mse_loss(x, y, reduction="none"), lambda x, y: (x - y) ** 2),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name, dtype):
    call, formula = FORMULAS[name]
    x, y = RISING.astype(dtype), OTHER.astype(dtype)
    wanted = formula(x.astype(np.float64), y.astype(np.float64))
    bound = 1e-5 if dtype == "float32" else 1e-12
    got = call(mt.tensor(x), mt.tensor(y)).numpy()
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=bound, atol=bound)


def test_angles_of_any_size_are_reduced():
    # sin of 10^22 and of 2^1000, from Payne and Hanek's paper and mpmath.
    x = mt.tensor([1e22, 2.0**1000], dtype=mt.float64)
    assert mt.sin(x).tolist() == pytest.approx([-0.8522008497671888, -0.15920170308624246], rel=1e-15)
    assert mt.sin(mt.tensor([3e38])).item() == pytest.approx(float(np.sin(np.float64(np.float32(3e38)))), rel=1e-6)


@pytest.mark.parametrize("name", EXACT)
def test_special_function(name):
    x = list(EXACT[name])
    for dtype, rel in ((mt.float64, 2e-14), (mt.float32, 3e-7)):
        got = getattr(mt.special, name)(mt.tensor(x, dtype=dtype)).tolist()
        inexact = 60 if dtype is mt.float32 else 1  # the functions that grow fast feel the rounding of x
        assert got == pytest.approx(list(EXACT[name].values()), rel=rel * inexact)


def test_erfcx_has_no_limit_before_its_own():
    """2 e^(x^2) is too large from -26.6287 on, e^(x^2) from -26.6417 on. Computed with mpmath."""
    x = [-26.628, -26.629, -26.64, -26.641, -26.642, -26.65, -26.7, -27.0, -np.inf]
    got = mt.special.erfcx(mt.tensor(x, dtype=mt.float64)).tolist()
    assert got[0] == pytest.approx(1.7286185065900297e308, rel=2e-14)
    assert got[1:] == [np.inf] * 8


def test_functions_of_two_numbers():
    two = lambda f, x, y: f(mt.tensor(x, dtype=mt.float64), mt.tensor(y, dtype=mt.float64)).item()  # noqa: E731
    zeta, small, large, third = 2.491542385511935, 0.376612372250418, 0.7224887541718611, -0.82879664423432
    assert two(mt.special.zeta, 2.5, 0.75) == pytest.approx(zeta, rel=1e-14)
    assert two(mt.igamma, 2.5, 1.75) == pytest.approx(small, rel=1e-14)
    assert two(mt.igammac, 300.0, 310.0) == pytest.approx(1 - large, rel=1e-12)
    assert mt.polygamma(2, mt.tensor(1.5, dtype=mt.float64)).item() == pytest.approx(third, rel=1e-14)


def test_powers_have_the_special_values_of_ieee_754():
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, np.inf, -np.inf, np.nan])
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    for dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            want = np.power(x.astype(dtype), y.astype(dtype))
        got = mt.pow(mt.tensor(x.astype(dtype)), mt.tensor(y.astype(dtype))).numpy()
        np.testing.assert_allclose(got, want, rtol=2e-7 if dtype is np.float32 else 1e-15)
        assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("name", ["zeta", "igamma", "igammac"])
def test_gradient_of_the_second_operand(name):
    function = getattr(mt, name, None) or getattr(mt.special, name)
    a, x = mt.tensor([1.5, 2.5], dtype=mt.float64), mt.tensor([0.75, 3.0], dtype=mt.float64, requires_grad=True)
    function(a, x).sum().backward()
    step = 1e-6
    numeric = (function(a, x.detach() + step) - function(a, x.detach() - step)) / (2 * step)
    assert x.grad.tolist() == pytest.approx(numeric.tolist(), rel=1e-7)
    with pytest.raises(NotImplementedError, match="is not implemented"):
        function(a.requires_grad_(), x).sum().backward()


def test_clamp_takes_numbers_and_tensors():
    x = mt.tensor([-2.0, 0.5, 3.0, float("nan")])
    low, high = mt.tensor([-1.0, 1.0, 0.0, 0.0]), mt.tensor(2.0)
    assert mt.clamp(x, 0, 1).tolist()[:3] == [0, 0.5, 1]
    assert mt.clip(x, min=low).tolist()[:3] == [-1, 1, 3]
    assert x.clamp(low, high).tolist()[:3] == [-1, 1, 2]
    assert x.clamp(low, high).isnan().tolist() == [False, False, False, True]
    assert x.clone().clamp_(max=high).tolist()[:3] == [-2, 0.5, 2]
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max'"):
        mt.clamp(x)
    with pytest.raises(TypeError, match="invalid combination"):
        mt.clamp(x, 0.0, high)


def test_division_rounds_as_asked():
    x, y = mt.tensor([7, -7, 7, -7]), mt.tensor([2, 2, -2, -2])
    assert mt.div(x, y, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    assert mt.div(x, y, rounding_mode="floor").tolist() == [3, -4, -4, 3]
    assert mt.div(x, y, rounding_mode="trunc").dtype is mt.int64
    assert x.div(y).dtype is mt.float32
    assert mt.tensor([7.5]).div_(2, rounding_mode="trunc").tolist() == [3]
    with pytest.raises(RuntimeError, match="rounding_mode"):
        mt.div(x, y, rounding_mode="up")


def test_round_takes_decimals():
    x = mt.tensor([1.25, -2.675, 1234.5], dtype=mt.float64)
    assert mt.round(x, decimals=1).tolist() == [1.2, -2.7, 1234.5]
    assert x.round(decimals=-2).tolist() == [0, 0, 1200]
    assert x.clone().round_().tolist() == [1, -3, 1234]


def test_frexp_takes_numbers_apart():
    x = mt.tensor([3.0, -0.25, 0.0, 1e-320], dtype=mt.float64)
    mantissa, exponent = mt.frexp(x)
    assert exponent.dtype is mt.int32
    assert (mantissa.tolist(), exponent.tolist()) == tuple(map(list, zip(*map(np.frexp, x.tolist()), strict=True)))
    assert mt.ldexp(mantissa, exponent).tolist() == x.tolist()


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_integers():
    x, y = mt.tensor([12, -18, 0]), mt.tensor([8, 12, 5])
    assert mt.gcd(x, y).tolist() == [4, 6, 5]
    assert mt.lcm(x, y).tolist() == [24, 36, 0]
    assert mt.bitwise_left_shift(x, 2).tolist() == [48, -72, 0]
    assert mt.bitwise_right_shift(x, 1).tolist() == [6, -9, 0]
    assert mt.fmod(x, mt.tensor([5, 5, 5])).tolist() == [2, -3, 0]
    with pytest.raises(ZeroDivisionError):
        mt.fmod(x, 0)
    for function in (mt.gcd, mt.lcm):
        with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
            function(mt.tensor([1.0]), mt.tensor([2.0]))


def test_shift_operators():
    x = mt.tensor([1, -5])
    assert ((x << 2).tolist(), (x >> 1).tolist(), (2 << mt.tensor([1, 3])).tolist()) == ([4, -20], [0, -3], [4, 16])
    x <<= 1
    assert x.tolist() == [2, -10]
    assert (x >> 70).tolist() == [0, -1]


def test_dtypes():
    whole = mt.tensor([1, 2])
    for name in ("sin", "erf", "log2", "lgamma", "i0", "sinc", "erfinv"):
        assert getattr(mt, name)(whole).dtype is mt.float32
    assert mt.atan2(whole, whole).dtype is mt.float32
    assert mt.float_power(whole, 2).dtype is mt.float64
    assert mt.signbit(whole).dtype is mt.bool
    for function in (mt.logaddexp, mt.hypot, mt.igamma, mt.nextafter):
        with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
            function(whole, whole)
    with pytest.raises(RuntimeError, match="different dtypes"):
        mt.heaviside(mt.tensor([1.0]), whole)


def test_neighbours_of_halves_are_halves():
    one = mt.tensor([1.0, 0.0, float("inf")], dtype=mt.float16)
    assert mt.nextafter(one, mt.zeros(3, dtype=mt.float16) - 1).tolist() == [1 - 2**-11, -(2**-24), 65504]


def test_isclose():
    a, b = mt.tensor([1.0, float("nan"), float("inf"), 1.0]), mt.tensor([1.0 + 1e-7, float("nan"), float("inf"), 2.0])
    assert mt.isclose(a, b).tolist() == [True, False, True, False]
    assert mt.isclose(a, b, equal_nan=True).tolist() == [True, True, True, False]
    with pytest.raises(RuntimeError, match="rtol must be greater"):
        mt.isclose(a, b, rtol=-1)


def test_nan_to_num():
    x = mt.tensor([float("nan"), float("inf"), -float("inf"), 1.5])
    assert mt.nan_to_num(x).tolist() == [0, np.finfo("f4").max, np.finfo("f4").min, 1.5]
    assert x.nan_to_num(1, 2, 3).tolist() == [1, 2, 3, 1.5]


def test_mvlgamma_and_polygamma_as_methods():
    x = mt.tensor([3.5], dtype=mt.float64)
    want = 0.5 * np.log(np.pi) + mt.lgamma(x).item() + mt.lgamma(x - 0.5).item()
    assert x.mvlgamma(2).item() == pytest.approx(want, rel=1e-14)
    assert x.polygamma(1).item() == mt.polygamma(1, x).item()
    with pytest.raises(RuntimeError, match="p has to be greater"):
        mt.mvlgamma(x, 0)


@pytest.mark.parametrize("dtype", [mt.float16, mt.float32, mt.float64], ids=str)
def test_log_of_the_logistic_function_at_its_ends(dtype):
    x = mt.tensor([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype=dtype)
    out = mt.nn.functional.logsigmoid(x).tolist()
    assert out[:2] == [0, -np.inf]
    assert np.isnan(out[2])
    assert out[3] == out[4] == mt.tensor(-np.log(2), dtype=dtype).item()
    one = mt.tensor([np.inf], dtype=dtype)
    loss = mt.nn.functional.binary_cross_entropy_with_logits(one, mt.tensor([0.5], dtype=dtype))
    assert loss.item() == np.inf


@pytest.mark.parametrize("function", [mt.logaddexp, mt.logaddexp2])
def test_shares_of_large_numbers_in_the_logarithm_of_a_sum(function):
    # The result is rounded to x: its difference from x says nothing.
    for size in (1e6, 1e8, 1e30, -1e30):
        x, y = (mt.tensor([size, size], requires_grad=True) for _ in range(2))
        function(x, y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist() == [0.5, 0.5]
    x, y = (mt.tensor([at, 2.0, -np.inf], requires_grad=True) for at in (np.inf, -np.inf))
    function(x, y).sum().backward()
    assert x.grad.tolist() == [1, 0.5, 0]
    assert y.grad.tolist() == [0, 0.5, 0]


def gradients(function, *values, order=1):
    given = [mt.tensor(value, dtype=mt.float64, requires_grad=True) for value in values]
    made = function(*given)
    for _ in range(order):
        made, *others = mt.autograd.grad(made.sum(), given, create_graph=True)
    return [t.tolist() for t in (made, *others)]


def test_gradients_of_clamp_where_bounds_meet():
    """PyTorch 2.13 has these: a tie is the input's, and where the lower bound is above the upper one this one's."""
    x = [0.0, 1.0, 3.0]
    assert gradients(lambda x, b: x.clamp(min=b), x, 1.0) == [[0, 1, 1], 1]
    assert gradients(lambda x, b: x.clamp(max=b), x, 1.0) == [[1, 1, 0], 1]
    assert gradients(lambda x, a, b: x.clamp(a, b), x, 1.0, 1.0) == [[0, 1, 0], 0, 1]
    assert gradients(lambda x, a, b: x.clamp(a, b), x, 2.0, 1.0) == [[0, 0, 0], 0, 3]
    assert mt.tensor([math.nan, -1.0]).clamp(min=mt.tensor(0.0)).isnan().tolist() == [True, False]


def test_gradients_at_nan_and_outside_of_the_domain():
    """PyTorch's: relu passes it on, logit has none outside of [0, 1], the extremes of a segment are what is NaN."""
    assert gradients(mt.relu, [math.nan, -1.0, 0.0, 2.0]) == [[1, 0, 0, 1]]
    assert mt.tensor(gradients(mt.logit, [-1.0, 2.0, math.nan, 0.5])).isnan().tolist() == [[True] * 3 + [False]]
    lengths = mt.tensor([2, 1])
    for kind in ("max", "min"):
        assert gradients(lambda x, k=kind: mt.segment_reduce(x, k, lengths=lengths), [math.nan, 2, 3.0]) == [[1, 0, 1]]


def test_second_derivatives_of_what_has_pieces():
    """What the other piece would overflow to is left out; a loss that is a square near 0 is curved there too."""
    functional = mt.nn.functional
    for function in (functional.elu, functional.selu, functional.celu):
        assert gradients(function, [1e30, 800.0, 1.0, 0.0], order=2) == [[0, 0, 0, 0]]
    curved = gradients(lambda x: functional.huber_loss(x, mt.zeros_like(x), reduction="none"), [0.0, 0.5, 2.0], order=2)
    assert curved == [[1, 1, 0]]


@pytest.mark.parametrize("eps", [0.1, 0.5, 0.6, 1.0])
def test_logit_brings_its_argument_into_bounds(eps):
    """The lower bound first, which is the larger one where eps is above a half: PyTorch's order."""
    x = mt.tensor([-1.0, 0.2, 0.55, 0.7, 2.0, float("nan")], dtype=mt.float64, requires_grad=True)
    expected, slopes = [], []
    for v in x.tolist():
        bounded = eps if v < eps else 1 - eps if v > 1 - eps else v
        ratio = math.inf if bounded >= 1 else bounded / (1 - bounded)
        expected.append(math.log(ratio) if ratio else -math.inf)
        slopes.append(1 / (v * (1 - v)) if bounded == v or math.isnan(v) else 0.0)
    y = mt.logit(x, eps)
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-14, atol=1e-15)
    (slope,) = mt.autograd.grad(y[mt.isfinite(y) | mt.isnan(y)].sum(), x)
    np.testing.assert_allclose(slope.numpy(), slopes, rtol=1e-14)
    assert x.detach().clone().logit_(eps).tolist() == pytest.approx(y.tolist(), nan_ok=True)
