"""The compiler's options, and the environment variable MT_JIT_FLAGS that sets them.

`JitOptions` is the one table: each field carries its flag's description, and parsing, `--help` and the documentation
of the class are derived from it.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

ENVIRONMENT_VARIABLE = "MT_JIT_FLAGS"
_LARGEST_INT = 2**31 - 1


class FlagError(ValueError):
    """A flag that can't be understood. The message names the flag, the value and what was expected."""


@dataclass(frozen=True, slots=True)
class Flag:
    """What there is to say about one flag."""

    name: str
    type: str
    """bool, int or path."""
    default: Any
    help: str
    minimum: int = 0
    choices: tuple[int, ...] = ()

    @property
    def expects(self) -> str:
        """The values that it takes, in words."""
        if self.type == "bool":
            return "true or false"
        if self.type == "path":
            return "the path of a folder"
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        return f"a whole number from {self.minimum} to {_LARGEST_INT}"

    @property
    def usage(self) -> str:
        """How it is written."""
        if self.type == "bool":
            return f"--{self.name}[=true|false]"
        if self.type == "path":
            return f"--{self.name}=DIR"
        return f"--{self.name}={'{' + ','.join(map(str, self.choices)) + '}' if self.choices else 'N'}"

    def parse(self, text: str | None) -> Any:
        """Return the value of `text`; None stands for a flag that was written without `=`."""
        if text is None:
            if self.type == "bool":
                return True
            raise FlagError(f"--{self.name} needs a value: {self.usage} ({self.expects})")
        value = {"bool": self._bool, "int": self._int, "path": self._path}[self.type](text)
        if value is None:
            raise FlagError(f"--{self.name}={text}: expected {self.expects}, got {text!r}")
        return value

    def check(self, value: Any) -> None:
        """Raise FlagError unless an option set from Python has a value that the flag could have given it."""
        if value is None and self.default is None:
            return
        if self.type == "bool":
            good = isinstance(value, bool)
        elif self.type == "path":
            good = isinstance(value, str) and self._path(value) is not None
        else:
            good = isinstance(value, int) and not isinstance(value, bool) and self._int(str(value)) is not None
        if not good:
            raise FlagError(f"{self.name}={value!r}: expected {self.expects}, got {value!r}")

    def _bool(self, text: str) -> bool | None:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower())

    def _int(self, text: str) -> int | None:
        if re.fullmatch(r"[+-]?[0-9]{1,10}", text) is None:
            return None
        value = int(text)
        good = value in self.choices if self.choices else self.minimum <= value <= _LARGEST_INT
        return value if good else None

    def _path(self, text: str) -> str | None:
        return text if text and "\0" not in text else None


def _flag(type: str, default: Any, help: str, **more: Any) -> Any:
    return field(default=default, metadata={"flag": {"type": type, "help": help, **more}})


@dataclass(frozen=True, slots=True)
class JitOptions:
    """The compiler's options; immutable, so that they can be part of a key."""

    auto_jit: int = _flag(
        "int",
        0,
        "Compile ops in clusters: 0 only those in jit_scope or function(jit_compile=True); 1 wherever connected ops "
        "make a cluster; 2 also joins regions that nothing connects, for fewer, larger launches.",
        choices=(0, 1, 2),
    )
    cpu_global_jit: bool = _flag(
        "bool", False, "Let auto_jit take ops on the CPU too. Without it, it takes those on GPUs only."
    )
    min_cluster_size: int = _flag(
        "int",
        4,
        "The fewest ops that auto_jit compiles as a cluster. Constants, views and the like don't count.",
        minimum=1,
    )
    max_cluster_size: int | None = _flag("int", None, "The most ops in a cluster; no limit without it.", minimum=1)
    explain: bool = _flag(
        "bool", False, "Report at exit which ops were compiled, which were not and why, and what was recompiled."
    )
    clustering_debug: bool = _flag("bool", False, "Print the graph to stderr after each phase of the clustering.")
    dump_to: str | None = _flag(
        "path", None, "Write graphs, HLO and LLVM IR of everything that is compiled to this folder."
    )
    fast_math: bool = _flag(
        "bool",
        False,
        "Let compiled code contract a product and a sum to one rounding: faster, but no longer the same bits as eager "
        "code.",
    )
    disable_constant_folding: bool = _flag("bool", False, "Leave the constant folding pass out of the HLO pipeline.")
    clustering_fuel: int | None = _flag(
        "int",
        None,
        "Mark at most that many ops for compilation in this process. Bisect with it to find an op that goes wrong.",
    )
    deterministic_cluster_names: bool = _flag(
        "bool",
        False,
        "Name clusters after the graph's contents, so that names stay the same from run to run.",
    )
    help: bool = _flag("bool", False, "Print this text and exit.")

    def __post_init__(self) -> None:
        for flag in FLAGS:
            flag.check(getattr(self, flag.name))
        if self.max_cluster_size is not None and self.max_cluster_size < self.min_cluster_size:
            raise FlagError(
                f"--max_cluster_size={self.max_cluster_size} is below --min_cluster_size={self.min_cluster_size}: "
                "no cluster could have both"
            )

    def replace(self, **changes: Any) -> JitOptions:
        """Return the same options with some changed; FlagError for an unknown name or a value out of range."""
        for name in changes:
            if name not in _BY_NAME:
                raise FlagError(f"there is no option {name!r}{_did_you_mean(name, '')}")
        return replace(self, **changes)

    def text(self) -> str:
        """Return the flags that would give these options."""
        words = []
        for flag in FLAGS:
            value = getattr(self, flag.name)
            if value != flag.default:
                words.append(f"--{flag.name}" if value is True else shlex.quote(f"--{flag.name}={value}"))
        return " ".join(words)


