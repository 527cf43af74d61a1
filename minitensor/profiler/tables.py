"""Events as a table of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor.profiler.events import DeviceType, bytes_text, time_text

__all__ = ["table"]

_WIDTH = 12  # of a column of numbers


def _cut(text: str, width: int, end: bool = False) -> str:
    if width is None or len(text) <= width:
        return text
    return "..." + text[len(text) - width + 3 :] if end else text[: width - 3] + "..."


def _share(part: float, whole: float) -> str:
    return f"{part / whole * 100:.2f}%" if whole else "NaN"


def table(
    events: list[Any],
    sort_by: str | None,
    row_limit: int,
    widths: tuple[int, int, int],
    header: str | None,
    top_level_only: bool,
    memory: bool,
) -> str:
    """Return a row for each event; columns that would be empty are left out."""
    if not events:
        return ""
    cpu = sum(event.self_cpu_time_total for event in events)
    device = sum(event.self_device_time_total for event in events if event.device_type is DeviceType.CUDA)
    rows = list(events)
    if sort_by is not None:
        if not hasattr(rows[0], sort_by):
            raise AttributeError(f"events can't be sorted by '{sort_by}': they have no such attribute")
        rows.sort(key=lambda event: getattr(event, sort_by) or 0, reverse=True)
    if top_level_only:
        rows = [event for event in rows if getattr(event, "cpu_parent", None) is None]
    names, shapes, places = widths
    columns: list[tuple[str, Callable[[Any], str]]] = [
        ("Name", lambda e: _cut(e.key, names)),
        ("Self CPU %", lambda e: _share(e.self_cpu_time_total, cpu)),
        ("Self CPU", lambda e: time_text(e.self_cpu_time_total)),
        ("CPU total %", lambda e: _share(e.cpu_time_total, cpu)),
        ("CPU total", lambda e: time_text(e.cpu_time_total)),
        ("CPU time avg", lambda e: time_text(e.cpu_time)),
    ]
    if device:
        columns += [
            ("Self CUDA", lambda e: time_text(e.self_device_time_total)),
            ("Self CUDA %", lambda e: _share(e.self_device_time_total, device)),
            ("CUDA total", lambda e: time_text(e.device_time_total)),
            ("CUDA time avg", lambda e: time_text(e.device_time)),
        ]
    if memory:
        columns += [
            ("CPU Mem", lambda e: bytes_text(e.cpu_memory_usage)),
            ("Self CPU Mem", lambda e: bytes_text(e.self_cpu_memory_usage)),
        ]
    columns.append(("# of Calls", lambda e: str(e.count)))
    if any(event.input_shapes for event in rows):
        columns.append(("Input Shapes", lambda e: _cut(str(e.input_shapes or []), shapes)))
    if any(event.stack for event in rows):
        columns.append(("Source Location", lambda e: _cut(e.stack[0] if e.stack else "", places, end=True)))
    if any(event.flops for event in rows):
        columns.append(("Total FLOPs", lambda e: f"{e.flops:.3f}" if e.flops else "--"))
    cells = [[show(event) for _, show in columns] for event in rows[: row_limit if row_limit >= 0 else len(rows)]]
    titles = [title for title, _ in columns]
    fixed = {title for title, _ in columns} - {"Name", "Input Shapes", "Source Location"}
    sizes = [
        _WIDTH if title in fixed else max(len(title), *(len(row[i]) for row in cells), 0) + 4
        for i, title in enumerate(titles)
    ]
    rule = "  ".join("-" * size for size in sizes) + "  "

    def line(parts: list[str]) -> str:
        return "  ".join(part.rjust(size) for part, size in zip(parts, sizes, strict=True)) + "  "

    text = [rule, line(titles), rule, *map(line, cells), rule, f"Self CPU time total: {time_text(cpu)}"]
    if device:
        text.append(f"Self CUDA time total: {time_text(device)}")
    if header is not None:
        text[:0] = ["=" * len(rule), header]
    return "\n".join(text) + "\n"
