"""Where a warning belongs: the line of the user who called."""

from __future__ import annotations

import os
import sys

__all__ = ["users_level"]

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def users_level() -> int:
    """The `stacklevel` for `warnings.warn` in the calling function: that of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
