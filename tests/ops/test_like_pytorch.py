"""Rules of PyTorch's that its own samples showed: how results lie in memory, and what is rounded in between."""

from __future__ import annotations

import math

import pytest

import minitensor as mt
import minitensor.nn.functional as F

HALVES = [mt.float16, mt.bfloat16]


def image(*sizes, rank=4):
    return mt.randn(*sizes).to(memory_format=mt.channels_last if rank == 4 else mt.channels_last_3d)


def is_image(x):
    return x.is_contiguous(memory_format=mt.channels_last if x.ndim == 4 else mt.channels_last_3d)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("count", [1, 2, 6])
@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1])
def test_images_one_after_the_other_have_their_channels_last(dim, count, recorded):
    xs = [image(2, 3, 4, 5) for _ in range(count)]
    expected = mt.cat([x.contiguous() for x in xs], dim)
    if recorded:
        with mt.jit_scope():
            got = mt.cat(xs, dim)
    else:
        got = mt.cat(xs, dim)
    assert is_image(got)
    assert not got.is_contiguous()
    assert got.equal(expected)


def test_volumes_and_images_of_several_dtypes_one_after_the_other():
    x, y = image(2, 3, 4, 5, 6, rank=5), image(2, 3, 4, 5)
    assert is_image(mt.cat([x, x], 1))
    assert is_image(mt.cat([y, y.double()], 1))
    assert mt.cat([y, y.contiguous()], 1).is_contiguous()
    assert mt.cat([y, mt.empty(0)], 1).is_contiguous()
    assert mt.cat([y.permute(1, 0, 3, 2)] * 2, 1).is_contiguous()


def test_the_gradient_of_images_one_after_the_other():
    x, y = image(2, 3, 4, 5).requires_grad_(), image(2, 1, 4, 5).requires_grad_()
    weights = mt.randn(2, 4, 4, 5)
    (mt.cat([x, y], 1) * weights).sum().backward()
    assert x.grad.equal(weights[:, :3])
    assert y.grad.equal(weights[:, 3:])


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", [mt.float32, mt.float16, mt.uint8])
def test_resized_images_have_their_channels_last(mode, dtype):
    x = (image(2, 3, 4, 5) * 20).abs().to(dtype)
    assert is_image(x)
    got = F.interpolate(x, (7, 8), mode=mode)
    assert is_image(got)
    assert got.equal(F.interpolate(x.contiguous(), (7, 8), mode=mode))


def test_resized_volumes_have_their_channels_last_and_one_node():
    x = image(2, 3, 4, 5, 6, rank=5).requires_grad_()
    got = F.interpolate(x, (7, 8, 9), mode="trilinear")
    assert is_image(got)
    assert got._base is None
    assert got.grad_fn.name() == "UpsampleTrilinear3DBackward0"


@pytest.mark.parametrize(
    ("mode", "last"), [("constant", True), ("reflect", True), ("replicate", True), ("circular", False)]
)
@pytest.mark.parametrize("counts", [(1, 1, 1, 1), (1, -1, 1, 1)])
def test_padded_images(mode, last, counts):
    x = image(2, 3, 4, 5)
    got = F.pad(x, counts, mode=mode)
    assert is_image(got) if last else got.is_contiguous()
    assert got.equal(F.pad(x.contiguous(), counts, mode=mode))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_what_is_only_cut_is_a_copy(mode):
    x = mt.randn(2, 3, 5, 5)
    got = F.pad(x, (-2, -1, -1, -1), mode=mode)
    assert got.equal(x[:, :, 1:4, 2:4])
    got.zero_()
    assert x.abs().sum() > 0
    assert bool((x != 0).all())
    assert got.is_contiguous()


def test_pooled_images_are_put_back_with_their_channels_last():
    x = image(2, 3, 4, 6)
    values, places = F.max_pool2d(x.contiguous(), 2, return_indices=True)
    got = F.max_unpool2d(values.to(memory_format=mt.channels_last), places, 2)
    assert is_image(got)
    assert got.equal(F.max_unpool2d(values, places, 2))


