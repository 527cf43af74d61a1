"""What differs between two reports: sections, as text for a terminal. `difference_page` shows them in a browser."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Section", "about", "compare", "difference"]

_LIMIT = 20
_NOTABLE = 0.05
"""Ratios that are nearer to one say nothing: so much the times of two runs differ anyway."""


@dataclass(frozen=True)
class Section:
    """What differs in one regard: settings, a table whose first row is its head, and what only one of the runs has."""

    title: str
    settings: tuple[tuple[str, str, str], ...] = ()
    """Each with its value in A and in B."""
    table: tuple[tuple[str, ...], ...] = ()
    moods: tuple[str, ...] = ()
    """For each row of the table below its head, whether B is better: "good", "bad" or ""."""
    only: tuple[tuple[str, str, str], ...] = ()
    """`-` for what only A has and `+` for B, how much of it, and what it is."""
    more: int = 0
    """How many rows were left out at the end."""


def compare(first: dict[str, Any], second: dict[str, Any]) -> list[Section]:
    """The sections of what differs between the data of two reports; those in which nothing does are left out."""
    sections = [
        _figures(first, second),
        _settings(first, second),
        _sets("Left eager", first, second, _eager),
        _sets("Not fused", first, second, _refusals),
        _sets("Compiled again", first, second, _recompiles),
        _kernels(first, second),
        _program_lines(first, second),
    ]
    return [section for section in sections if section.settings or section.table or section.only]


def about(data: dict[str, Any]) -> str:
    """Which run it was, and how it ended."""
    end = data["end"]
    how = end["type"] if end["kind"] == "exception" else "ran to its end"
    return f"{data['command']}, {data['date']}, {how}"


def difference(first: dict[str, Any], second: dict[str, Any], first_name: str = "A", second_name: str = "B") -> str:
    """A table of what can be compared, and lists of what is in one of two runs only."""
    lines = [f"A: {first_name}: {about(first)}", f"B: {second_name}: {about(second)}"]
    for section in compare(first, second):
        lines += ["", section.title] if section.title else [""]
        for name, a, b in section.settings:
            lines += [f"  {name}", f"    A: {a}", f"    B: {b}"]
        lines += _aligned(section.table) if section.table else []
        lines += [f"  {mark} {value}  {key}" for mark, value, key in section.only]
        lines += [f"  ... and {section.more:,} more"] if section.more else []
    return "\n".join(lines) + "\n"


def _figures(first: dict[str, Any], second: dict[str, Any]) -> Section:
    rows: list[tuple[str, ...]] = [("", "A", "B", "B / A")]
    moods: list[str] = []

    def row(name: str, value: Callable[[dict[str, Any]], float], show: Callable[[float], str], best: str = "") -> None:
        a, b = value(first), value(second)
        ratio = f"{b / a:.2f}" if a else "same" if a == b else "new"
        rows.append((name, show(a), show(b), ratio))
        moods.append(_mood(b, a) if best == "most" else _mood(a, b) if best == "least" else "")

    row("time of the run", lambda d: d["seconds"], _time, "least")
    row("ops recorded", lambda d: d["account"]["ops"]["total"], _count)
    row("ops compiled", lambda d: d["account"]["ops"]["compiled"], _count, "most")
    row("clusters", lambda d: len(d["account"]["clusters"]), _count)
    row("time in compiled code", lambda d: d["profile"]["seconds"], _time, "least")
    row("time in eager ops", lambda d: sum(line["eager_seconds"] for line in d["lines"]), _time, "least")
    row("compilations", lambda d: len(d["compiles"]), _count, "least")
    row("time to compile", lambda d: sum(c["milliseconds"] for c in d["compiles"]) / 1e3, _time, "least")
    row("kernels", lambda d: sum(len(c["kernels"]) for c in d["profile"]["clusters"]), _count)
    row("bytes moved by kernels", _moved, _bytes, "least")
    row("bytes through memory, not fused", lambda d: sum(_refusals(d).values()), _bytes, "least")
    row("scratch memory", lambda d: sum(p["scratch"] for p in d["memory"]["predicted"].values()), _bytes, "least")
    row("most bytes in tensors", lambda d: d["memory"]["peak"], _bytes, "least")
    return Section("", table=tuple(rows), moods=tuple(moods))


def _mood(before: float, after: float) -> str:
    """Whether less is there than before, or more."""
    if abs(after - before) <= _NOTABLE * max(abs(before), abs(after)):
        return ""
    return "good" if after < before else "bad"


def _moved(data: dict[str, Any]) -> float:
    return float(sum(k["bytes_per_run"] * k["runs"] for c in data["profile"]["clusters"] for k in c["kernels"]))


def _flags(text: str) -> str:
    """Flags but for the file that the report goes to, which two runs never share."""
    return shlex.join(word for word in shlex.split(text) if not word.startswith("--report="))


def _settings(first: dict[str, Any], second: dict[str, Any]) -> Section:
    a, b = ({**d["environment"], "flags": _flags(d["flags"]), "command": d["command"]} for d in (first, second))
    ignored = {"memory", "JIT flags", "MT_JIT_FLAGS"}
    changed = [name for name in {**a, **b} if a.get(name) != b.get(name) and name not in ignored]
    rows = [(name, str(a.get(name, "not set")), str(b.get(name, "not set"))) for name in changed]
    return Section("Environment", settings=tuple(rows))


def _eager(data: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for group in data["account"]["eager"]:
        for row in group["ops"]:
            key = f"{row['op']} ({_place(row)}): {group['reason']}"
            found[key] = found.get(key, 0) + row["count"]
    return found


def _refusals(data: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for cluster in data["account"]["clusters"]:
        for row in cluster["refusals"]:
            if row["bytes"]:
                into = f" and {row['into']['op']}" if row["into"] else ""
                key = f"{row['op']}{into} ({_place(row)}): {row['reason']} [{row['code']}]"
                found[key] = found.get(key, 0) + row["bytes"]
    return found


def _recompiles(data: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in data["compiles"]:
        if not one["why"].startswith("first use"):
            found[one["why"]] = found.get(one["why"], 0) + 1
    return found


def _sets(
    title: str, first: dict[str, Any], second: dict[str, Any], of: Callable[[dict[str, Any]], dict[str, float]]
) -> Section:
    only, left_out = _only_in_one(of(first), of(second), _count)
    return Section(f"{title} (- in A only, + in B only)", only=only, more=left_out)


def _only_in_one(
    a: dict[str, float], b: dict[str, float], show: Callable[[float], str]
) -> tuple[tuple[tuple[str, str, str], ...], int]:
    """What one of two has and the other hasn't, the most first, and how many were left out."""
    rows = [
        (mark, value, key)
        for mark, own, other in (("-", a, b), ("+", b, a))
        for key, value in own.items()
        if key not in other
    ]
    rows.sort(key=lambda row: -row[1])
    only = tuple((mark, show(value), key) for mark, value, key in rows[:_LIMIT])
    return only, max(0, len(rows) - _LIMIT)


