"""save and load: what comes back, what PyTorch reads and writes, and files that mean harm."""

import argparse
import io
import os
import pickle
import random
import stat
import struct
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict, defaultdict

import numpy as np
import pytest

import minitensor as mt
from minitensor import serialization

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip


def through_a_file(thing, **more):
    file = io.BytesIO()
    mt.save(thing, file, **more)
    file.seek(0)
    return mt.load(file)


def bits(tensor):
    return np.asarray(tensor.contiguous().reshape(-1).view(mt.uint8).numpy()).tobytes() if tensor.numel() else b""


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name, protocol):
    x = mt.tensor([0, 1, 1, 0, 1, 1], dtype=getattr(mt, name)).reshape(2, 3)
    got = through_a_file(x, pickle_protocol=protocol)
    assert (got.dtype, got.shape, got.stride()) == (x.dtype, x.shape, x.stride())
    assert bits(got) == bits(x)


def test_layouts_and_storages_stay_shared():
    x = mt.arange(12.0).reshape(3, 4)
    got = through_a_file({"x": x, "t": x.T, "row": x[1], "every": x[:, ::2], "one": x[2, 3], "none": x[:0]})
    for name, view in {"t": x.T, "row": x[1], "every": x[:, ::2], "one": x[2, 3], "none": x[:0]}.items():
        assert (got[name].tolist(), got[name].stride()) == (view.tolist(), view.stride()), name
    got["x"][1, 0] = 99
    assert got["row"].tolist()[0] == 99
    assert got["t"].tolist()[0][1] == 99
    assert all(t.is_leaf and not t.requires_grad for t in got.values())


def test_parameters_gradients_and_meta_tensors():
    p = mt.nn.Parameter(mt.ones(2), requires_grad=False)
    got = through_a_file(
        [mt.nn.Parameter(mt.ones(3)), p, mt.ones(2, requires_grad=True), mt.empty(2, 3, device="meta")]
    )
    assert [type(t) for t in got[:3]] == [mt.nn.Parameter, mt.nn.Parameter, mt.Tensor]
    assert [t.requires_grad for t in got] == [True, False, True, False]
    assert (got[3].device.type, got[3].shape) == ("meta", (2, 3))


PLAIN = {
    "none": None, "true": True, "ints": [0, -1, 255, 256, 65536, -(2**31), 2**31, 2**70, -(2**70)],
    "floats": [0.5, -0.0, float("inf")], "complex": 1 - 2j, "text": ["", "ab", "é漢\U0001f600", "x" * 300],
    "bytes": [b"", b"\x00\xff", b"y" * 300], "bytearray": bytearray(b"12"), "tuples": ((), (1,), (1, 2), (1, 2, 3, 4)),
    "sets": [set(), {1, 2}, frozenset({3})], "dict": {1: {2: {}}}, "ordered": OrderedDict(b=1, a=2),
    "counter": Counter("abca"), "default": defaultdict(list, {1: [2]}),
    "defaults": [defaultdict(f) for f in (int, float, str, dict, set)], "size": mt.Size([1, 2]),
    "dtypes": [mt.float16, mt.uint16, mt.bool], "device": mt.device("cpu"),
    "numpy": [np.float64(2.5), np.int32(-3), np.dtype("float32"), np.dtype(">i4")],
}  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4])
def test_plain_data(protocol):
    got = through_a_file(PLAIN, pickle_protocol=protocol)
    assert got == PLAIN
    assert [type(v) for v in got.values()] == [type(v) for v in PLAIN.values()]
    assert got["default"][5] == []


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_numpy_arrays(protocol):
    arrays = [
        np.arange(6.0).reshape(2, 3),
        np.arange(6).reshape(2, 3).T,
        np.zeros((0, 2)),
        np.array("text"),
        np.array(3),
    ]
    for array, got in zip(arrays, through_a_file(arrays, pickle_protocol=protocol), strict=True):
        assert (got.dtype, got.shape) == (array.dtype, array.shape)
        assert np.array_equal(got, array)
    with pytest.raises((pickle.PicklingError, pickle.UnpicklingError)):
        through_a_file(np.array([Custom()]), pickle_protocol=protocol)


