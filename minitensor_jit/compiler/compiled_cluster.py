"""What the compiler says of a cluster: its code, and how to call it here."""

from __future__ import annotations

from dataclasses import dataclass

from minitensor_jit.inspect.dump import ModuleDump
from minitensor_jit.ir.size import Sizes
from minitensor_jit.lowering.lower import LoweredCluster
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["Ready"]


@dataclass(frozen=True, slots=True)
class Ready:
    """Compiled code for a cluster."""

    lowered: LoweredCluster
    executable: AnyExecutable
    scratch_bytes: int
    work_bytes: int
    sizes: Sizes = ()
    """What the symbols are here, for code that was compiled for all sizes of dimensions."""
    dump: ModuleDump | None = None
    """The writer of its dumps, if it was compiled just now."""
    module: str = ""
    """The module's `module_id`, by which its code is found; empty for code that is for all sizes of dimensions."""
