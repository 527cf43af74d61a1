"""The backend "mpi", started by MPI's own launcher."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor.distributed as dist

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not shutil.which("mpiexec") or not dist.is_mpi_available(), reason="pip install minitensor[mpi] has what this needs"
)

BEGINNING = """
import os, sys
from datetime import timedelta
import minitensor as mt, minitensor.distributed as dist

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def shares_memory():
    with open("/proc/self/maps") as maps:
        return "memfd:minitensor-group" in maps.read()
"""


def launched(folder, text, size=3, **more):
    program = folder / "program.py"
    program.write_text(BEGINNING + text)
    # Without a token of the job's and a home to keep one in: MPI's launcher has neither.
    environment = {k: v for k, v in os.environ.items() if k != "MT_DISTRIBUTED_TOKEN"}
    environment |= {"PYTHONPATH": str(ROOT), "MT_JIT_FLAGS": "", "HOME": str(folder / "none"), **more}
    environment.pop("XDG_STATE_HOME", None)
    command = ["mpiexec", "-n", str(size), sys.executable, str(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def lines(done):
    assert done.returncode == 0, done.stderr + done.stdout
    return sorted(done.stdout.splitlines())


CALLS = """
dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
x = mt.ones(100_000) * (rank + 1)
dist.all_reduce(x)
pair = dist.new_group([0, 2])
y = mt.ones(1)
if rank != 1:
    dist.all_reduce(y, group=pair)
into = mt.empty(300_000)
sent = dist.isend(mt.full((300_000,), float(rank)), (rank + 1) % size)
dist.recv(into, (rank - 1) % size)
sent.wait()
say(x[-1].item(), y.item(), into[-1].item() - (rank - 1) % size, shares_memory())
"""


@pytest.mark.parametrize("transport", ["", "shared_memory", "mpi"])
def test_processes_of_one_machine(transport, tmp_path):
    shared = transport != "mpi"
    found = lines(launched(tmp_path, CALLS, MT_DISTRIBUTED_TRANSPORT=transport))
    assert found == [f"6.0 1.0 0.0 {shared}", f"6.0 2.0 0.0 {shared}", f"6.0 2.0 0.0 {shared}"]


def test_a_transport_that_is_not_there(tmp_path):
    done = launched(tmp_path, 'dist.init_process_group("mpi")', 1, MT_DISTRIBUTED_TRANSPORT="tcp")
    assert done.returncode != 0
    assert 'MT_DISTRIBUTED_TRANSPORT=tcp: with the backend "mpi" there are shared_memory and mpi' in done.stderr


SUMS = """
dist.init_process_group("mpi")
rank = dist.get_rank()
found = []
for count in (1, 7, 1000, 5000, 70_000):
    for dtype in (mt.float32, mt.bfloat16):
        mt.manual_seed(10 * count + rank)
        x = mt.randn(count).to(dtype)
        dist.all_reduce(x)
        found.append(x.view(mt.uint8).numpy().tobytes())
import hashlib
say(hashlib.sha256(b"".join(found)).hexdigest(), shares_memory())
"""


def test_sums_have_the_same_bits_by_messages_and_by_shared_memory(tmp_path):
    found = {}
    for transport in ("mpi", "shared_memory"):
        told = [line.split() for line in lines(launched(tmp_path, SUMS, MT_DISTRIBUTED_TRANSPORT=transport))]
        assert {shared for _, shared in told} == {str(transport == "shared_memory")}
        (found[transport],) = {digest for digest, _ in told}
    assert found["mpi"] == found["shared_memory"]


TWO_MACHINES = """
import minitensor.distributed.transport.mpi as transport
from minitensor.distributed.transport.mpi import machine
rank = int(os.environ["PMI_RANK"])
transport.machine = lambda: machine() + ("/another" if rank == 2 else "")
dist.init_process_group("mpi")
assert rank == dist.get_rank()
dist.all_reduce(x := mt.ones(3))
apart = shares_memory()
pair = dist.new_group([0, 1])
y = mt.ones(3) * (rank + 1)
if rank < 2:
    dist.all_reduce(y, group=pair)
dist.all_reduce(x)
say(rank, x[0].item(), y[0].item(), apart, shares_memory())
"""


def test_memory_is_shared_by_groups_of_one_machine_only(tmp_path):
    assert lines(launched(tmp_path, TWO_MACHINES)) == [
        "0 9.0 3.0 False True",
        "1 9.0 3.0 False True",
        "2 9.0 3.0 False False",
    ]
    done = launched(tmp_path, TWO_MACHINES, MT_DISTRIBUTED_TRANSPORT="shared_memory")
    assert done.returncode != 0
    assert "MT_DISTRIBUTED_TRANSPORT=shared_memory: the processes can't share memory" in done.stderr


CAN_NOT_SHARE = """
import types
import minitensor.distributed.transport.connections as connections
rank = int(os.environ["PMI_RANK"])
def fails(*_):
    raise OSError("not today")
if rank == int(os.environ["FAILS"]):
    connections._C = types.SimpleNamespace(_Communicator=types.SimpleNamespace(shared_memory=fails))
    connections.connected_locally = fails
dist.init_process_group("mpi", timeout=timedelta(seconds=3))
dist.all_reduce(x := mt.ones(3))
say(x[0].item(), shares_memory())
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_where_memory_can_not_be_shared_messages_go(rank, tmp_path):
    done = launched(tmp_path, CAN_NOT_SHARE, FAILS=str(rank))
    assert lines(done) == ["3.0 False"] * 3
    assert "exchange messages, as they can't share memory (rank" in done.stderr
    if rank == 0:
        assert "(rank 0: not today)" in done.stderr


FAULTS = """
import signal
dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, what, count = dist.get_rank(), os.environ["WHAT"], int(os.environ["COUNT"])
x = mt.ones(count)
for _ in range(3):
    dist.all_reduce(x)
dist.group.WORLD.set_timeout(timedelta(seconds=1))
try:
    if rank == 1:
        if what == "is stuck":
            signal.pause()
        if what == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "leaves":
            sys.exit()
        x = mt.ones(count + 1) if what == "shape" else x.double()
    dist.all_reduce(x)
except dist.DistBackendError as error:
    say(rank, error)
"""


@pytest.mark.parametrize("transport", ["shared_memory", "mpi"])
@pytest.mark.parametrize("count", [100, 100_000])
@pytest.mark.parametrize("what", ["is stuck", "is killed", "leaves", "shape", "dtype"])
def test_faults(what, count, transport, tmp_path):
    done = launched(tmp_path, FAULTS, WHAT=what, COUNT=str(count), MT_DISTRIBUTED_TRANSPORT=transport)
    # MPI's launcher has something to say too.
    told = {int(line[0]): line for line in done.stdout.splitlines() if line[:2] in ("0 ", "1 ", "2 ")}
    if what == "is killed":  # the others are ended, maybe before they say so
        assert done.returncode != 0
        assert all("rank 1 has died" in text for text in told.values())
        return
    call = f"all_reduce(SUM, float32[{count}])"
    if what in ("shape", "dtype"):
        assert set(told) == {0, 1, 2}
        theirs = f"float32[{count + 1}]" if what == "shape" else f"float64[{count}]"
        for text in told.values():
            assert f"rank 1 called all_reduce(SUM, {theirs})" in text
            assert f"rank 0 called {call}" in text
        return
    assert set(told) == {0, 2}
    for text in told.values():
        assert f"{call} (call 4 of the group)" in text
        if what == "leaves" and transport == "shared_memory":
            assert "rank 1 has left the group" in text
        else:
            assert "timed out after 1 s; not called yet by rank 1" in text
