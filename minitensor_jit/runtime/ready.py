"""What the compiler says of a cluster: its code, and how to call it here; or why there is none yet."""

from __future__ import annotations

from dataclasses import dataclass

from minitensor_jit.inspect.dump import ModuleDump
from minitensor_jit.ir.size import Sizes
from minitensor_jit.lowering.lower import LoweredCluster
from minitensor_jit.runtime.compilation_profile import ClusterProfile
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["NotYet", "Ready"]


@dataclass(frozen=True, slots=True)
class Ready:
    """Compiled code for a cluster."""

    lowered: LoweredCluster
    executable: AnyExecutable
    scratch_bytes: int
    work_bytes: int
    sizes: Sizes = ()
    """What the symbols are here, for code that was compiled for all sizes of dimensions."""
    profile: ClusterProfile | None = None
    dump: ModuleDump | None = None
    """The writer of its dumps, if it was compiled just now."""
    module: str = ""
    """The module's `module_id`, by which its code is found; empty for code that is for all sizes of dimensions."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """The cluster's ops run one by one this time."""

    reason: str
    profile: ClusterProfile
    final: bool = False
    """Whether it is not worth asking again."""
    job: str = ""
    """The `module_id` of what a thread is compiling."""