def _kernels(first: dict[str, Any], second: dict[str, Any]) -> Section:
    def by_name(data: dict[str, Any]) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for cluster in data["profile"]["clusters"]:
            for kernel in cluster["kernels"]:
                lines = sorted({_place(row) for row in kernel["ops"]})
                one = found.setdefault(f"{kernel['name']} ({', '.join(lines[:3])})", {"seconds": 0.0, "fastest": 1e9})
                one["seconds"] += kernel["seconds"]
                one["fastest"] = min(one["fastest"], kernel["fastest_seconds"])
        return found

    a, b = by_name(first), by_name(second)
    both = [name for name in a if name in b]
    both.sort(key=lambda name: -abs(b[name]["seconds"] - a[name]["seconds"]))
    rows: list[tuple[str, ...]] = [("fastest in A", "in B", "B / A", "kernel")] if both else []
    moods = []
    for name in both[:_LIMIT]:
        x, y = a[name]["fastest"], b[name]["fastest"]
        rows.append((_time(x), _time(y), f"{y / x:.2f}" if x else "", name))
        moods.append(_mood(x, y))
    seconds = [{name: one["seconds"] for name, one in own.items()} for own in (a, b)]
    only, left_out = _only_in_one(seconds[0], seconds[1], _time)
    title = "Kernels of both, by the difference of their time" if both else "Kernels"
    return Section(title, (), tuple(rows), tuple(moods), only, left_out + max(0, len(both) - _LIMIT))


def _program_lines(first: dict[str, Any], second: dict[str, Any]) -> Section:
    def by_place(data: dict[str, Any]) -> dict[str, float]:
        found: dict[str, float] = {}
        for line in data["lines"]:
            file = data["files"][line["file"]].rpartition("/")[2] if line["file"] >= 0 else "unknown place"
            key = f"{file}:{line['line']}"
            found[key] = found.get(key, 0.0) + line["compiled_seconds"] + line["eager_seconds"]
        return found

    a, b = by_place(first), by_place(second)
    names = sorted({**a, **b}, key=lambda name: -abs(b.get(name, 0.0) - a.get(name, 0.0)))
    rows: list[tuple[str, ...]] = [("in A", "in B", "line")] if names else []
    rows += [(_time(a.get(name, 0.0)), _time(b.get(name, 0.0)), name) for name in names[:_LIMIT]]
    moods = tuple(_mood(a.get(name, 0.0), b.get(name, 0.0)) for name in names[:_LIMIT])
    more = max(0, len(names) - _LIMIT)
    return Section("Lines, by the difference of their time", table=tuple(rows), moods=moods, more=more)


def _place(row: dict[str, Any]) -> str:
    return f"{row['file'].rpartition('/')[2]}:{row['line']}" if row["file"] else "unknown place"


def _aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    rows = list(rows)
    last = len(rows[0]) - 1
    widths = [max(len(row[k]) for row in rows) for k in range(last + 1)]
    named_first = rows[0][0] == ""
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if k == (0 if named_first else last) else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    return f"{value:,.0f}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
