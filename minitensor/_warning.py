"""The framework's warnings: at the line of the user who called, and known to a function that is being recorded."""

from __future__ import annotations

import os
import sys
import warnings

from minitensor import _C

__all__ = ["warn"]

_HERE = os.path.dirname(os.path.abspath(__file__))
_OURS = (_HERE + os.sep, os.path.join(os.path.dirname(_HERE), "minitensor_jit") + os.sep)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first frame outside the framework; what a filter makes an error is raised.

    A compiled function replays without Python. It records again if the filters are others than when it warned, so that
    they decide at each call; what they let through is printed when it is recorded, as all that it prints.
    """
    _C.note_warning()
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
