"""Puts a report together, and writes it: entirely or not at all."""

from __future__ import annotations

import contextlib
import html
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from minitensor_jit.errors import DumpError
from minitensor_jit.inspect.report_page.packing import end_script, script

__all__ = ["document", "page_of", "probe", "write_page"]

_ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = (
    "inflate.js",
    "elements.js",
    "graph.js",
    "charts.js",
    "overview.js",
    "panes.js",
    "stages.js",
    "sections.js",
    "app.js",
)


def page_of(main: dict[str, Any], parts: list[Any], end: dict[str, Any]) -> str:
    """The page: style and scripts of our own, and the data."""
    scripts = "\n".join(asset(name) for name in _SCRIPTS)
    packed = "\n".join(script(number, part) for number, part in enumerate([main, *parts]))
    body = filled(asset("app.html"), {"data": f"{end_script(end)}\n{packed}", "script": scripts})
    return document(f"{main['title']}: report", body)


def document(title: str, body: str, attributes: str = "") -> str:
    """A page of one file: what all pages have, and a body that is HTML."""
    pieces = {"title": html.escape(title), "style": asset("style.css"), "attributes": attributes, "body": body}
    return filled(asset("page.html"), pieces)


def asset(name: str) -> str:
    """A file that pages are made of."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def filled(page: str, pieces: dict[str, str]) -> str:
    """A page with a piece of text in the place of each `{{name}}`."""
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: pieces[mark[1]], page)


def probe(path: str | os.PathLike[str], flag: str = "--report") -> None:
    """Raise DumpError if a file can't be written there."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        if os.path.isdir(path):
            raise IsADirectoryError(21, "it is a folder")
        handle, name = tempfile.mkstemp(prefix=".probe", suffix=".tmp", dir=folder)
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise DumpError(
            error.errno or 0, f"can't write the file of {flag}: {error.strerror or error}", os.fspath(path)
        ) from error


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write beside it and rename, so that nobody sees half a page."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)
    try:
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(page)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
