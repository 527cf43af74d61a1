"""What PyTorch asks of the values of operands: a row that fails where a condition holds anywhere.

Composites check by it rather than by `bool(...)`, which would need the values at once: recorded and compiled, the
error comes where the values are computed, and what is compiled keeps the condition among its loops.
"""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.ops.row import ROWS, movement

__all__ = ["refuse_where"]

_ERRORS: list[tuple[type[Exception], str]] = [
    (RuntimeError, "all elements of input should be between 0 and 1"),
    (RuntimeError, "all elements of target should be between 0 and 1"),
    (ValueError, "var has negative entry/entries"),
    (RuntimeError, "normal expects all elements of std >= 0.0"),
    (RuntimeError, "Expected p_in >= 0 && p_in <= 1 to be true, but got false."),
    (RuntimeError, "probability tensor contains either `inf`, `nan` or element < 0"),
    (RuntimeError, "invalid multinomial distribution (sum of probabilities <= 0)"),
    (RuntimeError, "invalid Poisson rate, expected rate to be non-negative"),
    (RuntimeError, "quantile() q values must be in the range [0, 1]"),
    (RuntimeError, "lengths contains negative value!"),
    (
        RuntimeError,
        "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
    ),
    (IndexError, "index out of range in self"),
    (RuntimeError, "target out of range"),
    (RuntimeError, "argument #2 'target' is out of range"),
    (RuntimeError, "Class values must be non-negative."),
    (RuntimeError, "Class values must be smaller than num_classes."),
    (RuntimeError, "cov(): fweights cannot be negative"),
    (RuntimeError, "cov(): aweights cannot be negative"),
    (RuntimeError, "cov(): weights sum to zero, can't be normalized"),
]
_NUMBERS = {message: number for number, (_, message) in enumerate(_ERRORS)}


def _looked(bad: Any, error: int) -> Any:
    found = bad.any()
    if bool(found):
        kind, message = _ERRORS[error]
        raise kind(message)
    return found


def _lower(b: Any, bad: Any, error: int) -> Any:
    b.fail_where(bad)
    dims = tuple(range(len(bad.dims)))
    return b.reduce(bad, b.constant(False), dims, "or") if dims else bad


_refuse_where = movement(
    "_refuse_where(Tensor bad, int error)",
    "Whether any element of a tensor of bools holds, which is an error.",
    function=False,
    method=False,
    raises=True,
    kernel=_looked,
    shape=lambda bad, _error: bad.new_empty(()),
    lower=_lower,
)


def refuse_where(bad: Any, message: str) -> None:
    """Raise the error of this message, one of those listed here, if the bools of a tensor hold anywhere.

    Inside vmap they are those of all slices.
    """
    ROWS["_refuse_where"].call(_C.all_slices(bad.detach()), _NUMBERS[message])
