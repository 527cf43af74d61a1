"""Which kernels attention may use. There is one here, on every device, and it is always allowed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "activate_flash_attention_impl", "current_flash_attention_impl",
    "list_flash_attention_impls", "register_flash_attention_impl", "restore_flash_attention_impl", "sdpa_kernel",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """PyTorch's kernels of scaled dot-product attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[Any, Any]]:
    """Allow only some of the kernels within the block. They give the same here, so that nothing changes.

    AssertionError for what is neither a :class:`SDPBackend` nor a list.
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    yield {}


_IMPLS: dict[str, Callable[..., Any]] = {}
_ACTIVE: list[tuple[str, Any]] = []


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Any]) -> None:
    """Enter an implementation of attention by a name; `register_fn` is called when it is activated."""
    _IMPLS[impl] = register_fn


def activate_flash_attention_impl(impl: str) -> None:
    """Call what was registered for a name. What it returns, if not None, has a `remove()` for `restore`.

    ValueError for a name that is not registered. None is by itself.
    """
    restore_flash_attention_impl(_raise_warn=False)
    if impl not in _IMPLS:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}"
        )
    handle = _IMPLS[impl]()
    if handle is not None:
        _ACTIVE.append((impl, handle))


def list_flash_attention_impls() -> list[str]:
    """Return the names that are registered."""
    return sorted(_IMPLS)


def current_flash_attention_impl() -> str | None:
    """Return the name of the one that is active, or None."""
    return _ACTIVE[-1][0] if _ACTIVE else None


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Take the active one back; a warning in the log if there is none."""
    if _ACTIVE:
        _ACTIVE.pop()[1].remove()
    elif _raise_warn:
        logging.getLogger(__name__).warning("restore_flash_attention_impl: no implementation was activated")


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"module 'minitensor.nn.attention' has no attribute {name!r}: there is one kernel; see docs/names.md"
    )
