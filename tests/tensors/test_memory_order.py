"""The order in which results have their dimensions in memory: that of their operands, as in PyTorch."""

import numpy as np
import pytest

import minitensor as mt

RUNS = ["eager", "recorded", "compiled"]


def run(how, function, *arguments):
    if how == "recorded":
        with mt.jit_scope():
            return function(*arguments)
    return mt.function(function, jit_compile=True)(*arguments) if how == "compiled" else function(*arguments)


def cube():
    return mt.arange(24.0).reshape(2, 3, 4)


def channels_last():
    return mt.randn(2, 3, 4, 5).contiguous(memory_format=mt.channels_last)


@pytest.mark.parametrize("how", RUNS)
def test_elementwise_results_lie_as_their_operands(how):
    x = cube()
    moved = run(how, lambda x: x.permute(2, 0, 1).exp() + 1, x)
    assert moved.stride() == (1, 12, 4)
    np.testing.assert_allclose(moved.numpy(), np.exp(x.numpy()).transpose(2, 0, 1) + 1, rtol=1e-6)
    image = channels_last()
    result = run(how, lambda x: mt.where(x > 0, x * 2, mt.nn.functional.gelu(x)), image)
    assert result.is_contiguous(memory_format=mt.channels_last)


@pytest.mark.parametrize("how", RUNS)
def test_the_first_operand_that_tells_decides(how):
    x, y = mt.arange(6.0).reshape(2, 3), mt.arange(6.0).reshape(3, 2).t()
    assert run(how, lambda x, y: x + y, x, y).stride() == (3, 1)
    assert run(how, lambda x, y: y + x, x, y).stride() == (1, 2)
    row = mt.arange(3.0).expand(2, 3)  # tells nothing of the first dimension
    assert run(how, lambda row, y: row * y, row, y).stride() == (1, 2)
    assert run(how, lambda y: y + mt.ones(2, 1), y).stride() == (1, 2)


def test_gaps_close_and_broadcast_dimensions_fill():
    x = mt.zeros(4, 6, 8).permute(2, 1, 0)[::2, ::3]
    assert x.stride() == (2, 24, 48)
    assert (x + 1).stride() == (1, 4, 8)
    assert (mt.zeros(3, 1).expand(3, 4).t() + 1).stride() == (3, 1)


@pytest.mark.parametrize(
    "make",
    [
        mt.zeros_like, mt.ones_like, mt.empty_like, mt.rand_like, mt.randn_like, mt.clone,
        lambda x: mt.full_like(x, 3), lambda x: x.double(), lambda x: x.flip(0), lambda x: x.sort(1).values,
        lambda x: x.argsort(0), lambda x: mt.index_put(x, (mt.tensor([0]),), mt.tensor(1.0)),
        lambda x: mt.put(x, mt.tensor([0]), mt.tensor([1.0])), lambda x: x.select_scatter(x[0] * 2, 0, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("recorded", [False, True])
def test_what_keeps_the_format(make, recorded):
    x = cube().permute(2, 0, 1)
    result = run("recorded" if recorded else "eager", make, x)
    assert result.stride() == (1, 12, 4)
    row_major = make(x.contiguous())
    assert row_major.stride() == (6, 3, 1)
    if make not in (mt.empty_like, mt.rand_like, mt.randn_like):
        assert mt.equal(result, row_major)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.contiguous(), lambda x: x.clone(memory_format=mt.contiguous_format), lambda x: x.reshape(-1, 3),
        lambda x: mt.zeros_like(x, memory_format=mt.contiguous_format), lambda x: mt.permute_copy(x, (0, 1, 2)),
        lambda x: x.ravel(), lambda x: mt.view_copy(x, (4, 6)),
    ],
)  # fmt: skip
def test_what_is_row_major(make):
    assert make(cube().permute(2, 0, 1)).is_contiguous()


def test_gradients_through_reordered_results():
    x = mt.arange(6.0).reshape(2, 3).requires_grad_()
    y = (x.t() * x.t()).clone().flip(0)
    assert y.stride() == (1, 3)
    weights = mt.arange(6.0).reshape(3, 2)
    (y * weights).sum().backward()
    expected = 2 * x.detach().numpy() * weights.numpy()[::-1].T
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_meta_tensors_have_the_strides_too():
    x = mt.empty(2, 3, 4, device="meta").permute(2, 0, 1)
    assert (x + 1).stride() == mt.zeros_like(x).stride() == (1, 12, 4)


@pytest.mark.parametrize("recorded", [False, True])
def test_writing_in_place_to_a_reordered_result(recorded):
    def change(x):
        y = x.permute(2, 0, 1) * 2
        y.add_(1)
        y[0].mul_(-1)
        return y

    x = cube()
    expected = x.numpy().transpose(2, 0, 1) * 2 + 1
    expected[0] *= -1
    result = run("recorded" if recorded else "eager", change, x)
    assert result.stride() == (1, 12, 4)
    np.testing.assert_array_equal(result.numpy(), expected)


def test_a_hash_of_single_elements_is_no_view():
    x = mt.ones(2, 1, dtype=mt.int64)
    assert mt.hash_tensor(x, 1).data_ptr() != x.data_ptr()
