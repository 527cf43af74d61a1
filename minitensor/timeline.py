"""Chrome traces of a step, for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from typing import Any

from minitensor._profile.step_stats import NodeExecStats, StepStats

# Where the words of a name are not separated by underscores.
_LABELS = {"matmul": "MatMul", "argmax": "ArgMax", "argmin": "ArgMin", "relu": "Relu", "addmm": "AddMM"}


def label(op: str) -> str:
    """Return the name of an op as a trace shows it: ``log_softmax`` is ``LogSoftmax``, ``_addmm`` ``AddMM``.

    Names in this form stay as they are, ``_JitLaunch`` among them.
    """
    if op != op.lower():
        return op
    op = op.strip("_")
    return _LABELS.get(op) or "".join(word.capitalize() for word in op.split("_"))


class Timeline:
    """Turns the statistics of a step into a trace in the Trace Event Format.

    Every device is a process and every thread of it a row of boxes, one for each op. The box of a ``_JitLaunch`` names
    the ops that were compiled into it, which have no times of their own. With ``--hlo_profile`` its kernels are boxes
    below it, and these name the ops.
    """

    def __init__(self, step_stats: StepStats) -> None:
        self._step_stats = step_stats

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """Return the trace as JSON text.

        ``show_dataflow`` draws arrows from an op to those that take its result, and ``show_memory`` a graph of the
        bytes that each op reads and writes.
        """
        events: list[dict[str, Any]] = []
        for pid, device in enumerate(self._step_stats.dev_stats):
            name = f"{device.device} Compute"
            events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
            events.append({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}})
            threads: dict[int, int] = {}
            for node in device.node_stats:
                if node.thread_id not in threads:
                    tid = threads[node.thread_id] = len(threads)
                    args = {"name": f"thread {tid}"}
                    events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": args})
                events += _boxes(node, pid, threads[node.thread_id])
            if show_memory:
                events += _memory(device.node_stats, pid)
            if show_dataflow:
                events += _arrows(device.node_stats, pid, threads)
        return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":"))


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def _box(node: NodeExecStats, pid: int, tid: int, start_ns: int, end_ns: int) -> dict[str, Any]:
    file, _, line = node.source.rpartition(":")
    args: dict[str, Any] = {"name": node.node_name, "op": label(node.op)}
    args |= {f"input{i}": name for i, name in enumerate(node.inputs)}
    if file:
        args |= {"file": file, "line": int(line)}
    if node.bytes:
        args["bytes"] = node.bytes
    untimed = [child for child in node.children if not child.duration_us]
    if untimed:
        args["ops"] = [f"{label(child.op)} {child.source}".rstrip() for child in untimed]
    # Whole nanoseconds, so that a child never sticks out of its parent by a rounding error.
    return {
        "ph": "X",
        "cat": "Op",
        "name": label(node.op),
        "pid": pid,
        "tid": tid,
        "ts": start_ns / 1000,
        "dur": (end_ns - start_ns) / 1000,
        "args": args,
    }


def _boxes(node: NodeExecStats, pid: int, tid: int) -> list[dict[str, Any]]:
    start = _ns(node.start_us)
    end = max(start + _ns(node.duration_us), start)
    boxes = [_box(node, pid, tid, start, end)]
    for child in node.children:
        if child.duration_us > 0:
            child_start = min(max(_ns(child.start_us), start), end)
            child_end = min(child_start + _ns(child.duration_us), end)
            boxes.append(_box(child, pid, tid, child_start, child_end))
            boxes[-1]["args"]["compiled_into"] = node.node_name
    return boxes


def _memory(nodes: list[NodeExecStats], pid: int) -> list[dict[str, Any]]:
    return [
        {
            "ph": "C",
            "name": "bytes moved",
            "pid": pid,
            "tid": 0,
            "ts": (_ns(node.start_us) + _ns(node.duration_us)) / 1000,
            "args": {"bytes": node.bytes},
        }
        for node in nodes
    ]


def _arrows(nodes: list[NodeExecStats], pid: int, threads: dict[int, int]) -> list[dict[str, Any]]:
    arrows: list[dict[str, Any]] = []
    producers: dict[str, NodeExecStats] = {}
    number = 0
    for node in nodes:
        for name in node.inputs:
            if (producer := producers.get(name)) is None:
                continue
            number += 1
            start, end = _ns(producer.start_us), _ns(producer.start_us) + _ns(producer.duration_us)
            arrow = {"cat": "DataFlow", "name": name, "id": number, "pid": pid}
            # An arrow belongs to the box around its time: it leaves in the last nanosecond of the producer's.
            arrows.append({"ph": "s", **arrow, "tid": threads[producer.thread_id], "ts": max(start, end - 1) / 1000})
            arrows.append(
                {"ph": "f", "bp": "e", **arrow, "tid": threads[node.thread_id], "ts": _ns(node.start_us) / 1000}
            )
        producers[node.node_name] = node
    return arrows
