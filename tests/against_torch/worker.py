"""The process that runs the comparisons."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["work"]


def work(places: Any, results: Any, arguments: dict[str, Any]) -> None:
    """Take places of the list of ops until None comes; say when one began and how it ended."""
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.against_torch import checks

    for place in iter(places.get, None):
        results.put(("began", place))
        outcome = checks.run(op_db[place], **arguments)
        results.put(("done", place, outcome.to_json()))