def test_a_module_s_state(tmp_path):
    model = mt.nn.Sequential(mt.nn.Linear(3, 4), mt.nn.Linear(4, 2))
    optimizer = mt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(mt.ones(1, 3)).sum().backward()
    optimizer.step()
    path = tmp_path / "state.pt"
    mt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    got = mt.load(path)
    other = mt.nn.Sequential(mt.nn.Linear(3, 4), mt.nn.Linear(4, 2))
    other.load_state_dict(got["model"])
    again = mt.optim.SGD(other.parameters(), lr=1.0, momentum=0.1)
    again.load_state_dict(got["optimizer"])
    assert again.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    assert other(mt.ones(1, 3)).tolist() == model(mt.ones(1, 3)).tolist()


def test_mapped_files_are_read_when_touched_and_not_written(tmp_path):
    path = tmp_path / "big.pt"
    x = mt.arange(100000.0)
    mt.save([x, mt.empty(0)], path)
    before = path.read_bytes()
    got, empty = mt.load(path, mmap=True)
    assert bits(got) == bits(x)
    assert empty.shape == (0,)
    got[0] = -1
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="must be a string or a path"):
        mt.load(io.BytesIO(before), mmap=True)


def test_data_is_aligned(tmp_path):
    path = tmp_path / "x.pt"
    mt.save([mt.arange(n, dtype=mt.uint8) for n in (1, 3, 64, 65)], path)
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            name, extra = (int.from_bytes(raw[info.header_offset + o :][:2], "little") for o in (26, 28))
            if "/data/" in info.filename:
                assert (info.header_offset + 30 + name + extra) % 64 == 0


def test_map_location(tmp_path):
    path = tmp_path / "x.pt"
    mt.save(mt.ones(2), path)
    for where in (
        None,
        "cpu",
        mt.device("cpu"),
        {"cpu": "cpu"},
        lambda data, location: None,
        lambda data, location: data,
    ):
        assert mt.load(path, map_location=where).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        mt.load(path, map_location="cuda")
    with pytest.raises(TypeError, match="map_location"):
        mt.load(path, map_location=3)


# ---- refused when saving


class Custom:
    def __init__(self):
        self.rate = 0.5


def test_objects_are_saved_and_loaded_where_they_are_trusted(tmp_path):
    path = tmp_path / "x.pt"
    settings = argparse.Namespace(lr=0.1, layers=[1, 2])
    mt.save({"settings": settings, "custom": Custom(), "w": mt.ones(2), "cls": Custom}, path)
    with pytest.raises(pickle.UnpicklingError, match=r"argparse\.Namespace|Custom"):
        mt.load(path)
    found = mt.load(path, weights_only=False)
    assert (found["settings"], found["custom"].rate, found["w"].tolist()) == (settings, 0.5, [1, 1])
    assert found["cls"] is Custom
    with mt.serialization.safe_globals([argparse.Namespace, Custom]):
        assert mt.load(path)["settings"] == settings


def test_what_can_not_be_pickled_is_not_saved(tmp_path):
    path = tmp_path / "x.pt"
    mt.save(1, path)
    before = path.read_bytes()
    for thing in (lambda: 0, sys):
        with pytest.raises(
            (pickle.PicklingError, TypeError, AttributeError), match=r"(?i)can't (get|pickle)|cannot pickle"
        ):
            mt.save([mt.ones(1), thing], path)
        assert path.read_bytes() == before
    endless = []
    endless.append(endless)
    assert through_a_file(endless)[0][0] is not None
    deep = []
    for _ in range(100000):
        deep = [deep]
    with pytest.raises(pickle.PicklingError, match="nested too deeply"):
        mt.save(deep, path)
    assert os.listdir(tmp_path) == ["x.pt"]


def test_writes_are_atomic(tmp_path, monkeypatch):
    path = tmp_path / "x.pt"
    mt.save(mt.zeros(3), path)
    os.chmod(path, 0o640)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            mt.save(mt.ones(3), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.pt"]
    mt.save(mt.ones(3), path)
    assert mt.load(path).tolist() == [1.0] * 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        mt.save(1, tmp_path / "no" / "x.pt")
    with pytest.raises(AttributeError, match="path or a file"):
        mt.save(1, 3)
    with pytest.raises(ValueError, match="from 2 to 5"):
        mt.save(1, path, pickle_protocol=1)


# ---- files that mean harm


def archive_of(pickled, entries=(), **more):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **more) as archive:
        archive.writestr("a/data.pkl", pickled)
        for name, data in dict(entries).items():
            archive.writestr(f"a/{name}", data)
    file.seek(0)
    return file


class Harm:
    def __reduce__(self):
        return os.system, ("echo harm > /tmp/harm",)


