"""Default types and devices, the meta device, sizes, and tensors without dimensions where ints are wanted."""

import operator
import pickle

import numpy as np
import pytest

import minitensor as mt

# ---- default types and devices


def test_default_dtype():
    before = mt.get_default_dtype()
    try:
        mt.set_default_dtype(mt.float64)
        assert mt.tensor([1.0]).dtype is mt.float64
        assert mt.tensor([1j]).dtype is mt.complex128
        mt.set_default_dtype(mt.float16)
        assert mt.tensor([1.0]).dtype is mt.float16
        assert mt.ones(1, dtype=mt.int32).exp().dtype is mt.float16
        with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
            mt.set_default_dtype(mt.int32)
    finally:
        mt.set_default_dtype(before)


def test_devices():
    assert (str(mt.device("cuda", 0)), repr(mt.device("cpu:0"))) == ("cuda:0", "device(type='cpu', index=0)")
    assert mt.device(type="meta").type == "meta"
    assert mt.device("jit_gpu:1").index == 1
    assert pickle.loads(pickle.dumps(mt.device("cuda:1"))) == mt.device("cuda:1")
    for text, message in (
        ("foo", "device type at start of device string: foo"),
        ("cpu:-1", "Invalid device string: 'cpu:-1'"),
        ("cuda:x", "Invalid device string: 'cuda:x'"),
        (0, "Cannot access accelerator device when none is available"),
    ):
        with pytest.raises(RuntimeError, match=message):
            mt.device(text)


def test_device_as_context():
    assert mt.get_default_device() == mt.device("cpu")
    with mt.device("meta"):
        assert mt.get_default_device() == mt.device("meta")
        assert {t.device.type for t in (mt.ones(2), mt.tensor([1]), mt.arange(3), mt.empty(2), mt.randn(2))} == {"meta"}
        assert mt.from_numpy(np.ones(2)).device.type == "cpu"
        with mt.device("cpu"):
            assert mt.ones(2).device.type == "cpu"
        assert mt.zeros_like(mt.ones(2, device="cpu")).device.type == "cpu"
    assert mt.ones(2).device.type == "cpu"
    mt.set_default_device("meta")
    try:
        assert mt.zeros(2).device.type == "meta"
    finally:
        mt.set_default_device(None)
    assert mt.zeros(2).device.type == "cpu"


def test_no_accelerator():
    assert not mt.cuda.is_available()
    assert mt.cuda.device_count() == 0
    assert not mt.accelerator.is_available()
    assert mt.accelerator.device_count() == 0
    assert mt.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        mt.accelerator.current_device_index()
    for call in (
        mt.cuda.current_device,
        lambda: mt.ones(2, device="cuda"),
        lambda: mt.tensor([1.0], device="cuda"),
        lambda: mt.ones(2).cuda(),
        lambda: mt.ones(2).to("cuda:0"),
        lambda: mt.empty(2, device="cuda"),
    ):
        with pytest.raises(AssertionError, match="device cuda can't be used: the package pycuda is not installed"):
            call()


def test_meta_tensors_have_no_data():
    x = mt.ones(2, dtype=mt.complex64, device="meta")
    assert (x * x).abs().dtype is mt.float32
    assert x.real.shape == (2,)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        x.to("cpu")
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.numpy()
    for dtype in (None, mt.complex128):
        assert mt.tensor(x, dtype=dtype).is_meta
        assert mt.tensor(x, dtype=dtype).dtype is (dtype or x.dtype)
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            mt.tensor(x, dtype=dtype, device="cpu")


def test_sizes_are_ints():
    class Three:
        def __index__(self):
            return 3

    given = [True, np.int64(2), Three(), mt.tensor(4), mt.tensor([[5]], dtype=mt.uint8)]
    size = mt.Size(given)
    assert size == (1, 2, 3, 4, 5)
    assert {type(n) for n in size} == {int}
    assert mt.Size(mt.tensor([1, 2])) == (1, 2)
    for wrong in (1.5, "a", None, mt.tensor(2.0)):
        with pytest.raises(TypeError, match=r"takes an iterable of 'int'.*item 1 is"):
            mt.Size([1, wrong])
    with pytest.raises(ValueError, match="Overflow"):
        mt.Size([2**63])
    with pytest.raises(mt.InvalidArgumentError, match="can't be compiled: it needs a value"):
        mt.function(lambda n: mt.zeros(2).expand(mt.Size([n, 2])), jit_compile=True)(mt.tensor(3))


def test_sizes_stay_sizes():
    size = mt.ones(2, 3).shape
    longer, before = operator.add(size, (1,)), operator.add((1,), size)
    for made in (longer, before, size[:1], size * 2, pickle.loads(pickle.dumps(size))):
        assert type(made) is mt.Size
    assert (longer, before, size[1:], size * 2) == ((2, 3, 1), (1, 2, 3), (3,), (2, 3, 2, 3))
    assert repr(size) == "minitensor.Size([2, 3])"
    assert size.numel() == 6
    assert size[0] == 2


def test_a_tensor_without_dimensions_is_an_int_among_sizes_and_dims():
    x, two, zero = mt.arange(6.0).view(2, 3), mt.tensor(2), mt.tensor(0)
    assert x.view(two, 3).shape == x.reshape(two, -1).shape == x[0].expand(two, 3).shape == (2, 3)
    assert x.sum(dim=zero).tolist() == [3, 5, 7]
    assert x.flip(zero).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert x.roll(two, 1).tolist() == [[1, 2, 0], [4, 5, 3]]
    assert x.permute(zero + 1, 0).shape == (3, 2)
    assert x[:1].squeeze(zero).shape == (3,)
    with pytest.raises(TypeError, match="an int, got a floating-point tensor"):
        x.sum(dim=mt.tensor(0.0))
    with pytest.raises(mt.InvalidArgumentError, match="can't be compiled: it needs a value"):
        mt.function(lambda x, n: x.flip(n), jit_compile=True)(x, zero)


def test_a_tensor_without_dimensions_is_an_int_where_composites_take_one():
    x, one, two, zero = mt.arange(6.0).view(2, 3), mt.tensor(1), mt.tensor(2), mt.tensor(0)
    for parts in (x.split(two, one), mt.split(x, mt.tensor([2.0]), 1), x.chunk(two, one), mt.unsafe_chunk(x, two, 1)):
        assert [part.tolist() for part in parts] == [[[0, 1], [3, 4]], [[2], [5]]]
    assert x.movedim(zero, one).tolist() == x.moveaxis(zero, -one).tolist() == x.t().tolist()
    assert x.std(one).tolist() == [1, 1]
    assert mt.equal(x.logsumexp(one), x.logsumexp(1))
    assert mt.combinations(x[0], two).shape == (3, 2)
    assert mt.nn.functional.avg_pool1d(x[None], two).tolist() == [[[0.5], [3.5]]]
    for call in (
        lambda: x.split(mt.tensor([1, 2]), 1),
        lambda: x.split(True, 1),
        lambda: x.chunk(True),
        lambda: x.chunk(mt.tensor(2.0)),
        lambda: x.movedim(mt.tensor([0, 1]), mt.tensor([1, 0])),
        lambda: x.movedim(zero, [1]),
    ):
        with pytest.raises(TypeError):
            call()
