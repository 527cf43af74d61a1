"""Options of a script on the command line: `--name=value` and `--name value`; `--name` and `--noname` of bools."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from minitensor.compat.v1.framework.instead import missing as _missing

__all__ = ["FLAGS", "DEFINE_bool", "DEFINE_boolean", "DEFINE_float", "DEFINE_integer", "DEFINE_string"]


class _Flags:
    """The values of the options, as attributes; the command line is read by the first use of one."""

    def __init__(self) -> None:
        self._parser = argparse.ArgumentParser(allow_abbrev=False)
        self._values: dict[str, Any] | None = None
        self._defaults: dict[str, Any] = {}
        self._bools: set[str] = set()

    def _define(self, name: str, default: Any, kind: Any, text: str | None) -> None:
        if name in self._defaults:
            raise ValueError(f"the flag {name!r} is defined already")
        self._defaults[name] = default
        # A percent sign is argparse's.
        words = (text or "").replace("%", "%%")
        if kind is bool:
            self._bools.add(name)
            self._parser.add_argument(f"--{name}", default=default, type=_bool, help=words)
            self._parser.add_argument(f"--no{name}", dest=name, action="store_false", default=argparse.SUPPRESS)
        else:
            self._parser.add_argument(f"--{name}", default=default, type=kind, help=words)
        self._values = None

    def __call__(self, argv: list[str]) -> list[str]:
        """Read a command line; what is left of it, the program's name first."""
        # A bool takes a value after "=" only: the next argument is another one.
        given = [f"{each}=true" if each[:2] == "--" and each[2:] in self._bools else each for each in argv[1:]]
        values, left = self._parser.parse_known_args(given)
        self._values = vars(values)
        return [argv[0], *left]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._defaults:
            raise AttributeError(f"there is no flag {name!r}; tf.app.flags.DEFINE_string and the like define one")
        if self._values is None:
            self(sys.argv)
        assert self._values is not None
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        getattr(self, name)
        assert self._values is not None
        self._values[name] = value


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "t", "1", "yes", "false", "f", "0", "no"):
        raise argparse.ArgumentTypeError(f"expected true or false, not {text!r}")
    return text.lower() in ("true", "t", "1", "yes")


FLAGS = _Flags()


def DEFINE_string(flag_name: str, default_value: str | None, docstring: str | None) -> None:  # noqa: N802
    """An option that takes a text."""
    FLAGS._define(flag_name, default_value, str, docstring)


def DEFINE_integer(flag_name: str, default_value: int | None, docstring: str | None) -> None:  # noqa: N802
    """An option that takes a whole number."""
    FLAGS._define(flag_name, default_value, int, docstring)


def DEFINE_float(flag_name: str, default_value: float | None, docstring: str | None) -> None:  # noqa: N802
    """An option that takes a number."""
    FLAGS._define(flag_name, default_value, float, docstring)


def DEFINE_boolean(flag_name: str, default_value: bool | None, docstring: str | None) -> None:  # noqa: N802
    """An option that is on or off."""
    FLAGS._define(flag_name, default_value, bool, docstring)


DEFINE_bool = DEFINE_boolean

__getattr__ = _missing(__name__)
