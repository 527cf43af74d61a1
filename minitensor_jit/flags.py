"""The compiler's options, and the environment variable MT_JIT_FLAGS that sets them.

`JitOptions` is the one table: each field carries its flag's description, and parsing, `--help` and the documentation
of the class are derived from it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any

ENVIRONMENT_VARIABLE = "MT_JIT_FLAGS"
_LARGEST_INT = 2**31 - 1
STANDARD_OUTPUT = "-"
"""The folder of `--dump_to` that stands for standard output."""


class FlagError(ValueError):
    """A flag that can't be understood. The message names the flag, the value and what was expected."""


@dataclass(frozen=True, slots=True)
class Flag:
    """What there is to say about one flag."""

    name: str
    type: str
    """bool, int, word, fraction, path, file, regex, names or levels."""
    default: Any
    help: str
    bare: str | None = None
    """path: the value of the flag without one."""
    minimum: int = 0
    choices: tuple[Any, ...] = ()
    known: Callable[[], Collection[str]] = tuple
    """names and levels: the names that there are."""

    @property
    def expects(self) -> str:
        """The values that it takes, in words."""
        if self.type == "bool":
            return "true or false"
        if self.type == "path":
            return "the path of a folder"
        if self.type == "file":
            return "the path of a file"
        if self.type == "regex":
            return "a regular expression"
        if self.type == "fraction":
            return "a number from 0 to 1"
        if self.type == "names":
            return "names with commas between them"
        if self.type == "levels":
            return f"NAME=LEVEL, with commas between several; the names are {', '.join(self.known())}"
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        return f"a whole number from {self.minimum} to {_LARGEST_INT}"

    @property
    def usage(self) -> str:
        """How it is written."""
        if self.type == "bool":
            return f"--{self.name}[=true|false]"
        if self.type == "path":
            return f"--{self.name}=DIR" if self.bare is None else f"--{self.name}[=DIR]"
        if self.type == "file":
            return f"--{self.name}=FILE"
        if self.type == "regex":
            return f"--{self.name}=REGEX"
        if self.type == "fraction":
            return f"--{self.name}=FRACTION"
        if self.type in ("names", "levels"):
            return f"--{self.name}={'NAME' if self.type == 'names' else 'NAME=LEVEL'},..."
        return f"--{self.name}={'{' + ','.join(map(str, self.choices)) + '}' if self.choices else 'N'}"

    def parse(self, text: str | None) -> Any:
        """Return the value of `text`; None stands for a flag that was written without `=`."""
        if text is None:
            if self.type == "bool":
                return True
            if self.bare is not None:
                return self.bare
            raise FlagError(f"--{self.name} needs a value: {self.usage} ({self.expects})")
        value = _PARSERS[self.type](self, text)
        if value is None:
            raise FlagError(f"--{self.name}={text}: expected {self.expects}, got {text!r}")
        return value

    def check(self, value: Any) -> None:
        """Raise FlagError unless an option set from Python has a value that the flag could have given it."""
        if value is None and self.default is None:
            return
        if self.type == "bool":
            good = isinstance(value, bool)
        elif self.type in ("path", "file", "regex"):
            good = isinstance(value, str) and _PARSERS[self.type](self, value) is not None
        elif self.type == "fraction":
            good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
        elif self.type == "word":
            good = value in self.choices
        elif self.type in ("names", "levels"):
            self._check_names(value)
            good = True
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

    def _word(self, text: str) -> str | None:
        return text if text in self.choices else None

    def _path(self, text: str) -> str | None:
        return text if text and "\0" not in text else None

    def _regex(self, text: str) -> str | None:
        try:
            re.compile(text)
        except (re.error, RecursionError, OverflowError, Warning):
            return None
        return text

    def _fraction(self, text: str) -> float | None:
        if re.fullmatch(r"\+?[0-9]{0,20}\.?[0-9]{1,20}(e-?[0-9]{1,3})?", text, re.ASCII) is None:
            return None
        value = float(text)
        return value if 0 <= value <= 1 else None

    def _names(self, text: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in text.split(",")) if text else ()

    def normalize(self, value: Any) -> Any:
        """Lists of names may be written in Python as a flag has them, or as any sequence; they become tuples."""
        if self.type == "fraction" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if self.type not in ("names", "levels"):
            return value
        if isinstance(value, str):
            return self._names(value)
        return tuple(value) if isinstance(value, (list, tuple, set, frozenset)) else value

    def _check_names(self, value: Any) -> None:
        if not isinstance(value, tuple) or not all(isinstance(word, str) for word in value):
            raise FlagError(f"{self.name}={value!r}: expected {self.expects}, got {value!r}")
        known = self.known() if value else ()
        for word in value:
            name, _, level = word.partition("=")
            if self.type == "levels" and re.fullmatch("[0-9]", level) is None:
                raise FlagError(f"--{self.name}: expected NAME=LEVEL with a level from 0 to 9, got {word!r}")
            if self.type == "names":
                name = word
            if name not in known and not (self.type == "levels" and any(fnmatchcase(one, name) for one in known)):
                import difflib  # takes a while, and most words are right

                near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
                hint = f"did you mean {' or '.join(near)}?" if near else f"expected {self.expects}"
                raise FlagError(f"--{self.name}: there is no {name!r}; {hint}")


