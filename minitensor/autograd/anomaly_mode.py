"""Anomaly mode: errors of the backward pass name the forward call, and NaN in a gradient is an error."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import Any

from minitensor import _C
from minitensor._warning import warn
from minitensor.settings import is_anomaly_check_nan_enabled, is_anomaly_enabled

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]

_OWN = str(Path(__file__).resolve().parent.parent) + "/"


def _stack() -> str:
    """The user's part of the stack, outermost first, as tracebacks show it."""
    frame, lines = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            line = linecache.getline(code.co_filename, frame.f_lineno).strip()
            text = f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n'
            lines.append(text + (f"    {line}\n" if line else ""))
        frame = frame.f_back  # type: ignore[assignment]  # the loop's condition
    return "".join(reversed(lines))


def _report(name: str, trace: str | None) -> None:
    if trace is None:
        text = f"Error detected in {name}. No forward pass information available. Enable detect anomaly during forward "
        text += "pass for more information."
    else:
        text = f"Error detected in {name}. Traceback of forward call that caused the error:\n{trace}"
    warn(text)


def _has_nan(tensor: Any) -> bool:
    values = tensor._elements if _C.is_sparse_storage(tensor) else tensor
    return bool((values != values).any())


def _check_switches(**switches: Any) -> None:
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise TypeError(f"set_anomaly_enabled(): argument '{name}' must be bool, not {type(value).__name__}")


class set_detect_anomaly:  # noqa: N801  (PyTorch's name)
    """Sets anomaly mode: at once, and as a context until its end.

    With `check_nan`, a backward formula that gives NaN raises a RuntimeError.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous = _C.anomaly()
        _check_switches(mode=mode, check_nan=check_nan)
        _C.set_anomaly(mode, check_nan, _stack, _report, _has_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        _C.set_anomaly(*self._previous, _stack, _report, _has_nan)


class detect_anomaly(_C.Context):  # noqa: N801  (PyTorch's name)
    """A context with anomaly mode on: slow, for finding errors.

    A backward pass that fails warns with the traceback of the forward call whose gradient it was, and with `check_nan`
    NaN in a gradient is a failure.
    """

    def __init__(self, check_nan: bool = True) -> None:
        _check_switches(check_nan=check_nan)
        self._check_nan = check_nan
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging."
        )

    def _now(self) -> tuple[bool, bool]:
        return _C.anomaly()

    def _set(self) -> None:
        _C.set_anomaly(True, self._check_nan, _stack, _report, _has_nan)

    def _restore(self, before: tuple[bool, bool]) -> None:
        _C.set_anomaly(*before, _stack, _report, _has_nan)
