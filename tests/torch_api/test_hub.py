"""Local folders and checkpoints by address."""

import hashlib

import pytest

import minitensor as mt
from minitensor import hub

CONFIG = '''
dependencies = ["math"]
import helper_of_this_folder as _helper

def net(width, scale=1.0):
    """A layer."""
    import minitensor as mt
    layer = mt.nn.Linear(width, 1)
    layer.scale = scale * _helper.FACTOR
    return layer

def _hidden():
    pass
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hubconf.py").write_text(CONFIG)
    (tmp_path / "helper_of_this_folder.py").write_text("FACTOR = 3")
    return str(tmp_path)


def test_local_folders(folder):
    assert hub.list(folder) == ["net"]
    assert hub.help(folder, "net") == "A layer."
    layer = hub.load(folder, "net", 4, source="local", scale=2.0)
    assert layer.weight.shape == (1, 4)
    assert layer.scale == 6.0


def test_errors(folder, tmp_path):
    with pytest.raises(RuntimeError, match="Cannot find callable nothing in hubconf"):
        hub.load(folder, "nothing", source="local")
    with pytest.raises(ValueError, match='Unknown source: "web"'):
        hub.load(folder, "net", source="web")
    with pytest.raises(NotImplementedError, match="repositories aren't downloaded"):
        hub.load("pytorch/vision", "resnet18")
    with pytest.raises(FileNotFoundError, match=r"no hubconf\.py"):
        hub.load(str(tmp_path / "empty"), "net", source="local")
    (tmp_path / "hubconf.py").write_text('dependencies = ["no_such_package_here"]')
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package_here"):
        hub.load(folder, "net", source="local")


def test_the_folder_of_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_folder", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "hub")
    hub.set_dir(tmp_path / "other")
    assert hub.get_dir() == str(tmp_path / "other")


def test_checkpoints_by_address(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hub, "_folder", str(tmp_path / "cache"))
    source = tmp_path / "source.pth"
    mt.save({"w": mt.ones(2)}, source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    named = tmp_path / f"net-{digest[:8]}.pth"
    source.rename(named)
    state = hub.load_state_dict_from_url(named.as_uri(), progress=False, check_hash=True, weights_only=True)
    assert state["w"].tolist() == [1.0, 1.0]
    assert "Downloading" in capsys.readouterr().out
    named.unlink()  # it is kept
    again = hub.load_state_dict_from_url(named.as_uri(), progress=False)
    assert again["w"].tolist() == [1.0, 1.0]
    assert capsys.readouterr().out == ""


def test_a_wrong_hash_leaves_nothing(tmp_path):
    source = tmp_path / "net-00000000.pth"
    mt.save({"w": mt.ones(2)}, source)
    cache = tmp_path / "cache"
    with pytest.raises(RuntimeError, match='invalid hash value \\(expected "00000000"'):
        hub.load_state_dict_from_url(source.as_uri(), model_dir=str(cache), progress=False, check_hash=True)
    assert list(cache.iterdir()) == []
