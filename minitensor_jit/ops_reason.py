"""Why an op that can't be recorded can't be compiled."""

from minitensor.ops import ROWS


def reason_of(op: str) -> str:
    """The reason that the op's row gives."""
    row = ROWS.get(op)
    return row.reason if row is not None else "it is not an op with a lowering"
