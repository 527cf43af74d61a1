"""What a tensor is: sizes, devices, orders; settings and constructors that scripts bring along."""

import math
import re
import warnings

import numpy as np
import pytest

import minitensor as mt


def test_constants():
    assert (mt.e, mt.pi, mt.inf, mt.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(mt.nan)
    assert mt.ones(2)[:, mt.newaxis].shape == (2, 1)


def test_questions():
    x = mt.arange(6.0).reshape(2, 3)
    assert (x.is_cpu, x.is_cuda, x.is_meta, x.get_device()) == (True, False, False, -1)
    assert x.to(device="meta").is_meta
    assert x.name is None
    assert mt.is_same_size(x, x + 1)
    assert not x.is_same_size(x.T)
    assert x.dim_order() == (0, 1)
    assert x.T.dim_order() == (1, 0)
    assert mt.is_nonzero(mt.tensor([-0.5]))
    assert not mt.is_nonzero(mt.tensor(False))
    for wrong in (mt.ones(2), mt.ones(0)):
        with pytest.raises(RuntimeError, match="Boolean value of Tensor"):
            mt.is_nonzero(wrong)
    assert mt.is_storage(x.untyped_storage())
    assert not mt.is_storage(x)
    with pytest.raises(RuntimeError, match="accelerator"):
        x.pin_memory()


def test_functions_of_python():
    x = mt.tensor([1.0, 2.0])
    assert x.apply_(lambda v: v * 10) is x
    assert x.tolist() == [10.0, 20.0]
    assert x.map_(mt.tensor([1.0, 2.0]), lambda a, b: a + b).tolist() == [11.0, 22.0]
    assert x.map2_(mt.ones(2), mt.ones(1), lambda a, b, c: a + b + c).tolist() == [13.0, 24.0]
    with pytest.raises(RuntimeError, match="detach"):
        mt.ones(1, requires_grad=True).apply_(abs)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (7, 3), (8, 3), (3, 3, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape, wrap):
    expected = np.zeros(shape)
    np.fill_diagonal(expected, 5, wrap=wrap)
    assert mt.zeros(shape).fill_diagonal_(5, wrap).tolist() == expected.tolist()


def test_fill_diagonal_of_other_shapes():
    assert mt.zeros(3, 2).T.fill_diagonal_(1).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    with pytest.raises(RuntimeError, match="larger than 1"):
        mt.zeros(3).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match="equal length"):
        mt.zeros(3, 3, 2).fill_diagonal_(1)


def test_sum_to_size():
    x = mt.arange(24.0).reshape(2, 3, 4)
    a = x.numpy()
    assert x.sum_to_size(3, 1).tolist() == a.sum((0, 2)).reshape(3, 1).tolist()
    assert x.sum_to_size((2, 3, 4)).tolist() == a.tolist()
    assert x.sum_to_size(()).item() == a.sum()
    with pytest.raises(RuntimeError, match="not expandable"):
        x.sum_to_size(2, 4)


def test_old_constructors():
    assert mt.LongTensor([1, 2]).dtype is mt.int64
    assert mt.FloatTensor(2, 3).shape == (2, 3)
    assert mt.FloatTensor(mt.Size([4])).shape == (4,)
    assert mt.ByteTensor().shape == (0,)
    x = mt.ones(2)
    assert mt.FloatTensor(x).data_ptr() == x.data_ptr()
    assert isinstance(x, mt.FloatTensor)
    assert not isinstance(x, mt.LongTensor)
    with pytest.raises(TypeError, match="expected LongTensor"):
        mt.LongTensor(x)
    with pytest.raises(RuntimeError, match="device type"):
        mt.FloatTensor(2, device="meta")
    assert mt.ones(1, dtype=mt.int32).new(2, 2).shape == (2, 2)
    assert mt.ones(1, dtype=mt.int32).new([5]).tolist() == [5]


def test_default_tensor_type():
    try:
        mt.set_default_tensor_type("torch.DoubleTensor")
        assert mt.zeros(1).dtype is mt.float64
        mt.set_default_tensor_type(mt.FloatTensor)
        assert mt.zeros(1).dtype is mt.float32
        for wrong in ("torch.Nothing", 3, mt.float32):
            with pytest.raises(TypeError, match="invalid type object"):
                mt.set_default_tensor_type(wrong)
        with pytest.raises(TypeError, match="floating-point"):
            mt.set_default_tensor_type(mt.LongTensor)
    finally:
        mt.set_default_dtype(mt.float32)


