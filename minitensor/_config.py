"""What this build is, and how it is set up."""

from __future__ import annotations

import sys
from typing import TextIO

from minitensor import _C
from minitensor._jit import entry_points

__all__ = ["show_config"]


def show_config(file: TextIO | None = None) -> None:
    """Print what a report of a problem needs: versions, the build, its instruction set, threads, the JIT's flags.

    `file` is standard output if it is not given. Nothing is loaded that was not loaded before.
    """
    import platform

    build = _C.build_config()
    checks = ["assertions"] if build["assertions"] else []
    checks += [f"{build['sanitizer']} sanitizer"] if build["sanitizer"] else []
    mode = "optimized" if build["optimized"] else "not optimized"
    best = "" if build["isa"] == build["detected_isa"] else f" (this CPU has {build['detected_isa']})"
    allocator = _C.allocator_stats()
    rows = {
        "minitensor": _C.version,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "NumPy": entry_points.installed_version("numpy"),
        "compiler": f"{build['compiler']}, C++{build['cplusplus'] // 100 % 100}",
        "build": ", ".join([mode, *checks]),
        "instruction set": f"{build['isa']}{best}; built: {', '.join(build['built_isas'])}",
        "threads": str(_C.get_num_threads()),
        "default dtype": str(_C.get_default_dtype()),
        "memory": f"{allocator['allocated_bytes']} bytes in use, {allocator['reserved_bytes']} reserved",
        **entry_points.compiler_config(),
    }
    width = max(map(len, rows)) + 2
    out = sys.stdout if file is None else file
    for name, value in rows.items():
        print(f"{name + ':':<{width}}{value}", file=out)
