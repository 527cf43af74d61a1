"""Results of PyTorch's that are kept in files: what is kept of one, and whether another agrees with it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


def described(value: Any, t: ModuleType) -> Any:
    """What a file has of a value: of tensors the dtype, shape and values."""
    if isinstance(value, t.Tensor):
        form = [str(value.dtype).partition(".")[2], list(value.shape)]
        value = value.detach()
        return [*form, (t.view_as_real(value) if value.is_complex() else value).tolist()]
    if isinstance(value, list | tuple):
        return [described(item, t) for item in value]
    return value if isinstance(value, bool | int | float) else None


def agrees(got: Any, want: Any, rel: float, absolute: float = 1e-12) -> bool:
    """Whether two descriptions differ in nothing, and in floats by no more than the larger of the two tolerances."""
    if isinstance(want, list) and isinstance(got, list):
        return len(got) == len(want) and all(agrees(*pair, rel, absolute) for pair in zip(got, want, strict=True))
    if isinstance(want, float) and isinstance(got, float):
        return got == pytest.approx(want, rel=rel, abs=absolute, nan_ok=True)
    return type(got) is type(want) and got == want
