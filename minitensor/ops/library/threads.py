"""How many threads NumPy's and SciPy's BLAS may use: one for small matrices, which are not worth more.

OpenBLAS gives every thread a share of each step and spins until the last is done. Where a core has other work that
takes a hundred times as long as the step itself; on idle cores one thread is as quick for matrices up to 256 x 256.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minitensor import _C
from minitensor._import.lazy import LazyModule

ctypes: Any = LazyModule("ctypes")

__all__: list[str] = []

SMALL = 256
# With and without 64-bit integers and the prefix of the wheels' own builds.
_NAMES = [f"{prefix}openblas_%s_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]


class _Pool:
    """A loaded OpenBLAS. Its functions are called with the GIL held, so `nested` and its count of threads agree."""

    def __init__(self, get: Any, put: Any) -> None:
        self.get, self.put = get, put
        self.nested = self.before = 0


_pools: dict[str, list[_Pool]] = {}


def pools() -> list[_Pool]:
    """Those of NumPy, and of SciPy once it is imported; none of libraries other than OpenBLAS."""
    return [pool for package in ("numpy", "scipy") if package in sys.modules for pool in _pools_of(package)]


def _pools_of(package: str) -> list[_Pool]:
    if package not in _pools:
        file = sys.modules[package].__file__ or ""
        folder = Path(file).parent.parent / f"{package}.libs"
        found = [pool for path in folder.glob("*openblas*") if (pool := _opened(path))]
        if package == "scipy" and not found:
            return []  # it loads the library with the first of its modules that needs it
        _pools[package] = found
    return _pools[package]


def _opened(path: Path) -> _Pool | None:
    try:
        library = ctypes.PyDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    for name in _NAMES:
        get, put = (getattr(library, name % what, None) for what in ("get", "set"))
        if get and put:
            return _Pool(get, put)
    return None


@contextmanager
def for_matrices(largest: int) -> Iterator[None]:
    """One thread for matrices of up to SMALL rows and columns, or where minitensor has one; else what there was."""
    if largest > SMALL and _C.get_num_threads() > 1:
        yield
        return
    used = pools()
    for pool in used:
        if not pool.nested:
            pool.before = pool.get()
            pool.put(1)
        pool.nested += 1
    try:
        yield
    finally:
        for pool in used:
            pool.nested -= 1
            if not pool.nested:
                pool.put(pool.before)
