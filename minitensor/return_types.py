"""The types of results that are several tensors with names: `minitensor.return_types.max`, and so on."""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    try:
        return _C.result_types()[name]
    except KeyError:
        raise AttributeError(f"module 'minitensor.return_types' has no attribute '{name}'") from None


def __dir__() -> list[str]:
    return sorted(_C.result_types())
