"""`jit.report()`: a report of a part of a program, to be written to a file or shown in a notebook."""

from __future__ import annotations

import html
import os
from types import TracebackType
from typing import Any

from minitensor import _C
from minitensor_jit import api
from minitensor_jit.inspect.program_report import described, finished
from minitensor_jit.inspect.report_page.write import probe, write_page
from minitensor_jit.inspect.run_record import RunRecord, begin, end

__all__ = ["report"]

_PIXELS = 900


class report:  # noqa: N801  (called like a function)
    """A report of what runs inside a `with` block, compiled: one HTML page, as `MT_JIT_FLAGS=--report=FILE` writes it.

    >>> with mt.jit.report("step.html") as seen:
    ...     step(x, y)
    >>> seen  # in a notebook: the page

    `path` is where the page is written at the end, also after an exception. Options are those of `jit.options`; unless
    `auto_jit` is on already, everything that can be compiled is. What was compiled before is compiled again, so that
    its stages can be seen. RuntimeError where another report is being taken; DumpError where `path` can't be written.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, **options: Any) -> None:
        if path is not None:
            probe(path, "jit.report")
        current = api.current_options()
        on = current if current.auto_jit else current.replace(auto_jit=2, cpu_global_jit=True)
        self._options = on.replace(hlo_profile=True, **options)
        self._path = None if path is None else os.path.abspath(path)
        self._record: RunRecord | None = None
        self._page: str | None = None
        self._before: Any = None
        self._switch: Any = None

    def __enter__(self) -> report:
        _C.flush("the start of a report")
        self._record = RunRecord()
        self._page = None
        begin(self._record)
        try:
            # Plans know the account they were made for, and code that is there has no stages to show.
            _C.clear_plan_cache()
            self._before = api.swap_account(self._record.account)
            self._switch = api.recorded_scope(self._options, "the end of a report")
            self._switch.__enter__()
        except BaseException:
            end(self._record)
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._record is not None
        how: dict[str, Any] = {"kind": "finished"} if error is None else described(error)
        try:
            self._switch.__exit__(exc_type, error, traceback)
        except BaseException as late:
            how = described(late)
            raise
        finally:
            end(self._record)
            api.swap_account(self._before)
            _C.clear_plan_cache()
            self._page = finished(self._record, self._options.text(), how)
            self._record = None
            if self._path is not None:
                write_page(self._path, self._page)

    @property
    def html(self) -> str:
        """The page, after the block."""
        if self._page is None:
            raise RuntimeError("a report has a page at the end of its `with` block")
        return self._page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file; it is there entirely or not at all."""
        probe(path, "report.save")
        write_page(path, self.html)

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
        if self._page is None:
            return f"<p>{html.escape(repr(self))}</p>"
        # Its scripts run in the frame only, and reach nothing else.
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="report" srcdoc="{html.escape(self._page)}" '
            f'style="width: 100%; height: {_PIXELS}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        state = "before its end" if self._page is None else f"{len(self._page.encode()):,} bytes of HTML"
        return f"<minitensor.jit.report: {state}>"