def test_powers_of_a_number_are_row_major():
    x = mt.rand(4, 5).T
    assert (2.0**x).stride() == (4, 1)
    assert mt.pow(2.0, x).stride() == (4, 1)
    assert (x**2.0).stride() == (1, 5)
    assert mt.pow(mt.tensor(2.0), x).stride() == (1, 5)


def test_products_without_a_sum_lie_as_their_operands():
    x, y = mt.randn(3, 2).T, mt.randn(4, 4).T
    got = mt.einsum("ij,Ab->ijAb", x, y)
    assert got.stride() == (16, 32, 1, 4)
    assert got.equal(x[:, :, None, None] * y)
    assert mt.einsum("ij,Ab->bAij", x, y).equal((x * y.T[:, :, None, None]).contiguous())
    assert mt.einsum("i,j->ij", mt.tensor([True, False]), mt.tensor([True, True])).tolist() == [[True] * 2, [False] * 2]


def test_hashes_are_row_major_copies():
    x = mt.arange(12).reshape(2, 1, 2, 3).permute(3, 2, 1, 0)
    assert mt.hash_tensor(x, -1).stride() == (2, 1, 1)
    one = mt.tensor(3.0, dtype=mt.float64)
    assert mt.hash_tensor(one).data_ptr() != one.data_ptr()


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_number_on_the_left_keeps_its_precision(dtype, recorded):
    x = mt.arange(1, 200, dtype=mt.float32).to(dtype)
    number = 2 * math.pi
    expected = (x.float() * mt.tensor(number)).to(dtype)
    if recorded:
        with mt.jit_scope():
            got = number * x
    else:
        got = number * x
    assert got.equal(expected)
    assert got.equal(x * number)
    assert not got.equal(mt.tensor(number, dtype=dtype) * x.reshape(1, -1)[0]) or dtype is mt.float32