def test_settings():
    try:
        mt.set_deterministic_debug_mode("warn")
        assert (mt.get_deterministic_debug_mode(), mt.are_deterministic_algorithms_enabled()) == (1, True)
        assert mt.is_deterministic_algorithms_warn_only_enabled()
        mt.use_deterministic_algorithms(True)
        assert mt.get_deterministic_debug_mode() == 2
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            mt.set_deterministic_debug_mode("always")
        mt.set_float32_matmul_precision("medium")
        assert mt.get_float32_matmul_precision() == "medium"
        with pytest.raises(RuntimeError, match="'highest', 'high'"):
            mt.set_float32_matmul_precision("low")
        mt.set_num_interop_threads(3)
        assert mt.get_num_interop_threads() == 3
        mt.set_warn_always(True)
        assert mt.is_warn_always_enabled()
        assert mt.set_flush_denormal(True) is False
    finally:
        mt.set_deterministic_debug_mode(0)
        mt.set_float32_matmul_precision("highest")
        mt.set_num_interop_threads(1)
        mt.set_warn_always(False)


def test_files_as_tensors(tmp_path):
    path = tmp_path / "x.bin"
    x = mt.from_file(str(path), shared=True, size=4, dtype=mt.float64)
    x.copy_(mt.arange(4.0))
    del x
    assert np.fromfile(path).tolist() == [0.0, 1.0, 2.0, 3.0]
    y = mt.from_file(str(path), size=2, dtype=mt.float64)
    y.fill_(9)
    assert np.fromfile(path).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_copies_of_the_view_functions():
    z = mt.complex(mt.ones(2), mt.zeros(2))
    got = mt.view_as_real_copy(z)
    assert got.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert got.data_ptr() != z.data_ptr()
    assert mt.view_as_complex_copy(got).tolist() == [1 + 0j, 1 + 0j]
    assert mt.fill(mt.zeros(2), 3).tolist() == [3.0, 3.0]
    assert not mt.detach(mt.ones(1, requires_grad=True)).requires_grad


