"""What the compiler says while it works, for `--vmodule=NAME=LEVEL`: to Python's loggers `minitensor_jit.NAME`.

Level 1 is logging's INFO, from 2 on it is DEBUG. The loggers' own levels hold as ever; what a module's level in the
options asks for besides is said whatever they are, and on stderr if nobody has set up a handler. So the flag works
by itself, and for as long as its options are in force.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from minitensor_jit.flags import JitOptions


class _Stderr(logging.StreamHandler[Any]):
    """Writes to what sys.stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_stderr = _Stderr()
_stderr.setFormatter(logging.Formatter("%(levelname).1s %(name)s: %(message)s"))


def _logger(module: str) -> logging.Logger:
    return logging.getLogger(f"minitensor_jit.{module}")


def _severity(level: int) -> int:
    return logging.INFO if level <= 1 else logging.DEBUG


def talks(options: JitOptions, module: str, level: int) -> bool:
    """Whether anybody would see what `log` is told."""
    logger = _logger(module)
    return options.verbosity(module) >= level or logger.isEnabledFor(_severity(level))


def log(options: JitOptions, module: str, level: int, message: str, *args: object) -> None:
    """Say something as a module of `flags.LOG_MODULES`; `args` are formatted into the message if it is seen."""
    logger = _logger(module)
    severity = _severity(level)
    if options.verbosity(module) < level:
        logger.log(severity, message, *args, stacklevel=2)
        return
    file, line, function, _ = logger.findCaller(stacklevel=2)
    record = logger.makeRecord(logger.name, severity, file, line, message, args, None, function)
    if logger.hasHandlers():
        logger.handle(record)
    else:
        _stderr.handle(record)
