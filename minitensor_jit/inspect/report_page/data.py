"""From a run's record to the data of its report, as `json` can write them."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from minitensor._config import show_config
from minitensor._profile.step_stats import Event
from minitensor.timeline import label
from minitensor_jit.inspect.profile import HloProfile
from minitensor_jit.inspect.report_page.drawings import Drawings, rows_of
from minitensor_jit.inspect.report_page.lines import lines_of, sources_of
from minitensor_jit.inspect.report_page.table import Table
from minitensor_jit.inspect.run_record import RunRecord

__all__ = ["data_of"]

VERSION = 1


def data_of(
    record: RunRecord, flags: str, *, profile: Callable[[], HloProfile] = HloProfile
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is shown first, and the parts that are read when they are wanted: graphs and modules."""
    files: Table[str] = Table()
    account = record.account.to_json()
    measured = profile().to_json()
    known = set(record.predicted)
    measured["clusters"] = [cluster for cluster in measured["clusters"] if cluster["name"] in known]
    drawings = Drawings(files)
    # Modules first: what is drawn is bounded, and these have most to show.
    modules = [drawings.module(module) for module in record.modules]
    parts = [*(drawings.graph(graph) for graph in record.graphs), *modules]
    lines = lines_of(account, measured, record.events.eager, files)
    main = {
        "version": VERSION,
        "title": os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c") else "a program",
        "command": shlex.join([*(["python"] if sys.argv else []), *sys.argv]),
        "folder": os.getcwd(),
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "seconds": (record.ended or time.monotonic()) - record.began,
        "flags": flags,
        "environment": _environment(),
        "account": account,
        "profile": measured,
        "lines": lines,
        "graphs": [
            {
                "name": graph.name,
                "nodes": sum(row[1] not in ("_Arg", "_Const") for row in graph.phases[0][1]) if graph.phases else 0,
                "clusters": list(graph.clusters),
                "alike": graph.alike,
                "part": 1 + number,
            }
            for number, graph in enumerate(record.graphs)
        ],
        "modules": [
            {
                "name": module.name,
                "part": 1 + len(record.graphs) + number,
                "device": module.device,
                "flags": module.flags,
                "instructions": [rows_of(stage.computations) for stage in module.stages],
                "stages": [stage.name for stage in module.stages],
                "summary": module.summary,
                "failure": module.failure,
                "whole": bool(module.text()),
            }
            for number, module in enumerate(record.modules)
        ],
        "module_of": record.module_of,
        "compiles": [
            {
                "cluster": one.cluster,
                "milliseconds": one.milliseconds,
                "why": one.why,
                "module": one.module,
                "at": one.begin - record.began,
                "stack": [[files(place.file), place.line, place.function] for place in one.stack],
            }
            for one in record.compiles
        ],
        "spans": [
            [one.name, one.begin - record.began, one.end - one.begin, one.depth, one.thread] for one in record.spans
        ],
        "memory": {
            "samples": [
                [round(one.at - record.began, 6), one.allocated, one.reserved, one.resident]
                for one in record.memory.samples
            ],
            "launches": [[one.cluster, round(one.at - record.began, 6), one.allocated] for one in record.launches],
            "peak": record.memory.peak,
            "predicted": {name: asdict(one) for name, one in record.predicted.items()},
        },
        "timeline": _timeline(record, files),
        "launches": record.events.launches,
        "left_out": record.left_out,
        "graphviz": drawings.with_graphviz,
    }
    main["files"] = files.values
    main["sources"] = sources_of(files.values)
    return main, parts


def _environment() -> dict[str, str]:
    import io

    out = io.StringIO()
    show_config(out)
    rows = dict(line.split(":", 1) for line in out.getvalue().splitlines() if ":" in line)
    found = {name.strip(): value.strip() for name, value in rows.items()}
    found["machine"] = f"{platform.machine()}, {_processor()}, {os.cpu_count()} processors"
    found["Python executable"] = sys.executable
    for name in ("MT_JIT_FLAGS", "MT_ISA", "MT_NUM_THREADS", "OMP_NUM_THREADS", "PYTHONPATH"):
        if name in os.environ:
            found[name] = os.environ[name]
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "an unknown processor"


def _timeline(record: RunRecord, files: Table[str]) -> dict[str, Any]:
    names: Table[str] = Table()
    threads: Table[int] = Table()
    origin = record.began

    def row(event: Event) -> list[Any]:
        name, op, start, end, thread, file, line, _, _, nbytes = event
        kernels = [
            [names(one.node_name), round(one.start_us - origin * 1e6, 3), round(one.duration_us, 3), one.bytes]
            for one in record.events.kernels.get(start, ())
        ]
        return [
            names(name if op == "_JitLaunch" else label(op)),
            1 if op == "_JitLaunch" else 2 if op == "_Copy" else 0,
            round(start / 1e3 - origin * 1e6, 3),
            round((end - start) / 1e3, 3),
            threads(thread),
            files(file) if file else -1,
            line or 0,
            nbytes,
            *([kernels] if kernels else []),
        ]

    first, last = map(row, record.events.first), map(row, record.events.last)
    return {
        "first": list(first),
        "last": list(last),
        "names": names.values,
        "threads": len(threads.values),
        "count": record.events.count,
    }
