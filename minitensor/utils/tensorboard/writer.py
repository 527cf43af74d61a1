"""Writers of event files."""

from __future__ import annotations

import datetime
import os
import socket
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minitensor.utils.tensorboard import plugins, summaries

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events to a file in a folder, by TensorBoard's own writer."""

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        summaries.proto("event_pb2")
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._log_dir = str(log_dir)
        self.event_writer = EventFileWriter(self._log_dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the folder."""
        return self._log_dir

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a summary."""
        self.add_event(summaries.proto("event_pb2").Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()


class SummaryWriter:
    """Scalars, histograms, images, figures, sounds, texts, curves and embeddings of a run, for TensorBoard.

    Files go to ``log_dir``, by default ``runs/`` and the time, the host and ``comment``. ImportError without the
    package tensorboard. Steps before ``purge_step`` of an earlier run are dropped.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self._options = max_queue, flush_secs, filename_suffix
        self._others: dict[str, FileWriter] = {}
        self._projector: Any = None
        self.file_writer: FileWriter | None = None
        writer = self._get_file_writer()
        if purge_step is not None:
            events = summaries.proto("event_pb2")
            writer.add_event(events.Event(file_version="brain.Event:2"), purge_step)
            start = events.SessionLog(status=events.SessionLog.START)
            writer.add_event(events.Event(session_log=start), purge_step)

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, *self._options)
        return self.file_writer

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write one number, which a tensor of one element may be; ValueError for more."""
        self._get_file_writer().add_summary(summaries.scalar(tag, scalar_value), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers for one chart, each to a file of its own below the folder."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, main_tag.replace("/", "_") + "_" + tag)
            if folder not in self._others:
                self._others[folder] = FileWriter(folder, *self._options)
            self._others[folder].add_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how many values lie where. ValueError where there is none."""
        self._get_file_writer().add_summary(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write a picture of 1, 3 or 4 channels: floating point in [0, 1], or integers in [0, 255]."""
        self._get_file_writer().add_summary(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write several pictures, side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a text in Markdown."""
        self._get_file_writer().add_summary(summaries.text(tag, text_string), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write sound of one channel, numbers in [-1, 1]."""
        self._get_file_writer().add_summary(plugins.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision and recall at up to 127 thresholds; predictions are in [0, 1], labels true or false."""
        made = plugins.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._get_file_writer().add_summary(made, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a figure of Matplotlib, or several side by side, as a picture, and close them if `close`."""
        pixels = plugins.figure(figure, close)
        self.add_image(tag, pixels, global_step, walltime, "CHW" if pixels.ndim == 3 else "NCHW")

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write hyperparameters and what was measured with them, as a run of its own below the folder.

        Hyperparameters are numbers, texts, bools or tensors of one element. TypeError unless both are dicts.
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        made = plugins.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as run:
            for summary in made:
                run._get_file_writer().add_summary(summary, global_step)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Write charts by category and title: ["Multiline", tags], or ["Margin", (value, lower, upper)]."""
        self._get_file_writer().add_summary(plugins.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write one chart with a line for each tag."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write one chart of three tags: a value, and what it lies between."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Write vectors `[count, size]` for the projector, with labels and pictures `[count, channels, h, w]` of each.

        With `metadata_header` each label is a list of as many columns. Files go below the folder.
        """
        from google.protobuf import text_format

        step = 0 if global_step is None else int(global_step)
        place = f"{str(step).zfill(5)}/{urllib.parse.quote(tag, safe='')}"
        folder = Path(self.log_dir)
        info = plugins.embedding(folder, place, tag, mat, metadata, label_img, metadata_header, step)
        if self._projector is None:
            self._projector = summaries.message("plugins.projector.projector_config_pb2").ProjectorConfig()
        self._projector.embeddings.append(info)
        text = text_format.MessageToString(self._projector)
        (folder / "projector_config.pbtxt").write_text(text, encoding="utf-8")

    def __getattr__(self, name: str) -> Any:
        if name in ("add_graph", "add_mesh", "add_onnx_graph", "add_video"):
            raise NotImplementedError(
                f"SummaryWriter.{name} is not supported: graphs, meshes and videos are not written"
            )
        raise AttributeError(f"'SummaryWriter' object has no attribute '{name}'")

    def _writers(self) -> list[FileWriter]:
        return [*([self.file_writer] if self.file_writer is not None else []), *self._others.values()]

    def flush(self) -> None:
        """Write what waits."""
        for writer in self._writers():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files; what is added afterwards goes to new ones."""
        for writer in self._writers():
            writer.close()
        self.file_writer = None
        self._others = {}

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
