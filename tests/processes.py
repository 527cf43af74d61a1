"""Programs that run in a process of their own, with the compiler's flags and nothing else of this one's."""

import os
import subprocess
import sys
from pathlib import Path

import minitensor as mt

ROOT = str(Path(mt.__file__).parent.parent)


def run(program, flags=None, status=0):
    """Run a program's text under MT_JIT_FLAGS; what it printed, if it ended with this status."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MT_")} | {"PYTHONPATH": ROOT}
    if flags is not None:
        environment["MT_JIT_FLAGS"] = flags
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == status, done.stderr
    return done
