"""minitensor: tensors with automatic differentiation, as in PyTorch, and a JIT compiler that clusters ops.

Every op runs at once through a kernel registry. With ``MT_JIT_FLAGS="--auto_jit=2 --cpu_global_jit"``, inside
:func:`jit_scope`, in a :class:`Session`, or in a :func:`function`, ops are recorded, clustered and compiled instead;
the results are the same to the last bit.
"""

from __future__ import annotations

import contextlib as _contextlib
import math as _math
import os as _os
from typing import Any as _Any

try:
    import minitensor._C as _C
except ModuleNotFoundError as _error:
    if _error.name != "minitensor._C":
        raise
    from minitensor._import.no_extension import missing_extension as _missing_extension

    raise _missing_extension() from None

# The finder of an editable installation knows the extension of its own sources, also for another copy of the package.
if _os.path.dirname(_C.__file__) != _os.path.dirname(__file__):
    from minitensor._import.no_extension import missing_extension as _missing_extension

    raise _missing_extension()

# Beside its sources, the extension may be older than these: pulled, and not built.
if _os.path.isfile(f"{_os.path.dirname(_os.path.dirname(__file__))}/csrc/precompiled.h"):
    from minitensor._import.stale_extension import warn_if_stale as _warn_if_stale

    _warn_if_stale(_C.__file__, f"{_os.path.dirname(_os.path.dirname(__file__))}/csrc")

from minitensor import autograd, random, return_types
from minitensor._C import (
    OutOfMemoryError,
    Size,
    Tensor,
    allocator_stats,
    bfloat16,
    bits1x8,
    bits2x4,
    bits4x2,
    bits8,
    bits16,
    bool,
    complex32,
    complex64,
    complex128,
    device,
    dtype,
    empty_cache,
    float4_e2m1fn_x2,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    get_default_device,
    get_default_dtype,
    get_num_threads,
    int1,
    int2,
    int3,
    int4,
    int5,
    int6,
    int7,
    int8,
    int16,
    int32,
    int64,
    is_grad_enabled,
    is_inference_mode_enabled,
    qint8,
    qint32,
    quint2x4,
    quint4x2,
    quint8,
    reset_peak_memory_stats,
    set_default_device,
    set_default_dtype,
    set_num_threads,
    uint1,
    uint2,
    uint3,
    uint4,
    uint5,
    uint6,
    uint7,
    uint8,
    uint16,
    uint32,
    uint64,
)
from minitensor._functions.foreach import *  # noqa: F403
from minitensor._functions.offered import *  # noqa: F403
from minitensor._functions.offered_of_nn import OF_NN as _OF_NN
from minitensor._jit import entry_points
from minitensor._tensor.typed_tensors import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from minitensor.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled
from minitensor.composite.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from minitensor.dtypes import finfo, iinfo
from minitensor.random import Generator, default_generator
from minitensor.session import (
    ConfigProto,
    GraphOptions,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
    Session,
)
from minitensor.settings import has_lapack, has_mkl, has_openmp, has_spectral
from minitensor.storage import TypedStorage, UntypedStorage

__version__ = _C.version

# PyTorch's constants: e, pi, the infinity, the NaN and the index that adds a dimension.
e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None

half = float16
float = float32
double = float64
short = int16
int = int32
long = int64
bit = uint1
chalf = complex32
cfloat = complex64
cdouble = complex128

_PACKAGE = _os.path.dirname(_os.path.abspath(__file__))
# Frames that are not the user's; scopes are left through contextlib's.
_C.set_internal_prefixes(
    [f"{_PACKAGE}/", _os.path.join(_os.path.dirname(_PACKAGE), "minitensor_jit") + "/", _contextlib.__file__]
)

# What is imported by the first use of it: submodules, and names with the submodule that has them.
_LAZY_MODULES = {
    "accelerator", "amp", "array_api", "backends", "compiler", "cpu", "cuda", "distributions", "extend", "fft",
    "func", "linalg", "multiprocessing", "nn", "optim", "overrides", "profiler", "serialization", "signal", "special",
    "testing", "timeline", "utils",
    "distributed", "export", "futures", "fx", "hub", "library", "masked", "sparse",
}  # fmt: skip
_LAZY_NAMES = {
    "autocast": "minitensor.amp",
    "autocast_decrement_nesting": "minitensor.amp.state",
    "autocast_increment_nesting": "minitensor.amp.state",
    "clear_autocast_cache": "minitensor.amp.state",
    "get_autocast_cpu_dtype": "minitensor.amp.state",
    "get_autocast_dtype": "minitensor.amp.state",
    "get_autocast_gpu_dtype": "minitensor.amp.state",
    "is_autocast_cache_enabled": "minitensor.amp.state",
    "is_autocast_cpu_enabled": "minitensor.amp.state",
    "is_autocast_enabled": "minitensor.amp.state",
    "set_autocast_cache_enabled": "minitensor.amp.state",
    "set_autocast_cpu_dtype": "minitensor.amp.state",
    "set_autocast_cpu_enabled": "minitensor.amp.state",
    "set_autocast_dtype": "minitensor.amp.state",
    "set_autocast_enabled": "minitensor.amp.state",
    "set_autocast_gpu_dtype": "minitensor.amp.state",
    "_scaled_mm": "minitensor.nn.functional.scaled",
    "AcceleratorError": "minitensor.streams",
    "Event": "minitensor.streams",
    "Stream": "minitensor.streams",
    "GradScaler": "minitensor.amp",
    "compile": "minitensor.compiler",
    "cond": "minitensor.control_flow",
    "InvalidArgumentError": "minitensor_jit",
    "function": "minitensor_jit",
    "jit_scope": "minitensor_jit",
    "load": "minitensor.serialization",
    "save": "minitensor.serialization",
    "sparse_bsc_tensor": "minitensor.sparse.creation",
    "sparse_bsr_tensor": "minitensor.sparse.creation",
    "sparse_compressed_tensor": "minitensor.sparse.creation",
    "sparse_coo_tensor": "minitensor.sparse.creation",
    "sparse_csc_tensor": "minitensor.sparse.creation",
    "sparse_csr_tensor": "minitensor.sparse.creation",
    "vmap": "minitensor._vmap",
    "while_loop": "minitensor.control_flow",
} | dict.fromkeys(
    (
        "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
        "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage",
    ),
    "minitensor._tensor.typed_storages",
)  # fmt: skip


def __getattr__(name: str) -> _Any:
    import importlib

    if name == "jit":
        return importlib.import_module("minitensor_jit")
    if name in _LAZY_MODULES:
        return importlib.import_module(f"minitensor.{name}")
    if name in _LAZY_NAMES:
        found = globals()[name] = getattr(importlib.import_module(_LAZY_NAMES[name]), name)
        return found
    if name in _OF_NN:
        from minitensor._functions.checked import checked
        from minitensor.composite import COMPOSITES

        importlib.import_module("minitensor.nn.functional")  # which enters it in the table
        found = globals()[name] = checked(COMPOSITES[name].call)
        return found
    where = "docs/coverage.md and docs/names.md say what of PyTorch is here"
    raise AttributeError(f"module 'minitensor' has no attribute '{name}' ({where})", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_NAMES, *_LAZY_MODULES, *_OF_NN, "jit"})


entry_points.start_from_environment()
