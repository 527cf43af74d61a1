"""Summaries of TensorBoard's plugins: sound, curves of precision, hyperparameters, layouts of charts, embeddings."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from minitensor.utils.tensorboard.summaries import message, numbers, png, proto

__all__ = ["audio", "custom_scalars", "embedding", "figure", "hparams", "pr_curve"]


def _of_plugin(tag: str, plugin: str, content: bytes = b"", **value: Any) -> Any:
    """A summary that a plugin reads."""
    summary = proto("summary_pb2")
    data = summary.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    metadata = summary.SummaryMetadata(plugin_data=data)
    return summary.Summary(value=[summary.Summary.Value(tag=tag, metadata=metadata, **value)])


def _shape(*sizes: int) -> Any:
    shapes = proto("tensor_shape_pb2").TensorShapeProto
    return shapes(dim=[shapes.Dim(size=size) for size in sizes])


def audio(tag: str, value: Any, sample_rate: int) -> Any:
    """Sound of one channel: numbers in [-1, 1], cut to that, as a WAV file of 16 bits."""
    import wave

    import numpy as np

    samples = numbers(value).squeeze()
    if samples.ndim != 1:
        raise AssertionError(f"add_audio: '{tag}' must have one dimension, got an array of shape {samples.shape}")
    data = (samples.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(sample_rate)
        written.writeframes(data.tobytes())
    summary = proto("summary_pb2").Summary
    made = summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(data), encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )  # fmt: skip
    return summary(value=[summary.Value(tag=tag, audio=made)])


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int, weights: Any) -> Any:
    """Precision and recall of predictions in [0, 1] at evenly spaced thresholds; `labels` are true or false.

    Six rows: the true and false positives, the true and false negatives, the precision, the recall.
    """
    import numpy as np

    count = min(num_thresholds, 127)  # what the plugin's message holds
    truth, scores = numbers(labels).reshape(-1).astype(bool), numbers(predictions).reshape(-1)
    weight = np.ones(len(scores)) if weights is None else np.broadcast_to(numbers(weights), scores.shape)
    bucket = np.floor(scores * (count - 1)).astype(np.int64)

    def above(chosen: Any) -> Any:
        """The weights of those at or above each threshold."""
        return np.bincount(bucket, weight * chosen, count)[::-1].cumsum()[::-1]

    positive, wrong = above(truth), above(~truth)
    missed = positive[0] - positive
    precision = positive / np.maximum(positive + wrong, 1e-7)
    recall = positive / np.maximum(positive + missed, 1e-7)
    rows = np.stack([positive, wrong, wrong[0] - wrong, missed, precision, recall])
    content = message("plugins.pr_curve.plugin_data_pb2").PrCurvePluginData(version=0, num_thresholds=count)
    made = proto("tensor_pb2").TensorProto(
        dtype=proto("types_pb2").DT_FLOAT, float_val=rows.reshape(-1).tolist(), tensor_shape=_shape(*rows.shape)
    )
    return _of_plugin(tag, "pr_curves", content.SerializeToString(), tensor=made)


def hparams(
    hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any],
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """What an experiment varies and measures, the values of one run, and that this run has ended.

    Values are numbers, texts, bools, tensors of one element, or None, which is left out. `hparam_domain_discrete` says
    which values there are. ValueError for other values.
    """
    from minitensor import _C

    api, data = message("plugins.hparams.api_pb2"), message("plugins.hparams.plugin_data_pb2")
    names = message("plugins.hparams.metadata")
    from google.protobuf import struct_pb2 as values

    domains = hparam_domain_discrete or {}
    start = data.SessionStartInfo()
    known = []
    for name, given in hparam_dict.items():
        value = numbers(given).reshape(-1)[0].item() if isinstance(given, _C.Tensor) else given
        if value is None:
            continue
        kinds = ((bool, "bool_value", "BOOL"), (str, "string_value", "STRING"), (Real, "number_value", "FLOAT64"))
        fitting = [(field, label) for kind, field, label in kinds if isinstance(value, kind)]
        if not fitting:
            raise ValueError(f"hparams: '{name}' must be a number, a text, a bool or a tensor, not {type(value)}")
        field, label = fitting[0]
        setattr(start.hparams[name], field, value)
        info = api.HParamInfo(name=name, type=api.DataType.Value(f"DATA_TYPE_{label}"))
        if name in domains:
            choices = [values.Value(**{field: choice}) for choice in domains[name]]
            info.domain_discrete.CopyFrom(values.ListValue(values=choices))
        known.append(info)
    metrics = [api.MetricInfo(name=api.MetricName(tag=tag)) for tag in metric_dict]

    def made(tag: str, **content: Any) -> Any:
        packed = data.HParamsPluginData(version=names.PLUGIN_DATA_VERSION, **content)
        return _of_plugin(tag, names.PLUGIN_NAME, packed.SerializeToString())

    end = data.SessionEndInfo(status=api.Status.Value("STATUS_SUCCESS"))
    return (
        made(names.EXPERIMENT_TAG, experiment=api.Experiment(hparam_infos=known, metric_infos=metrics)),
        made(names.SESSION_START_INFO_TAG, session_start_info=start),
        made(names.SESSION_END_INFO_TAG, session_end_info=end),
    )


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Any:
    """Charts by category and title: ["Multiline", tags], or ["Margin", (value, lower, upper)]."""
    messages = message("plugins.custom_scalar.layout_pb2")

    def chart(title: str, kind: str, tags: Sequence[str]) -> Any:
        if kind != "Margin":
            return messages.Chart(title=title, multiline=messages.MultilineChartContent(tag=tags))
        if len(tags) != 3:
            raise AssertionError(f"add_custom_scalars: '{title}' takes a value, a lower and an upper one, got {tags}")
        series = messages.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
        return messages.Chart(title=title, margin=messages.MarginChartContent(series=[series]))

    categories = [
        messages.Category(title=title, chart=[chart(name, *given[:2]) for name, given in charts.items()])
        for title, charts in layout.items()
    ]
    made = proto("tensor_pb2").TensorProto(
        dtype=proto("types_pb2").DT_STRING, tensor_shape=_shape(),
        string_val=[messages.Layout(category=categories).SerializeToString()],
    )  # fmt: skip
    return _of_plugin("custom_scalars__config__", "custom_scalars", tensor=made)


def figure(figures: Any, close: bool) -> Any:
    """Matplotlib's figures as pictures: `[channels, height, width]`, several in a first dimension."""
    import numpy as np
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def drawn(one: Any) -> Any:
        canvas = FigureCanvasAgg(one)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1).copy()
        if close:
            pyplot.close(one)
        return pixels

    return np.stack([drawn(one) for one in figures]) if isinstance(figures, (list, tuple)) else drawn(figures)


