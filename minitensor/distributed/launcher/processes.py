"""The processes of one start: begun together, ended together."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

__all__ = ["Failure", "Processes"]

_GRACE = 10.0  # seconds between SIGTERM and SIGKILL


@dataclass
class Failure:
    """How a process ended that did not end well."""

    rank: int
    local_rank: int
    process: int
    code: int
    seen: float
    message: str = ""

    def text(self) -> str:
        """The end, in words."""
        if self.code >= 0:
            how = f"exit code {self.code}"
        else:
            with contextlib.suppress(ValueError):
                how = f"signal {signal.Signals(-self.code).name}"
                return f"rank {self.rank} (process {self.process}): {how}"
            how = f"signal {-self.code}"
        return f"rank {self.rank} (process {self.process}): {how}"


@dataclass
class _One:
    process: subprocess.Popen[bytes]
    rank: int
    error_file: Path
    threads: list[threading.Thread] = field(default_factory=list)


class Processes:
    """A process for each environment; outputs are shown, written to files, or both."""

    def __init__(
        self,
        command: Sequence[str],
        environments: Sequence[dict[str, str]],
        folder: Path,
        redirects: Sequence[int],
        tee: Sequence[int],
        shown: set[int],
    ) -> None:
        self.all: list[_One] = []
        try:
            for local, environment in enumerate(environments):
                error_file = folder / f"rank{local}_error.json"
                error_file.unlink(missing_ok=True)
                environment["TORCHELASTIC_ERROR_FILE"] = str(error_file)
                self._start(command, environment, local, error_file, folder, redirects[local], tee[local], shown)
        except BaseException:
            self.end()
            raise

    def _start(
        self, command: Sequence[str], environment: dict[str, str], local: int, error_file: Path, folder: Path,
        redirects: int, tee: int, shown: set[int],
    ) -> None:  # fmt: skip
        files: list[IO[bytes]] = []
        outputs: dict[str, Any] = {}
        copied: list[tuple[str, IO[bytes] | None, Any]] = []
        hidden = bool(shown) and local not in shown
        for bit, name, here in ((1, "stdout", sys.stdout), (2, "stderr", sys.stderr)):
            file: IO[bytes] | None = None
            if (redirects | tee) & bit:
                file = open(folder / f"rank{local}_{name}.log", "wb")  # noqa: SIM115  (a thread closes it)
                files.append(file)
            if tee & bit and not hidden:
                outputs[name] = subprocess.PIPE
                copied.append((name, file, here))
            else:
                outputs[name] = file if file is not None else subprocess.DEVNULL if hidden else None
        # Signals of the terminal reach all of a process group: the launcher's decides what becomes of them.
        process = subprocess.Popen(command, env=environment, start_new_session=True, **outputs)
        one = _One(process, int(environment["RANK"]), error_file)
        self.all.append(one)
        for name, file, here in copied:
            pipe = getattr(process, name)
            label = f"[{environment['ROLE_NAME']}{one.rank}]:"
            thread = threading.Thread(target=_copy, args=(pipe, file, here, label), daemon=True)
            thread.start()
            one.threads.append(thread)
        for kept in files:
            if not any(kept is copy for _, copy, _ in copied):
                kept.close()

    def running(self) -> bool:
        """Whether any still goes on."""
        return any(one.process.poll() is None for one in self.all)

    def failed(self) -> bool:
        """Whether any has ended otherwise than well."""
        return any(one.process.poll() not in (None, 0) for one in self.all)

    def failures(self) -> list[Failure]:
        """Those, in the order in which they failed as far as they said when."""
        found = []
        now = time.time()
        for local, one in enumerate(self.all):
            code = one.process.poll()
            if code in (None, 0):
                continue
            assert code is not None
            failure = Failure(one.rank, local, one.process.pid, code, now)
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                told = json.loads(one.error_file.read_text())["message"]
                failure.message = told["extraInfo"]["py_callstack"]
                failure.seen = float(told["extraInfo"].get("seconds", told["extraInfo"]["timestamp"]))
            found.append(failure)
        # A process that was killed could not say when; the others failed because it was gone.
        return sorted(found, key=lambda one: (one.code >= 0, one.seen))

    def end(self) -> None:
        """End those that still go on, and what they started: SIGTERM, and SIGKILL for who doesn't heed it."""
        self._signal(signal.SIGTERM)
        end = time.monotonic() + _GRACE
        while self.running() and time.monotonic() < end:
            time.sleep(0.01)
        self._signal(signal.SIGKILL)
        for one in self.all:
            one.process.wait()
            for thread in one.threads:
                thread.join(1)

    def _signal(self, number: int) -> None:
        for one in self.all:
            if one.process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(one.process.pid, number)


def _copy(pipe: IO[bytes], file: IO[bytes] | None, here: Any, label: str) -> None:
    with pipe:
        for line in pipe:
            if file is not None:
                file.write(line)
                file.flush()
            here.write(label + line.decode(errors="replace"))
            here.flush()
    if file is not None:
        file.close()
