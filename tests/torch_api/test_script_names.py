"""What scripts written for PyTorch call by name: old constructors, dtypes without tensors, settings, processes."""

import copy
import pickle

import numpy as np
import pytest

import minitensor as mt
from minitensor.backends import cpu, cudnn, mkldnn

# (name, itemsize, floating, complex, abbreviation)
NAMED = [
    ("complex32", 4, False, True, "c32"),
    ("float4_e2m1fn_x2", 1, True, False, "f4e2m1fnx2"),
    *((f"{sign}int{bits}", 1, False, False, f"{sign}int{bits}") for sign in ("", "u") for bits in range(1, 8)),
    ("bits1x8", 1, False, False, "b1x8"),
    ("bits2x4", 1, False, False, "b2x4"),
    ("bits4x2", 1, False, False, "b4x2"),
    ("bits8", 1, False, False, "b8x1"),
    ("bits16", 2, False, False, "b16x1"),
    *((name, 1, False, False, name) for name in ("quint8", "qint8", "quint4x2", "quint2x4")),
    ("qint32", 4, False, False, "qint32"),
]
# What PyTorch 2.13 says: eps, max, min, the smallest normal number.
LIMITS = {
    "float8_e4m3fn": (0.125, 448.0, -448.0, 0.015625),
    "float8_e4m3fnuz": (0.125, 240.0, -240.0, 0.0078125),
    "float8_e5m2": (0.25, 57344.0, -57344.0, 6.103515625e-05),
    "float8_e5m2fnuz": (0.125, 57344.0, -57344.0, 3.0517578125e-05),
    "float8_e8m0fnu": (1.0, 1.7014118346046923e38, 5.877471754111438e-39, 5.877471754111438e-39),
}


@pytest.mark.parametrize(("name", "itemsize", "floating", "is_complex", "short"), NAMED)
def test_dtypes_that_are_names(name, itemsize, floating, is_complex, short):
    dtype = getattr(mt, name)
    assert repr(dtype) == f"minitensor.{name}"
    assert (dtype.itemsize, dtype.is_floating_point, dtype.is_complex) == (itemsize, floating, is_complex)
    assert dtype.abbr == short
    assert dtype in {dtype: 1}
    assert dtype != mt.float32
    assert pickle.loads(pickle.dumps(dtype)) is copy.deepcopy(dtype) is dtype
    assert dtype.to_real() is (mt.float16 if is_complex else dtype)
    for refused in (
        lambda: mt.zeros(2, dtype=dtype),
        lambda: mt.zeros(2).to(dtype),
        lambda: mt.zeros(2).view(dtype),
        lambda: mt.tensor([1], dtype=dtype),
        lambda: mt.promote_types(dtype, mt.float32),
        lambda: mt.set_default_dtype(dtype),
        lambda: dtype.compute,
    ):
        with pytest.raises(NotImplementedError, match=f"minitensor.{name} is a name only: there are no tensors"):
            refused()


def test_the_same_dtypes_in_pytorch():
    torch = pytest.importorskip("torch")
    for name, itemsize, floating, is_complex, short in NAMED:
        theirs = getattr(torch, name)
        assert (theirs.itemsize, theirs.is_floating_point, theirs.is_complex, theirs.abbr) == (
            itemsize, floating, is_complex, short,
        ), name  # fmt: skip
    assert {name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)} == {
        name for name in dir(mt) if isinstance(getattr(mt, name), mt.dtype)
    }
    for name, limits in LIMITS.items():
        found = torch.finfo(getattr(torch, name))
        assert (found.eps, found.max, found.min, found.smallest_normal) == limits, name


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_floats_of_eight_bits(name):
    found = mt.finfo(getattr(mt, name))
    assert (found.eps, found.max, found.min, found.smallest_normal) == LIMITS[name]
    assert (found.bits, found.resolution, found.tiny) == (8, 1.0, LIMITS[name][3])
    with pytest.raises(TypeError, match="integer input type"):
        mt.iinfo(mt.int4)


@pytest.mark.parametrize(
    ("given", "shape", "values"),
    [
        ([[1, 2]], (2,), [1.0, 2.0]),
        ([(1, 2)], (2,), [1.0, 2.0]),
        ([[[1], [2.5]]], (2, 1), [[1.0], [2.5]]),
        ([np.ones(2)], (2,), [1.0, 1.0]),
        ([[True]], (1,), [1.0]),
        ([range(3)], (3,), [0.0, 1.0, 2.0]),
        ([[]], (0,), []),
        ([], (0,), []),
        ([np.array(3.0)], (), 3.0),
        ([2, 3], (2, 3), None),
        ([3], (3,), None),
        ([np.int64(3)], (3,), None),
        ([mt.Size((2,))], (2,), None),
    ],
)
def test_the_old_constructor(given, shape, values):
    made = mt.Tensor(*given)
    assert (tuple(made.shape), made.dtype) == (shape, mt.float32)
    assert values is None or made.tolist() == values


def test_the_old_constructor_of_a_subclass_and_its_errors():
    class Own(mt.Tensor):
        pass

    assert type(Own([1, 2])) is Own
    assert Own(2, 3).shape == (2, 3)
    assert mt.Tensor([1], device="cpu").tolist() == [1.0]
    before = mt.get_default_dtype()
    try:
        mt.set_default_dtype(mt.float64)
        assert mt.Tensor([1]).dtype is mt.float64
    finally:
        mt.set_default_dtype(before)
    for wrong in (2.5, True, "a", None, {1}, np.float32(3)):
        with pytest.raises(TypeError, match=r"new\(\): data must be a sequence"):
            mt.Tensor(wrong)
    with pytest.raises(RuntimeError, match="negative dimension"):
        mt.Tensor(-1)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((3, (50,)), {}),
        ((3,), {"size": (50,)}),
        ((), {"high": 3, "size": (50,)}),
        ((0,), {"high": 3, "size": (50,)}),
        ((0, 3, (50,)), {}),
    ],
)
def test_bounds_of_randint(given, named):
    drawn = mt.randint(*given, **named)
    assert drawn.shape == (50,)
    assert set(drawn.tolist()) == {0, 1, 2}


