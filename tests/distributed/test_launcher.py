"""`python -m minitensor.distributed.run`, and programs of PyTorch's under it."""

import argparse
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "MT_JIT_FLAGS": ""}


def launched(*arguments, **more):
    command = [sys.executable, "-m", "minitensor.distributed.run", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**ENVIRONMENT, **more}, cwd=ROOT)


PROGRAM = """
import json, os, sys
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK TORCHELASTIC_RESTART_COUNT".split()
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor

@record
def main():
    dist.init_process_group(backend="gloo")
    rank = dist.get_rank()
    assert not isinstance(torch.ones(1), DTensor) and not isinstance(torch.nn.ReLU(), FullyShardedDataParallel)
    t = torch.ones(3) * (rank + 1)
    dist.all_reduce(t, op=dist.ReduceOp.SUM)
    found = [int(os.environ[name]) for name in names] + t.tolist() + sys.argv[1:]
    sys.stdout.write(json.dumps(found) + "\\n")
    sys.stdout.flush()
    if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("bad luck")
    dist.barrier()
    dist.destroy_process_group()

main()
"""


def test_processes_that_fail_once_are_started_again(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = launched("--nproc-per-node=2", "--standalone", "--max_restarts", 1, "--as-torch", program, "--more", "x")
    assert done.returncode == 0, done.stderr
    lines = sorted(map(json.loads, done.stdout.splitlines()), key=lambda one: (one[5], one[0]))
    rest = [3.0, 3.0, 3.0, "--more", "x"]
    assert lines == [[rank, rank, 2, 2, 0, start, *rest] for start in range(2) for rank in range(2)]
    assert "first: rank 1" in done.stderr
    assert "ValueError: bad luck\n" in done.stderr
    # Where the other one had its turn before it was ended, it learned why.
    if "then: rank 0" in done.stderr:
        assert "DistBackendError" in done.stderr
        assert "it ended with ValueError: bad luck" in done.stderr


def test_the_first_failure_is_the_exit_code(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(60)\n")
    done = launched("--nproc-per-node", 2, program)
    assert done.returncode == 7
    assert "first: rank 1" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--nproc-per-node", "many", "x.py"], "expected a number of processes, auto or cpu, not many"),
        (["--nnodes", "1:4", "x.py"], "expected a number of machines"),
        (["--redirects", "9", "x.py"], "--redirects"),
    ],
)
def test_options_that_are_wrong(arguments, told, capsys):
    from minitensor.distributed.launcher.options import parsed

    with pytest.raises(SystemExit):
        parsed(arguments)
    assert told in capsys.readouterr().err


def test_outputs_are_told_apart_by_rank():
    from minitensor.distributed.launcher.options import _streams

    parser = argparse.ArgumentParser()
    assert _streams(parser, "redirects", "3", 2) == [3, 3]
    assert _streams(parser, "redirects", "0:1,2:2", 3) == [1, 0, 2]


def test_outputs_go_to_a_file_too(tmp_path):
    from minitensor.distributed.launcher.processes import _copy

    for file in (None, (tmp_path / "out").open("wb")):
        here = io.StringIO()
        _copy(io.BytesIO(b"one\ntwo"), file, here, "[0]:")
        assert here.getvalue() == "[0]:one\n[0]:two"
    assert (tmp_path / "out").read_bytes() == b"one\ntwo"
    assert file.closed
