"""`torch.__version__`: a text that is compared as a version."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]

# What of https://peps.python.org/pep-0440 releases of PyTorch use.
_VERSION = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)(?:[-_.]?(?P<kind>a|alpha|b|beta|c|rc|pre)[-_.]?(?P<number>\d*))?"
    r"(?:\.?post(?P<post>\d*))?(?:[-_.]?dev(?P<dev>\d*))?(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)
_KINDS = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2}
_FINAL = 3


def _key(text: str) -> tuple[Any, ...] | None:
    """What versions are ordered by; None for a text that is none."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        return None
    release = [int(part) for part in found["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    kind = _FINAL if found["kind"] is None else _KINDS[found["kind"].lower()]
    if found["kind"] is None and found["dev"] is not None and found["post"] is None:
        kind = -1  # before the first alpha version
    post = -1 if found["post"] is None else int(found["post"] or 0)
    dev = float("inf") if found["dev"] is None else int(found["dev"] or 0)
    local = re.split(r"[-_.]", found["local"].lower()) if found["local"] else []
    parts = [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in local]
    return tuple(release), kind, int(found["number"] or 0), post, dev, parts


class TorchVersion(str):
    """A version as a text that compares with others by their numbers: texts, and tuples and lists of their parts.

    Texts that are no versions are compared as texts.
    """

    __slots__ = ()

    def _sides(self, other: Any) -> tuple[Any, Any] | None:
        if isinstance(other, (tuple, list)):
            other = ".".join(map(str, other[:3])) + (f"+{other[3]}" if len(other) > 3 else "")
        if not isinstance(other, str):
            return None
        mine, its = _key(str(self)), _key(other)
        return (str(self), str(other)) if mine is None or its is None else (mine, its)

    def __lt__(self, other: Any) -> bool:
        sides = self._sides(other)
        return NotImplemented if sides is None else sides[0] < sides[1]

    def __le__(self, other: Any) -> bool:
        sides = self._sides(other)
        return NotImplemented if sides is None else sides[0] <= sides[1]

    def __gt__(self, other: Any) -> bool:
        sides = self._sides(other)
        return NotImplemented if sides is None else sides[0] > sides[1]

    def __ge__(self, other: Any) -> bool:
        sides = self._sides(other)
        return NotImplemented if sides is None else sides[0] >= sides[1]

    def __eq__(self, other: object) -> bool:
        sides = self._sides(other)
        return NotImplemented if sides is None else sides[0] == sides[1]

    def __ne__(self, other: object) -> bool:
        sides = self._sides(other)
        return NotImplemented if sides is None else sides[0] != sides[1]

    __hash__ = str.__hash__
