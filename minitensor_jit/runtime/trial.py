"""Plans that are not the last word, and what becomes of them.

A plan may come with a policy. After some runs the core asks it, with the time that each cluster took: the policy
answers after how many more runs to ask again, or None for another plan.

- `Waiting`: clusters are not compiled yet, because they may not be worth it (`compilation_profile.py`), or because a
  thread is compiling them.
- `Trial`: all is compiled. The time of every cluster is held against the time of its ops, so that none is slower than
  they are. Both are the fastest of a few runs; bits don't depend on the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitensor_jit.clustering.pipeline import ClusteringResult
from minitensor_jit.runtime.trace_to_graph import RecordedTrace

__all__ = ["Draft", "Trial", "Waiting"]

COMPILED_RUNS = 6
"""Of a compiled plan before its clusters' ops run eagerly,"""
EAGER_RUNS = 5
"""which they do that often."""
MARGIN = 1.02
"""A cluster loses if it takes that many times as long as its ops."""


@dataclass
class Draft:
    """What plans of a trace are made of."""

    trace: RecordedTrace
    result: ClusteringResult


@dataclass
class Waiting:
    """Some clusters are not compiled yet."""

    draft: Draft
    ready: Callable[[], bool]
    """Whether there may be more to launch by now."""

    def ask(self, times: Sequence[int | None]) -> int | None:
        """None, for another plan, if there may be more to launch."""
        return None if self.ready() else 1


@dataclass
class Trial:
    """Clusters are measured: first compiled, then op by op."""

    draft: Draft
    clusters: Sequence[str]
    """By group."""
    candidates: frozenset[str]
    """Those that may run eagerly."""
    plan: tuple[Any, ...]
    """That with everything compiled."""
    compiled: dict[str, int] = field(default_factory=dict)
    """Nanoseconds, by cluster."""
    eager: dict[str, int] = field(default_factory=dict)

    @property
    def measures_ops(self) -> bool:
        """Whether the next plan runs the candidates' ops."""
        return bool(self.compiled) and not self.eager

    @property
    def losers(self) -> Mapping[str, str]:
        """Clusters that took longer than their ops, with the figures."""
        return {
            name: f"it took {self.compiled[name] / 1e3:,.1f} us, and its ops {time / 1e3:,.1f} us"
            for name, time in self.eager.items()
            if name in self.compiled and time * MARGIN < self.compiled[name]
        }

    def ask(self, times: Sequence[int | None]) -> int | None:
        """Note what was measured; None, for another plan."""
        measured = {
            name: time
            for name, time in zip(self.clusters, times, strict=True)
            if time is not None and name in self.candidates
        }
        if not measured:
            return 1
        if self.compiled:
            self.eager = measured
        else:
            self.compiled = measured
        return None
