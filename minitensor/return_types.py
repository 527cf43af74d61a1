"""The types of results that are several tensors with names: `minitensor.return_types.max`, and so on.

`return_types.max_out` is the type of results that were stored in tensors given as `out`. `all_return_types` lists the
types.
"""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__ = ["all_return_types"]  # noqa: F822  (made when it is asked for)

# The names of results by function. Its type is made when it is first asked for, by a call or from here.
_FIELDS = {
    "values indices": "cummax cummin kthvalue max median min mode nanmedian sort topk",
    "min max": "aminmax",
    "mantissa exponent": "frexp",
    "a tau": "geqrf",
    "hist bin_edges": "histogram histogramdd",
    "L info": "linalg_cholesky_ex",
    "eigenvalues eigenvectors": "linalg_eig linalg_eigh",
    "inverse info": "linalg_inv_ex",
    "LD pivots": "linalg_ldl_factor",
    "LD pivots info": "linalg_ldl_factor_ex",
    "solution residuals rank singular_values": "linalg_lstsq",
    "P L U": "linalg_lu lu_unpack",
    "LU pivots": "linalg_lu_factor",
    "LU pivots info": "linalg_lu_factor_ex",
    "Q R": "linalg_qr qr",
    "sign logabsdet": "linalg_slogdet slogdet",
    "result info": "linalg_solve_ex",
    "U S Vh": "linalg_svd",
    "U S V": "svd",
    "solution cloned_coefficient": "triangular_solve",
}
_BY_NAME = {name: tuple(fields.split()) for fields, names in _FIELDS.items() for name in names.split()}
_BY_NAME |= {f"{name}_out": fields for name, fields in _BY_NAME.items() if name != "histogramdd"}


def __getattr__(name: str) -> Any:
    if name == "all_return_types":
        return [_C.result_type(one, fields) for one, fields in sorted(_BY_NAME.items())]
    try:
        return _C.result_type(name, _BY_NAME[name])
    except KeyError:
        raise AttributeError(f"module 'minitensor.return_types' has no attribute '{name}'") from None


def __dir__() -> list[str]:
    return sorted([*__all__, *_BY_NAME])
