"""What `python -m minitensor.as_torch --children` puts on PYTHONPATH: programs that are started have it too."""

from __future__ import annotations

import os

__all__ = ["pass_on"]


def pass_on() -> None:
    """Let programs that this one starts with its environment find minitensor as `torch`."""
    place = os.path.dirname(os.path.abspath(__file__))
    rest = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != place]
    os.environ["PYTHONPATH"] = os.pathsep.join([place, *rest])
