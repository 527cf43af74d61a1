"""Special functions, as in scipy.special: error functions, gamma functions, Bessel functions, orthogonal polynomials.

Each is an op of its own or composed of ops; `minitensor.ops.special` has those with a kernel.
"""

from __future__ import annotations

from typing import Any as _Any

from minitensor.composite import COMPOSITES as _COMPOSITES
from minitensor.ops import ROWS as _ROWS

_entries: list[_Any] = [*_ROWS.values(), *_COMPOSITES.values()]
for _entry in _entries:
    if "special" in _entry.namespaces:
        for _name in (_entry.name, *_entry.aliases):
            globals()[_name] = _entry.call

softmax = _ROWS["softmax"].call
log_softmax = _ROWS["log_softmax"].call
if "logsumexp" in _COMPOSITES:
    logsumexp = _COMPOSITES["logsumexp"].call
elif "logsumexp" in _ROWS:
    logsumexp = _ROWS["logsumexp"].call

__all__ = sorted(name for name in globals() if not name.startswith("_") and name != "annotations")
