"""`tf.logging`: Python's logger `minitensor.graphs` with TensorFlow's names.

Warnings and worse are shown by default.
"""

from __future__ import annotations

import logging as _logging
import sys as _sys
from typing import Any

from minitensor.compat.v1.framework.instead import missing as _missing

__all__ = [
    "DEBUG", "ERROR", "FATAL", "INFO", "WARN", "debug", "error", "fatal", "get_verbosity", "info", "log",
    "set_verbosity", "warn", "warning",
]  # fmt: skip

DEBUG, INFO, WARN, ERROR, FATAL = (
    _logging.DEBUG,
    _logging.INFO,
    _logging.WARNING,
    _logging.ERROR,
    _logging.CRITICAL,
)

_logger = _logging.getLogger("minitensor.graphs")
_logger.setLevel(WARN)


class _ToStderr(_logging.StreamHandler):  # type: ignore[type-arg]
    """Shows messages where the program has set up no handler."""

    def emit(self, record: _logging.LogRecord) -> None:
        """Show a message."""
        if not _logging.getLogger().handlers:
            self.stream = _sys.stderr
            super().emit(record)


_handler = _ToStderr()
_handler.setFormatter(_logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
_logger.addHandler(_handler)


def set_verbosity(v: int) -> None:
    """Show messages from that level on: `DEBUG`, `INFO`, `WARN`, `ERROR` or `FATAL`."""
    _logger.setLevel(v)


def get_verbosity() -> int:
    """The level from which messages are shown."""
    return _logger.getEffectiveLevel()


def log(level: int, msg: str, *args: Any, **kwargs: Any) -> None:
    """A message of that level, formatted with `%`."""
    _logger.log(level, msg, *args, **kwargs)


debug, info, warn, warning = _logger.debug, _logger.info, _logger.warning, _logger.warning
error, fatal = _logger.error, _logger.critical

__getattr__ = _missing(__name__)
