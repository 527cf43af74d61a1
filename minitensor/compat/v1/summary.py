"""Summaries for TensorBoard: what a run gives as bytes, and a writer for them. Needs the package `tensorboard`.

A summary is no tensor, as tensors hold numbers: it is fetched like one, by itself or in lists, and can't be fed or
computed with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitensor.compat.v1.framework.constants import convert_to_tensor
from minitensor.compat.v1.framework.graph import Graph, GraphKeys, Tensor, get_default_graph
from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.utils.tensorboard import FileWriter as _FileWriter
from minitensor.utils.tensorboard import summaries

__all__ = ["FileWriter", "SummaryOp", "histogram", "image", "merge", "merge_all", "scalar"]

_Made = Callable[[Sequence[Any]], Any]


class SummaryOp:
    """What is fetched for bytes: the tensors that it shows, and how."""

    def __init__(self, name: str, tensors: Sequence[Tensor], made: _Made) -> None:
        """`made` gives the message for their values."""
        self.name = name
        self.tensors = tuple(tensors)
        self._made = made

    def serialized(self, values: Sequence[Any]) -> bytes:
        """The bytes of the summary of values."""
        return bytes(self._made(values).SerializeToString())

    def message(self, values: Sequence[Any]) -> Any:
        """The summary of values."""
        return self._made(values)

    def eval(self, feed_dict: Any = None, session: Any = None) -> bytes:
        """The bytes of a run of the session, or of the default one."""
        from minitensor.compat.v1.session import get_default_session

        found = session or get_default_session()
        if found is None:
            raise ValueError("Cannot evaluate a summary: No default session is registered.")
        result: bytes = found.run(self, feed_dict)
        return result

    def __repr__(self) -> str:
        return f"<tf.summary '{self.name}' of {', '.join(tensor.name for tensor in self.tensors)}>"


def _entered(name: str, tensors: Sequence[Tensor], collections: Any, made: Callable[[str], _Made]) -> SummaryOp:
    graph = get_default_graph()
    tag = graph.unique_name(name.replace(" ", "_"))
    op = SummaryOp(tag, tensors, made(tag))
    for collection in [GraphKeys.SUMMARIES] if collections is None else collections:
        graph.add_to_collection(collection, op)
    return op


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> SummaryOp:
    """A curve of one number."""
    shown = convert_to_tensor(tensor)
    full = name if family is None else f"{family}/{name}"
    return _entered(full, [shown], collections, lambda tag: lambda values: summaries.scalar(tag, values[0]))


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> SummaryOp:
    """How the elements of a tensor are spread."""
    shown = convert_to_tensor(values)
    full = name if family is None else f"{family}/{name}"
    return _entered(
        full, [shown], collections, lambda tag: lambda found: summaries.histogram(tag, found[0], "tensorflow", None)
    )


def image(
    name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None
) -> SummaryOp:
    """Pictures (N, height, width, channels): the first `max_outputs`. Floats are divided by their largest."""
    shown = convert_to_tensor(tensor)
    if shown.shape.ndims not in (None, 4):
        raise ValueError(f"image: expected (N, height, width, channels), got shape {shown.shape}")
    full = name if family is None else f"{family}/{name}"

    def made(tag: str) -> _Made:
        def of(values: Sequence[Any]) -> Any:
            pictures = np.asarray(values[0])[:max_outputs]
            if pictures.dtype != np.uint8:
                most = float(pictures.max()) if pictures.size else 0.0
                pictures = np.clip(pictures / most if most > 0 else pictures, 0, 1)
            all_of = summaries.proto("summary_pb2").Summary()
            for place, picture in enumerate(pictures):
                one = f"{tag}/image/{place}" if max_outputs > 1 else f"{tag}/image"
                all_of.value.extend(summaries.image(one, picture, "HWC").value)
            return all_of

        return of

    return _entered(full, [shown], collections, made)


def merge(inputs: Sequence[SummaryOp], collections: Any = None, name: str | None = None) -> SummaryOp:
    """Several summaries as one. TypeError for what is none."""
    parts = list(inputs)
    for part in parts:
        if not isinstance(part, SummaryOp):
            raise TypeError(f"merge takes summaries, not {part!r}")

    def made(tag: str) -> _Made:
        def of(values: Sequence[Any]) -> Any:
            all_of, rest = summaries.proto("summary_pb2").Summary(), list(values)
            for part in parts:
                count = len(part.tensors)
                all_of.value.extend(part.message(rest[:count]).value)
                rest = rest[count:]
            return all_of

        return of

    tensors = [tensor for part in parts for tensor in part.tensors]
    return _entered(name or "Merge/MergeSummary", tensors, collections or (), made)


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> SummaryOp | None:
    """All summaries of the default graph as one; None if there is none."""
    found = get_default_graph().get_collection(key, scope)
    return merge(found, name=name) if found else None


class FileWriter:
    """Writes summaries and graphs to a file in a folder, as a context manager until its end."""

    def __init__(
        self,
        logdir: Any,
        graph: Graph | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str | None = None,
    ) -> None:
        """`graph` is written at once. ImportError without the package tensorboard."""
        self._writer = _FileWriter(logdir, max_queue, flush_secs, filename_suffix or "")
        if graph is not None:
            self.add_graph(graph)

    def get_logdir(self) -> str:
        """The folder."""
        return self._writer.get_logdir()

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Write a summary: its bytes, or a message of TensorBoard's."""
        message = summaries.proto("summary_pb2").Summary
        self._writer.add_summary(message.FromString(summary) if isinstance(summary, bytes) else summary, global_step)

    def add_event(self, event: Any) -> None:
        """Write an event of TensorBoard's."""
        self._writer.add_event(event)

    def add_graph(self, graph: Graph, global_step: Any = None) -> None:
        """Write the names, types and operands of a graph's ops."""
        made = summaries.proto("graph_pb2").GraphDef()
        for op in graph.get_operations():
            inputs = [tensor.name.removesuffix(":0") for tensor in op.inputs]
            made.node.add(name=op.name, op=op.type, input=[*inputs, *(f"^{other.name}" for other in op.control_inputs)])
        self._writer.add_event(summaries.proto("event_pb2").Event(graph_def=made.SerializeToString()), global_step)

    def flush(self) -> None:
        """Write what waits."""
        self._writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._writer.close()

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


__getattr__ = _missing(__name__)
