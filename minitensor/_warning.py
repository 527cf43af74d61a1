"""The framework's warnings: at the line of the user who called, and known to a function that is being recorded."""

from __future__ import annotations

import os
import re
import sys
import warnings

from minitensor import _C

__all__ = ["as_shown", "warn", "warn_of_copy", "warn_of_pytorch"]

_HERE = os.path.dirname(os.path.abspath(__file__))
_OURS = (_HERE + os.sep, os.path.join(os.path.dirname(_HERE), "minitensor_jit") + os.sep)
_NAMES = re.compile(r"(?<![\w./])minitensor\.")

_said: set[str] = set()


def as_shown(text: str) -> str:
    """A text with what it names of this package as the shown package's: PyTorch's, where a program runs under it."""
    shown = _C.shown_package()
    return text if shown == "minitensor" else _NAMES.sub(f"{shown}.", text)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first frame outside the framework; what a filter makes an error is raised.

    A compiled function replays without Python. It records again if the filters are others than when it warned, so that
    they decide at each call; what they let through is printed when it is recorded, as all that it prints.
    """
    _C.note_warning()
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(as_shown(message), category, stacklevel=level)


def warn_of_pytorch(message: str, category: type[Warning] = UserWarning, *, once: bool = True) -> None:
    """Warn of what is to change in PyTorch alone: where a program runs under its name, and mostly once a process."""
    if _C.shown_package() == "minitensor":
        return
    if once:
        from minitensor.settings import is_warn_always_enabled

        if message in _said and not is_warn_always_enabled():
            return
        _said.add(message)
    warn(message, category)


def warn_of_copy(call: str) -> None:
    """Warn, as PyTorch does, that a call copies a tensor as data."""
    warn_of_pytorch(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        f"sourceTensor.detach().clone().requires_grad_(True), rather than {call}(sourceTensor).",
        once=False,
    )
