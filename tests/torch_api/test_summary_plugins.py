"""What SummaryWriter writes for TensorBoard's plugins, as the package tensorboard reads it."""

import io
import wave

import numpy as np
import pytest

import minitensor as mt

pytest.importorskip("tensorboard")
pytest.importorskip("google.protobuf")


@pytest.fixture
def written(tmp_path):
    """Give a writer, and what it has written by tag: from its folder, or the one below it of that name."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    writer = mt.utils.tensorboard.SummaryWriter(tmp_path)

    def read(folder="."):
        writer.close()
        files = sorted((tmp_path / folder).glob("events*"))
        events = [event for file in files for event in LegacyEventFileLoader(str(file)).Load()]
        return {value.tag: value for event in events for value in event.summary.value}

    return writer, read


def test_sound(written):
    writer, read = written
    writer.add_audio("tone", mt.tensor([[0.0, 0.5, 2.0, -1.0]]), sample_rate=8000)
    with pytest.raises(AssertionError, match="one dimension"):
        writer.add_audio("two", mt.ones(2, 4))
    made = read()["tone"].audio
    with wave.open(io.BytesIO(made.encoded_audio_string)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getnframes()) == (8000, 1, 4)
        assert np.frombuffer(sound.readframes(4), "<i2").tolist() == [0, 16383, 32767, -32767]


def test_curves_of_precision(written):
    writer, read = written
    labels, scores = [0, 1, 1, 0, 1], [0.1, 0.8, 0.6, 0.65, 0.3]
    writer.add_pr_curve("pr", mt.tensor(labels), mt.tensor(scores), num_thresholds=11, weights=mt.arange(1.0, 6))
    rows = np.array(read()["pr"].tensor.float_val).reshape(6, 11)
    for k in range(11):
        chosen = np.floor(np.array(scores, np.float32) * 10) >= k
        truth, weight = np.array(labels, bool), np.arange(1.0, 6)
        counts = [
            (weight * which).sum() for which in (chosen & truth, chosen & ~truth, ~chosen & ~truth, ~chosen & truth)
        ]
        ratios = [counts[0] / max(counts[0] + other, 1e-7) for other in (counts[1], counts[3])]
        np.testing.assert_allclose(rows[:, k], counts + ratios, rtol=1e-6)


def test_hyperparameters(written):
    writer, read = written
    given = {"lr": 0.1, "bs": 32, "opt": "adam", "flag": True, "decay": mt.tensor(0.5), "none": None}
    writer.add_hparams(given, {"acc": 0.75}, {"opt": ["adam", "sgd"]}, run_name="run")
    with pytest.raises(TypeError, match="should be dictionary"):
        writer.add_hparams([], {})
    with pytest.raises(ValueError, match="'x' must be a number"):
        writer.add_hparams({"x": [1]}, {})
    found = read("run")
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    data = {tag: HParamsPluginData.FromString(value.metadata.plugin_data.content) for tag, value in found.items()}
    start = data["_hparams_/session_start_info"].session_start_info.hparams
    kinds = {name: value.WhichOneof("kind") for name, value in start.items()}
    assert kinds == {"lr": "number_value", "bs": "number_value", "opt": "string_value", "flag": "bool_value",
                     "decay": "number_value"}  # fmt: skip
    assert (start["lr"].number_value, start["opt"].string_value, start["decay"].number_value) == (0.1, "adam", 0.5)
    infos = {info.name: info for info in data["_hparams_/experiment"].experiment.hparam_infos}
    assert [choice.string_value for choice in infos["opt"].domain_discrete.values] == ["adam", "sgd"]
    assert data["_hparams_/session_end_info"].session_end_info.status
    assert found["acc"].simple_value == 0.75


def test_layouts_of_charts(written):
    writer, read = written
    writer.add_custom_scalars({"C": {"lines": ["Multiline", ["a", "b"]], "band": ["Margin", ["m", "l", "u"]]}})
    with pytest.raises(AssertionError, match="takes a value, a lower and an upper one"):
        writer.add_custom_scalars_marginchart(["m"])
    from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

    layout = Layout.FromString(read()["custom_scalars__config__"].tensor.string_val[0])
    lines, band = layout.category[0].chart
    assert (layout.category[0].title, lines.title, list(lines.multiline.tag)) == ("C", "lines", ["a", "b"])
    assert (band.margin.series[0].value, band.margin.series[0].lower, band.margin.series[0].upper) == ("m", "l", "u")


def test_embeddings(written, tmp_path):
    writer, _ = written
    pictures = mt.rand(3, 3, 4, 5)
    writer.add_embedding(mt.tensor([[1.0, 2], [3, 4], [5, 6]]), ["a", "b", "c"], pictures, 2, "x/y")
    writer.add_embedding(mt.ones(1, 2), [["p", 1]], metadata_header=["name", "n"])
    assert (tmp_path / "00002/x%2Fy/tensors.tsv").read_text() == "1.0\t2.0\n3.0\t4.0\n5.0\t6.0\n"
    assert (tmp_path / "00002/x%2Fy/metadata.tsv").read_text() == "a\nb\nc\n"
    assert (tmp_path / "00000/default/metadata.tsv").read_text() == "name\tn\np\t1\n"
    assert (tmp_path / "00002/x%2Fy/sprite.png").read_bytes()[16:24] == (10).to_bytes(4) + (8).to_bytes(4)
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2
    assert 'metadata_path: "00000/default/metadata.tsv"' in config
    with pytest.raises(AssertionError, match="2 labels of 1 vectors"):
        writer.add_embedding(mt.ones(1, 2), ["a", "b"])


def test_figures(written):
    plt = pytest.importorskip("matplotlib.pyplot")
    writer, read = written
    shown = plt.figure(figsize=(2, 1), dpi=20)
    writer.add_figure("f", shown)
    writer.add_figure("two", [plt.figure(figsize=(2, 1), dpi=20), plt.figure(figsize=(2, 1), dpi=20)])
    assert not plt.get_fignums()
    found = read()
    assert [(found[tag].image.width, found[tag].image.height) for tag in ("f", "two")] == [(40, 20), (80, 20)]


def test_what_is_no_number(written):
    writer, _ = written
    with pytest.raises(NotImplementedError, match=r"Got <class 'list'>"):
        writer.add_scalar("x", [1, 2])
