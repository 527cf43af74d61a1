"""How data are put into a page: as JSON, compressed, in letters; and how they are read from one."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

__all__ = [
    "NotAReportError",
    "end_script",
    "is_module_name",
    "module_text",
    "read_end",
    "read_parts",
    "read_report",
    "script",
    "with_end",
]

_PART = re.compile(r'<script type="application/gzip" id="part-(\d+)">([A-Za-z0-9+/=\s]*)</script>')
_END = re.compile(r'(<script type="application/json" id="end">)(.*?)(</script>)', re.DOTALL)


class NotAReportError(ValueError):
    """A file is no report, or not a whole one."""


def script(number: int, data: Any) -> str:
    """An element with data of its own; number 0 is what is shown first, the others are read when they are wanted."""
    packed = gzip.compress(json.dumps(data, separators=(",", ":"), allow_nan=False).encode(), 9, mtime=0)
    return f'<script type="application/gzip" id="part-{number}">{base64.b64encode(packed).decode()}</script>'


def end_script(end: dict[str, Any]) -> str:
    """How the program ended, in plain text, so that whoever started it can add to it."""
    text = json.dumps(end).replace("<", "\\u003c")
    return f'<script type="application/json" id="end">{text}</script>'


def read_end(page: str) -> dict[str, Any]:
    """How the program of a report ended."""
    found = _END.search(page)
    if found is None:
        raise NotAReportError("there is no report in it")
    end: dict[str, Any] = json.loads(found[2])
    return end


def with_end(page: str, end: dict[str, Any]) -> str:
    """The page with another end."""
    return _END.sub(lambda _: end_script(end), page, count=1)


def read_parts(page: str) -> dict[int, str]:
    """The packed data of a page, by number."""
    return {int(found[1]): found[2] for found in _PART.finditer(page)}


def read_report(path: str | Path) -> tuple[dict[str, Any], list[Any]]:
    """What is shown first of a report, with its `end`; and the other parts. NotAReportError where it is none."""
    try:
        page = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise NotAReportError(f"{path} is no report: {error}") from None
    parts = read_parts(page)
    if 0 not in parts:
        raise NotAReportError(f"{path} is no report of minitensor: it has no data in it")
    try:
        data = [json.loads(gzip.decompress(base64.b64decode(parts[n]))) for n in sorted(parts)]
    except (ValueError, OSError, EOFError) as error:
        raise NotAReportError(f"{path}: its data are damaged: {error}") from None
    main: dict[str, Any] = data[0]
    main["end"] = read_end(page)
    return main, data[1:]


def is_module_name(path: str) -> bool:
    """Whether it names a module of a report, as `FILE.html#MODULE`."""
    return "#" in path and not Path(path).exists()


def module_text(name: str) -> str:
    """The HLO of a module, as it was lowered, by the name that `is_module_name` knows. NotAReportError without one."""
    path, _, module = name.rpartition("#")
    main, parts = read_report(path)
    known = {one["name"]: one for one in main["modules"]}
    if module not in known:
        raise NotAReportError(f"{path} has no module {module!r}; it has {', '.join(known) or 'none'}")
    text: str | None = parts[known[module]["part"] - 1]["text"]
    if text is None:
        raise NotAReportError(
            f"{path}: the constants of {module} are too large to be kept in a report; use --dump_to=DIR"
        )
    return text
