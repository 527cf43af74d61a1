"""SummaryWriter over a stand-in for the package tensorboard, and over the package where it is installed."""

import struct
import sys
import types
import zlib

import pytest

import minitensor as mt


class Message:
    """A message of a protocol: what it was made with, as attributes."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


class Written:
    """The stand-in's event file."""

    files: dict  # by folder

    def __init__(self, folder, max_queue, flush_secs, suffix):
        self.events = self.files.setdefault(folder, [])
        self.options = (max_queue, flush_secs, suffix)

    def add_event(self, event):
        self.events.append(event)

    def flush(self):
        self.events.append("flush")

    def close(self):
        self.events.append("close")


def message(**inner):
    return type("Made", (Message,), inner)


@pytest.fixture
def files(monkeypatch):
    """What was written, by folder."""
    modules = {
        "event_pb2": {"Event": message(), "SessionLog": message(START=1)},
        "summary_pb2": {
            "Summary": message(Value=message(), Image=message()),
            "HistogramProto": message(),
            "SummaryMetadata": message(PluginData=message()),
        },
        "tensor_pb2": {"TensorProto": message()},
        "tensor_shape_pb2": {"TensorShapeProto": message(Dim=message())},
        "types_pb2": {"DT_STRING": 7},
    }
    writer = type("Writer", (Written,), {"files": {}})
    made = {f"tensorboard.compat.proto.{name}": names for name, names in modules.items()}
    made["tensorboard.summary.writer.event_file_writer"] = {"EventFileWriter": writer}
    for name in ("", ".compat", ".compat.proto", ".summary", ".summary.writer"):
        made[f"tensorboard{name}"] = {"__path__": []}
    for name, names in made.items():
        module = types.ModuleType(name)
        module.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, module)
    return writer.files


def values(events):
    return [event.summary.value[0] for event in events if not isinstance(event, str)]


def test_scalars(files):
    with mt.utils.tensorboard.SummaryWriter("logs", max_queue=3) as writer:
        writer.add_scalar("loss", mt.tensor([0.5]), 3, walltime=7.0)
        writer.add_scalar("loss", 2)
        writer.add_scalars("both/parts", {"a": 1.0, "b": mt.tensor(2.0)}, 4)
        with pytest.raises(ValueError, match="must be one number"):
            writer.add_scalar("loss", mt.ones(2))
        writer.flush()
        assert writer.get_logdir() == "logs"
    first, second = files["logs"][:2]
    assert (first.step, first.wall_time) == (3, 7.0)
    assert not hasattr(second, "step")
    assert [(v.tag, v.simple_value) for v in values(files["logs"])] == [("loss", 0.5), ("loss", 2.0)]
    assert values(files["logs/both_parts_b"])[0].simple_value == 2.0
    assert files["logs"][2:] == ["flush", "close"]
    assert sorted(files) == ["logs", "logs/both_parts_a", "logs/both_parts_b"]


def test_histograms(files):
    writer = mt.utils.tensorboard.SummaryWriter("logs")
    writer.add_histogram("h", mt.tensor([0.0, 1.0, 1.0, 3.0]), 1, bins=[0.0, 1.0, 2.0, 4.0, 8.0])
    writer.add_histogram("h", mt.tensor([1.0, 2.0], dtype=mt.bfloat16))
    (found, wide) = (value.histo for value in values(files["logs"]))
    assert (found.min, found.max, found.num, found.sum, found.sum_squares) == (0.0, 3.0, 4, 5.0, 11.0)
    assert (found.bucket_limit, found.bucket) == ([1.0, 2.0, 4.0], [1.0, 2.0, 1.0])
    assert sum(wide.bucket) == 2.0
    assert wide.bucket[0] == 0.0
    with pytest.raises(ValueError, match="no element"):
        writer.add_histogram("h", mt.ones(0))


def pixels_of(png):
    """The size, the kind of colours, and the bytes of a PNG without filters."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, _, kind = struct.unpack(">IIBB", png[16:26])
    length = struct.unpack(">I", png[33:37])[0]
    data = zlib.decompress(png[41 : 41 + length])
    line = len(data) // height
    assert all(data[i * line] == 0 for i in range(height))
    return width, height, kind, [list(data[i * line + 1 : (i + 1) * line]) for i in range(height)]


def test_images(files):
    writer = mt.utils.tensorboard.SummaryWriter("logs")
    writer.add_image("i", mt.tensor([[[0.0, 1.0]], [[0.5, 0.0]], [[0.0, 0.0]]]), 1)
    writer.add_image("i", mt.tensor([[7, 300]]), dataformats="HW")
    writer.add_images("i", mt.tensor([[[[1, 2]]], [[[3, 4]]]], dtype=mt.uint8))
    first, second, third = (value.image for value in values(files["logs"]))
    assert (first.height, first.width, first.colorspace) == (1, 2, 3)
    assert pixels_of(first.encoded_image_string) == (2, 1, 2, [[0, 127, 0, 255, 0, 0]])
    assert pixels_of(second.encoded_image_string) == (2, 1, 0, [[7, 255]])
    assert pixels_of(third.encoded_image_string) == (4, 1, 0, [[1, 2, 3, 4]])
    with pytest.raises(ValueError, match="does not have the dimensions 'CHW'"):
        writer.add_image("i", mt.ones(2, 2))
    with pytest.raises(ValueError, match="1, 3 or 4 channels, not 2"):
        writer.add_image("i", mt.ones(2, 2, 2))


def test_texts_and_the_rest(files):
    writer = mt.utils.tensorboard.SummaryWriter(comment="-mine", purge_step=5)
    (folder,) = files
    assert folder.startswith("runs")
    assert folder.endswith("-mine")
    assert [event.step for event in files[folder]] == [5, 5]
    writer.add_text("t", "*hello*", 6)
    (value,) = [event.summary.value[0] for event in files[folder] if hasattr(event, "summary")]
    assert (value.tag, value.tensor.string_val, value.metadata.plugin_data.plugin_name) == (
        "t/text_summary",
        [b"*hello*"],
        "text",
    )
    with pytest.raises(NotImplementedError, match=r"SummaryWriter\.add_graph is not supported"):
        writer.add_graph(None)
    assert not hasattr(writer, "nothing")


def test_without_the_package(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("tensorboard.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        mt.utils.tensorboard.SummaryWriter("logs")


@pytest.mark.torch  # which is run where the package is, too
def test_with_the_package(tmp_path):
    pytest.importorskip("tensorboard.compat.proto.event_pb2")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    with mt.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 3)
        writer.add_histogram("h", mt.arange(5.0), 3)
        writer.add_image("i", mt.ones(3, 2, 2), 3)
        writer.add_text("t", "hello", 3)
    (path,) = tmp_path.iterdir()
    found = [event.summary.value[0].tag for event in EventFileLoader(str(path)).Load() if event.HasField("summary")]
    assert found == ["loss", "h", "i", "t/text_summary"]
