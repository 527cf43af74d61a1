"""Every kernel that any test has emitted is assembled for every processor, once the tests have run.

Kernels are gathered as LLVM text, each one once whatever it is called, and assembled with the `ptxas` of the CUDA
toolkit, where that is installed. A sample by default, others from change to change; all with `MT_TEST_PTXAS=all`,
none with `MT_TEST_PTXAS=0`. What fails makes the session fail, by the names of the kernel and of a test that emits it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import pytest

MODE = os.environ.get("MT_TEST_PTXAS", "sample")
FOLDER = "MT_TEST_PTXAS_FOLDER"
"""Where the processes of a session put what they have emitted."""
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100")
SAMPLED = 24
"""Of so many kernels, one is assembled, for one processor."""
BATCH = 16
"""Kernels that one process assembles at once."""
ONLY_NEWER = re.compile(r"@llvm\.nvvm\.(mma|ldmatrix|cp\.async)\.")
"""What no kernel for sm_75 has: products of narrow types are others there."""


# ---- gathering


@dataclass(frozen=True)
class Kernel:
    """One kernel with the shared memory it declares, under names of its own: `@KERNEL`, `@KERNEL_0` ..."""

    text: str
    name: str
    test: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def kernels_of(text: str, test: str) -> Iterator[Kernel]:
    """The kernels of a module of LLVM text."""
    variables, bodies, declared = {}, [], {}
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("@"):
            variables[line.split(" ", 1)[0]] = line
        elif line.startswith("declare"):
            declared[re.search(r"@[\w.]+", line)[0]] = line
        elif line.startswith("define"):
            body = [line]
            while body[-1] != "}":
                body.append(next(lines))
            bodies.append("\n".join(body))
    names = {re.search(r"@[\w.]+", body)[0] for body in bodies}
    for body in bodies:
        used = list(dict.fromkeys(re.findall(r"@[\w.]+", body)))
        assert not names & set(used[1:]), "a kernel that calls functions of its module can't stand alone"
        own = [name for name in used if name in variables]
        new = {used[0]: "@KERNEL", **{name: f"@KERNEL_{k}" for k, name in enumerate(own)}}
        parts = [*(variables[name] for name in own), body, *sorted(declared[name] for name in used if name in declared)]
        renamed = re.sub(r"@[\w.]+", lambda found, new=new: new.get(found[0], found[0]), "\n".join(parts))
        yield Kernel(renamed, used[0][1:], test)


def gather(emit: Callable) -> Callable:
    """What makes PTX, and keeps the kernels."""
    folder = Path(os.environ[FOLDER])
    seen = set()

    def emitted(text, target):
        ptx = emit(text, target)
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        for kernel in kernels_of(text, test):
            if kernel.digest not in seen:
                seen.add(kernel.digest)
                at = folder / kernel.digest
                if not at.exists():
                    # Under another name first: other processes emit the same.
                    part = folder / f"{kernel.digest}.{os.getpid()}"
                    part.write_text(f"; {kernel.name}\n; {kernel.test}\n{kernel.text}\n")
                    part.rename(at)
        return ptx

    return emitted


def gathered(folder: Path) -> list[Kernel]:
    """What is in the folder."""
    found = []
    for at in sorted(folder.iterdir()):
        name, test, text = at.read_text().split("\n", 2)
        found.append(Kernel(text, name[2:], test[2:]))
    return found


# ---- assembling


@dataclass
class Outcome:
    """What became of some kernels."""

    assembled: int = 0
    failures: list[tuple[Kernel, str, str]] = field(default_factory=list)
    """Kernel, processor, and what was said."""
    spills: list[tuple[Kernel, str, int]] = field(default_factory=list)
    """Kernel, processor, and the bytes."""

    def add(self, other: Outcome) -> None:
        self.assembled += other.assembled
        self.failures += other.failures
        self.spills += other.spills


def ptxas(source: str, target: str) -> tuple[bool, str]:
    """Whether the assembler takes it, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder, "kernels.ptx")
        at.write_text(source)
        command = ["ptxas", "-v", "-arch", target, str(at), "-o", str(at.with_suffix(".cubin"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


def assemble_batch(kernels: list[Kernel], target: str) -> Outcome:
    """Some kernels as one module; one by one where that fails."""
    from minitensor_jit.codegen.errors import CompileError
    from minitensor_jit.codegen.nvptx.compiler import LAYOUT, TRIPLE
    from minitensor_jit.codegen.nvptx.target_machine import ptx_of
    from minitensor_jit.runtime.cuda.program import GpuTarget

    lines = [f'target triple = "{TRIPLE}"', f'target datalayout = "{LAYOUT}"']
    declared = set()
    for k, kernel in enumerate(kernels):
        for line in re.sub(r"@KERNEL\b|@KERNEL(?=_\d)", f"@kernel{k}", kernel.text).splitlines():
            if not line.startswith("declare"):
                lines.append(line)
            elif line not in declared:
                declared.add(line)
                lines.append(line)
    try:
        well, said = ptxas(ptx_of("\n".join(lines), GpuTarget.of(target)), target)
    except (CompileError, RuntimeError) as error:
        well, said = False, str(error)
    outcome = Outcome()
    if well:
        outcome.assembled = len(kernels)
        for number, stores in re.findall(r"for kernel(\d+)\n.* (\d+) bytes spill stores", said):
            if int(stores):
                outcome.spills.append((kernels[int(number)], target, int(stores)))
        assert said.count("bytes spill stores") == len(kernels), said
    elif len(kernels) == 1:
        outcome.failures.append((kernels[0], target, said))
    else:
        for kernel in kernels:
            outcome.add(assemble_batch([kernel], target))
    return outcome


def chosen(kernels: Iterable[Kernel], target: str, sample: bool) -> list[Kernel]:
    """Those of the kernels that are assembled for a processor."""
    number = TARGETS.index(target)
    return [
        kernel
        for kernel in kernels
        if not (target == "sm_75" and ONLY_NEWER.search(kernel.text))
        and (not sample or int(kernel.digest[:8], 16) % (SAMPLED * len(TARGETS)) == number)
    ]


def assemble(kernels: list[Kernel], *, sample: bool = False) -> Outcome:
    """Assembles for every processor, on all cores."""
    outcome = Outcome()
    # Processes: LLVM makes PTX of one module at a time, and ends the process where its backend has no code.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        jobs = []
        for target in TARGETS:
            some = chosen(kernels, target, sample)
            jobs += [pool.submit(assemble_batch, some[k : k + BATCH], target) for k in range(0, len(some), BATCH)]
        for job in jobs:
            outcome.add(job.result())
    return outcome


# ---- a session of pytest


class Plugin:
    """Gathers while tests run; the process that began the session assembles."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self.gathered = 0
        self.begins = FOLDER not in os.environ
        if self.begins:
            os.environ[FOLDER] = tempfile.mkdtemp(prefix="kernels-")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Only what compiles for GPUs is patched, where tests do."""
        if MODE == "all" or any({"cuda", "codegen"} & set(item.path.parts) for item in session.items):
            from minitensor_jit.codegen.nvptx import compiler

            compiler.ptx_of = gather(compiler.ptx_of)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self.begins:
            return
        folder = Path(os.environ.pop(FOLDER))
        kernels = gathered(folder)
        shutil.rmtree(folder)
        self.gathered = len(kernels)
        if kernels:
            self.outcome = assemble(kernels, sample=MODE != "all")
            if self.outcome.failures and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        outcome = self.outcome
        if outcome is None:
            return
        for kernel, target, said in outcome.failures:
            terminalreporter.write_line(f"{kernel.name} of {kernel.test} does not assemble for {target}:\n{said}")
        if MODE == "all":
            for kernel, target, nbytes in sorted(outcome.spills, key=lambda spill: (spill[0].name, spill[1])):
                terminalreporter.write_line(f"{kernel.name} of {kernel.test} spills {nbytes} bytes on {target}")
        terminalreporter.write_line(
            f"assembled: {outcome.assembled} kernels of {self.gathered} that were emitted, for {', '.join(TARGETS)}; "
            f"{len(outcome.failures)} failed, {len(outcome.spills)} spill"
        )


def plugin() -> Plugin | None:
    """What a session needs; None where there is no assembler, or none is wanted."""
    if MODE not in ("0", "all", "sample"):
        raise pytest.UsageError(f"MT_TEST_PTXAS is {MODE!r}; 'all', 'sample' or '0' was expected")
    if MODE == "0":
        return None
    if shutil.which("ptxas") is None:
        if MODE == "all":
            raise pytest.UsageError("MT_TEST_PTXAS=all needs the ptxas of the CUDA toolkit in PATH")
        return None
    return Plugin()
