"""minitensor: tensors with automatic differentiation, as in PyTorch, and a JIT compiler that clusters ops.

Every op runs at once through a kernel registry. With ``MT_JIT_FLAGS="--auto_jit=2 --cpu_global_jit"``, inside
:func:`jit_scope`, in a :class:`Session`, or in a :func:`function`, ops are recorded, clustered and compiled instead;
the results are the same to the last bit.
"""

from __future__ import annotations

import contextlib as _contextlib
import math as _math
from pathlib import Path as _Path
from typing import Any as _Any

from minitensor import _C
from minitensor._C import (
    OutOfMemoryError,
    Size,
    Tensor,
    allocator_stats,
    bfloat16,
    bool,
    complex64,
    complex128,
    device,
    dtype,
    empty_cache,
    float16,
    float32,
    float64,
    get_default_device,
    get_default_dtype,
    get_num_threads,
    int8,
    int16,
    int32,
    int64,
    is_grad_enabled,
    is_inference_mode_enabled,
    reset_peak_memory_stats,
    set_default_device,
    set_default_dtype,
    set_num_threads,
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

from minitensor import _hooks, accelerator, autograd, cuda, func, nn, optim, random, return_types, timeline, utils  # noqa: E402
from minitensor import _tensor as _tensor_methods  # noqa: E402  (needs the rows)
from minitensor import special as special  # noqa: E402
from minitensor._config import show_config  # noqa: E402
from minitensor._tensor_str import set_printoptions  # noqa: E402
from minitensor._vmap import vmap  # noqa: E402
from minitensor.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402
from minitensor.composite import COMPOSITES as _COMPOSITES  # noqa: E402
from minitensor.composite.layout import (  # noqa: E402
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
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

for _composite in _COMPOSITES.values():
    if _composite.function:
        for _name in (_composite.name, *_composite.aliases):
            globals()[_name] = _composite.call

from minitensor import fft, linalg  # noqa: E402  (needs the composed functions)

# In-place methods are functions too.
for _name in vars(Tensor):
    if _name.endswith("_") and not _name.startswith("_"):
        globals().setdefault(_name, getattr(Tensor, _name))

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
cfloat = complex64
cdouble = complex128

_PACKAGE = _Path(__file__).resolve().parent
# Frames that are not the user's; scopes are left through contextlib's.
_C.set_internal_prefixes([f"{_PACKAGE}/", f"{_PACKAGE.parent / 'minitensor_jit'}/", _contextlib.__file__])

# Submodules that are imported by the first use of them.
_LAZY_MODULES = {"extend", "serialization", "testing"}
_SERIALIZATION_NAMES = {"load", "save"}
_JIT_NAMES = {"jit_scope", "function", "InvalidArgumentError"}


def __getattr__(name: str) -> _Any:
    # The JIT is imported by the first use of it.
    if name == "jit":
        import minitensor_jit

        return minitensor_jit
    if name in _LAZY_MODULES:
        import importlib

        return importlib.import_module(f"minitensor.{name}")
    if name in _SERIALIZATION_NAMES:
        return getattr(__getattr__("serialization"), name)
    if name in _JIT_NAMES:
        import minitensor_jit

        return getattr(minitensor_jit, name)
    raise AttributeError(f"module 'minitensor' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_JIT_NAMES, *_LAZY_MODULES, *_SERIALIZATION_NAMES, "jit"})


_hooks.start_from_environment()
