"""Runs HLO passes on a file, and shows what comes out: `python -m minitensor_jit.tools.opt --passes=cse,fusion FILE`.

`--stage=llvm`, `asm` and `buffer-assignment` compile what the passes leave and show the code, or where the arrays lie.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from ..codegen.cpu.compiler import compile_module
from ..codegen.errors import CompileError
from ..inspect.report_page.packing import NotAReportError
from ..ir.module import Module
from ..ir.text.graphviz import print_dot
from ..ir.text.parser import ParseError, parse_module
from ..ir.text.printer import print_module
from ..ir.verifier import VerificationError, check
from ..passes.pass_manager import Pass, PassManager
from ..passes.pipeline import PASSES, pipeline
from .module_files import read_text

__all__ = ["main"]

# The stages of code, by the names of their dumps.
_DUMPS: Final = {"llvm": "ir-with-opt.ll", "asm": "s", "buffer-assignment": "buffer-assignment.txt"}
STAGES: Final = ("hlo", "dot", *_DUMPS)


def _passes(names: str) -> list[Pass]:
    """The passes of a comma-separated list; `all` is the whole pipeline."""
    passes: list[Pass] = []
    for name in filter(None, (n.strip() for n in names.split(","))):
        if name == "all":
            passes += pipeline()
        elif name in PASSES:
            passes.append(PASSES[name]())
        else:
            near = get_close_matches(name, PASSES, n=2)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise argparse.ArgumentTypeError(f"unknown pass {name!r}{hint} (--list-passes lists them)")
    return passes


def _stage(module: Module, stage: str, *, metadata: bool) -> str:
    """What the stage shows of a module; raises `CompileError` where it is one of code and there is none."""
    if stage == "hlo":
        return print_module(module, metadata=metadata)
    if stage == "dot":
        return print_dot(module)
    dumped: dict[str, str] = {}
    compile_module(module, name=module.name, dump=dumped.__setitem__).close()
    return dumped[_DUMPS[stage]]


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m minitensor_jit.tools.opt", description=__doc__)
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="HLO text, or FILE.html#MODULE of a report; - reads standard input"
    )
    parser.add_argument(
        "--passes", type=_passes, default="", metavar="NAMES", help="comma-separated, in order; all is the pipeline"
    )
    parser.add_argument("--stage", choices=STAGES, default="hlo", help="what to print after them (default: hlo)")
    parser.add_argument("--list-passes", action="store_true", help="list the passes and stop")
    parser.add_argument("--no-verify", action="store_true", help="do not verify the module around each pass")
    parser.add_argument("--no-metadata", action="store_true", help="print without source positions")
    parser.add_argument("--decisions", action="store_true", help="print to standard error what was not fused, and why")
    parser.add_argument("--any-layout", action="store_true", help="accept arguments in other layouts (JAX)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; return its exit status."""
    parser = _arguments()
    options = parser.parse_args(argv)
    if options.list_passes:
        for name, one in PASSES.items():
            print(f"{name:20} {(one.__doc__ or '').strip().splitlines()[0]}")
        return 0
    if options.file is None:
        parser.error("FILE is missing")
    try:
        if options.file == "-":
            text = sys.stdin.read()
        else:
            text = read_text(options.file)
        # A test file has the expected result below this mark.
        text = text.split("\n// -----", 1)[0]
        module = parse_module(text, any_layout=options.any_layout)
        if not options.no_verify:
            check(module)
        PassManager(options.passes, verify=not options.no_verify).run(module)
        sys.stdout.write(_stage(module, options.stage, metadata=not options.no_metadata))
    except (OSError, NotAReportError, UnicodeDecodeError, ParseError, VerificationError, CompileError) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 1
    if options.decisions:
        for one in options.passes:
            for refusal in getattr(one, "decisions", ()):
                print(f"{one.name}: {refusal}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
