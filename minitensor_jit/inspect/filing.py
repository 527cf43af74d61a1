"""What the compiler says when it has a defect: how to report it, and with which files."""

from __future__ import annotations

import platform
import sys
import traceback

from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.dump import ModuleDump

__all__ = ["describe_failure", "how_to_file"]


def how_to_file(dump: ModuleDump | None) -> str:
    """What to do about a defect, as a sentence; `dump` is the writer of the module's files, if there is one."""
    if dump is not None and not dump.dumper.to_stdout and not dump.dumper.stopped:
        return f"This is a defect of the compiler: please report it, with the files {dump.files()}"
    return (
        "This is a defect of the compiler: please report it, with the files that "
        "MT_JIT_FLAGS=--dump_to=DIR writes to DIR when the program runs again"
    )


def describe_failure(error: BaseException, options: JitOptions) -> str:
    """All that somebody needs to know of a failed compilation besides the module: for `failure.txt`."""
    import llvmlite
    import llvmlite.binding as llvm

    from minitensor import _C

    config = _C.build_config()
    lines = [
        *traceback.format_exception(error),
        f"\nflags: {options.text()}\n",
        f"minitensor {_C.version}, {', '.join(f'{key} {value}' for key, value in sorted(config.items()))}\n",
        f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}, "
        f"{llvm.get_host_cpu_name()}\n",
        f"Python {sys.version.split()[0]} on {platform.platform()}\n",
    ]
    return "".join(lines)
