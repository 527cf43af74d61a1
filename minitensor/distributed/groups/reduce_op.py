"""How the values of several processes become one."""

from __future__ import annotations

import enum
from typing import Any

from minitensor import _C
from minitensor._warning import warn

__all__ = ["RedOpType", "ReduceOp", "checked_op", "reduce_op", "supports_complex"]


class RedOpType(enum.IntEnum):
    """The operations, by PyTorch's numbers."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    __hash__ = int.__hash__  # an enum's is by name, and slower

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


_RedOpType = RedOpType


class ReduceOp:
    """An operation: values of ranks 0, 1, 2 ... are taken in that order, whatever way they go.

    SUM, PRODUCT, MIN and MAX take any numbers, but the last two no complex ones; AVG, the sum divided by the number of
    ranks, takes floating-point and complex numbers; BAND, BOR and BXOR take integers and bools. Float16 and bfloat16
    are summed as float32 and rounded once. PREMUL_SUM is NCCL's, and refused.
    """

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM

    def __init__(self, op: Any) -> None:
        self.op = _RedOpType(op)

    def __eq__(self, other: object) -> bool:
        return self.op == (other.op if isinstance(other, ReduceOp) else other)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"<ReduceOp.{self.op.name}>"


class _Older:
    """The names that PyTorch had before `ReduceOp`."""

    def __getattr__(self, name: str) -> RedOpType:

        if name.startswith("_"):
            raise AttributeError(name)
        warn("torch.distributed.reduce_op is deprecated, please use torch.distributed.ReduceOp instead", FutureWarning)
        found: RedOpType = getattr(RedOpType, name)
        return found


reduce_op = _Older()

_BITS = {RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR}


def supports_complex(reduceOp: Any) -> bool:  # noqa: N803
    """Return whether an operation takes complex numbers."""
    op = reduceOp.op if isinstance(reduceOp, ReduceOp) else reduceOp
    return op in (RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT)


def checked_op(op: Any, dtype: Any, name: str) -> RedOpType:
    """The operation, if it takes numbers of a dtype. ValueError, or TypeError for what is none."""
    if type(op) is RedOpType and (op, dtype) in _CHECKED:
        return op
    kind = op.op if isinstance(op, ReduceOp) else op
    if not isinstance(kind, RedOpType):
        raise TypeError(f"{name}: op is to be one of ReduceOp's, not {op!r}")
    if kind is RedOpType.PREMUL_SUM:
        raise ValueError(f"{name}: Cannot use ReduceOp.PREMUL_SUM: it is NCCL's; multiply the tensor beforehand")
    if kind in _BITS and (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"{name}: Cannot use ReduceOp.{kind.name} with non-integral dtype {dtype}")
    if dtype.is_complex and not supports_complex(kind):
        raise ValueError(f"{name} does not support {kind.name} on complex tensors")
    if kind is RedOpType.AVG and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"{name}: Cannot use ReduceOp.AVG with {dtype}: sum and divide, as the division is to round")
    if dtype in _NO_SUMS:
        raise ValueError(f"{name}: there is no arithmetic with {dtype}; convert the tensor")
    _CHECKED.add((kind, dtype))
    return kind


_CHECKED: set[tuple[RedOpType, Any]] = set()
"""What has gone well before; as many as there are operations and dtypes at most."""


_NO_SUMS = {
    getattr(_C, name)
    for name in dir(_C)
    if name.startswith(("float8_", "float4_", "bits", "qint", "quint")) and isinstance(getattr(_C, name), _C.dtype)
}
