"""Lowerings that users write (`minitensor.extend`): what they do wrong is said to be theirs, with its line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minitensor_jit.errors import LoweringError
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.size import NotSymbolic
from minitensor_jit.lowering.call import RecordedCall

__all__ = ["Line", "lower_extension", "lowering_line"]


class Line(NamedTuple):
    """A place in a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def lowering_line(row: Any) -> Line | None:
    """Where the lowering of a row is written; None of what is not a Python function."""
    code = getattr(row.lower, "__code__", None)
    return None if code is None else Line(code.co_filename, code.co_firstlineno)


def lower_extension(b: Any, call: RecordedCall, operands: Sequence[Any]) -> list[Instruction]:
    """The op's results; raises `LoweringError` for everything that the lowering does wrong."""
    row = call.row
    try:
        made = row.lower(b, *operands, *call.params)
    except NotSymbolic:  # it is lowered again, for the sizes at hand
        raise
    except Exception as error:
        raise LoweringError(row.name, f"raises {type(error).__name__}: {error}", _line(row, error)) from error
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    if len(made) != len(call.results):
        raise LoweringError(row.name, f"gives {len(made)} results, the op has {len(call.results)}", lowering_line(row))
    results = []
    for k, (x, (dtype, dims)) in enumerate(zip(made, call.results, strict=True)):
        if not isinstance(x, Instruction) or not isinstance(x.shape, Shape):
            what = x.shape if isinstance(x, Instruction) else type(x).__name__
            raise LoweringError(row.name, f"gives {what} as result {k}, expected an array", lowering_line(row))
        if x.dims != tuple(dims):
            wrong = f"gives {x.dtype}{list(x.dims)} as result {k}, the op {dtype}{list(dims)}"
            raise LoweringError(row.name, wrong, lowering_line(row))
        results.append(b.to_dtype(x, dtype))
    return results


def _line(row: Any, error: BaseException) -> Line | None:
    """The innermost line of the file that has the lowering, among those that the error has passed."""
    place = lowering_line(row)
    trace = error.__traceback__
    while place is not None and trace is not None:
        if trace.tb_frame.f_code.co_filename == place.file:
            place = Line(place.file, trace.tb_lineno)
        trace = trace.tb_next
    return place
