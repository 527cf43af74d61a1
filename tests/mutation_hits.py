"""Which places of `scripts/mutate` each test reaches: a plugin of pytest."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import mutation_marks
import pytest

_before: set[int] = set()  # by imports and what tests share
_counted = int(os.environ.get("MUTANT_COUNT", "0"))


def _taken() -> set[int]:
    """The places since the last call."""
    taken, mutation_marks.hits = mutation_marks.hits, set()
    children = mutation_marks.children
    if children and os.path.exists(children):
        with open(children, "r+") as file:
            taken |= {int(line) for line in file.read().split()}
            file.truncate(0)
    extension = sys.modules.get("minitensor._C")
    if extension is not None:
        try:
            flags = (ctypes.c_ubyte * (_counted + 1)).in_dll(ctypes.CDLL(str(extension.__file__)), "mt_mutants_hit")
        except ValueError:  # no defect in C++
            return taken
        raw = bytes(flags)
        taken |= {k for k in range(len(raw)) if raw[k]}
        ctypes.memset(flags, 0, len(raw))
    return taken


class Hits:
    """Runs the chosen tests, in order, at most so many, and writes a line for each."""

    def __init__(
        self, chosen: list[str] | None, output: Any, *, left_out: Sequence[str] = (), at_most: int | None = None
    ) -> None:
        self.chosen, self.output, self.left_out, self.at_most = chosen, output, set(left_out), at_most

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """The chosen ones only, or the exhaustive ones last."""
        if self.chosen is not None:
            by = {item.nodeid: item for item in items}
            items[:] = [by[one] for one in self.chosen if one in by]
        else:
            items.sort(key=lambda item: item.get_closest_marker("exhaustive") is not None)
        items[:] = [item for item in items if item.nodeid not in self.left_out][: self.at_most]
        if self.output is not None:
            _before.update(_taken())
            print(json.dumps({"before": sorted(_before)}), file=self.output, flush=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[Any]:
        """A test with its fixtures."""
        result = yield
        if self.output is not None:
            print(json.dumps({"test": item.nodeid, "hits": sorted(_taken())}), file=self.output, flush=True)
        return result

    def pytest_runtest_logreport(self, report: Any) -> None:
        """How long it took and whether it passed."""
        if self.output is not None and (report.when == "call" or report.failed):
            line = {"test": report.nodeid, "seconds": report.duration, "passed": report.passed}
            print(json.dumps(line), file=self.output, flush=True)
