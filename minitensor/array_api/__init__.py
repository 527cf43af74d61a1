"""The array API standard (https://data-apis.org/array-api), version 2024.12, on minitensor's tensors.

It's what `tensor.__array_namespace__()` gives, so that libraries such as SciPy and scikit-learn compute with tensors as
they do with NumPy's arrays. The extensions `linalg` and `fft` are there too.

The functions here are the standard's in every case. Tensors' own operators are PyTorch's, which has other rules where
a tensor of no dimensions, or an unsigned integer wider than 8 bits, meets another type; where `//` and `%` meet
infinities and zeros; and which has no slices with negative steps (`flip` is the function for them).
"""

from math import e, inf, nan, pi

from minitensor._C import (
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from minitensor.array_api import creation, elementwise, fft, linalg, manipulation, searching, statistical
from minitensor.array_api.creation import *  # noqa: F403
from minitensor.array_api.dtypes import (
    __array_namespace_info__,
    astype,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from minitensor.array_api.elementwise import *  # noqa: F403
from minitensor.array_api.linalg import matmul, tensordot, vecdot
from minitensor.array_api.manipulation import *  # noqa: F403
from minitensor.array_api.searching import *  # noqa: F403
from minitensor.array_api.statistical import *  # noqa: F403

__array_api_version__ = "2024.12"
newaxis = None

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "astype", "bool", "can_cast", "complex64", "complex128", "e",
    "fft", "finfo", "float32", "float64", "iinfo", "inf", "int8", "int16", "int32", "int64", "isdtype", "linalg",
    "matmul", "nan", "newaxis", "pi", "result_type", "tensordot", "uint8", "uint16", "uint32", "uint64", "vecdot",
    *creation.__all__, *elementwise.__all__, *manipulation.__all__, *searching.__all__, *statistical.__all__,
]  # fmt: skip
