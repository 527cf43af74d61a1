"""The pages of the reference: what the docstrings and tables of this checkout say."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import minitensor as mt
import minitensor_jit
from minitensor_jit.clustering.unclustered_reason import Reason
from minitensor_jit.flags import FLAGS
from minitensor_jit.ir.evaluate.custom_calls import custom_call_targets
from minitensor_jit.ir.opcode import OPCODES
from minitensor_jit.ir.refusal import Refused
from minitensor_jit.passes.pipeline import PASSES, stages

# The public modules, in the order of the pages.
MODULES = [
    "nn", "nn.functional", "nn.init", "nn.attention", "nn.grad", "nn.parallel", "nn.utils", "nn.utils.rnn",
    "nn.utils.parametrize", "nn.utils.parametrizations", "nn.utils.prune", "nn.utils.stateless", "optim",
    "optim.lr_scheduler", "optim.swa_utils", "autograd", "autograd.functional", "autograd.forward_ad",
    "autograd.graph", "func", "linalg", "fft", "special", "signal.windows", "sparse", "masked", "distributions",
    "random", "amp", "utils.data", "utils.checkpoint", "utils.benchmark", "serialization",
    "serialization.safetensors", "multiprocessing", "distributed", "session", "timeline", "profiler", "testing",
    "export", "fx", "library", "extend", "hub", "overrides", "array_api", "compat.v1", "compiler", "backends", "cuda"
]  # fmt: skip
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, mt._C.Op, type(mt.add))
CODE = re.compile(r"(``.+?``|`[^`\n]+`)", re.DOTALL)


def escaped(text: str) -> str:
    """Plain text in which Markdown finds no markup."""
    return re.sub(r"([*_<>\[\]|~$#])", r"\\\1", text)


def markdown(docstring: str) -> str:
    """A docstring in Markdown: code stays code, and indented lines after `::` are a block of it."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", inspect.cleandoc(docstring))
    lines, out, fenced = text.splitlines(), [], False
    for number, line in enumerate(lines):
        indented = line.startswith("    ") or (fenced and not line.strip())
        if not fenced and indented and (number == 0 or not lines[number - 1].strip()):
            out.append("````text")
            fenced = True
        elif fenced and not indented:
            while not out[-1].strip():
                out.pop()
            out += ["````", ""]
            fenced = False
        if fenced:
            out.append(line[4:])
        else:
            line = re.sub(r"::$", ":", line)
            out.append("".join(part if i % 2 else escaped(part) for i, part in enumerate(CODE.split(line))))
    return "\n".join([*out, "````"] if fenced else out).strip()


def first_sentence(docstring: str | None) -> str:
    """What stands in a table."""
    text = markdown((docstring or "").strip().partition("\n\n")[0])
    return " ".join(text.split()).replace("|", "\\|")


def signature(thing: Any, name: str) -> str:
    """A call of something, as one writes it."""
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except (ValueError, TypeError):
        return f"{name}(...)"
    words, star = [], False
    for parameter in parameters:
        if parameter.name in ("self", "cls") and not words:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            words.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = ""
        if parameter.default is not parameter.empty:
            value = repr(parameter.default)
            default = "=" + (value if len(value) < 30 and "<" not in value and "\n" not in value else "...")
        words.append(f"{mark}{parameter.name}{default}")
    return f"{name}({', '.join(words)})"


def entry(kind: str, name: str, thing: Any, doc: str | None = None, depth: int = 4) -> str:
    """One name, with its signature and docstring."""
    written = signature(thing, name) if kind in ("function", "class", "method") else name
    text = markdown((inspect.getdoc(thing) or "") if doc is None else doc)
    fence = ":" * depth
    return f"{fence}{{py:{kind}}} {written}\n\n{text}\n{fence}\n"


def public(module: Any) -> list[str]:
    """The names that a module offers."""
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    return sorted({name for name in names if name != "annotations"}, key=lambda name: (name.lower(), name))


def members(cls: type) -> Iterator[str]:
    """The methods and properties of a class that it says something about itself."""
    for name, member in sorted(vars(cls).items()):
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        doc = getattr(member, "__doc__", None)
        if name.startswith("_") or not doc or isinstance(member, type) or type(member).__name__ == "member_descriptor":
            continue
        if isinstance(member, property) or inspect.isgetsetdescriptor(member):
            yield entry("property", name, member, doc)
        elif callable(member):
            yield entry("method", name, member, doc)


def module_page(module: Any, title: str, names: list[str] | None = None) -> str:
    """A page with all names of a module. What is a module itself has a page of its own."""
    doc = inspect.getdoc(module) or ""
    text = [f"# {title}", "", markdown(doc), "", f":::{{py:module}} {title}", ":::", ""]
    values = []
    for name in names or public(module):
        with contextlib.suppress(ImportError):
            thing = getattr(module, name)
            if isinstance(thing, types.ModuleType):
                continue
            if isinstance(thing, type):
                inside = "\n".join(members(thing)) if not issubclass(thing, mt.Tensor) else ""
                text.append(entry("class", name, thing, depth=5).removesuffix(":::::\n") + "\n" + inside + ":::::\n")
            elif isinstance(thing, FUNCTIONS) or (callable(thing) and getattr(thing, "__name__", None) == name):
                text.append(entry("function", name, thing))
            else:
                values.append(name)
    if values:
        text += ["**Values:** " + ", ".join(f"`{name}`" for name in values)]
    return "\n".join(text) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]) + "\n"


