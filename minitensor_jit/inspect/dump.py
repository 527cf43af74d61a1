"""Writes each stage of each compilation to a folder, for `--dump_to=DIR` and the flags `--dump_hlo_...`.

`module_NNNN.NAME.before_optimizations.txt`, `.II.after_PASS.txt` for each pass that changed something and
`.after_optimizations.txt` are HLO, with `.dot` pictures of the same; `.after_optimizations-buffer-assignment.txt` says
where every array lives; `module_NNNN.ir-no-opt.ll` and `module_NNNN.ir-with-opt.ll` are LLVM IR, `module_NNNN.s` is
assembly. `module_NNNN.NAME.repro.py` runs the module alone on the inputs in `module_NNNN.NAME.inputs.npz`.
`graph_NNNN.NAME.N_PHASE.txt` is the graph after each phase of the clustering. A file is there entirely or not at all.
`index.html` is a page with links to all of them (dump_index.py).

Without a folder, everything goes to standard output, each file between two lines that name it. A folder that
can't be written to is an error when the dumper is made; a disk that is full later is a warning, once, and the program
goes on without dumps.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from minitensor import _forks
from minitensor_jit.errors import DumpError
from minitensor_jit.flags import STANDARD_OUTPUT, JitOptions
from minitensor_jit.inspect import dump_index

logger = logging.getLogger("minitensor_jit")


_INDEX = "index.html"

_NUMBERS: dict[str, tuple[itertools.count[int], itertools.count[int]]] = {}
"""By folder: the numbers of the next module and the next graph."""

_INDEXED: set[str] = set()
"""The folders whose index this process has begun."""


class Dumper:
    """Writes into one folder, which it makes if need be; or to standard output."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        text: bool = True,
        dot: bool = False,
        pass_re: str | None = None,
        module_re: str | None = None,
        flag: str = "--dump_to",
    ) -> None:
        """`text` and `dot` are the forms of HLO, `pass_re` says after which passes, `module_re` of which modules.

        `flag` is what named the folder, for the error when it can't be written to.
        """
        self.to_stdout = os.fspath(folder) == STANDARD_OUTPUT
        self.folder = STANDARD_OUTPUT if self.to_stdout else os.path.abspath(folder)
        self.text = text
        self.dot = dot
        self._pass_re = re.compile(pass_re or "")
        self._module_re = re.compile(module_re or "")
        # Several dumpers may write into one folder, one for each set of options.
        self._modules, self._graphs = _NUMBERS.setdefault(self.folder, (itertools.count(), itertools.count()))
        self._lock = _forks.lock()
        self._stopped = False
        if not self.to_stdout:
            self._probe(flag)

    def _probe(self, flag: str) -> None:
        try:
            os.makedirs(self.folder, exist_ok=True)
            # Permissions, a read-only file system, a full disk: trying is the only way to know.
            handle, probe = tempfile.mkstemp(prefix=".probe", suffix=".tmp", dir=self.folder)
            try:
                with open(handle, "wb") as stream:
                    stream.write(b"probe")
            finally:
                os.unlink(probe)
        except OSError as error:
            raise DumpError(
                error.errno or 0, f"can't write to the folder of {flag}: {error.strerror or error}", self.folder
            ) from error

    @property
    def stopped(self) -> bool:
        """Whether a file could not be written, so that there are no more dumps."""
        return self._stopped

    def module(self, name: str) -> ModuleDump | None:
        """Return the writer for the next compilation, of a module of that name; None if it is not to be dumped."""
        if self._module_re.search(name) is None:
            return None
        return ModuleDump(self, next(self._modules), name)

    def wants_pass(self, name: str) -> bool:
        """Whether HLO is dumped after a pass of that name, if that changed it."""
        return self._pass_re.search(name) is not None

    def graphs(self, name: str, texts: dict[str, str], dot: str | None = None) -> None:
        """Write the texts of one graph after each phase, as `ClusteringResult.texts` has them, and its picture."""
        if self._module_re.search(name) is None and not any(self._module_re.search(t) for t in _cluster_names(texts)):
            return
        title = f"graph_{next(self._graphs):04}.{_safe(name)}"
        phases = {phase: f"{title}.{place}_{_safe(phase)}.txt" for place, phase in enumerate(texts, start=1)}
        for phase, text in texts.items():
            self.write(phases[phase], text)
        if dot is not None:
            self.write(f"{title}.dot", dot)
        self.index(dump_index.graph_section(title, phases, None if dot is None else f"{title}.dot"))

    def index(self, section: str) -> None:
        """Add a section to the folder's page; the first one of a process begins it anew."""
        if self._stopped or self.to_stdout:
            return
        with self._lock:
            begun = self.folder in _INDEXED
            _INDEXED.add(self.folder)
        if begun:
            self._guard(_INDEX, lambda: self._append(section.encode()))
        else:
            self.write(_INDEX, dump_index.HEAD + section)

    def _append(self, data: bytes) -> None:
        with open(os.path.join(self.folder, _INDEX), "ab") as stream:
            stream.write(data)

    def write(self, file: str, text: str) -> bool:
        """Write a file of that name into the folder; False if dumping has stopped."""
        if not self.to_stdout:
            return self.write_bytes(file, text.encode("utf-8", errors="backslashreplace"))
        return not self._stopped and self._guard(file, lambda: _print_framed(file, text))

    def write_bytes(self, file: str, data: bytes) -> bool:
        """Write a file that is not text, which standard output never gets; False if dumping has stopped."""
        if self._stopped or self.to_stdout:
            return False
        return self._guard(file, lambda: self._write(file, data))

    def _guard(self, file: str, write: Any) -> bool:
        try:
            write()
        except OSError as error:
            with self._lock:
                first, self._stopped = not self._stopped, True
            if first:
                where = f"{file} to standard output" if self.to_stdout else os.path.join(self.folder, file)
                logger.warning(
                    "dumping stopped: can't write %s: %s. The program goes on without dumps.",
                    where,
                    error.strerror or error,
                )
            return False
        return True

    def _write(self, file: str, data: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=self.folder)
        try:
            with open(handle, "wb") as stream:
                stream.write(data)
            os.chmod(temporary, 0o644)
            os.replace(temporary, os.path.join(self.folder, file))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def dumper_for(options: JitOptions) -> Dumper | None:
    """Return the dumper that the options ask for; DumpError if its folder can't be written to."""
    chosen = options.dump_hlo_as_text, options.dump_hlo_as_dot
    if options.dump_to is None and not any((*chosen, options.dump_hlo_pass_re, options.dump_hlo_module_re)):
        return None
    return Dumper(
        options.dump_to or STANDARD_OUTPUT,
        text=options.dump_hlo_as_text or not options.dump_hlo_as_dot,
        dot=options.dump_hlo_as_dot,
        pass_re=options.dump_hlo_pass_re,
        module_re=options.dump_hlo_module_re,
    )


