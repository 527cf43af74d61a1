"""``python -m minitensor.distributed.launch``: the launcher's older name in PyTorch."""

from __future__ import annotations

from minitensor.distributed.run import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
