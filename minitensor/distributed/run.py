"""``python -m minitensor.distributed.run``: torchrun's options, environment and behaviour.

``--nproc-per-node 2 train.py`` starts two processes of a program, each with its ``RANK``, ``LOCAL_RANK`` and
``WORLD_SIZE``, and what `init_process_group` needs to find the others. When one fails the others are ended, its
traceback is shown, and all are started again, ``--max-restarts`` times at most.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minitensor.distributed.errors import DistError
from minitensor.distributed.launcher.agent import Agent
from minitensor.distributed.launcher.error_file import record
from minitensor.distributed.launcher.options import parsed

__all__ = ["main", "record"]


def main(args: Sequence[str] | None = None) -> None:
    """Run a command line; exit with the first failing process's code."""
    options = parsed(args)
    try:
        code = Agent(options).run()
    except (DistError, OSError) as error:
        sys.stderr.write(f"minitensor.distributed.run: {error}\n")
        code = 1
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    main()