def flags_page() -> str:
    """All flags, with their defaults."""
    text = (
        "# Flags\n\nOf `MT_JIT_FLAGS`, and keywords of `minitensor.jit.options(...)`. "
        "[The guide](../docs/flags.md) says how they work together.\n\n"
    )
    for flag in FLAGS:
        default = f" Default: `{flag.default}`." if flag.default not in (None, ()) else ""
        text += f"## `{flag.usage}`\n\n{markdown(flag.help)}{default}\n\n"
    return text


def opcodes_page() -> str:
    """The opcodes of the IR."""
    kinds = {"b": "bool", "i": "signed", "u": "unsigned", "f": "float", "c": "complex"}
    rows = [
        [
            f"`{opcode.name}`",
            opcode.kind,
            "any" if opcode.arity is None else str(opcode.arity),
            ", ".join(f"`{name}`" for name in opcode.required),
            ", ".join(f"`{name}`" for name in opcode.optional),
            ", ".join(kinds[kind] for kind in opcode.dtypes),
        ]
        for opcode in OPCODES.values()
    ]
    calls = "".join(f"- `{name}`\n" for name in custom_call_targets())
    return (
        "# HLO opcodes\n\nThe intermediate representation is HLO in XLA's text format. What an instruction means is "
        "XLA's definition, with sums in the order of [the numerics page](../docs/numerics.md); "
        "`minitensor_jit/ir/evaluate/evaluator.py` computes it in NumPy.\n\n"
        + table(["opcode", "kind", "operands", "attributes", "optional", "types of elements"], rows)
        + f"\n## Targets of custom-call\n\n{calls}"
    )


def passes_page() -> str:
    """The passes by name, and their order."""
    text = (
        "# Passes\n\n`python -m minitensor_jit.tools.opt --passes=NAME,... FILE` runs passes on HLO text.\n\n"
        "## The pipeline\n\n"
        + "".join(
            f"- *{stage}*: {', '.join(f'`{p.name}`' for p in found) or 'none'}\n" for stage, found in stages().items()
        )
    )
    for name, cls in PASSES.items():
        text += f"\n## `{name}`\n\n{markdown(cls.__doc__ or '')}\n"
    return text


def ops_page() -> str:
    """The rows of ops."""
    rows = [
        [
            f"`{name}`",
            f"`{row.schema}`",
            row.kind,
            "yes" if row.compilable else "no",
            first_sentence(row.call.__doc__),
        ]
        for name, row in sorted(mt.ops.ROWS.items())
    ]
    return (
        "# Ops\n\nWhat is recorded, clustered and shown by `explain`. "
        "Functions of several ops are on the pages of their modules.\n\n"
        + table(["op", "schema", "kind", "has a lowering", "what it is"], rows)
    )


def reasons_page() -> str:
    """What `explain` says, and what to do about it."""
    left = [[f"`{r.code}`", markdown(r.sentence.format("...")), markdown(r.fix)] for r in Reason]
    apart = [[f"`{r.code}`", markdown(r.fix)] for r in Refused]
    return (
        "# Reasons in the account\n\nWhat `mt.jit.explain` and `--explain` say of an op, and what to do about it.\n\n"
        "## Why an op is in no cluster\n\n"
        + table(["code", "says", "fix"], left)
        + "\n## Why two ops of a cluster are not fused, or a result is not in place\n\n"
        + table(["code", "fix"], apart)
    )


def write(folder: Path) -> None:
    """Write all pages of the reference to a new folder."""
    folder.mkdir()
    pages = {
        "flags": flags_page(),
        "opcodes": opcodes_page(),
        "passes": passes_page(),
        "ops": ops_page(),
        "reasons": reasons_page(),
    }
    with contextlib.redirect_stdout(io.StringIO()):
        pages["minitensor"] = module_page(mt, "minitensor", [name for name in public(mt) if name != "Tensor"])
        pages["minitensor.Tensor"] = (
            "# minitensor.Tensor\n\n"
            + entry("class", "minitensor.Tensor", mt.Tensor, depth=5).removesuffix(":::::\n")
            + "\n".join(members(mt.Tensor))
            + ":::::\n"
        )
        pages["minitensor.jit"] = module_page(minitensor_jit, "minitensor.jit")
        for name in MODULES:
            title = f"minitensor.{name}"
            pages[title] = module_page(importlib.import_module(title), title)
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text)
    compiler = ["flags", "opcodes", "passes", "ops", "reasons"]
    toctree = "\n\n:::{{toctree}}\n:maxdepth: 1\n:caption: {}\n\n{}\n:::\n"
    (folder / "index.md").write_text(
        "# Reference\n\nGenerated from the docstrings and tables of the sources."
        + toctree.format("Modules", "\n".join(name for name in pages if name not in compiler))
        + toctree.format("The compiler", "\n".join(compiler))
    )