_PARSERS: dict[str, Callable[[Flag, str], Any]] = {
    "bool": Flag._bool,
    "int": Flag._int,
    "word": Flag._word,
    "fraction": Flag._fraction,
    "path": Flag._path,
    "file": Flag._path,
    "regex": Flag._regex,
    "names": Flag._names,
    "levels": Flag._names,
}

OP_GROUPS: dict[str, frozenset[str]] = {
    "PW": frozenset({"elementwise"}),
    "RED": frozenset({"reduction"}),
    "MISC": frozenset({"view", "movement", "creation"}),
    "PWRED": frozenset({"elementwise", "reduction"}),
    "FUSIBLE": frozenset({"elementwise", "reduction", "view", "movement", "creation"}),
}
"""What groups of ops are called in flags: the kinds of their rows."""

CODEGEN_FLAGS = ("fast_math", "reduce_precision", "disable_constant_folding")
"""The flags that the code of a module depends on; all others only choose or observe modules."""

LOG_MODULES: dict[str, str] = {
    "codegen": "1: kernels, scratch memory and times of each module; 2: its steps and buffers",
    "mark_for_compilation": "1: clusters of each graph; 2: the verdict on each op",
    "pass_manager": "1: passes that changed a module; 2: all passes, with the number of instructions",
    "persistent_cache": "1: entries that are loaded, rebuilt or unreadable; 2: those that are missing",
    "verify": "1: runs that differ; 2: all runs that are checked",
    "xla_compiler": "1: each compilation and its time; 2: the HLO before and after the passes",
}
"""The modules that --vmodule can make talk, and what they say from which level on."""


def _op_names() -> Collection[str]:
    # Imported when a list of ops is given: the flags themselves need no tensors.
    from minitensor.ops import ROWS

    return [*OP_GROUPS, *ROWS]


def _flag(type: str, default: Any, help: str, **more: Any) -> Any:
    return field(default=default, metadata={"flag": {"type": type, "help": help, **more}})


