"""`set_`, and what is made in inference mode otherwise than by an op: histories, flags, and later use.

Each test runs here and, where it is installed, in PyTorch, which must have the values that are stored.
"""

import copy
import io
import pickle

import numpy as np
import pytest

import minitensor

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=["minitensor", pytest.param("torch", marks=pytest.mark.torch)])
def lib(request):
    return minitensor if request.param == "minitensor" else pytest.importorskip("torch")


def numbers(lib, wanted=False):
    return lib.arange(6.0, dtype=lib.float64).requires_grad_(wanted)


WAYS = {
    "nothing": lambda t, source: t.set_(),
    "tensor": lambda t, source: t.set_(source),
    "storage": lambda t, source: t.set_(source.untyped_storage(), 1, (2, 2), (2, 1)),
    "part of a tensor": lambda t, source: t.set_(source, 1, (2,), (1,)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source_wants", [False, True])
def test_set_of_a_result_has_no_derivative(lib, way, source_wants):
    x = numbers(lib, True)
    t, source = x * 2, numbers(lib, source_wants)
    assert WAYS[way](t, source) is t
    assert t.requires_grad
    assert not t.is_leaf
    assert t._version == 1
    with pytest.raises(RuntimeError, match=r"derivative for .*set_ is not implemented"):
        (t * 3).sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("way", WAYS)
def test_set_from_what_wants_a_gradient(lib, way):
    t, source = numbers(lib), numbers(lib, True)
    WAYS[way](t, source)
    # Of a storage nobody knows whose it is.
    assert t.requires_grad == (way == "tensor")
    assert t.is_leaf == (way != "tensor")
    if way == "tensor":
        with pytest.raises(RuntimeError, match=r"derivative for .*set_ is not implemented"):
            t.sum().backward()


@pytest.mark.parametrize("way", WAYS)
def test_set_of_a_leaf_is_refused_unless_nothing_is_recorded(lib, way):
    t = numbers(lib, True)
    before = t * 1
    with pytest.raises(RuntimeError, match="leaf"):
        WAYS[way](t, numbers(lib))
    with lib.no_grad():
        WAYS[way](t, numbers(lib))
    assert t.is_leaf
    assert t.requires_grad
    (t * 3).sum().backward()
    assert t.grad.shape == t.shape
    assert t.grad.tolist() == lib.full_like(t, 3.0).tolist()
    del before


@pytest.mark.parametrize("way", WAYS)
def test_set_of_a_view(lib, way):
    x = numbers(lib, True)
    t = (x * 2)[1:5]
    WAYS[way](t, numbers(lib))
    assert t.requires_grad
    with pytest.raises(RuntimeError, match=r"derivative for .*set_ is not implemented"):
        t.sum().backward()
    leaf_view = x[1:5]
    with pytest.raises(RuntimeError, match="leaf"):
        WAYS[way](leaf_view, numbers(lib))


def test_set_of_a_view_from_what_wants_a_gradient_is_one_of_its_base(lib):
    base = numbers(lib)
    view = base[1:5]
    view.set_(numbers(lib, True))
    assert base.requires_grad
    with pytest.raises(RuntimeError, match=r"derivative for .*set_ is not implemented"):
        base.sum().backward()


def test_offsets_count_from_the_tensors_own(lib):
    part = numbers(lib)[2:]
    t = lib.zeros(0, dtype=lib.float64).set_(part, 1, (2,), (1,))
    assert t.tolist() == [3.0, 4.0]
    assert t.storage_offset() == 3
    assert lib.zeros(0, dtype=lib.float64).set_(part, -1, (1,), (1,)).tolist() == [1.0]


def test_a_storage_grows_as_far_as_it_is_shown(lib):
    source = numbers(lib)
    t = lib.zeros(0, dtype=lib.float64).set_(source.untyped_storage(), 4, (20,), (1,))
    assert t[:2].tolist() == [4.0, 5.0]
    assert len(source.untyped_storage()) == 24 * 8
    assert source.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_bits_of_another_dtype(lib):
    source = lib.tensor([1.0, 2.0], dtype=lib.float32)
    assert lib.zeros(0, dtype=lib.int32).set_(source, 0, (2,), (1,)).tolist() == [0x3F800000, 0x40000000]
    with pytest.raises(RuntimeError):
        lib.zeros(0, dtype=lib.int32).set_(source)


# ---- inference mode


def saved_and_loaded(lib, tensor):
    file = io.BytesIO()
    lib.save(tensor, file)
    file.seek(0)
    return lib.load(file)


MADE = {
    "deepcopy": lambda lib, t: copy.deepcopy(t),
    "copy": lambda lib, t: copy.copy(t),
    "pickle": lambda lib, t: pickle.loads(pickle.dumps(t)),
    "save": saved_and_loaded,
    "empty": lambda lib, t: lib.empty(2),
    "empty_like": lambda lib, t: lib.empty_like(t),
    "new_empty": lambda lib, t: t.new_empty(2),
    "zeros": lambda lib, t: lib.zeros(2),
    "new_tensor": lambda lib, t: t.new_tensor([1.0]),
    "from_numpy": lambda lib, t: lib.from_numpy(np.ones(2)),
    "frombuffer": lambda lib, t: lib.frombuffer(bytearray(8), dtype=lib.float32),
    "dlpack": lambda lib, t: lib.from_dlpack(t.detach()),
    "set_": lambda lib, t: lib.zeros(2, dtype=lib.float64).set_(t),
    "out": lambda lib, t: lib.add(t, 1, out=lib.empty(6, dtype=lib.float64)),
    "meta": lambda lib, t: t.to("meta"),
    "dtype": lambda lib, t: t.float(),
}


@pytest.mark.parametrize("way", MADE)
@pytest.mark.parametrize("wanted", [False, True])
def test_made_in_inference_mode(lib, way, wanted):
    t = numbers(lib, wanted)
    with lib.inference_mode():
        made = MADE[way](lib, t)
    assert made.is_inference()
    assert not t.is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        _ = made._version
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        (made * lib.ones(made.shape, dtype=made.dtype, device=made.device, requires_grad=True)).sum().backward()
    with pytest.raises(RuntimeError, match=r"(?i)in-?place"):
        made.add_(1)


@pytest.mark.parametrize("way", ["deepcopy", "copy", "pickle", "save", "empty", "from_numpy", "new_empty"])
def test_made_outside_of_what_was_made_inside(lib, way):
    with lib.inference_mode():
        t = numbers(lib)
    made = MADE[way](lib, t)
    assert not made.is_inference()
    assert made.add_(1)._version >= 0


KEPT = {
    "view": lambda lib, t: t.view(2, 3),
    "detach": lambda lib, t: t.detach(),
    "data": lambda lib, t: t.data,
    "as_strided": lambda lib, t: t.as_strided((2,), (1,), 0),
    "parameter": lambda lib, t: lib.nn.Parameter(t),
    "shared": lambda lib, t: t.share_memory_(),
    "set_": lambda lib, t: t.set_(lib.zeros(2, dtype=lib.float64)),
    "add_": lambda lib, t: t.add_(1),
}


@pytest.mark.parametrize("way", KEPT)
def test_what_it_is_stays(lib, way):
    t = numbers(lib)
    with lib.inference_mode():
        made = KEPT[way](lib, t)
    assert not made.is_inference()
    with lib.inference_mode():
        inside = numbers(lib)
        assert KEPT[way](lib, inside).is_inference()


def test_the_bits_of_a_tensor_are_of_the_mode(lib):
    t = lib.ones(2)
    with lib.inference_mode():
        assert t.view(lib.int32).is_inference()


def test_detach_in_place_is_not_asked_in_inference_mode(lib):
    x = numbers(lib, True)
    y = x * 2
    with lib.inference_mode():
        assert x.detach_() is x
        y.detach_()
        y[1:].detach_()
    assert x.requires_grad
    assert y.grad_fn is not None


def test_a_copy_of_an_inference_tensor_that_wants_a_gradient_has_a_history(lib):
    with lib.inference_mode():
        t = lib.ones(2, requires_grad=True)
    for made in (t.clone(), t.double()):
        assert not made.is_inference()
        assert made.requires_grad
        assert not made.is_leaf
    assert not lib.stack([t, t]).requires_grad


def test_a_view_that_a_function_says_has_no_gradient(lib):
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.view_as(x)
            ctx.mark_non_differentiable(y)
            return y

        @staticmethod
        def backward(ctx, gradient):
            raise AssertionError

    x = numbers(lib, True)
    (Same.apply(x) ** 2).sum().backward()
    assert x.grad is None


def test_a_refused_write_writes_nothing(lib):
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    x = numbers(lib, True)
    shown, written = Same.apply(x), x.relu()
    x.detach().mul_(2)
    with pytest.raises(RuntimeError, match="view"):
        written.mul_(shown)
    assert written._version == 0
    assert written.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_kept_gradient_of_a_result_that_got_another_shape_unseen(lib):
    y = numbers(lib, True) * 2
    y.retain_grad()
    with lib.no_grad():
        y.unsqueeze_(0)
    y.sum().backward()
    assert y.grad.tolist() == [1.0] * 6


@pytest.mark.parametrize("way", ["nothing", "tensor", "storage", "part of a tensor"])
def test_a_gradient_of_a_shape_that_a_leaf_had_is_refused(way):
    """PyTorch stores it, of a shape that isn't the leaf's."""
    x = minitensor.ones(3, requires_grad=True)
    y = x * 2
    with minitensor.no_grad():
        WAYS[way](x, minitensor.arange(5.0))
    assert x.shape != (3,)
    with pytest.raises(RuntimeError, match="set_"):
        y.sum().backward()
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == minitensor.full(x.shape, 3.0).tolist()


def test_a_leaf_is_not_resized(lib):
    x = lib.ones(3, requires_grad=True)
    with lib.no_grad(), pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        x.resize_(2)
    assert x.detach().resize_(2).shape == (2,)