def test_frombuffer():
    raw = bytearray(np.arange(6, dtype=np.float32).tobytes())
    x = mt.frombuffer(raw, dtype=mt.float32)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    x[0] = 9
    assert np.frombuffer(raw, np.float32)[0] == 9
    assert mt.frombuffer(raw, dtype=mt.float32, count=2, offset=4).tolist() == [1.0, 2.0]
    assert mt.frombuffer(raw, dtype=mt.bfloat16, count=2).dtype is mt.bfloat16
    assert mt.frombuffer(raw, dtype=mt.float32, requires_grad=True).requires_grad
    assert mt.frombuffer(raw, dtype=mt.int32, count=1, offset=3).shape == (1,)
    with pytest.warns(UserWarning, match="not writable"):
        assert mt.frombuffer(b"\x01\x02", dtype=mt.uint8).tolist() == [1, 2]
    for more, message in (
        ({"offset": 24}, "no greater than buffer length"), ({"offset": -1}, "non-negative"),
        ({"count": 0}, "must not be 0"), ({"count": 7}, "must not be greater"), ({"offset": 1}, "multiple of element"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            mt.frombuffer(raw, dtype=mt.float32, **more)
    with pytest.raises(ValueError, match="buffer protocol"):
        mt.frombuffer(3, dtype=mt.uint8)


def test_questions_about_devices_and_the_build():
    assert mt.get_device_module() is mt.get_device_module("cpu") is mt.cpu
    assert mt.get_device_module(mt.device("cuda", 0)) is mt.cuda
    assert (mt.cpu.is_available(), mt.cpu.device_count(), mt.cpu.current_device()) == (True, 1, "cpu")
    with mt.cpu.stream(mt.cpu.current_stream()):
        mt.cpu.synchronize()
    with pytest.raises(RuntimeError, match="corresponding module"):
        mt.get_device_module("meta")
    with pytest.raises(RuntimeError, match="Invalid value of device"):
        mt.get_device_module(3)
    assert (mt.has_lapack, mt.has_spectral) == (True, True)
    assert mt.thread_safe_generator() is None
    assert mt.is_signed(mt.ones(1, dtype=mt.int8))
    assert not mt.is_signed(mt.ones(1, dtype=mt.uint16))


def test_anomaly_mode_under_pytorchs_other_names():
    mt.set_anomaly_enabled(True, False)
    try:
        assert (mt.is_anomaly_enabled(), mt.is_anomaly_check_nan_enabled()) == (True, False)
    finally:
        mt.set_anomaly_enabled(False)
    assert (mt.is_anomaly_enabled(), mt.is_anomaly_check_nan_enabled()) == (False, True)


def test_deprecated_shapes():
    x = mt.arange(6.0, requires_grad=True)
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        y = x.resize(2, 3)
    with pytest.warns(UserWarning, match="non-inplace resize_as is deprecated"):
        z = x.resize_as(mt.ones(3, 2))
    assert (tuple(y.shape), tuple(z.shape)) == ((2, 3), (3, 2))
    (y[0].sum() + z.sum()).backward()
    assert x.grad.tolist() == [2, 2, 2, 1, 1, 1]
    with (
        pytest.warns(UserWarning, match="resize"),
        pytest.raises(RuntimeError, match=r"requested resize to 4 \(4 elements in total\)"),
    ):
        x.resize(4)
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert x.volatile is False


def test_the_inverse_of_a_slice():
    x = mt.arange(6.0)
    assert mt.slice_inverse(x[1:5:2], x, 0, 1, 5, 2).tolist() == x.tolist()


TRANSPOSED = {
    "T": {1: r"use of `x\.T` on tensors of dimension other than 2", 0: r"^Tensor\.T is deprecated on 0-D tensors"},
    "mT": {0: r"^Tensor\.mT is deprecated on 0-D tensors"},
    "H": {0: r"^Tensor\.H is deprecated on 0-D tensors\. Consider using x\.conj\(\)"},
    "mH": {0: r"^Tensor\.mH is deprecated on 0-D tensors\. Consider using x\.conj\(\)"},
    "adjoint": {0: r"^adjoint\(\) is deprecated on 0-D tensors\. Consider using x\.conj\(\)"},
}
TRANSPOSED["T"] |= {3: TRANSPOSED["T"][1], 4: TRANSPOSED["T"][1]}
REFUSED = {
    "mT": {1: r"^tensor\.mT is only supported on matrices or batches of matrices\. Got 1-D"},
    "H": {
        1: r"^tensor\.H is only supported on matrices \(2-D tensors\)\. Got 1-D",
        3: r"Got 3-D tensor\. For batches of matrices, consider using tensor\.mH",
        4: r"Got 4-D tensor\. For batches of matrices, consider using tensor\.mH",
    },
    "mH": {1: r"^tensor\.mH is only supported on matrices or batches of matrices\. Got 1-D"},
    "adjoint": {1: r"^tensor\.adjoint\(\) is only supported on matrices or batches of matrices\. Got 1-D"},
}


@pytest.mark.parametrize("package", ["minitensor", "torch"])
@pytest.mark.parametrize("rank", range(5))
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposes_of_every_rank(package, rank, name):
    """Which ones warn, which ones are refused, and what the others give: NumPy's."""
    lib = pytest.importorskip(package)
    values = (np.arange(math.factorial(rank + 1)) * (1 + 2j)).reshape(tuple(range(2, rank + 2))).astype(np.complex64)
    x = lib.from_numpy(values)
    always = lib is not mt and not lib.is_warn_always_enabled()
    if always:
        lib.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            if rank in REFUSED.get(name, {}):
                with pytest.raises(RuntimeError, match=REFUSED[name][rank]):
                    _ = lib.adjoint(x) if name == "adjoint" else getattr(x, name)
                made = None
            else:
                made = x.adjoint() if name == "adjoint" else getattr(x, name)
    finally:
        if always:
            lib.set_warn_always(False)
    expected = TRANSPOSED[name].get(rank)
    assert len(warned) == (expected is not None)
    if expected is not None:
        assert warned[0].category is UserWarning
        assert re.search(expected, str(warned[0].message))
    if made is not None:
        swapped = values.T if name == "T" or rank < 2 else values.swapaxes(-2, -1)
        assert np.array_equal(np.array(made.tolist()), swapped if name in ("T", "mT") else swapped.conj())
