"""Whether a cluster is worth compiling for one more signature: what is known of its earlier compilations and runs.

With `--enable_lazy_compilation` a cluster is compiled when it first runs. For other signatures, which are other shapes
of its arguments as a rule, it is compiled when one comes for the second time. A cluster that is compiled over and over
and hardly ever runs again is *megamorphic*: it is not compiled any more.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from dataclasses import dataclass, field

from minitensor_jit.flags import JitOptions
from minitensor_jit.ir.decision import Decision

__all__ = ["ClusterProfile"]

REQUESTS = 2
"""A signature that isn't the first is compiled when it comes for that time."""
MEGAMORPHIC_COMPILATIONS = 10
"""More compilations than this, and"""
RUNS_PER_COMPILATION = 50
"""fewer runs than this for each of them: the cluster is megamorphic."""
_MAX_SIGNATURES = 4096


@dataclass
class ClusterProfile:
    """What became of the cluster of some ops at some lines, in all its signatures."""

    compilations: int = 0
    megamorphic: bool = False
    counter: ctypes.c_int64 = field(default_factory=ctypes.c_int64)
    """How often it ran; the core counts."""
    _requests: OrderedDict[str, int] = field(default_factory=OrderedDict)

    @property
    def runs(self) -> int:
        """How often the cluster ran, compiled or not."""
        return self.counter.value

    @property
    def address(self) -> int:
        """Where the core counts its runs."""
        return ctypes.addressof(self.counter)

    def asks(self, signature: str, options: JitOptions) -> Decision:
        """Enter a request for a signature that is not compiled; whether to compile it now."""
        requests = self._requests.pop(signature, 0) + 1
        self._requests[signature] = requests
        if len(self._requests) > _MAX_SIGNATURES:
            self._requests.popitem(last=False)
        if options.always_defer_compilation:
            return Decision.refuse("--always_defer_compilation is set")
        if not options.enable_lazy_compilation or not self.compilations:
            return Decision.allow()
        if self.compilations > MEGAMORPHIC_COMPILATIONS and self.runs < RUNS_PER_COMPILATION * self.compilations:
            self.megamorphic = True
        if self.megamorphic:
            return Decision.refuse(
                f"it is megamorphic: {self.compilations} compilations for {self.runs:,} runs, so it is not compiled "
                "for other signatures"
            )
        if requests < REQUESTS:
            return Decision.refuse(
                "it was compiled for other shapes, and for these it is compiled when they come again"
            )
        return Decision.allow()

    def compiled(self, signature: str) -> None:
        """Enter a compilation."""
        self.compilations += 1
        self._requests.pop(signature, None)
