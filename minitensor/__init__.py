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
    from minitensor._no_extension import missing_extension as _missing_extension

    raise _missing_extension() from None

# The finder of an editable installation knows the extension of its own sources, also for another copy of the package.
if _os.path.dirname(_C.__file__) != _os.path.dirname(__file__):
    from minitensor._no_extension import missing_extension as _missing_extension

    raise _missing_extension()

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
from minitensor.ops import ROWS as _ROWS

# Every op under its names; the composed functions below replace those that take more forms.
for _row in _ROWS.values():
    if _row.public and _row.function:
        for _name in (_row.name, *_row.aliases):
            globals()[_name] = _row.call

from minitensor import _hooks, autograd, random, return_types  # noqa: E402
from minitensor import _tensor as _tensor_methods  # noqa: E402  (needs the rows)
from minitensor._checked import checked_functions as _checked_functions  # noqa: E402
from minitensor._checked import function_form as _function_form  # noqa: E402
from minitensor._config import show_config  # noqa: E402
from minitensor._tensor_str import set_printoptions  # noqa: E402
from minitensor.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402
from minitensor.composite import COMPOSITES as _COMPOSITES  # noqa: E402
from minitensor.composite.layout import (  # noqa: E402
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
from minitensor.creation import *  # noqa: E402, F403
from minitensor.dtypes import *  # noqa: E402, F403
from minitensor.functional import *  # noqa: E402, F403
from minitensor.random import (  # noqa: E402
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from minitensor.session import (  # noqa: E402
    ConfigProto,
    GraphOptions,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
    Session,
)
from minitensor.settings import *  # noqa: E402, F403
from minitensor.storage import TypedStorage, UntypedStorage  # noqa: E402
from minitensor.typed_tensors import *  # noqa: E402, F403

_offered: set[str] = set()


def _offer_composites(first: _Any = False) -> None:
    """Each function under its names, once: a program may have put others there since, or taken them away."""
    found = {}
    for composed in _COMPOSITES.values():
        if composed.function:
            for name in (composed.name, *composed.aliases):
                if name not in _offered:
                    _offered.add(name)
                    found[name] = composed.call
    _checked_functions(found)
    globals().update({name: call for name, call in found.items() if first or name not in globals()})


_offer_composites(first=True)
_checked_functions(globals())


# In-place methods are functions too.
for _name in vars(Tensor):
    if _name.endswith("_") and not _name.startswith("_"):
        globals().setdefault(_name, _function_form(getattr(Tensor, _name)))

from minitensor._foreach import *  # noqa: E402, F403  (needs the methods)

for _name in ("celu", "selu", "threshold"):  # these are no methods
    globals()[f"{_name}_"] = _C.inplace_form(_ROWS[_name].call)

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
    "compile": "minitensor.compiler",
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
}


def __getattr__(name: str) -> _Any:
    import importlib

    if name == "jit":
        return importlib.import_module("minitensor_jit")
    if name in _LAZY_MODULES:
        return importlib.import_module(f"minitensor.{name}")
    if name in _LAZY_NAMES:
        found = globals()[name] = getattr(importlib.import_module(_LAZY_NAMES[name]), name)
        return found
    if not name.startswith("_"):
        _offer_functions_of_nn()
        if name in globals():
            return globals()[name]
    where = "docs/coverage.md and docs/names.md say what of PyTorch is here"
    raise AttributeError(f"module 'minitensor' has no attribute '{name}' ({where})", name=name)


def _offer_functions_of_nn() -> None:
    """Functions that live in nn.functional and have their place here too, such as conv2d."""
    import importlib

    importlib.import_module("minitensor.nn.functional")
    _offer_composites()


def __dir__() -> list[str]:
    _offer_functions_of_nn()
    return sorted({*globals(), *_LAZY_NAMES, *_LAZY_MODULES, "jit"})


_hooks.start_from_environment()