@dataclass(frozen=True, slots=True)
class JitOptions:
    """The compiler's options; immutable, so that they can be part of a key."""

    auto_jit: int = _flag(
        "int",
        0,
        "Compile ops in clusters: 0 only those in jit_scope or function(jit_compile=True); 1 clusters of connected ops "
        "that are predicted to win by their bytes, flops and launches; 2 everything that can be compiled, also joining "
        "regions that nothing connects.",
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
    ops_to_cluster: tuple[str, ...] = _flag(
        "names",
        (),
        "Cluster only these: names of ops, or PW (elementwise), RED (reductions), MISC (views, movement, creation), "
        "PWRED (PW and RED), FUSIBLE (all three). What must be compiled is.",
        known=_op_names,
    )
    cluster_exclude_ops: tuple[str, ...] = _flag(
        "names",
        (),
        "Never cluster these ops or groups of ops, unless they must be compiled.",
        known=_op_names,
    )
    explain: bool = _flag(
        "bool", False, "Report at exit which ops were compiled, which were not and why, and what was recompiled."
    )
    report: str | None = _flag(
        "file",
        None,
        "Write a report of the whole program to this file at exit, however the program ends: one HTML page with all "
        "that was compiled, stage by stage, what was not and why, times, memory and a timeline. Compiled code measures "
        "itself for it, as with --hlo_profile.",
    )
    clustering_debug: bool = _flag(
        "bool",
        False,
        "Print the graph to stderr after each phase of the clustering; or write it, as text and .dot, to the folder "
        "that the environment variable MT_DUMP_GRAPH_PREFIX names.",
    )
    dump_to: str | None = _flag(
        "path",
        None,
        "Write graphs, HLO, LLVM IR and assembly of everything that is compiled to this folder, and for each module a "
        "program that runs it alone on its first inputs. Without DIR, all but the latter goes to standard output.",
        bare=STANDARD_OUTPUT,
    )
    dump_hlo_as_text: bool = _flag("bool", False, "Dump HLO as text; the default unless --dump_hlo_as_dot is given.")
    dump_hlo_as_dot: bool = _flag("bool", False, "Dump HLO as pictures for Graphviz.")
    dump_hlo_pass_re: str | None = _flag(
        "regex", None, "Dump HLO only after passes whose name has a match, and before and after all of them."
    )
    dump_hlo_module_re: str | None = _flag("regex", None, "Dump only modules whose name has a match.")
    generate_hlo_graph: str | None = _flag(
        "regex",
        None,
        "Draw the HLO of modules whose name has a match, before, between and after the passes, as hlo_graph_N.dot; and "
        "print a line for each.",
    )
    hlo_graph_path: str | None = _flag(
        "path", None, "The folder of these pictures; without it, that of --dump_to, or else the working directory."
    )
    hlo_profile: bool = _flag(
        "bool",
        False,
        "Measure compiled code, and print at exit where the time went: by cluster and fused kernel, with bytes, flops, "
        "the share of what the machine could do, the ops and their lines.",
    )
    verify: float = _flag(
        "fraction",
        0.0,
        "Run this fraction of the calls of each cluster a second time op by op, the first call always, and raise "
        "MismatchError where a bit differs; it names the first op that does.",
    )
    fast_math: bool = _flag(
        "bool",
        False,
        "Let compiled code contract a product and a sum to one rounding, and simplify as if floats were real numbers: "
        "faster, but no longer the same bits as eager code.",
    )
    reduce_precision: str = _flag(
        "word",
        "none",
        "Round the operands of matrix products and convolutions in compiled code to that format, to see what a run "
        "loses in it; no longer the same bits as eager code.",
        choices=("none", "bf16", "f16"),
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
    check_cluster_input_numerics: bool = _flag(
        "bool", False, "Raise FloatingPointError before a cluster runs on NaN or infinity; names the op and its line."
    )
    check_cluster_output_numerics: bool = _flag(
        "bool", False, "Raise FloatingPointError after a cluster gave NaN or infinity; names the op and its line."
    )
    print_cluster_outputs: bool = _flag("bool", False, "Print every result of every cluster's run to stderr.")
    enable_lazy_compilation: bool = _flag(
        "bool",
        True,
        "Compile what a scope or a function asks for when it first runs, other ops at level 2 when the same comes for "
        "the second time, at level 1 when they have taken as long as compiling takes; and where plans are not needed "
        "again, only then. Ops run one by one meanwhile. Without it everything is compiled at once. What must be "
        "compiled always is.",
    )
    always_defer_compilation: bool = _flag(
        "bool", False, "Cluster, but run the clusters' ops one by one: to find out whether compiled code goes wrong."
    )
    async_compilation: bool = _flag(
        "bool", False, "Compile clusters on a thread of their own; their ops run one by one meanwhile."
    )
    measure_clusters: bool = _flag(
        "bool",
        True,
        "Hold the time of each cluster against that of its ops, which run one by one a few times for that; a cluster "
        "that loses is not launched any more. Of a whole program record only what pays: what it does from one look "
        "at a value to the next is timed against its eager run in the same way, and all that recording and compiling "
        "take is at no time more than a small share of the time that the program has run. Without it everything is "
        "recorded.",
    )
    dynamic_shapes: bool = _flag(
        "bool",
        True,
        "After the second distinct size of a dimension compile a cluster once more, for all sizes of it, where that "
        "can be done.",
    )
    vmodule: tuple[str, ...] = _flag(
        "levels",
        (),
        "Log what modules of the compiler do, to Python's logging, or to stderr where that is not set up. A name may "
        "have * in it, and of several that fit the last counts. "
        + ". ".join(f"{name} - {what}" for name, what in LOG_MODULES.items())
        + ".",
        known=lambda: LOG_MODULES,
    )
    persistent_cache_directory: str | None = _flag(
        "path",
        None,
        "Keep compiled code in this folder and load it from there in later runs. It is made with mode 0700; one that "
        "others can write to is refused.",
    )
    program_cache: bool = _flag(
        "bool",
        True,
        "Let a program that is recorded as a whole keep what was compiled for it, and what it learned of what pays, in "
        "the user's cache directory ($XDG_CACHE_HOME/minitensor or ~/.cache/minitensor), unless "
        "--persistent_cache_directory names another, and have another process compile meanwhile. Where an environment "
        "variable says that this is CI nothing is kept.",
    )
    persistent_cache_bytes: int = _flag(
        "int",
        2**30,
        "The size of that folder, at most; what was used least recently is removed.",
    )
    executable_cache_bytes: int = _flag(
        "int",
        2**28,
        "How much memory compiled clusters may take that no function owns; what was used least recently is forgotten.",
    )
    plan_cache_bytes: int = _flag(
        "int",
        2**26,
        "How much memory launch plans may take, for the whole program; what was used least recently is forgotten.",
    )
    help: bool = _flag("bool", False, "Print this text and exit.")

    def __post_init__(self) -> None:
        for flag in FLAGS:
            value = flag.normalize(getattr(self, flag.name))
            object.__setattr__(self, flag.name, value)
            flag.check(value)
        if self.max_cluster_size is not None and self.max_cluster_size < self.min_cluster_size:
            raise FlagError(
                f"--max_cluster_size={self.max_cluster_size} is below --min_cluster_size={self.min_cluster_size}: "
                "no cluster could have both"
            )

    def verbosity(self, module: str) -> int:
        """The level of --vmodule for a module of the compiler; 0 without one."""
        level = 0
        for word in self.vmodule:
            name, _, number = word.partition("=")
            if fnmatchcase(module, name):
                level = int(number)
        return level

    def replace(self, **changes: Any) -> JitOptions:
        """Return the same options with some changed; FlagError for an unknown name or a value out of range."""
        for name in changes:
            if name not in _BY_NAME:
                raise FlagError(f"there is no option {name!r}{_did_you_mean(name, '')}")
        return replace(self, **changes)

    @property
    def codegen(self) -> JitOptions:
        """Those of the options that the code of a module depends on; the others are as if they were not given."""
        return JitOptions(**{name: getattr(self, name) for name in CODEGEN_FLAGS})

    @property
    def looks_inside(self) -> bool:
        """Whether somebody observes the numbers that clusters read and give."""
        return bool(
            self.check_cluster_input_numerics or self.check_cluster_output_numerics or self.print_cluster_outputs
        )

    @property
    def writes_stages(self) -> bool:
        """Whether somebody observes what modules are at each stage, as text or in pictures."""
        texts = self.dump_hlo_as_text, self.dump_hlo_as_dot, self.dump_hlo_pass_re, self.dump_hlo_module_re
        return self.dump_to is not None or self.generate_hlo_graph is not None or any(texts)

    @property
    def tolerance(self) -> float:
        """How far results may be from those of eager code, relative to them; 0 where they have the same bits."""
        rounded = {"none": 0.0, "f16": 1e-2, "bf16": 5e-2}[self.reduce_precision]
        return max(rounded, 1e-3 if self.fast_math else 0.0)

    def text(self) -> str:
        """Return the flags that would give these options."""
        words = []
        for flag in FLAGS:
            value = getattr(self, flag.name)
            if value != flag.default:
                value = ",".join(value) if isinstance(value, tuple) else value
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


def covers(names: Collection[str], op: str, kind: str) -> bool:
    """Whether a list of ops and groups has an op of that name and kind."""
    return op in names or any(kind in OP_GROUPS.get(name, ()) for name in names)


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
    import difflib

    near = difflib.get_close_matches(name.lower().replace("-", "_"), _BY_NAME, n=3, cutoff=0.5)
    if near:
        return f"; did you mean {' or '.join(dashes + other for other in near)}?"
    return f"; the flags are {', '.join(dashes + other for other in _BY_NAME)}" if dashes else ""


_INDENTED: dict[str, Any] = {
    "initial_indent": "      ",
    "subsequent_indent": "      ",
    # Flags stay whole, so that they can be found.
    "break_on_hyphens": False,
    "break_long_words": False,
}


def help_text() -> str:
    """Return the text that `--help` prints."""
    from textwrap import wrap

    lines = [f"{ENVIRONMENT_VARIABLE} takes flags of minitensor's compiler:", ""]
    for flag in FLAGS:
        default = "not set" if flag.default in (None, ()) else str(flag.default).lower()
        lines += [f"  {flag.usage}  (default: {default})", *wrap(flag.help, 100, **_INDENTED)]
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