FLAGS: tuple[Flag, ...] = tuple(
    Flag(name=f.name, default=None if f.default is MISSING else f.default, **f.metadata["flag"])
    for f in fields(JitOptions)
)
_BY_NAME = {flag.name: flag for flag in FLAGS}
JitOptions.__doc__ = (
    (JitOptions.__doc__ or "") + "\n\n" + "\n".join(f"- `{flag.name}`: {flag.help}" for flag in FLAGS) + "\n"
)


def parse_flags(text: str) -> JitOptions:
    """Parse the value of MT_JIT_FLAGS: words `--name=value`, quoted as in a shell; of two of one name the last counts.

    Raises FlagError for whatever it does not understand.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # Bytes of the environment that are not UTF-8 arrive as lone surrogates.
        bad = text[error.start]
        byte = f"byte 0x{ord(bad) - 0xDC00:02x}" if "\udc80" <= bad <= "\udcff" else f"lone surrogate {bad!a}"
        shown = ascii(text[max(0, error.start - 20) : error.start + 20])
        raise FlagError(
            f"{ENVIRONMENT_VARIABLE} is not valid UTF-8: {byte} at character {error.start}, in {shown}"
        ) from None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise FlagError(f"{ENVIRONMENT_VARIABLE}: {str(error).lower()} in {text!r}") from None
    values: dict[str, Any] = {}
    for word in words:
        if not word.startswith("--") or word == "--":
            name = word.lstrip("-").partition("=")[0]
            hint = f"; did you mean --{word.lstrip('-')}?" if name in _BY_NAME else _did_you_mean(name)
            raise FlagError(f"{word!r} in {ENVIRONMENT_VARIABLE} is not a flag: expected --name or --name=value{hint}")
        name, equals, value = word[2:].partition("=")
        flag = _BY_NAME.get(name)
        if flag is None:
            raise FlagError(f"unknown flag --{name} in {ENVIRONMENT_VARIABLE}{_did_you_mean(name)}")
        values[name] = flag.parse(value if equals else None)
    return JitOptions(**values)


def _did_you_mean(name: str, dashes: str = "--") -> str:
    near = difflib.get_close_matches(name.lower().replace("-", "_"), _BY_NAME, n=3, cutoff=0.5)
    if near:
        return f"; did you mean {' or '.join(dashes + other for other in near)}?"
    return f"; the flags are {', '.join(dashes + other for other in _BY_NAME)}" if dashes else ""


def help_text() -> str:
    """Return the text that `--help` prints."""
    lines = [f"{ENVIRONMENT_VARIABLE} takes flags of minitensor's compiler:", ""]
    for flag in FLAGS:
        default = "not set" if flag.default is None else str(flag.default).lower()
        lines += [f"  {flag.usage}  (default: {default})", f"      {flag.help}"]
    return "\n".join(lines) + "\n"


def read_environment(
    environment: Mapping[str, str] | None = None, write: Callable[[str], object] | None = None
) -> JitOptions:
    """Return the options that MT_JIT_FLAGS asks for. `--help` prints the flags and ends the program."""
    options = parse_flags((os.environ if environment is None else environment).get(ENVIRONMENT_VARIABLE, ""))
    if options.help:
        (write or (lambda text: print(text, end="")))(help_text())
        raise SystemExit(0)
    return options
