"""Everything that a checkpoint may hold, to and from every kind of file, between the two libraries."""

import contextlib
import errno
import io
import os
import pickle
import stat
import subprocess
import sys
import threading

import pytest

import minitensor as mt
from tests.checkpoint_contents import CONTENTS, FLAGGED, described
from tests.checkpoint_files import TORCH_FILES, unpacked

MATTERS = [pytest.param(name, id=name) for name in CONTENTS]


def seen(lib, thing, name):
    return described(lib, thing, layout=name not in FLAGGED)


def made(name):
    return CONTENTS[name](mt)


@pytest.mark.parametrize("name", MATTERS)
@pytest.mark.parametrize("protocol", [2, 5])
def test_what_comes_back(name, protocol):
    thing, file = made(name), io.BytesIO()
    mt.save(thing, file, pickle_protocol=protocol)
    file.seek(0)
    assert seen(mt, mt.load(file), name) == seen(mt, thing, name)


@pytest.mark.parametrize("name", MATTERS)
def test_files_of_pytorch(name):
    # Written by PyTorch 2.13.
    assert seen(mt, mt.load(io.BytesIO(unpacked(TORCH_FILES[name]))), name) == seen(mt, made(name), name)


@pytest.mark.parametrize("name", MATTERS)
def test_pytorch_s_part(name, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "x.pt"
    expected = seen(mt, made(name), name)
    assert seen(torch, CONTENTS[name](torch), name) == expected
    mt.save(made(name), path)
    assert seen(torch, torch.load(path), name) == expected
    torch.save(CONTENTS[name](torch), path)
    for mapped in (False, True):
        assert seen(mt, mt.load(path, mmap=mapped), name) == expected


def several_dtypes():
    x = mt.arange(10, dtype=mt.uint8)
    y = mt.arange(16, dtype=mt.int16)
    return [x[:8].view(mt.int32), x, x[2:].view(mt.float16), y.view(mt.uint16), y, y[:4].view(mt.float64)]


def test_one_storage_in_several_dtypes():
    thing, file = several_dtypes(), io.BytesIO()
    mt.save(thing, file)
    file.seek(0)
    got = mt.load(file)
    assert described(mt, got) == described(mt, thing)
    got[1][0] = 7
    assert got[0].tolist() == [50462983, 117835012]


def test_pytorch_reads_one_storage_in_several_dtypes():
    torch = pytest.importorskip("torch")
    thing, file = several_dtypes(), io.BytesIO()
    mt.save(thing, file)
    file.seek(0)
    assert described(torch, torch.load(file)) == described(mt, thing)


def test_storages():
    x = mt.arange(3, dtype=mt.int16)
    thing, file = [x.untyped_storage(), mt.ones(2).storage()], io.BytesIO()
    mt.save(thing, file)
    file.seek(0)
    got = mt.load(file)
    assert [type(s) for s in got] == [type(s) for s in thing]
    assert (got[0].tolist(), got[1].tolist(), got[1].dtype) == ([0, 0, 1, 0, 2, 0], [1.0, 1.0], mt.float32)
    mt.save([x, x.storage(), x.untyped_storage()], io.BytesIO())
    with pytest.raises(pickle.PicklingError, match="whose bytes are something else"):
        mt.save([x.untyped_storage(), x.storage()], io.BytesIO())


class Tagged(mt.Tensor):
    pass


class Slotted(mt.Tensor):
    __slots__ = ("mark",)

    def __setstate__(self, state):
        self.mark = state


@pytest.fixture
def allowed():
    with mt.serialization.safe_globals([Tagged, Slotted]):
        yield


def test_subclasses(allowed):
    t = mt.ones(2).as_subclass(Tagged)
    t.tag = "a"
    s = mt.ones(2).as_subclass(Slotted)
    file = io.BytesIO()
    mt.save([t, s], file)
    file.seek(0)
    got = mt.load(file)
    assert [type(x) for x in got] == [Tagged, Slotted]
    assert (got[0].tag, got[1].mark) == ("a", None)
    mt.serialization.clear_safe_globals()
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"names test_checkpoint_files.Tagged"):
        mt.load(file)
    file.seek(0)
    assert [type(x) for x in mt.load(file, weights_only=False)] == [Tagged, Slotted]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"data": 1}, "the attribute data of a tensor is set"),
        ({"grad": None}, "the attribute grad of a tensor is set"),
        ({"__class__": list}, "the attribute __class__ of a tensor is set"),
        ([1], "must be a dict"),
        ({1: 2}, "must be a dict"),
    ],
)
def test_attributes_that_files_may_not_set(state, message):
    from minitensor.serialization import pickler

    class Odd(pickler._Pickler):
        def reduce_tensor(self, tensor):
            rebuild, arguments = self.reduce_plain(tensor, None)
            return pickler._REBUILD_FROM_TYPE, (rebuild, pickler._TENSOR, arguments, state)

    file = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pickler, "_Pickler", Odd)
        mt.save(mt.ones(1), file)
    with pytest.raises(pickle.UnpicklingError, match=message):
        mt.load(file)


