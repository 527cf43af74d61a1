"""What `minitensor._C` exports refuses wrong arguments with an exception, whatever they are, and never crashes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minitensor import _C

WORKER = Path(__file__).with_name("private_calls.py")


def run(count, seed, *names):
    command = [sys.executable, WORKER, str(count), str(seed), *names]
    paths = [str(WORKER.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.exhaustive
def test_wrong_arguments_raise():
    done = run(6, 0)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout == ""
    assert len([name for name in vars(_C) if callable(getattr(_C, name))]) > 120
