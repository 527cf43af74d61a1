"""Elements of an order, places in sorted rows and planes of other sizes: in kernels of GPUs, with the CPU's bits."""

import numpy as np
import pytest
from fuzz.programs import bits
from gpu_agrees import gpu_agrees

import minitensor as mt
from minitensor_jit.runtime.cuda.start import host_ops

pytestmark = pytest.mark.sampled(6)


def values(*dims, dtype="float32", nan=True):
    rng = np.random.default_rng(2)
    found = rng.integers(-9, 10, dims).astype(dtype)
    if nan and dtype.startswith("float"):
        found.flat[:: found.size // 5 + 1] = np.nan
        found.flat[1 :: found.size // 3 + 1] = -0.0
        found.flat[2 :: found.size // 4 + 1] = -np.inf
    return found


SHAPES = [((3, 41), 1), ((41, 3), 0), ((2, 30, 2), -2), ((2, 1), 1)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize(("dims", "dim"), SHAPES, ids=str)
def test_elements_of_an_order(dims, dim, dtype):
    x = values(*dims, dtype=dtype)
    n = dims[dim]
    gpu_agrees(lambda t: tuple(t.median(dim)), x)
    gpu_agrees(lambda t: tuple(t.nanmedian(dim, keepdim=True)), x)
    gpu_agrees(lambda t: tuple(t.kthvalue(n // 3 + 1, dim)), x)
    gpu_agrees(lambda t: tuple(t.mode(dim)), x)
    gpu_agrees(lambda t: tuple(t.mode(dim, keepdim=True)), values(*dims, dtype=dtype, nan=False))
    gpu_agrees(lambda t: t.median(), x)
    gpu_agrees(lambda t: t.nanmedian(), x)


def test_elements_of_the_order_of_a_long_row():
    x = values(1, 2500)
    gpu_agrees(lambda t: tuple(t.median(1)), x)
    gpu_agrees(lambda t: tuple(t.mode(1)), x)


def test_medians_where_all_are_nan_or_none():
    gpu_agrees(lambda t: tuple(t.median(1)), np.full((2, 6), np.nan, np.float32))
    gpu_agrees(lambda t: tuple(t.nanmedian(1)), np.full((2, 6), np.nan, np.float32))
    gpu_agrees(lambda t: tuple(t.mode(1)), np.full((2, 6), np.nan, np.float32))
    gpu_agrees(lambda t: tuple(t.nanmedian(1)), values(2, 6, nan=False))
    gpu_agrees(lambda t: t.median(), np.array(3, np.float32))


def test_quantiles_are_made_on_the_gpu():
    x = values(4, 33, nan=False)
    gpu_agrees(lambda t: t.quantile(0.3, dim=1), x)
    gpu_agrees(lambda t: t.nanquantile(0.5, dim=0), values(4, 33))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(("n", "m"), [(1, 5), (2, 5), (7, 40), (64, 3), (1000, 70)])
def test_places_in_sorted_rows(n, m, right):
    row = np.sort(values(n, nan=False))
    wanted = values(m)
    gpu_agrees(lambda s, v: mt.searchsorted(s, v, right=right), row, wanted)
    gpu_agrees(lambda s, v: mt.searchsorted(s, v, right=right, out_int32=True), row, wanted)
    gpu_agrees(lambda s, v: mt.bucketize(v, s, right=right), row, wanted.reshape(m, 1))
    rows = np.sort(values(3, n, nan=False), axis=1)
    gpu_agrees(lambda s, v: mt.searchsorted(s, v, right=right), rows, values(3, m))
    whole = np.arange(n) * 3
    gpu_agrees(lambda s, v: mt.searchsorted(s, v, right=right), whole, values(m, dtype="int32"))
    gpu_agrees(lambda s, v: mt.searchsorted(s, v, right=right), whole, wanted)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(9, 14), (3, 4), (5, 20), (5, 7)], ids=str)
def test_planes_of_other_sizes(size, mode, align, antialias):
    x, g = (
        np.random.default_rng(k).standard_normal((2, 3, *d)).astype(np.float32) for k, d in enumerate(((5, 7), size))
    )

    def with_gradient(t, weights):
        t = t.detach().requires_grad_()
        made = mt.nn.functional.interpolate(t, size=size, mode=mode, align_corners=align, antialias=antialias)
        return made.detach(), mt.autograd.grad(made, t, weights)[0]

    gpu_agrees(with_gradient, x, g)


@pytest.mark.parametrize(
    ("sizes", "mode", "factor"),
    [((2, 3, 9), "linear", 1.7), ((1, 2, 3, 4, 5), "trilinear", 2), ((2, 3, 9), "nearest", 2),
     ((1, 2, 5, 6), "nearest", 1.5), ((1, 2, 5, 6), "nearest-exact", 0.7), ((1, 2, 8, 6), "area", 0.5)],
    ids=str,
)  # fmt: skip
def test_planes_by_a_factor(sizes, mode, factor):
    x = np.random.default_rng(1).standard_normal(sizes).astype(np.float32)

    def with_gradient(t):
        t = t.detach().requires_grad_()
        made = mt.nn.functional.interpolate(t, scale_factor=factor, mode=mode)
        return made.detach(), mt.autograd.grad((made * made).sum(), t)[0]

    gpu_agrees(with_gradient, x)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_values_combined_into_places(reduce, itself, dtype):
    rng = np.random.default_rng(6)
    if dtype == "int32" and reduce == "mean":
        pytest.skip("the host divides integers and rounds down")
    x, src = values(5, 6, dtype=dtype), values(9, 6, dtype=dtype)
    index = rng.integers(0, 5, (9, 6))
    gpu_agrees(lambda t, i, s: t.scatter_reduce(0, i, s, reduce, include_self=itself), x, index, src)


@pytest.mark.parametrize(("reduce", "value"), [("amax", -np.inf), ("amin", np.inf)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinities_combined_into_places(reduce, value, dtype):
    x, src = np.zeros((2, 3), dtype), np.full((2, 3), value, dtype)
    gpu_agrees(lambda t, i, s: t.scatter_reduce(0, i, s, reduce, include_self=False), x, np.zeros((2, 3), int), src)


def test_numbers_at_equal_distances():
    for steps in (0, 1, 2, 7, 100):
        for dtype in (mt.float32, mt.float64, mt.float16, mt.bfloat16):
            expected = mt.linspace(-1.3, 7.1, steps, dtype=dtype)
            host_ops.clear()
            got = mt.linspace(-1.3, 7.1, steps, dtype=dtype, device="cuda")
            assert bits(expected.double().numpy()) == bits(got.cpu().double().numpy())
            assert steps == 0 or not host_ops


@pytest.mark.parametrize(("dims", "dim"), [((2500,), 0), ((2, 1100), 1), ((1500, 2), 0)], ids=str)
def test_integers_are_counted_up_in_pieces(dims, dim):
    x = np.random.default_rng(3).integers(-(1 << 62), 1 << 62, dims)
    gpu_agrees(lambda t: t.cumsum(dim), x)
    gpu_agrees(lambda t: t.cumsum(dim), (x % 7 == 0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("dims", "dim"), [((6, 21), 1), ((21, 6), 0), ((5,), 0)], ids=str)
def test_gradients_of_products_up_to_each_place(dims, dim, dtype):
    rng = np.random.default_rng(8)
    x, g = (rng.standard_normal(dims).astype(dtype) for _ in range(2))
    x.flat[3 :: max(x.size // 9, 2)] = 0
    x.flat[4] = -0.0
    g.flat[:: max(g.size // 5, 2)] = -0.0

    def gradient(t, weights):
        t = t.detach().requires_grad_()
        return mt.autograd.grad(t.cumprod(dim), t, weights)[0]

    gpu_agrees(gradient, x, g)
    gpu_agrees(gradient, np.abs(x) + 0.5, g)


def test_elements_go_where_a_mask_holds():
    rng = np.random.default_rng(9)
    for dims in ((7,), (3, 5), (40, 60)):
        x, mask = rng.standard_normal(dims).astype(np.float32), rng.random(dims) < 0.4
        gpu_agrees(mt.masked_scatter, x, mask, rng.standard_normal(mask.size).astype(np.float32))
        gpu_agrees(mt.masked_scatter, x, mask[-1:], rng.standard_normal(x.size).astype(np.float32))
    x = mt.zeros(5, device="cuda")
    with pytest.raises(RuntimeError) as said:
        x.masked_scatter(mt.ones(5, dtype=mt.bool, device="cuda"), mt.ones(4, device="cuda"))
    with pytest.raises(RuntimeError) as expected:
        mt.zeros(5).masked_scatter(mt.ones(5, dtype=mt.bool), mt.ones(4))
    assert str(said.value) == str(expected.value)
