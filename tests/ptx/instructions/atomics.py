"""Atomic operations: threads that meet at an address come one after the other, in the order of their numbers."""

from __future__ import annotations

import numpy as np


def combine(operation: str, old: np.ndarray, values: tuple) -> np.ndarray:
    x = values[0]
    if operation == "cas":
        return np.where(old == x, values[1], old)
    if operation == "exch":
        return x
    if operation == "inc":
        return np.where(old >= x, old.dtype.type(0), old + old.dtype.type(1))
    if operation == "dec":
        return np.where((old == 0) | (old > x), x, old - old.dtype.type(1))
    ufunc = {
        "add": np.add, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[operation]  # fmt: skip
    return ufunc(old, x)


def apply_atomic(m, space, operation: str, address, values: tuple, size: int, form: str, line: int) -> np.ndarray:
    """The values that were there before, as unsigned integers."""
    address = np.broadcast_to(address, m.n)
    values = tuple(np.broadcast_to(v, m.n) for v in values)
    old = np.empty(m.n, f"u{size}")
    # Round k has the threads that are the k-th at their address.
    order = np.argsort(address, kind="stable")
    ordered = address[order]
    start = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    begin = np.flatnonzero(start)
    rank = np.empty(m.n, np.int64)
    rank[order] = np.arange(m.n) - np.repeat(begin, np.diff(np.append(begin, m.n)))
    kind = {"u": f"u{size}", "s": f"i{size}", "f": f"f{size}"}[form]
    index = m.index
    for k in range(int(rank.max()) + 1 if m.n else 0):
        now = np.flatnonzero(rank == k)
        m.stand(now if index is None else index[now])
        before = space.load_atomic(m, address[now], size, line)
        old[now] = before
        new = combine(operation, before.view(kind), tuple(v[now] for v in values))
        space.store_atomic(m, address[now], np.ascontiguousarray(new).view(f"u{size}"), size, line)
    m.stand(index)
    return old
