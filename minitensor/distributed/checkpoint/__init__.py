"""Checkpoints that all ranks write together: the names that libraries import; there are none.

Tensors are whole on every rank, so that one rank's `minitensor.save` writes all of a model.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["load", "save"]

_INSTEAD = "tensors are whole on every rank; torch.save on one rank writes all of them, and torch.load reads them"


def save(state_dict: Any, **options: Any) -> NoReturn:
    """Raise NotImplementedError."""
    raise NotImplementedError(f"distributed.checkpoint.save: {_INSTEAD}")


def load(state_dict: Any, **options: Any) -> NoReturn:
    """Raise NotImplementedError."""
    raise NotImplementedError(f"distributed.checkpoint.load: {_INSTEAD}")
