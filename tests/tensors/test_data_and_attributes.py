"""Tensors from Python's data, text, DLPack, and what programs put on the package and on Tensor.

Where a test takes `lib`, it runs with PyTorch too, if that is installed: the expected values are its own.
"""

import array
import collections
import copy
import subprocess
import sys

import numpy as np
import pytest

import minitensor as mt


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    return pytest.importorskip(request.param)


DATA = {
    "array of doubles": (lambda _: array.array("d", [1.5, 2]), "float32", [1.5, 2.0]),
    "array of bytes": (lambda _: array.array("b", [1, -2]), "int64", [1, -2]),
    "no doubles": (lambda _: array.array("d"), "float32", []),
    "arrays": (lambda _: [array.array("i", [1, 2]), array.array("i", [3, 4])], "int64", [[1, 2], [3, 4]]),
    "range": (lambda _: range(3), "int64", [0, 1, 2]),
    "ranges": (lambda _: [range(2), [5, 6.5]], "float32", [[0.0, 1.0], [5.0, 6.5]]),
    "no range": (lambda _: range(0), "float32", []),
    "deque": (lambda _: collections.deque([True, False]), "bool", [True, False]),
    "user list": (lambda _: collections.UserList([1, 2]), "int64", [1, 2]),
    "bytearray": (lambda _: bytearray(b"ab"), "int64", [97, 98]),
    "memoryview": (lambda _: memoryview(b"ab")[::-1], "int64", [98, 97]),
    "numpy arrays": (lambda _: [np.array([1, 2]), np.array([3, 4])], "int64", [[1, 2], [3, 4]]),
    "arrays of two types": (lambda _: [np.array([1.0], "f4"), np.array([2.0])], "float64", [[1.0], [2.0]]),
    "array and list": (lambda _: (np.array([1.5], "f2"), [3]), "float16", [[1.5], [3.0]]),
    "nested arrays": (lambda _: [[np.array([[1], [2]], "i2")]], "int16", [[[[1], [2]]]]),
    "empty arrays": (lambda _: [np.zeros((2, 0)), np.zeros((2, 0))], "float64", [[[], []], [[], []]]),
    "swapped array": (lambda _: [np.array([1, 2], ">i2")], "int16", [[1, 2]]),
    "complex array": (lambda _: [np.array([1j], "c8")], "complex64", [[1j]]),
    "swapped scalars": (lambda _: list(np.array([1, 2], ">i4")), "int32", [1, 2]),
    "swapped doubles": (lambda _: list(np.array([1.5], ">f8")), "float64", [1.5]),
    "double scalar": (lambda _: [1.5, np.float64(1e300)], "float64", [1.5, 1e300]),
    "half scalar": (lambda _: [np.float16(1), 2], "float16", [1.0, 2.0]),
    "bool scalar": (lambda _: [True, np.int8(3)], "int8", [1, 3]),
    "complex scalar": (lambda _: [np.complex128(3), 1.0], "complex128", [3 + 0j, 1 + 0j]),
    "tensors": (lambda lib: [lib.tensor(1, dtype=lib.int8), lib.tensor([2], dtype=lib.int16)], "int16", [1, 2]),
}


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy.ndarrays is extremely slow")
@pytest.mark.parametrize("name", DATA)
def test_data(lib, name):
    make, dtype, expected = DATA[name]
    for function in (lib.tensor, lib.as_tensor):
        got = function(make(lib))
        assert (str(got.dtype).split(".")[1], got.tolist()) == (dtype, expected)


def test_data_with_a_dtype(lib):
    assert lib.tensor([np.array([1.5, 2.5])], dtype=lib.int32).tolist() == [[1, 2]]
    assert lib.tensor(range(2), dtype=lib.float16).tolist() == [0.0, 1.0]
    with pytest.raises(RuntimeError, match="without overflow"):
        lib.tensor([np.array([300])], dtype=lib.uint8)


def test_what_is_no_data(lib):
    for wrong in (b"ab", [1, "a"], [b"a"], [np.ones(1).astype(object)]):
        with pytest.raises(TypeError):
            lib.tensor(wrong)
    for wrong in (iter([1]), {1: 2}, {1}, [None]):
        with pytest.raises(RuntimeError, match="Could not infer dtype"):
            lib.tensor(wrong)
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1"):
        lib.tensor([range(2), range(3)])


def test_asarray_of_buffers_shares_their_memory():
    doubles = array.array("d", [1.0, 2.0])
    shared = mt.asarray(doubles)
    doubles[0] = 5.0
    assert (shared.dtype, shared.tolist()) == (mt.float64, [5.0, 2.0])


@pytest.mark.parametrize(
    ("values", "spec", "expected"),
    [
        (1.25, "", "1.25"),
        (1.25, ".1f", "1.2"),
        (True, "", "True"),
        (1 + 2j, "", "(1+2j)"),
        (10, "x", "a"),
        (7, "5", "    7"),
        ([1.25], "", "tensor([1.2500])"),
    ],
)
def test_format(lib, values, spec, expected):
    assert format(lib.tensor(values), spec) == expected