@pytest.mark.parametrize("protocol", range(6))
def test_code_is_refused(protocol, monkeypatch):
    ran = []
    monkeypatch.setattr(os, "system", ran.append)
    for thing in (Harm(), [mt.dtype, Custom()], Custom, eval, {1: Harm()}):
        try:
            data = pickle.dumps(thing, protocol)
        except Exception:
            continue
        with pytest.raises(pickle.UnpicklingError):
            mt.load(archive_of(data))
    assert ran == []


@pytest.mark.parametrize(
    ("pickled", "message"),
    [
        (b"cos\nsystem\n.", "names os.system"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", "names builtins.eval"),
        (b"ccollections\nOrderedDict\n)R}X\x01\x00\x00\x00ad\x86b.", "mark is missing|must be a dict|state"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n.", "stands where data should"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00aK\x01sb0N.", "state of a Allowed is set"),
        (b"K\x01)R.", "a int is called"),
        (b"ccollections\nOrderedDict\nK\x01R.", "must be a tuple"),
        (b"ios\nsystem\n.", "INST"),
        (b"(cos\nsystem\no.", "names os.system|OBJ"),
        (b"\x82\x01.", "EXT1"),
        (b"]K\x01K\x02s.", "items are set on a list"),
        (b"}K\x01a.", "appended to a dict"),
        (b"h\x05.", "memo 5 was never put"),
        (b"t.", "a mark is missing"),
        (b"(.", "unexpected mark"),
        (b"", "ends too early"),
        (b"X\xff\xff\xff\x7fab", "ends too early"),
        (b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff", "ends too early"),
        (b"}]K\x01s.", "unhashable"),
        (b"\x80\x09N.", "protocol 9"),
        (b"X\x01\x00\x00\x00xQ.", "not a storage's"),
        (
            b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nK\x00X\x03\x00\x00\x00cpuK\x04tQ.",
            "storage's id is malformed",
        ),
        (
            b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000K\x00K\x04tQ.",
            "storage's id is malformed",
        ),
        (b"NN.", "1 more objects are left"),
        (b"cminitensor\nTensor\n.", "names minitensor.Tensor"),
        (b"cnumpy\ndtype\n(X\x01\x00\x00\x00Otq\x00R.", "NumPy dtype 'O' is refused"),
        (b"ccollections\ndefaultdict\n(cbuiltins\neval\ntR.", "names builtins.eval"),
    ],
)
def test_pickles_that_are_refused(pickled, message):
    with pytest.raises(pickle.UnpicklingError, match=message):
        mt.load(archive_of(pickled))


def rebuilt(storage=("FloatStorage", "0", 4), offset=0, size=(2, 2), stride=(2, 1)):
    """The pickle of a tensor of such a storage, as PyTorch writes it."""

    def number(n):
        return b"\x8a\x09" + n.to_bytes(9, "little", signed=True)

    def row(numbers):
        return b"(" + b"".join(map(number, numbers)) + b"t"

    kind, key, count = storage
    identity = b"(X\x07\x00\x00\x00storagectorch\n" + kind.encode() + b"\nX" + len(key).to_bytes(4, "little")
    identity += key.encode() + b"X\x03\x00\x00\x00cpu" + number(count) + b"tQ"
    tail = b"\x89ccollections\nOrderedDict\n)RtR."
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + identity + number(offset) + row(size) + row(stride) + tail


FOUR = {"data/0": np.arange(4, dtype=np.float32).tobytes()}


def test_the_pickle_that_the_next_tests_change():
    assert mt.load(archive_of(rebuilt(), FOUR)).tolist() == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 1}, {"size": (3, 2)}, {"stride": (3, 1)}, {"offset": -1}, {"size": (-2, 2)}, {"stride": (-1, 1)},
        {"size": (2**40, 2**40)}, {"size": (2,)}, {"storage": ("FloatStorage", "0", 5)}, {"offset": 2**62},
        {"storage": ("FloatStorage", "1", 4)}, {"storage": ("FloatStorage", "../x", 4)},
        {"storage": ("DoubleStorage", "0", 4)}, {"storage": ("FloatStorage", "0", -1), "size": (2**33, 2**33)},
    ],
)  # fmt: skip
def test_tensors_that_reach_out_of_their_storage(change):
    with pytest.raises(pickle.UnpicklingError):
        mt.load(archive_of(rebuilt(**change), FOUR))


