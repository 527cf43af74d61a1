"""Writes each stage of each compilation to a folder, for `--dump_to=DIR`.

`module_NNNN.NAME.before_optimizations.txt` and `.after_optimizations.txt` are HLO, `module_NNNN.ir-no-opt.ll` and
`module_NNNN.ir-with-opt.ll` LLVM IR, `graph_NNNN.NAME.N_PHASE.txt` the graph after each phase of the clustering. A file
is there entirely or not at all. A folder that can't be written to is an error when the dumper is made; a disk that is
full later is a warning, once, and the program goes on without dumps.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import tempfile
import threading

from minitensor_jit.errors import DumpError

logger = logging.getLogger("minitensor_jit")


_NUMBERS: dict[str, tuple[itertools.count[int], itertools.count[int]]] = {}
"""By folder: the numbers of the next module and the next graph."""


class Dumper:
    """Writes into one folder, which it makes if need be."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(folder)
        # Several dumpers may write into one folder, one for each set of options.
        self._modules, self._graphs = _NUMBERS.setdefault(self.folder, (itertools.count(), itertools.count()))
        self._lock = threading.Lock()
        self._stopped = False
        try:
            os.makedirs(self.folder, exist_ok=True)
            # Permissions, a read-only file system, a full disk: trying is the only way to know.
            self._write("probe.tmp", "probe")
            os.unlink(os.path.join(self.folder, "probe.tmp"))
        except OSError as error:
            raise DumpError(
                error.errno or 0, f"can't write to the folder of --dump_to: {error.strerror or error}", self.folder
            ) from error

    @property
    def stopped(self) -> bool:
        """Whether a file could not be written, so that there are no more dumps."""
        return self._stopped

    def module(self, name: str) -> ModuleDump:
        """Return the writer for the next compilation, of a module of that name."""
        return ModuleDump(self, next(self._modules), name)

    def graphs(self, name: str, texts: dict[str, str], dot: str | None = None) -> None:
        """Write the texts of one graph after each phase, as `ClusteringResult.texts` has them, and its picture."""
        number = next(self._graphs)
        for place, (phase, text) in enumerate(texts.items(), start=1):
            self.write(f"graph_{number:04}.{_safe(name)}.{place}_{_safe(phase)}.txt", text)
        if dot is not None:
            self.write(f"graph_{number:04}.{_safe(name)}.dot", dot)

    def write(self, file: str, text: str) -> bool:
        """Write a file of that name into the folder; False if dumping has stopped."""
        if self._stopped:
            return False
        try:
            self._write(file, text)
        except OSError as error:
            with self._lock:
                first, self._stopped = not self._stopped, True
            if first:
                logger.warning(
                    "dumping stopped: can't write %s: %s. The program goes on without dumps.",
                    os.path.join(self.folder, file),
                    error.strerror or error,
                )
            return False
        return True

    def _write(self, file: str, text: str) -> None:
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=self.folder)
        try:
            with open(handle, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
                stream.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, os.path.join(self.folder, file))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


class ModuleDump:
    """Writes the stages of one compilation. Nothing is written of a stage that is not reached."""

    def __init__(self, dumper: Dumper, number: int, name: str) -> None:
        self._dumper = dumper
        self.prefix = f"module_{number:04}"
        self._name = _safe(name)

    def before_optimizations(self, hlo: str) -> None:
        """Write the HLO as it was lowered."""
        self._dumper.write(f"{self.prefix}.{self._name}.before_optimizations.txt", hlo)

    def after_optimizations(self, hlo: str) -> None:
        """Write the HLO that code is generated from."""
        self._dumper.write(f"{self.prefix}.{self._name}.after_optimizations.txt", hlo)

    def ir_no_opt(self, llvm_ir: str) -> None:
        """Write the LLVM IR as it was generated."""
        self._dumper.write(f"{self.prefix}.ir-no-opt.ll", llvm_ir)

    def ir_with_opt(self, llvm_ir: str) -> None:
        """Write the LLVM IR that became machine code."""
        self._dumper.write(f"{self.prefix}.ir-with-opt.ll", llvm_ir)


def _safe(name: str) -> str:
    """Return a name that is one file name's part on every system."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:100].strip(".") or "_"