@pytest.mark.parametrize(
    ("pickled", "message"),
    [
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n\x85.", "a tuple with a function in it stands where data should"),
        (b"\x80\x02]ctorch._utils\n_rebuild_tensor_v2\n\x85a.", "a tuple with a function in it"),
        (b"\x80\x02]ctorch._utils\n_rebuild_tensor_v2\na.", "the function _rebuild_tensor_v2 stands where data should"),
        (b"\x80\x02ctorch\nSize\n\x85.", "the function Size stands where data should"),
        (b"\x80\x02ctorch\nTensor\n)R.", "is called"),
        (b"\x80\x02ctorch\nTensor\n)\x81.", "not an allowed class"),
        (
            b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n)NtR.",
            "the pickle is broken",
        ),
        (b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(NNNNtR.", "doesn't rebuild tensors"),
    ],
)
def test_functions_as_arguments(pickled, message):
    from minitensor.serialization.names import find
    from minitensor.serialization.weights_only_unpickler import unpickle

    with pytest.raises(pickle.UnpicklingError, match=message):
        unpickle(pickled, find, None)


# ---- where it is written


class _Ways:
    """Each saves to a kind of destination and gives the bytes that arrived."""

    def path(self, save, folder):
        path = folder / "x.pt"
        path.write_bytes(b"before" * 10000)
        save(str(path))
        return path.read_bytes()

    def path_object(self, save, folder):
        save(folder / "x.pt")
        return (folder / "x.pt").read_bytes()

    def bytes_io(self, save, folder):
        file = io.BytesIO()
        save(file)
        return file.getvalue()

    def file(self, save, folder):
        with open(folder / "x", "wb") as file:
            save(file)
            return (folder / "x").read_bytes()  # all of it is there

    def unbuffered_file(self, save, folder):
        with open(folder / "x", "wb", buffering=0) as file:
            save(file)
            assert not file.closed
        return (folder / "x").read_bytes()

    def appended(self, save, folder):
        (folder / "x").write_bytes(b"before")
        with open(folder / "x", "ab") as file:
            save(file)
        data = (folder / "x").read_bytes()
        assert data[:6] == b"before"
        return data[6:]

    def only_write(self, save, folder):
        class Sink:
            data = b""

            def write(self, data):
                self.data += bytes(data)

        sink = Sink()
        save(sink)
        return sink.data

    def link(self, save, folder):
        (folder / "real").mkdir()
        (folder / "real" / "x").write_bytes(b"before")
        (folder / "link").symlink_to("real/x")
        (folder / "links").symlink_to("link")
        save(folder / "links")
        assert (folder / "link").is_symlink()
        assert (folder / "links").is_symlink()
        assert os.listdir(folder / "real") == ["x"]
        return (folder / "real" / "x").read_bytes()

    def dangling_link(self, save, folder):
        (folder / "link").symlink_to(folder / "x")
        save(folder / "link")
        assert (folder / "link").is_symlink()
        return (folder / "x").read_bytes()

    def fifo(self, save, folder):
        os.mkfifo(folder / "pipe")
        with _received(lambda: open(folder / "pipe", "rb")) as got:
            save(folder / "pipe")
        assert stat.S_ISFIFO(os.stat(folder / "pipe").st_mode)
        return got[0]

    def pipe(self, save, folder):
        reader, writer = os.pipe()
        with _received(lambda: open(reader, "rb")) as got, open(writer, "wb", buffering=0) as file:
            save(file)
        return got[0]

    def descriptor(self, save, folder):
        reader, writer = os.pipe()
        with _received(lambda: open(reader, "rb")) as got:
            save(f"/dev/fd/{writer}")
            os.close(writer)
        return got[0]

    def descriptor_of_a_file(self, save, folder):
        with open(folder / "x", "wb") as file:
            save(f"/dev/fd/{file.fileno()}")
        return (folder / "x").read_bytes()

    def file_without_a_name(self, save, folder):
        with open(folder / "x", "w+b") as file:
            (folder / "x").unlink()
            save(f"/dev/fd/{file.fileno()}")
            assert os.listdir(folder) == []
            file.seek(0)
            return file.read()


@contextlib.contextmanager
def _received(opened):
    """What a thread has read from a file until its end."""
    got = []

    def read():
        with opened() as file:
            got.append(file.read())

    thread = threading.Thread(target=read)
    thread.start()
    yield got
    thread.join()


WAYS = [name for name in vars(_Ways) if not name.startswith("_")]


@pytest.mark.parametrize("way", WAYS)
def test_destinations(way, tmp_path):
    for n, name in enumerate(CONTENTS):
        thing = made(name)
        (tmp_path / str(n)).mkdir()
        got = getattr(_Ways(), way)(lambda place, thing=thing: mt.save(thing, place), tmp_path / str(n))
        assert seen(mt, mt.load(io.BytesIO(got)), name) == seen(mt, thing, name)
    big = mt.arange(100_000)  # more than a pipe holds
    (tmp_path / "big").mkdir()
    got = getattr(_Ways(), way)(lambda place: mt.save(big, place), tmp_path / "big")
    assert mt.load(io.BytesIO(got)).equal(big)


def test_reading_from_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    thread = threading.Thread(target=lambda: mt.save(mt.arange(100_000), tmp_path / "pipe"))
    thread.start()
    got = mt.load(tmp_path / "pipe")
    thread.join()
    assert got.equal(mt.arange(100_000))


def test_devices_stay_devices():
    before = os.lstat("/dev/null")
    mt.save(mt.ones(2), "/dev/null")
    assert os.path.samestat(os.lstat("/dev/null"), before)


def test_zip_tools_read_the_archive(tmp_path):
    import zipfile

    path = tmp_path / "naïve.pt"
    mt.save([mt.arange(3), mt.empty(0)], path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert [i.filename for i in archive.infolist()] == [
            f"naïve/{entry}"
            for entry in [
                "data.pkl",
                ".format_version",
                ".storage_alignment",
                "byteorder",
                "data/0",
                "data/1",
                "version",
            ]
        ]
        assert archive.read("naïve/data/0") == bytes([0, *bytes(7), 1, *bytes(7), 2, *bytes(7)])
    mt.save(1, tmp_path / os.fsdecode(b"\xff.pt"))
    assert mt.load(tmp_path / os.fsdecode(b"\xff.pt")) == 1


@pytest.mark.parametrize("limit", [1, 200, 1000, 65_000])
def test_archives_beyond_the_limits_of_a_zip(limit, monkeypatch):
    # As if 32 bits were fewer: sizes, and places from some entry on, are in the wide fields.
    from minitensor.serialization import archive

    thing, file = [mt.arange(100), mt.arange(50_000), mt.empty(0)], io.BytesIO()
    monkeypatch.setattr(archive, "_LIMIT", limit)
    pack = archive.struct.pack

    def marked(form, *values):
        if form in ("<5H3L", "<5H2L", "<4H2LH"):
            values = [2**32 - 1 if "L" in form and v == limit else v for v in values]
        return pack(form, *values)

    monkeypatch.setattr(archive, "struct", type("S", (), {**vars(archive.struct), "pack": staticmethod(marked)}))
    mt.save(thing, file)
    monkeypatch.undo()
    file.seek(0)
    assert described(mt, mt.load(file)) == described(mt, thing)


# ---- nothing is half-written


def test_a_full_disk(tmp_path):
    with pytest.raises(OSError, match="No space left"):
        mt.save(mt.ones(2), "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    code = """
import resource, signal, sys, minitensor as mt
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
mt.save(mt.ones(10), sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    mt.save(mt.ones(10_000), sys.argv[1])
except OSError as error:
    print(error.errno, error.__notes__)
print(mt.load(sys.argv[1]).shape)
"""
    path = tmp_path / "x.pt"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == f"{errno.EFBIG} ['{path} was not changed']\nminitensor.Size([10])\n"
    assert os.listdir(tmp_path) == ["x.pt"]


def test_what_cannot_be_pickled_is_not_begun(tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(b"before")
    link = tmp_path / "link"
    link.symlink_to(path)
    file = io.BytesIO(b"before")
    for place in (path, link, file, "/dev/full"):
        with pytest.raises((pickle.PicklingError, AttributeError)):
            mt.save([mt.ones(2), lambda: 0], place)
    assert path.read_bytes() == file.getvalue() == b"before"
    assert sorted(os.listdir(tmp_path)) == ["link", "x.pt"]


def test_permissions(tmp_path, monkeypatch):
    def refuse(_mask):
        raise AssertionError("the umask is every thread's")

    path, new = tmp_path / "old.pt", tmp_path / "new.pt"
    path.write_bytes(b"")
    path.chmod(0o640)
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", refuse)
            mt.save(1, path)
            mt.save(1, new)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, new)] == [0o640, 0o640]
    path.chmod(0o444)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)  # as for anybody but root
        with pytest.raises(PermissionError, match=r"old\.pt"):
            mt.save(2, path)
    assert mt.load(path) == 1


def test_places_that_are_none(tmp_path):
    with pytest.raises(RuntimeError, match=r"Parent directory .*/none does not exist"):
        mt.save(1, tmp_path / "none" / "x.pt")
    with pytest.raises(IsADirectoryError):
        mt.save(1, tmp_path)
    long = tmp_path / ("ü" * 120 + ".pt")
    mt.save(1, long)
    assert mt.load(long) == 1


def test_pickle():
    meta = mt.empty(3, 2, dtype=mt.int8, device="meta").T
    parameter = mt.nn.Parameter(mt.ones(2, dtype=mt.bfloat16))
    parameter.role = ["bias"]
    for thing in (meta, mt.nn.Parameter(mt.empty(2, device="meta")), parameter):
        assert described(mt, pickle.loads(pickle.dumps(thing))) == described(mt, thing)


@pytest.mark.parametrize("module", ["minitensor._tensor.methods", "minitensor._tensor"])
def test_pickles_of_earlier_versions(module):
    """The functions that they name were elsewhere."""
    for tensor in (
        mt.randn(2, 3, requires_grad=True),
        mt.randn(2, 3).T,
        mt.arange(3, dtype=mt.bfloat16),
        mt.arange(3).to(mt.float8_e5m2),
        mt.empty(2, device="meta"),
    ):
        pickled = pickle.dumps(tensor, protocol=2)  # whose names are lines
        older = pickled.replace(b"cminitensor._tensor.pickling\n", f"c{module}\n".encode())
        assert older != pickled
        assert described(mt, pickle.loads(older)) == described(mt, tensor)
