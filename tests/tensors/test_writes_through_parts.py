"""Writes in place through views of other dtypes: the parts of complex numbers, and complex numbers of parts."""

import numpy as np
import pytest

import minitensor as mt

STEP = 1e-6


def scale_real(y):
    y.real.mul_(3)


def set_imaginary(y):
    y.imag = mt.tensor([5.0, 6.0, 7.0, 8.0], dtype=mt.float64)


def add_own_square(y):
    y.imag.add_(y.real.clone() ** 2)


def scale_part_of_a_slice(y):
    y[1:3].real.mul_(4).add_(1)


def scale_pairs(y):
    mt.view_as_real(y).mul_(mt.tensor([2.0, 3.0], dtype=mt.float64))


def twice(y):
    y.real.mul_(2)
    y.mul_(1 + 1j)
    y.imag.exp_()


WRITES = [scale_real, set_imaginary, add_own_square, scale_part_of_a_slice, scale_pairs, twice]


def weighted(y):
    rng = np.random.default_rng(0)
    weights = mt.tensor(rng.normal(size=(*y.shape, 2)))
    parts = mt.view_as_real(y)
    return (parts * weights + (parts * parts) * 0.3).sum()


def loss_of_complex(write, z):
    y = z * (2 + 1j)
    write(y)
    return weighted(y)


def rotate(y):
    mt.view_as_complex(y).mul_(1j)


def rotate_rows(y):
    mt.view_as_complex(y)[1:].mul_(2 + 1j).real.add_(3)


def loss_of_real(write, x):
    y = x * 2
    write(y)
    return (y * y * mt.arange(8.0).reshape(4, 2).double()).sum()


def check_slope(function, x):
    rng = np.random.default_rng(1)
    direction = rng.normal(size=tuple(x.shape)) + (1j * rng.normal(size=tuple(x.shape)) if x.is_complex() else 0)
    (gradient,) = mt.autograd.grad(function(x.requires_grad_()), x)
    x = x.detach()
    there, back = (function(x + mt.tensor(direction * s)).item() for s in (STEP, -STEP))
    along = np.real(np.conj(gradient.numpy()) * direction).sum()
    assert along == pytest.approx((there - back) / (2 * STEP), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("recorded", [False, True])
def test_parts_of_complex_numbers(write, recorded):
    z = mt.tensor(np.random.default_rng(2).normal(size=(4, 2))).contiguous()
    z = mt.view_as_complex(z).clone()
    if recorded:
        with mt.jit_scope():
            check_slope(lambda z: loss_of_complex(write, z), z)
    else:
        check_slope(lambda z: loss_of_complex(write, z), z)


@pytest.mark.parametrize("write", [rotate, rotate_rows])
def test_complex_numbers_of_parts(write):
    check_slope(lambda x: loss_of_real(write, x), mt.tensor(np.random.default_rng(3).normal(size=(4, 2))))


@pytest.mark.parametrize("write", [rotate, rotate_rows, lambda y: y.mul_(3), lambda y: y[2].exp_()])
@pytest.mark.parametrize(
    "view",
    [
        mt.view_as_complex,
        lambda y: mt.view_as_complex(y[1:]),
        lambda y: mt.view_as_complex(y)[::2],
        lambda y: mt.view_as_complex(y.reshape(2, 2, 2).transpose(0, 1)),
        lambda y: mt.view_as_complex(y)[1:].conj(),
    ],
)
def test_complex_numbers_read_what_their_parts_became(view, write):
    """Of numbers that were there before: the view's history is made anew."""

    def loss(x):
        y = x * 2
        numbers = view(y)
        write(y)
        weights = mt.arange(1.0, numbers.numel() + 1).double().reshape(numbers.shape)
        return (numbers.real * weights + numbers.imag * numbers.imag * 0.5 * weights.flip(0)).sum()

    check_slope(loss, mt.tensor(np.random.default_rng(4).normal(size=(4, 2))))


def test_second_derivatives():
    z = mt.tensor([1 + 2j, 3 - 1j], requires_grad=True)

    def first(z):
        z = z if z.requires_grad else z.detach().requires_grad_()
        y = z * z
        y.real.mul_(3)
        return mt.autograd.grad((y * y.conj()).real.sum(), z, create_graph=True)[0]

    check_slope(lambda z: weighted(first(z)), z.detach())


def test_a_view_reads_the_new_history():
    z = mt.tensor([1 + 2j, 3 - 1j], dtype=mt.complex128, requires_grad=True)
    y = z * 2
    part = y.real
    part.mul_(5)
    assert (y.grad_fn.name(), part.grad_fn.name()) == ("torch::autograd::CopySlices", "AsStridedBackward0")
    part.sum().backward()
    assert z.grad.tolist() == [10, 10]


def test_leaves_and_saved_values_are_protected():
    z = mt.ones(3, dtype=mt.complex64, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        z.real.mul_(2)
    y = z * 2
    square = y * y
    y.imag.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.real.sum().backward()


def test_filling_what_shows_elements_twice():
    x = mt.zeros(1, 3).expand(2, 3)
    assert x.fill_(2).tolist() == [[2, 2, 2]] * 2
    assert x.zero_().tolist() == [[0, 0, 0]] * 2
    for write in (lambda: x.add_(1), lambda: x.copy_(mt.ones(2, 3)), lambda: x.__setitem__(slice(None), 1)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            write()
    x[0] = 1
    assert x.tolist() == [[1, 1, 1]] * 2


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda x, mask: x.masked_fill_(mask, 2), "masked_fill_"),
        (lambda x, mask: x.__setitem__(mask, 2), "masked_fill_"),
        (lambda x, mask: x.index_put_((mask.nonzero()[:, 0],), mt.ones(())), "index_put_"),
        (lambda x, mask: x.index_fill_(0, mt.tensor([1]), 2), "index_fill_"),
        (lambda x, mask: x.index_fill_(0, mt.tensor([1]), mt.tensor(2.0, requires_grad=True)), "index_fill_"),
    ],
)
def test_writing_some_of_what_shows_elements_twice_is_deprecated(write, name):
    x, mask = mt.zeros(1, 3).expand(3, 3), mt.eye(3, dtype=mt.bool)
    with pytest.warns(UserWarning, match=f"Use of {name} on expanded tensors is deprecated"):
        write(x, mask)
    meta = mt.zeros(1, 3, device="meta").expand(3, 3)
    assert meta.masked_fill_(mask.to("meta"), 2) is meta