def test_randint_needs_a_bound():
    with pytest.raises(TypeError, match="'high'"):
        mt.randint(size=(2,))


def test_devices_that_a_tensor_is_not_on():
    x = mt.ones(2)
    names = ("ipu", "maia", "mkldnn", "mps", "mtia", "quantized", "vulkan", "xla", "xpu")
    assert [getattr(x, f"is_{name}") for name in names] == [False] * len(names)


def test_settings_of_backends_are_kept():
    assert (cudnn.is_available(), cudnn.version(), cudnn.enabled, cudnn.benchmark) == (False, None, True, False)
    with cudnn.flags(enabled=False, benchmark=True):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.benchmark_limit) == (False, True, 10)
    assert (cudnn.enabled, cudnn.benchmark, cudnn.benchmark_limit) == (True, False, None)
    assert cudnn.set_flags(_deterministic=True) == (True, False, None, False, True)
    assert cudnn.deterministic
    cudnn.set_flags(_deterministic=False)
    with mkldnn.flags(enabled=False):
        assert not mkldnn.enabled
    assert mkldnn.enabled
    assert cpu.get_cpu_capability() in {"DEFAULT", "AVX2", "AVX512"}
    for name in ("mkl", "mkldnn", "mps", "openmp", "opt_einsum"):
        assert getattr(mt.backends, name).is_available() is False


def test_programs_ask_for_the_class_without_a_group():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        mt.nn.parallel.DistributedDataParallel(mt.nn.Linear(1, 1))
    assert not isinstance(mt.nn.Linear(1, 1), mt.nn.parallel.DistributedDataParallel)


def test_graphs_of_gpus_are_refused():
    assert not mt.cuda.is_current_stream_capturing()
    for made in (mt.cuda.CUDAGraph, mt.cuda.graph, mt.cuda.graph_pool_handle, mt.cuda.make_graphed_callables):
        with pytest.raises(NotImplementedError, match="jit_compile=True"):
            made()


def test_sizes_and_exponents_by_name():
    assert mt.rand(size=(2, 3)).shape == mt.randn(size=[2, 3]).shape == (2, 3)
    with pytest.raises(TypeError, match="multiple values for argument 'size'"):
        mt.randn(2, size=(2,))
    assert mt.pow(mt.tensor([3.0]), exponent=2).tolist() == [9.0]
    assert mt.pow(2.0, exponent=mt.tensor([3.0])).tolist() == [8.0]
    x = mt.ones(2)
    assert mt.rand_like(x, pin_memory=False).shape == mt.randn_like(x, pin_memory=False).shape == (2,)
    assert mt.randint_like(x, 3, pin_memory=False).shape == (2,)


def test_types_by_name_and_by_class():
    x = mt.ones(2)
    assert x.type() == "minitensor.FloatTensor"
    for name in ("torch.LongTensor", "minitensor.LongTensor", mt.LongTensor, mt.int64):
        assert x.type(name).dtype is mt.int64
    assert x.type(mt.FloatTensor) is x
    for wrong in ("torch.Long", "LongTensor", "numpy.LongTensor"):
        with pytest.raises(ValueError, match="invalid type"):
            x.type(wrong)


def test_a_mixin_s_constructor_is_found_past_module():
    class Marked:
        def __new__(cls, *args):
            made = super().__new__(cls)
            made.mark = args
            return made

    class Layer(mt.nn.Module, Marked):
        def __init__(self, width):
            super().__init__()
            self.width = width

    layer = Layer(3)
    assert (layer.mark, layer.width) == ((3,), 3)
    assert repr(mt.nn.Module()) == "Module()"
    with pytest.raises(TypeError):
        mt.nn.Module(3)


def test_memory_maps(tmp_path):
    place = tmp_path / "numbers"
    np.arange(6, dtype=np.int16).tofile(place)
    mapped = np.memmap(place, np.int16, mode="r+")
    assert mt.from_numpy(mapped).tolist() == [0, 1, 2, 3, 4, 5]
    assert mt.from_numpy(mapped[2:4].astype(np.int64)).tolist() == [2, 3]
    storage = mt.UntypedStorage.from_file(str(place), shared=True, nbytes=12)
    assert storage.nbytes() == 12
    assert storage.tolist()[:4] == [0, 0, 1, 0]
    storage[0] = 7
    assert np.fromfile(place, np.int16)[0] == 7
    with pytest.raises(TypeError, match=r"expected np\.ndarray"):
        mt.from_numpy([1])


def test_what_libraries_call_of_trees_of_containers():
    from minitensor.utils import _pytree

    assert _pytree._get_node_type(3) not in _pytree.SUPPORTED_NODES
    assert _pytree._get_node_type([3]) is list
    children, keys = _pytree._dict_flatten({"a": 1, "b": 2})
    assert _pytree._dict_unflatten(children, keys) == {"a": 1, "b": 2}
    assert _pytree._dict_flatten_with_keys({"a": 1})[0] == [(_pytree.MappingKey("a"), 1)]
