"""What the marked places of `scripts/mutate` call, also in processes that tests start: it imports next to nothing."""

from __future__ import annotations

import os
import sys

hits: set[int] = set()
children = os.environ.get("MUTANT_CHILDREN", "")
"""Where processes that tests start note their places, since they have no plugin."""


def hit(k: int) -> bool:
    """Note a place; false, so that what stands after `or` is the value."""
    if k not in hits:
        hits.add(k)
        if children and "_pytest" not in sys.modules:
            with open(children, "a") as file:
                print(k, file=file)
    return False
