"""Runs a program and writes a report of it: `python -m minitensor_jit.tools.report [options] script.py [arguments]`.

The report is one HTML file: the program's lines, graphs and modules at each stage, code, refusals, recompilations,
times, memory and a timeline. It is written however the program ends, and its status is passed on. `MT_JIT_FLAGS` has
its effect; without an `--auto_jit` in it, everything that can be compiled is.

`--diff A B` compares two reports, as text or, with `-o FILE.html`, as a page. `--json FILE` prints the data of one, and
`--hlo FILE#MODULE` the HLO of a module.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from minitensor_jit.flags import ENVIRONMENT_VARIABLE, FlagError, parse_flags
from minitensor_jit.inspect.report_page.difference import difference
from minitensor_jit.inspect.report_page.difference_page import difference_page
from minitensor_jit.inspect.report_page.packing import NotAReportError, module_text, read_end, read_report, with_end
from minitensor_jit.inspect.report_page.write import probe, write_page

__all__ = ["main", "run"]


def run(script: Sequence[str], output: str, *, python: str = sys.executable) -> int:
    """Run a script with its arguments, and have its report written; returns its exit status.

    A status of 128 and more says that a signal ended it. Raises DumpError if `output` can't be written.
    """
    probe(output, "--output")
    Path(output).unlink(missing_ok=True)  # what is there afterwards is of this run
    environment = dict(os.environ)
    flags = environment.get(ENVIRONMENT_VARIABLE, "")
    if not parse_flags(flags).auto_jit:
        flags = f"--auto_jit=2 --cpu_global_jit {flags}"
    environment[ENVIRONMENT_VARIABLE] = f"{flags} --report={shlex.quote(os.path.abspath(output))}"
    environment.pop("MT_JIT_REPORT_PROCESS", None)
    # An interrupt is for the program; this process waits for what becomes of it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = subprocess.Popen([python, *script], env=environment, preexec_fn=_with_interrupts)
        status = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    _note_end(output, status)
    return status if status >= 0 else 128 - status


def _with_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _note_end(output: str, status: int) -> None:
    ended = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    try:
        page = Path(output).read_text(encoding="utf-8")
        end = read_end(page) | ({"signal": signal.Signals(-status).name} if status < 0 else {"status": status})
    except FileNotFoundError:
        print(f"no report was written: the program ended with {ended} before it could be", file=sys.stderr)
        print("(it imports no minitensor, ends by os._exit(), or was killed)", file=sys.stderr)
        return
    write_page(output, with_end(page, end))
    print(f"{output}: {os.path.getsize(output):,} bytes; the program ended with {ended}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; return its exit status: that of the program, or 2 for what can't be read or written."""
    parser = argparse.ArgumentParser(prog="python -m minitensor_jit.tools.report", description=__doc__)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where the report, or what --diff finds, goes (default: SCRIPT.report.html)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--diff", nargs=2, metavar=("A", "B"), help="compare two reports")
    what.add_argument("--json", metavar="FILE", help="print the data of a report")
    what.add_argument("--hlo", metavar="FILE#MODULE", help="print a module of a report, as it was lowered")
    parser.add_argument(
        "script", nargs=argparse.REMAINDER, metavar="script.py ...", help="the program, and its arguments"
    )
    options = parser.parse_args(argv)
    try:
        if options.diff:
            first, second = (read_report(path)[0] for path in options.diff)
            if options.output and options.output.endswith((".html", ".htm")):
                write_page(options.output, difference_page(first, second, *options.diff))
            elif options.output:
                Path(options.output).write_text(difference(first, second, *options.diff), encoding="utf-8")
            else:
                sys.stdout.write(difference(first, second, *options.diff))
            return 0
        if options.json:
            data, parts = read_report(options.json)
            print(json.dumps({**data, "parts": parts}, indent=1))
            return 0
        if options.hlo:
            sys.stdout.write(module_text(options.hlo))
            return 0
        if not options.script:
            parser.error("expected a script, or one of --diff, --json and --hlo")
        script = options.script
        return run(script, options.output or f"{Path(script[0]).stem}.report.html")
    except (OSError, NotAReportError, FlagError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
