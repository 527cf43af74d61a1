"""PyTorch's rules at the edges: strides of single elements, numbers that fit, operands that must agree."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import minitensor as mt


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda x: x[:, 1::3], (12, 12, 1)),
        (lambda x: x[::5], (60, 4, 1)),
        (lambda x: x[-1::3, ::4], (36, 16, 1)),
        (lambda x: x.unfold(0, 3, 2), (24, 4, 1, 12)),
        (lambda x: x[:1, :1].view(1, 4), (4, 1)),
        (lambda x: x[:, :1].select(0, 1).view(1, 4), (4, 1)),
        (lambda x: x[:, :, 1:2].select(0, 0).reshape(3, 1), (4, 1)),
        (lambda x: x[0, :, :1].unsqueeze(0).reshape(3, 1), (4, 1)),
        (lambda x: x[:, :, 1:2][0].unsqueeze(0).view(1, 3, 1), (12, 4, 1)),
    ],
)
def test_strides_of_views_with_single_elements(make, strides):
    x = mt.arange(36.0).view(3, 3, 4)
    assert make(x).stride() == strides


def test_strides_of_elementwise_results_with_single_elements():
    # Of equal strides the longer dimension is the inner one.
    assert mt.ones(9).as_strided((3, 1, 2), (1, 1, 1)).ceil().stride() == (2, 1, 1)
    # One operand has the dimension, another is broadcast along it.
    assert (mt.ones(3) + mt.ones(9).as_strided((1, 3, 3), (1, 3, 1)).transpose(1, 2)).stride() == (1, 1, 3)
    # Channels-last images, and what has no gaps, however it lies.
    assert mt.ones(99).as_strided((2, 3, 1, 5), (15, 1, 1, 3)).exp().stride() == (15, 1, 15, 3)
    assert mt.ones(99).as_strided((2, 1, 3), (1, 7, 2)).exp().stride() == (1, 7, 2)
    assert mt.ones(99).as_strided((2, 3, 1, 5), (15, 1, 1, 3)).clone().stride() == (15, 1, 1, 3)


def test_copy_takes_numbers():
    assert mt.ones(3).copy_(3).tolist() == [3, 3, 3]
    assert mt.ones(2, dtype=mt.int32).copy_(2.7).tolist() == [2, 2]
    assert mt.zeros(2).copy_(True, non_blocking=True).tolist() == [1, 1]
    x = mt.zeros(2)
    assert x.copy_(mt.ones(2)) is x
    assert x.tolist() == [1, 1]
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        mt.ones(2).copy_("a")


@pytest.mark.parametrize("value", [-2.5, -0.5, 255.5, 256.0, 300, -300])
def test_numbers_that_do_not_fit_are_refused(value):
    message = "value cannot be converted to type uint8_t without overflow"
    x = mt.zeros(2, dtype=mt.uint8)
    with pytest.raises(RuntimeError, match=message):
        x.fill_(value)
    with pytest.raises(RuntimeError, match=message):
        mt.full((2,), value, dtype=mt.uint8)
    with pytest.raises(RuntimeError, match=message):
        x.masked_fill_(mt.tensor([True, False]), value)
    with pytest.raises(RuntimeError, match="without overflow"):
        mt.tensor([value], dtype=mt.uint8)
    assert x.tolist() == [0, 0]


def test_negative_integers_wrap_in_unsigned_types():
    assert mt.zeros(2, dtype=mt.uint8).fill_(-1).tolist() == [255, 255]
    assert mt.zeros(1, dtype=mt.int8).fill_(-128.0).tolist() == [-128]
    with pytest.raises(RuntimeError, match="without overflow"):
        mt.zeros(1, dtype=mt.int8).fill_(-128.5)


def test_lerp_wants_one_dtype():
    x, half = mt.ones(2), mt.ones(2, dtype=mt.float16)
    for call in (
        lambda: mt.lerp(half, x, 0.5),
        lambda: half.lerp_(x, 0.5),
        lambda: mt.lerp(x, half, 0.5, out=mt.empty(2)),
    ):
        with pytest.raises(RuntimeError, match="for `end` but got dtype"):
            call()
    with pytest.raises(RuntimeError, match="for `weight` but got dtype"):
        mt.lerp(x, x, x.double())
    with pytest.raises(NotImplementedError):
        mt.lerp(mt.ones(2, dtype=mt.int64), mt.ones(2, dtype=mt.int64), 0.5)


def test_a_weight_without_dimensions_is_like_a_number():
    x, end = mt.tensor([1.0, 2.0], requires_grad=True), mt.tensor([3.0, 6.0])
    for dtype in (mt.float64, mt.float16):
        x.grad, weight = None, mt.tensor(0.25, dtype=dtype, requires_grad=True)
        found = mt.lerp(x, end, weight)
        assert (found.dtype, found.tolist()) == (mt.float32, [1.5, 3.0])
        found.sum().backward()
        assert x.grad.tolist() == [0.75, 0.75]
        assert (weight.grad.dtype, weight.grad.item()) == (dtype, 6.0)
        with mt.no_grad():
            assert mt.function(mt.lerp, jit_compile=True)(x, end, weight).tolist() == [1.5, 3.0]
            assert x.clone().lerp_(end, weight).tolist() == [1.5, 3.0]
    assert mt.lerp(end, x, mt.tensor(1)).tolist() == [1.0, 2.0]
    assert mt.lerp(mt.tensor(1.0), mt.tensor(3.0), mt.tensor(0.5, dtype=mt.float64)).dtype is mt.float64
    assert mt.lerp(mt.tensor([1, 2]), mt.tensor([3, 4]), mt.tensor(0.5)).tolist() == [2.0, 3.0]
    for weight in (mt.tensor(0.5j), 0.5j):
        y = end.clone()
        with pytest.raises(RuntimeError):
            y.lerp_(end * 2, weight)
        assert y.tolist() == [3.0, 6.0]


def test_a_weight_of_lerp_that_is_true_or_false():
    x, end = mt.tensor([1 + 2j]), mt.tensor([2 + 1j])
    for weight, expected in ((True, 2 + 1j), (False, 1 + 2j)):
        assert mt.lerp(x, end, mt.tensor(weight)).tolist() == [expected]
        assert x.clone().lerp_(end, mt.tensor(weight)).tolist() == [expected]
        assert mt.lerp(x.real, end.real, mt.tensor(weight)).tolist() == [expected.real]
    with pytest.raises(RuntimeError):
        mt.lerp(x, end, mt.tensor([True]))


class _Convertible:
    """What could be a number, and has operators of its own."""

    def __float__(self):
        return 2.0

    def __index__(self):
        return 2

    def __eq__(self, other):
        return "eq"

    def __gt__(self, other):
        return "gt"

    def __radd__(self, other):
        return "radd"

    def __rpow__(self, other):
        return "rpow"

    __hash__ = None


def test_only_numbers_are_operands():
    x, value = mt.ones(2), _Convertible()
    assert (x == value, x < value, x + value, x**value) == ("eq", "gt", "radd", "rpow")
    for other in (value, Fraction(1, 2), Decimal(2)):
        for call in (
            lambda other: x * other,
            lambda other: x.add(other),
            lambda other: x.fill_(other),
            lambda other: x.clamp(max=other),
            lambda other: mt.where(x > 0, x, other),
            lambda other: mt.full((2,), other),
            lambda other: x.__setitem__(0, other),
        ):
            with pytest.raises(TypeError):
                call(other)
        with pytest.raises(RuntimeError, match="Could not infer dtype"):
            mt.tensor([other])
    x += value
    assert x == "radd"


def test_numpy_numbers_are_operands():
    class Own(np.float64):
        pass

    for value in (np.float32(2), np.int8(2), np.float16(2), np.uint8(2), Own(2)):
        assert (mt.ones(2) * value).tolist() == [2.0, 2.0]
        assert mt.full((2,), value).tolist() == [2, 2]
    assert (mt.ones(2) * np.complex64(2j)).tolist() == [2j, 2j]
    assert (mt.ones(2) == np.bool_(True)).tolist() == [True, True]


def test_sources_of_index_add_and_index_copy():
    x, at = mt.ones(3, 2), mt.tensor([0])
    with pytest.raises(RuntimeError, match=r"Got self.shape = \[3, 2\] source.shape = \[1, 3\]"):
        x.index_add_(0, at, mt.ones(1, 3))
    with pytest.raises(RuntimeError, match=r"Got self.shape = \[3\] source.shape = \[\]"):
        mt.ones(3).index_add_(0, at, mt.tensor(1.0))
    with pytest.raises(RuntimeError, match="Indexing dim 1 is out of bounds of the source tensor with dim 0"):
        x.index_add_(-1, at, mt.tensor(1.0))
    with pytest.raises(IndexError, match="their dimensionality must match"):
        x.index_copy_(0, at, mt.ones(2, dtype=mt.float64))
    with pytest.raises(IndexError, match="When source is scalar, index should have one element"):
        mt.ones(3).index_copy_(0, mt.tensor([0, 1]), mt.tensor(1.0))
    with pytest.raises(RuntimeError, match="must have same slice shapes"):
        x.index_copy_(0, at, mt.ones(1, 3))
    assert x.index_copy_(0, at, mt.full((1, 2), 5.0)).tolist() == [[5, 5], [1, 1], [1, 1]]
    assert mt.ones(3).index_copy_(0, at, mt.tensor(2.0)).tolist() == [2, 1, 1]
    assert mt.ones(()).index_copy_(0, at, mt.tensor([2.0])).item() == 2


@pytest.mark.parametrize(
    "change", [lambda v: v.t_(), lambda v: v.unsqueeze_(0), lambda v: v.squeeze_(), lambda v: v.transpose_(0, 1)]
)
def test_views_of_leaves_keep_their_shape(change):
    x = mt.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        change(x.view(3, 2))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        change(x)
    with mt.no_grad():
        assert change(x.view(3, 2)).numel() == 6
    assert change((x * 2).view(3, 2)).requires_grad


def test_out_that_is_an_operand_is_not_resized():
    x = mt.ones(())
    with pytest.raises(RuntimeError, match=r"output with shape \[\] doesn't match the broadcast shape \[3\]"):
        mt.fmin(mt.ones(3), x, out=x)
    assert x.shape == ()


def test_out_of_what_has_no_gradient():
    x = mt.ones(2, requires_grad=True)
    assert mt.lt(x, 2, out=mt.empty(2, dtype=mt.bool)).tolist() == [True, True]
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        mt.mul(x, 2, out=mt.empty(2))


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_indices_that_are_broadcast_with_none_look_up_nothing():
    rows, none = mt.tensor([[5], [0]]), mt.tensor([False])
    assert mt.zeros(2, 1)[rows, none].shape == (2, 0)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        mt.zeros(2, 1)[rows, mt.tensor([True])]