class ModuleDump:
    """Writes the stages of one compilation. Nothing is written of a stage that is not reached."""

    def __init__(self, dumper: Dumper, number: int, name: str) -> None:
        self.dumper = dumper
        self.prefix = f"module_{number:04}"
        self.name = f"{self.prefix}.{_safe(name)}"
        self._passes = itertools.count(1)
        self._files: list[tuple[str, int | None]] = []  # in the order of their writing, with the number of instructions
        self._sources: dict[str, None] = {}
        self._ended = False

    def _write(self, file: str, text: str, *, hlo: bool = False) -> None:
        if hlo:
            self._sources |= dict.fromkeys(f"{file}:{line}" for file, line in _SOURCE.findall(text))
        if self.dumper.write(file, text):
            self._files.append((file, dump_index.instructions(text) if hlo else None))

    def end(self, summary: str) -> None:
        """Name the files in the folder's page, once; `summary` says what came of the compilation."""
        if not self._ended:
            self._ended = True
            inputs, sources = f"{self.name}.inputs.npz", list(self._sources)[:8]
            self.dumper.index(dump_index.module_section(self.name, self._files, inputs, summary, sources))

    def hlo(self, stage: str, text: str | None, dot: str | None) -> None:
        """Write the HLO at a stage, as a text and a picture where they are given."""
        if text is not None:
            self._write(f"{self.name}.{stage}.txt", text, hlo=True)
        if dot is not None:
            self._write(f"{self.name}.{stage}.dot", dot)

    def pass_stage(self, name: str) -> str:
        """Return what the stage after the next pass that changed the module is called."""
        return f"{next(self._passes):02}.after_{_safe(name)}"

    def code(self, kind: str, text: str) -> None:
        """Write what code generation made: `ir-no-opt.ll`, `ir-with-opt.ll`, `s`, or `buffer-assignment.txt`."""
        if kind == "buffer-assignment.txt":
            self._write(f"{self.name}.after_optimizations-{kind}", text)
        else:
            self._write(f"{self.prefix}.{kind}", text)

    def inputs(self, arrays: Mapping[str, Any]) -> bool:
        """Write the arrays that the module first ran on."""
        import numpy as np

        stream = io.BytesIO()
        np.savez(stream, **arrays)
        return self.dumper.write_bytes(f"{self.name}.inputs.npz", stream.getvalue())

    def repro(self, flags: str) -> None:
        """Write the program that runs the module alone, compiled with these flags."""
        if not self.dumper.to_stdout:
            self._write(f"{self.name}.repro.py", _REPRO.format(name=self.name, flags=flags))

    def failure(self, text: str) -> None:
        """Write how the compilation failed."""
        self._write(f"{self.name}.failure.txt", text)
        self.end("The compilation failed.")

    def files(self) -> str:
        """Return what a report of a defect has to have with it, as a pattern of file names."""
        return os.path.join(self.dumper.folder, f"{self.prefix}.*")


_SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')

_REPRO = '''\
"""Compiles {name} and runs it alone, on the inputs of its first run; compares it with the HLO evaluator.

Without {name}.inputs.npz beside this file it runs on random inputs. The status is 0 where both agree,
1 where they differ, and 2 where the module can't be compiled. --help lists the options.
"""

import sys
from pathlib import Path

from minitensor_jit.tools.repro import main

sys.exit(main(Path(__file__).with_name("{name}"), flags={flags!r}))
'''


_printing = _forks.lock()  # threads don't mix their files


def _print_framed(file: str, text: str) -> None:
    framed = f"==== begin {file} ====\n{text}{'' if text.endswith(chr(10)) else chr(10)}==== end {file} ====\n"
    with _printing:
        sys.stdout.flush()
        if type(sys.stdout) is not io.TextIOWrapper:  # a notebook's, say
            sys.stdout.write(framed)
            sys.stdout.flush()
            return
        # Past the buffer: what it could not write it would keep, and fail again at the program's end.
        left = memoryview(framed.encode(sys.stdout.encoding, errors="backslashreplace"))
        while left:
            left = left[os.write(sys.stdout.fileno(), left) :]


def _cluster_names(texts: Mapping[str, str]) -> set[str]:
    return set(re.findall(r"_MtCluster=([\w.-]+)", "".join(texts.values())))


def _safe(name: str) -> str:
    """Return a name that is one file name's part on every system."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:100].strip(".") or "_"