def test_compressed_entries_are_refused():
    with pytest.raises(pickle.UnpicklingError, match="compressed"):
        mt.load(archive_of(rebuilt(), FOUR, compression=zipfile.ZIP_DEFLATED))


def test_files_that_are_no_checkpoints(tmp_path):
    path = tmp_path / "x.pt"
    for content, message in (
        (b"", "not a checkpoint"),
        (b"hello", "not a checkpoint"),
        (pickle.dumps(1), "before version 1.6"),
    ):
        path.write_bytes(content)
        with pytest.raises(RuntimeError, match=message):
            mt.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/constants.pkl", b"")
    with pytest.raises(RuntimeError, match="TorchScript"):
        mt.load(path)
    with pytest.raises(FileNotFoundError):
        mt.load(tmp_path / "missing.pt")
    with pytest.raises(AttributeError, match="path or a file object"):
        mt.load(3)


def test_cut_off_and_damaged_files():
    file = io.BytesIO()
    mt.save({"a": mt.arange(100.0), "b": mt.ones(3)}, file)
    whole = file.getvalue()
    for end in range(0, len(whole) - 1, 97):
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            mt.load(io.BytesIO(whole[:end]))
    generator = random.Random(3)
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 8)):
            damaged[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
        try:
            mt.load(io.BytesIO(bytes(damaged)))
        except (RuntimeError, pickle.UnpicklingError):
            refused += 1
    assert refused > 200  # the rest hit padding and dates


def test_random_pickles_never_do_more_than_fail():
    generator = random.Random(5)
    seed = rebuilt()
    refused, loaded = 0, []
    for _ in range(3000):
        data = bytearray(seed)
        for _ in range(generator.randint(1, 12)):
            place = generator.randrange(len(data))
            if generator.random() < 0.5:
                data[place] = generator.randrange(256)
            else:
                data[place:place] = bytes([generator.randrange(256)])
        try:
            loaded.append(mt.load(archive_of(bytes(data), FOUR)))
        except (RuntimeError, pickle.UnpicklingError):
            refused += 1
    assert refused > 1500
    assert not any(callable(value) for value in loaded)


# ---- what the user allows


class Point:
    def __init__(self, x=0):
        self.x = x


def test_allowed_classes():
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        through_a_file(Point(3))
    with serialization.safe_globals([Point]):
        file = io.BytesIO()
        mt.save({"p": Point(mt.ones(2))}, file)
        file.seek(0)
        assert mt.load(file)["p"].x.tolist() == [1.0, 1.0]
        assert serialization.get_safe_globals() == [Point]
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"test_serialization\.Point.*nothing was run"):
        mt.load(file)
    serialization.add_safe_globals([(Point, "elsewhere.Point")])
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
    with pytest.raises(TypeError, match="expected a class"):
        serialization.add_safe_globals([3])


# ---- PyTorch

TORCH = """
import sys, torch, collections
names = {names!r}.split()
made = {{n: torch.tensor([0, 1, 1, 0, 1, 1], dtype=getattr(torch, n)).reshape(2, 3) for n in names}}
made["view"] = made["float32"].T
made["parameter"] = torch.nn.Parameter(torch.ones(2))
made["meta"] = torch.empty(2, 3, device="meta")
made["plain"] = [None, 1, 2.5, "x", (1, 2), {{1: 2}}, torch.float16, torch.Size([1]), torch.device("cpu")]
made["state"] = torch.nn.Linear(2, 3).state_dict()
if sys.argv[1] == "save":
    torch.save(made, sys.argv[2])
else:
    got = torch.load(sys.argv[2], weights_only=True)
    for n in names:
        assert got[n].dtype == made[n].dtype and torch.equal(got[n], made[n]), n
    assert torch.equal(got["view"], made["view"]) and got["view"].stride() == made["view"].stride()
    got["float32"][0, 1] = 7
    assert got["view"][1, 0] == 7
    assert isinstance(got["parameter"], torch.nn.Parameter) and got["parameter"].requires_grad
    assert got["meta"].device.type == "meta" and got["meta"].shape == (2, 3)
    assert got["plain"] == made["plain"], got["plain"]
    linear = torch.nn.Linear(2, 3)
    linear.load_state_dict(got["state"])
"""