def embedding(
    folder: Path, place: str, tag: str, mat: Any, metadata: Any, label_img: Any, header: Any, step: int
) -> Any:
    """Write vectors, their labels and their pictures below a folder; return what the projector is told of them."""
    import numpy as np

    vectors = numbers(mat)
    if vectors.ndim != 2:
        raise AssertionError(f"add_embedding: a matrix is expected, got an array of shape {vectors.shape}")
    for what, given in (("labels", metadata), ("images", label_img)):
        if given is not None and len(given) != len(vectors):
            raise AssertionError(f"add_embedding: {len(given)} {what} of {len(vectors)} vectors")
    messages = message("plugins.projector.projector_config_pb2")
    info = messages.EmbeddingInfo(tensor_name=f"{tag}:{str(step).zfill(5)}", tensor_path=f"{place}/tensors.tsv")
    target = folder / place
    target.mkdir(parents=True, exist_ok=True)
    lines = ("\t".join(str(x) for x in row) + "\n" for row in vectors.tolist())
    (target / "tensors.tsv").write_text("".join(lines), encoding="utf-8")
    if metadata is not None:
        rows = [header, *metadata] if header else metadata
        texts = ("\t".join(map(str, row)) if header else str(row) for row in rows)
        (target / "metadata.tsv").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        info.metadata_path = f"{place}/metadata.tsv"
    if label_img is not None:
        pictures = numbers(label_img)  # [count, channels, height, width]
        count, channels, height, width = pictures.shape
        side = int(np.ceil(np.sqrt(count)))
        padded = np.concatenate([pictures, np.zeros((side * side - count, *pictures.shape[1:]), pictures.dtype)])
        grid = padded.reshape(side, side, channels, height, width).transpose(0, 3, 1, 4, 2)
        pixels = np.clip(grid.reshape(side * height, side * width, channels) * 255.0, 0, 255).astype(np.uint8)
        (target / "sprite.png").write_bytes(png(pixels, channels))
        info.sprite.image_path = f"{place}/sprite.png"
        info.sprite.single_image_dim.extend([width, height])
    return info
