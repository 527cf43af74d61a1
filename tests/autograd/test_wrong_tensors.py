"""What takes tensors and gets something else says so."""

import pytest

import minitensor as mt
import minitensor.nn.functional as F
from minitensor.autograd import forward_ad
from minitensor.utils.hooks import RemovableHandle


def test_duals_are_of_tensors():
    assert forward_ad.unpack_dual(5) == (5, None)  # as in PyTorch: outside of a level nothing is looked at
    with forward_ad.dual_level(), pytest.raises(TypeError, match="must be Tensor, not int"):
        forward_ad.unpack_dual(5)


def test_scaled_losses_are_tensors():
    scaler = mt.amp.GradScaler("cpu")
    for wrong in ("x", ["x"], 5, [5]):
        with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
            scaler.scale(wrong)
    scaled = scaler.scale(x for x in (mt.ones(()), mt.ones(())))
    assert [float(x) for x in scaled] == [65536.0, 65536.0]


def test_a_bias_has_no_place_beside_a_vector_of_weights():
    for x, bias in [((1, 2), (2,)), ((1, 2), (1,)), ((2,), (2,)), ((1, 2), ())]:
        with pytest.raises(RuntimeError, match="mat2 must be a matrix, got 1-D tensor"):
            F.linear(mt.ones(x), mt.ones(2), mt.ones(bias))
    assert F.linear(mt.ones(2), mt.ones(2), mt.ones(())).tolist() == 3.0


@pytest.mark.parametrize("which", ["max", "min"])
def test_extremes_are_named_as_they_are_called(which):
    with pytest.raises(TypeError, match=rf"^{which}\(\): argument 'dim' \(position 2\) must be int, not str"):
        getattr(mt.ones(2), which)("a")


def test_integers_of_make_tensor_want_no_gradient():
    with pytest.raises(ValueError, match="not supported for boolean and integral dtypes"):
        mt.testing.make_tensor(2, dtype=mt.int64, device="cpu", requires_grad=True)


def test_handles_of_tensors_and_nodes_are_those_of_modules():
    x = mt.ones(2, requires_grad=True)
    for handle in (
        x.register_hook(lambda g: g),
        x.register_post_accumulate_grad_hook(lambda t: None),
        x.sum().grad_fn.register_hook(lambda *g: None),
        mt.nn.Linear(1, 1).register_forward_hook(lambda *a: None),
    ):
        assert isinstance(handle, RemovableHandle)
        handle.remove()