def test_format_of_what_is_no_number(lib):
    with pytest.raises(TypeError, match=r"unsupported format string passed to .*Tensor"):
        format(lib.tensor([1.25]), ">30")
    with pytest.raises(TypeError, match=r"unsupported format string passed to .*Parameter"):
        format(lib.nn.Parameter(lib.tensor(1.25)), ".1f")
    assert f"{lib.tensor(1.25, requires_grad=True)}" == "1.25"
    assert f"{lib.empty((), device='meta')}" == "tensor(..., device='meta', size=())"
    assert f"{lib.nn.Parameter(lib.tensor(1.25))}".startswith("Parameter containing:")


NAMES = """
import minitensor as mt
mine = lambda *a, **k: "mine"
mt.randn = mt.relu = mt.conv2d = mt.einsum = mine
del mt.vstack
assert not hasattr(mt, "no_such_name")
dir(mt)
mt.nn.functional.conv2d, mt.max_pool2d
assert mt.randn is mt.relu is mt.conv2d is mt.einsum is mine
assert "vstack" not in vars(mt) and not hasattr(mt, "vstack")
assert mt.ones(1).relu().tolist() == [1.0]
"""


def test_what_a_program_names_stays():
    subprocess.run([sys.executable, "-c", NAMES], check=True)


def test_attributes_of_tensor(lib):
    kept = lib.Tensor.__repr__, lib.Tensor.__add__
    try:
        lib.Tensor.double_of = lambda self: self * 2
        lib.Tensor.constant = 5
        lib.Tensor.__repr__ = lambda self: "short"
        lib.Tensor.__add__ = lambda self, other: "added"
        x, p = lib.ones(1), lib.nn.Parameter(lib.ones(1))
        assert x.double_of().tolist() == p.double_of().tolist() == [2.0]
        assert (x.constant, repr(x), x + x, p + x) == (5, "short", "added", "added")
    finally:
        lib.Tensor.__repr__, lib.Tensor.__add__ = kept
        del lib.Tensor.double_of, lib.Tensor.constant
    assert repr(x) == "tensor([1.])"
    assert (x + x).tolist() == [2.0]
    assert not hasattr(x, "double_of")
    x.own = 3
    assert vars(x) == {"own": 3}


def test_dlpack(lib):
    x = lib.ones(2)
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        x.__dlpack__(stream=5)
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream="a")
    for arguments in ({"stream": -1}, {"stream": None}, {"dl_device": (1, 0)}, {"dl_device": None}):
        assert lib.from_dlpack(x.__dlpack__(**arguments)).data_ptr() == x.data_ptr()
    with pytest.raises(AssertionError, match="already a DLPack capsule"):
        lib.from_dlpack(x.__dlpack__(), copy=True)
    a = np.ones(2)
    shared, own = lib.from_dlpack(a, copy=False, device="cpu"), lib.from_dlpack(a, copy=True)
    a[0] = 5
    assert (shared.tolist(), own.tolist()) == ([5.0, 1.0], [1.0, 1.0])


def test_dlpack_of_an_older_producer(lib):
    class Old:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, stream=None):
            return self.tensor.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    x = lib.ones(2)
    assert lib.from_dlpack(Old(x)).data_ptr() == x.data_ptr()
    assert lib.from_dlpack(Old(x), copy=True).data_ptr() != x.data_ptr()


def test_dlpack_to_another_device():
    with pytest.raises(BufferError, match=r"device \(1, 0\) can't be exported to device \(2, 0\)"):
        mt.ones(2).__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="from device cpu to meta without copying"):
        mt.from_dlpack(np.ones(2), device="meta", copy=False)
    assert mt.from_dlpack(np.ones(2), device="meta").shape == (2,)


def test_copies_to_and_from_meta(lib):
    x = lib.empty(2, 3, device="meta")
    assert x.copy_(lib.ones(3, dtype=lib.int32)) is x
    x[0].copy_(lib.tensor(2.0))
    assert (x.device.type, tuple(x.shape)) == ("meta", (2, 3))
    with pytest.raises(RuntimeError, match="size of tensor"):
        x.copy_(lib.ones(4))
    y = lib.ones(2)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        y.copy_(lib.empty(2, device="meta"))
    assert y.tolist() == [1.0, 1.0]


def test_a_number_is_a_gpu(lib):
    for wrong in (-1, 1000):
        with pytest.raises(RuntimeError):
            lib.device(wrong)
    if lib.cuda.is_available():
        assert lib.device(0) == lib.device("cuda", 0)
    else:
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            lib.ones(1, device=0)


def test_copies_keep_what_slots_hold():
    class Slots(mt.Tensor):
        __slots__ = ("label", "unset")

    x = mt.Tensor._as_subclass(Slots, mt.ones(2))
    x.label, x.note = [1], [2]
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert (shallow.label is x.label, shallow.note is x.note) == (True, True)
    assert (deep.label, deep.note, deep.label is x.label) == ([1], [2], False)
    assert not hasattr(deep, "unset")
    x.label = x
    assert copy.deepcopy(x).label.label.label.tolist() == [1.0, 1.0]