@pytest.mark.parametrize("dtype", HALVES)
def test_equal_distances_in_halves_are_rounded_at_each_step(dtype):
    start, end = mt.tensor(4.3, dtype=dtype), mt.tensor(-3.0, dtype=dtype)
    step = (end - start) / mt.tensor(49, dtype=dtype)
    i = mt.arange(50, dtype=mt.float32).to(dtype)
    expected = mt.cat([(start + step * i)[:25], (end - step * (49 - i))[25:]])
    assert mt.linspace(4.3, -3, 50, dtype=dtype).equal(expected)
    assert mt.linspace(4.3, -3, 1, dtype=dtype).equal(start.reshape(1))
    assert mt.linspace(4.3, -3, 0, dtype=dtype).shape == (0,)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_addr_in_halves_is_rounded_at_each_step(dtype, recorded):
    mt.manual_seed(0)
    x, v, w = mt.randn(16, 8).to(dtype), mt.randn(16).to(dtype), mt.randn(8).to(dtype)
    beta, alpha = (mt.tensor(n, dtype=dtype) for n in (0.6, 0.2))
    expected = x * beta.expand(16, 8) + (v * alpha.expand(16)).unsqueeze(1) * w
    if recorded:
        with mt.jit_scope():
            got = mt.addr(x, v, w, beta=0.6, alpha=0.2)
    else:
        got = mt.addr(x, v, w, beta=0.6, alpha=0.2)
    assert got.equal(expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_second_order_at_the_edges_in_halves(dtype):
    mt.manual_seed(1)
    x = mt.randn(3, 64).to(dtype)
    got = mt.gradient(x, dim=0, edge_order=2)[0]
    assert got[0].equal(x[0] * -1.5 + x[1] * 2 - x[2] * 0.5)
    assert got[2].equal(x[0] * 0.5 - x[1] * 2 + x[2] * 1.5)


@pytest.mark.parametrize("ord", [-0.5, -1.0, -2.0])
def test_a_norm_of_a_negative_order_has_no_second_derivative_at_zero(ord):
    x = mt.tensor([0.0, 2.0], dtype=mt.float64, requires_grad=True)
    norm = mt.linalg.vector_norm(x, ord)
    (first,) = mt.autograd.grad(norm, x, create_graph=True)
    (second,) = mt.autograd.grad(first.sum(), x)
    assert norm.item() == 0
    assert first.tolist() == [0, 0]
    assert math.isnan(second[0].item())
    assert second[1].item() == 0


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    ("dtype", "number", "places", "expected"),
    [
        # A number keeps its precision, and the quotient is cut before it is rounded; a tensor's is rounded first.
        (mt.float16, 0.3, [7.5, 7.49609375, -2.69921875, 600.0], [24.0, 24.0, -8.0, 1999.0]),
        (mt.bfloat16, 0.3, [11.6875, 7.5, -2.703125, 600.0], [38.0, 24.0, -9.0, 2000.0]),
    ],
)
def test_quotients_by_a_number_are_cut_before_they_are_rounded(dtype, number, places, expected, recorded):
    x = mt.tensor(places, dtype=dtype)

    def quotients():
        one = mt.tensor([number], dtype=dtype)
        return [
            mt.div(x, number, rounding_mode="trunc"),
            x.clone().div_(number, rounding_mode="trunc"),
            mt.div(x, one, rounding_mode="trunc"),
            mt.div(x, one.expand(len(places)).clone(), rounding_mode="trunc"),
        ]

    if recorded:
        with mt.jit_scope():
            got = [q.tolist() for q in quotients()]
    else:
        got = [q.tolist() for q in quotients()]
    assert got[:2] == [expected] * 2
    near = float(mt.tensor(number, dtype=dtype))
    cut = [float(math.trunc(mt.tensor(p, dtype=mt.float32).div(near).item())) for p in places]
    assert got[2] == mt.tensor(cut, dtype=dtype).tolist()
    rounded = [mt.tensor(mt.tensor(p, dtype=mt.float32).div(near).item(), dtype=dtype).item() for p in places]
    assert got[3] == [math.trunc(q) for q in rounded]


@pytest.mark.torch
def test_quotients_that_are_cut_are_pytorchs():
    torch = pytest.importorskip("torch")
    for name in ("float16", "bfloat16"):
        torch.manual_seed(0)
        x, y = (torch.randn(4000) * 20).to(getattr(torch, name)), torch.randn(4000).to(getattr(torch, name))
        ours = [mt.tensor(t.float().numpy()).to(getattr(mt, name)) for t in (x, y)]
        for other, mine in ((0.3, 0.3), (7, 7), (y, ours[1]), (y[:1], ours[1][:1]), (y[0], ours[1][0])):
            wanted = torch.div(x, other, rounding_mode="trunc").float()
            assert mt.div(ours[0], mine, rounding_mode="trunc").float().tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: mt.xlogy(x, y.abs()),
        lambda x, y: mt.special.xlog1py(x, y.abs()),
        lambda x, y: mt.special.entr(x.abs()),
        lambda x, y: F.mse_loss(x, y, reduction="none"),
        lambda x, y: F.huber_loss(x, y, delta=0.3, reduction="none"),
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
        lambda x, y: x.reshape(20, -1).log_softmax(1),
        lambda x, y: mt.addmv(x[:20], x[:400].reshape(20, 20), y[:20]),
    ],
    ids=["xlogy", "xlog1py", "entr", "mse_loss", "huber_loss", "with_logits", "log_softmax", "addmv"],
)
def test_halves_are_rounded_once_where_pytorch_rounds_in_between(call, dtype):
    mt.manual_seed(0)
    x, y = mt.randn(1000).to(dtype), mt.randn(1000).to(dtype)
    assert call(x, y).equal(call(x.float(), y.float()).to(dtype))