def run_torch(mode, path):
    done = subprocess.run(
        [sys.executable, "-c", TORCH.format(names=" ".join(DTYPES)), mode, path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_pytorch_reads_ours_and_we_read_pytorch_s(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "x.pt"
    run_torch("save", path)
    for mapped in (False, True):
        got = mt.load(path, mmap=mapped)
        for name in DTYPES:
            assert got[name].dtype is getattr(mt, name)
            assert bits(got[name]) == bits(mt.tensor([[0, 1, 1], [0, 1, 1]], dtype=getattr(mt, name)))
        assert got["plain"] == [None, 1, 2.5, "x", (1, 2), {1: 2}, mt.float16, mt.Size([1]), mt.device("cpu")]
        mt.nn.Linear(2, 3).load_state_dict(got["state"])
    got["view"], got["parameter"] = got["float32"].T, mt.nn.Parameter(mt.ones(2))
    mt.save(got, path)
    run_torch("load", path)


@pytest.mark.parametrize(
    ("at", "form", "change", "message"),
    [
        (8, "<H", lambda flags: flags | 1, "compressed or encrypted"),
        (10, "<H", lambda method: 8, "compressed or encrypted"),
        (20, "<L", lambda size: size - 1, "compressed or encrypted"),
        (24, "<L", lambda size: size + 1, "compressed or encrypted"),
        (42, "<L", lambda place: place + 100_000, "reaches beyond its end"),
        (20, "<LL", lambda *sizes: (100_000, 100_000), "reaches beyond its end"),
    ],
)
def test_directories_that_say_something_else(at, form, change, message, tmp_path):
    file = io.BytesIO()
    mt.save(mt.arange(100.0), file)
    raw = bytearray(file.getvalue())
    entry = raw.rindex(b"archive/data/0") - 46  # in the directory
    assert raw[entry : entry + 4] == b"PK\x01\x02"
    changed = change(*struct.unpack_from(form, raw, entry + at))
    struct.pack_into(form, raw, entry + at, *(changed if isinstance(changed, tuple) else (changed,)))
    path = tmp_path / "x.pt"
    path.write_bytes(raw)
    for mapped in (False, True):
        with pytest.raises((RuntimeError, pickle.UnpicklingError), match=message):
            mt.load(path, mmap=mapped)


def test_a_dtype_and_a_function_that_occur_twice():
    assert through_a_file([mt.float32, mt.float32, mt.int8]) == [mt.float32, mt.float32, mt.int8]
    layers = mt.nn.ModuleList([mt.nn.TransformerEncoderLayer(4, 2, 8, activation=mt.nn.functional.gelu)] * 2)
    layers.append(mt.nn.TransformerEncoderLayer(4, 2, 8, activation=mt.nn.functional.gelu))
    layers.functions = [mt.tanh, mt.linalg.inv, mt.add, mt.special.entr]
    loaded = through_a_file_whole(layers)
    assert loaded[0] is loaded[1]
    assert all(layer.activation is mt.nn.functional.gelu for layer in loaded)
    assert all(found is function for found, function in zip(loaded.functions, layers.functions, strict=True))


def test_classes_that_are_data():
    classes = [OrderedDict, Counter, set, frozenset, dict, list]
    assert through_a_file(classes) == classes


def through_a_file_whole(thing):
    file = io.BytesIO()
    mt.save(thing, file)
    file.seek(0)
    return mt.load(file, weights_only=False)


def test_functions_that_are_allowed():
    model = mt.nn.ModuleDict()
    model.activation = mt.nn.functional.relu
    file = io.BytesIO()
    mt.save(model, file)
    with serialization.safe_globals([mt.nn.ModuleDict, mt.nn.functional.relu]):
        assert mt.load(io.BytesIO(file.getvalue())).activation is mt.nn.functional.relu
    with serialization.safe_globals([mt.nn.ModuleDict]), pytest.raises(pickle.UnpicklingError, match="relu"):
        mt.load(io.BytesIO(file.getvalue()))


def test_modules_of_pytorch_s_that_are_allowed():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    theirs.activation = torch.nn.functional.relu
    file = io.BytesIO()
    torch.save(theirs, file)
    allowed = [mt.nn.Sequential, mt.nn.Linear, mt.nn.ReLU, mt.nn.functional.relu]
    with serialization.safe_globals(allowed):
        ours = mt.load(io.BytesIO(file.getvalue()))
    assert type(ours) is mt.nn.Sequential
    assert ours[0].weight.tolist() == theirs[0].weight.tolist()
    assert ours.activation is mt.nn.functional.relu
    with serialization.safe_globals(allowed[:2]), pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules"):
        mt.load(io.BytesIO(file.getvalue()))