def test_gradients_of_writing_some_of_what_shows_elements_twice():
    x, value = mt.ones(1, 3, requires_grad=True), mt.tensor(5.0, requires_grad=True)
    y = (x * 2).expand(2, 3)
    with pytest.warns(UserWarning, match="deprecated"):
        y.masked_fill_(mt.tensor([[True, False, False], [True, False, True]]), value)
    assert y.tolist() == [[5, 2, 5]] * 2
    y.sum().backward()
    assert x.grad.tolist() == [[0, 4, 0]]
    assert value.grad.item() == 4


@pytest.mark.at_once(reason="it counts what is allocated at a call")
def test_a_part_assigned_to_itself_is_not_copied():
    x = mt.zeros(1 << 10, 1 << 10)
    part, version = x[1:-1], x._version
    mt.reset_peak_memory_stats()
    before = mt.allocator_stats()["peak_allocated_bytes"]
    x[1:-1] = part
    assert mt.allocator_stats()["peak_allocated_bytes"] == before
    assert x._version == version + 1
    x[:-2] = part  # it overlaps, but is another part
    assert mt.allocator_stats()["peak_allocated_bytes"] > before


@pytest.mark.parametrize("recorded", [False, True])
def test_adding_to_a_part(recorded):
    def run():
        x, y = mt.ones(5, requires_grad=True), mt.full((3,), 2.0, requires_grad=True)
        z = x * 3
        z[1:-1] += y * 2
        z[1:-1] *= y
        (z * mt.arange(5.0)).sum().backward()
        return z.tolist(), x.grad.tolist(), y.grad.tolist()

    expected = [3, 14, 14, 14, 3], [0, 6, 12, 18, 12], [11, 22, 33]
    if recorded:
        with mt.jit_scope():
            assert run() == expected
    else:
        assert run() == expected
