"""What runs on each machine: it agrees with the others, starts the processes, and watches them."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from types import FrameType

from minitensor.distributed.errors import DistError, DistNetworkError
from minitensor.distributed.launcher.processes import Failure, Processes
from minitensor.distributed.stores import PrefixStore, TCPStore
from minitensor.distributed.stores.connection import TOKEN

__all__ = ["Agent"]

_RESTART = "restart"  # a key of the store: how often all were started again
_TURN = 2.0  # seconds: who fails of the same, as in a call with a process that has gone, says so before it is ended


class _Ended(BaseException):
    """A signal came that ends the job."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Agent:
    """The launcher on one machine. `run` returns the exit code."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        if options.nodes == 1 and (
            options.standalone or (options.rdzv_backend == "c10d" and not options.rdzv_endpoint)
        ):
            options.master_addr, options.master_port = "127.0.0.1", 0
        elif options.rdzv_endpoint:
            host, _, port = options.rdzv_endpoint.rpartition(":") if ":" in options.rdzv_endpoint else (
                options.rdzv_endpoint, "", "")  # fmt: skip
            options.master_addr, options.master_port = host, int(port) if port else 29400
        if options.nodes == 1:
            os.environ.setdefault(TOKEN, secrets.token_hex(32))
        self.timeout = timedelta(seconds=float(options.conf.get("timeout", options.conf.get("join_timeout", 600))))
        self.store = self._meet()
        self.node = self._node()

    def _meet(self) -> TCPStore:
        """The store of the job: the first machine serves it, or with c10d the one that has the endpoint's address."""
        options = self.options
        static = options.rdzv_backend == "static"
        serves = options.node_rank == 0 if static else options.conf.get("is_host", "").lower() not in ("0", "false")
        if options.nodes == 1:
            serves = True
        if serves:
            try:
                store = TCPStore(options.master_addr, options.master_port, None, True, self.timeout, False)
                options.master_port = store.port
                return store
            except DistNetworkError:
                if static or options.nodes == 1:
                    raise
        return TCPStore(options.master_addr, options.master_port, None, False, self.timeout, False)

    def _node(self) -> int:
        options = self.options
        mine = PrefixStore(f"run/{options.rdzv_id}", self.store)
        node = options.node_rank if options.rdzv_backend == "static" else mine.add("nodes", 1) - 1
        if node >= options.nodes:
            raise DistError(f"job {options.rdzv_id} has its {options.nodes} machines already")
        mine.set(f"node/{node}", str(options.processes))
        self.counts = [int(mine.get(f"node/{other}")) for other in range(options.nodes)]
        self.shared = mine
        return node

    def _environments(self, restarts: int) -> list[dict[str, str]]:
        options = self.options
        first, total = sum(self.counts[: self.node]), sum(self.counts)
        base = dict(os.environ)
        if options.processes > 1:
            # Each its part of the processors, where nobody said otherwise.
            share = max(1, len(os.sched_getaffinity(0)) // options.processes)
            base.setdefault("MT_NUM_THREADS", str(share))
            base.setdefault("OMP_NUM_THREADS", str(share))
        return [
            {
                **base,
                "LOCAL_RANK": str(local),
                "RANK": str(first + local),
                "GROUP_RANK": str(self.node),
                "ROLE_RANK": str(first + local),
                "ROLE_NAME": options.role,
                "LOCAL_WORLD_SIZE": str(options.processes),
                "WORLD_SIZE": str(total),
                "GROUP_WORLD_SIZE": str(options.nodes),
                "ROLE_WORLD_SIZE": str(total),
                "MASTER_ADDR": options.master_addr,
                "MASTER_PORT": str(options.master_port),
                "TORCHELASTIC_RESTART_COUNT": str(restarts),
                "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
                "TORCHELASTIC_RUN_ID": options.rdzv_id,
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            for local in range(options.processes)
        ]

    def _command(self) -> list[str]:
        options = self.options
        if options.no_python:
            return [options.training_script, *options.training_script_args]
        command = [os.environ.get("PYTHON_EXEC", sys.executable), "-u"]
        if options.as_torch:
            command += ["-m", "minitensor.as_torch"]
        if options.module:
            command.append("-m")
        return [*command, options.training_script, *options.training_script_args]

    def run(self) -> int:
        """Start the processes until they end well, or have failed too often; return the exit code."""

        def ended(number: int, _: FrameType | None) -> None:
            raise _Ended(number)

        old = {number: signal.signal(number, ended) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            with tempfile.TemporaryDirectory(prefix="minitensor-run-") as temporary:
                return self._runs(Path(temporary))
        except _Ended as signalled:
            return 128 + signalled.number
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _runs(self, temporary: Path) -> int:
        options = self.options
        restarts = 0
        while True:
            folder = temporary
            if options.log_dir:
                folder = Path(options.log_dir) / options.rdzv_id / f"attempt_{restarts}"
            folder.mkdir(parents=True, exist_ok=True)
            processes = Processes(
                self._command(), self._environments(restarts), folder, options.redirects, options.tee, options.shown
            )
            failures: list[Failure] | None = None
            try:
                failures = self._watch(processes, restarts)
            finally:
                processes.end()
            if failures is None:
                self._wait_for_others(restarts)
                return 0
            if failures:
                sys.stderr.write(_report(failures, options.training_script))
            if restarts >= options.max_restarts:
                if failures:
                    self.shared.set("failed", str(self.node))
                return failures[0].code if failures and failures[0].code > 0 else 1
            restarts += 1
            if failures and self.shared.add(_RESTART, 0) < restarts:
                self.shared.add(_RESTART, 1)
            sys.stderr.write(f"minitensor.distributed.run: start {restarts + 1} of {options.max_restarts + 1}\n")

    def _watch(self, processes: Processes, restarts: int) -> list[Failure] | None:
        """None when all have ended well; else who failed, nobody if it was on another machine."""
        looked = time.monotonic()
        while processes.running():
            if processes.failed():
                end = time.monotonic() + _TURN
                while processes.running() and time.monotonic() < end:
                    time.sleep(0.01)
                return processes.failures()
            if self.options.nodes > 1 and time.monotonic() - looked > 1:
                looked = time.monotonic()
                if self.shared.check(["failed"]) or self.shared.add(_RESTART, 0) > restarts:
                    return []
            time.sleep(self.options.monitor_interval)
        return processes.failures() or None

    def _wait_for_others(self, restarts: int) -> None:
        """The store lives as long as any machine needs it."""
        if self.options.nodes == 1:
            return
        self.shared.add(f"done/{restarts}", 1)
        end = time.monotonic() + self.timeout.total_seconds()
        while self.node == 0 and self.shared.add(f"done/{restarts}", 0) < self.options.nodes and time.monotonic() < end:
            if self.shared.check(["failed"]):
                return
            time.sleep(self.options.monitor_interval)


def _report(failures: list[Failure], program: str) -> str:
    first = failures[0]
    line = "=" * 60
    text = f"{line}\n{program} failed on {socket.gethostname()}\nfirst: {first.text()}\n"
    if first.message:
        text += first.message.rstrip() + "\n"
    elif first.code > 0:
        text += "(its traceback, if there was one, is above)\n"
    for other in failures[1:]:
        text += f"then: {other.text()}\n"
    return text + line + "\n"
