"""The softmax regression example and its reader of IDX files."""

import gzip
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPT = EXAMPLES / "mnist_softmax.py"
AUTO_JIT = {"MT_JIT_FLAGS": "--auto_jit=2 --cpu_global_jit --enable_lazy_compilation=false"}
STEPS = 300


@pytest.fixture(scope="module")
def idx():
    sys.path.insert(0, str(EXAMPLES))
    try:
        import idx

        yield idx
    finally:
        sys.path.remove(str(EXAMPLES))


def run(*args, env=None, status=0):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MT_")}
    # The minitensor that is under test, installed or not.
    environment |= {"PYTHONPATH": str(Path(mt.__file__).parent.parent)} | (env or {})
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, args)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture(scope="module")
def eager():
    return run("--steps", STEPS, "--print_losses").stdout


def test_learns(eager):
    *losses, last, accuracy = eager.splitlines()
    losses = [float.fromhex(loss) for loss in losses]
    assert len(losses) == STEPS
    assert losses[0] > 2.0 > 0.5 > losses[-1]
    assert last == f"loss after {STEPS} steps: {losses[-1]!r}"
    match = re.fullmatch(r"accuracy on 297 held-back images: (0\.\d+)", accuracy)
    assert 0.85 < float(match[1]) < 1.0


@pytest.mark.parametrize(
    ("args", "env"),
    [
        ([], {"MT_NUM_THREADS": "1"}),
        ([], {"MT_NUM_THREADS": "2"}),
        ([], AUTO_JIT),
        ([], AUTO_JIT | {"MT_NUM_THREADS": "2"}),
        (["--jit"], {}),
        (["--jit"], {"MT_NUM_THREADS": "1"}),
        (["--jit"], AUTO_JIT),
    ],
    ids=["eager-1", "eager-2", "auto", "auto-2", "session", "session-1", "both"],
)
def test_same_output_to_the_last_bit(eager, args, env):
    assert run("--steps", STEPS, "--print_losses", *args, env=env).stdout == eager


@pytest.mark.parametrize(("args", "env"), [([], {}), (["--jit"], {}), ([], AUTO_JIT)], ids=["eager", "session", "auto"])
def test_timeline(tmp_path, args, env):
    path = tmp_path / "timeline.ctf.json"
    run("--steps", 3, "--timeline", path, *args, env=env)
    events = json.loads(path.read_text())["traceEvents"]
    boxes = [event for event in events if event["ph"] == "X"]
    names = [box["name"] for box in boxes]
    assert ("_JitLaunch" in names) == bool(args or env)
    if args or env:
        (launch, *_) = [box for box in boxes if box["name"] == "_JitLaunch"]
        assert any(op.startswith("MatMul ") and ".py:" in op for op in launch["args"]["ops"]), launch
        return
    model = [box for box in boxes if box["name"] == "MatMul"]
    assert all(
        Path(box["args"]["file"]).is_file() and box["args"]["line"] > 0 for box in model if "file" in box["args"]
    )
    assert any("file" in box["args"] for box in model)


def test_seeds_differ(eager):
    assert run("--steps", 3, "--seed", 1).stdout != run("--steps", 3, "--seed", 2).stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--steps", "0"], "invalid positive integer value: '0'"),
        (["--batch_size", "x"], "invalid positive integer value: 'x'"),
        (["--batch_size", "9999"], "--batch_size 9999 is more than the 1500 training images"),
        (["--data_dir", "/nowhere"], "expected a folder with the file train-images-idx3-ubyte"),
        (["--steps", "1", "--timeline", "/nowhere/x.json"], "/nowhere/x.json"),
    ],
)
def test_bad_arguments(args, message):
    done = run(*args, status=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def idx_bytes(array, code=0x08):
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_mnist(folder, suffix=""):
    rng = np.random.default_rng(0)
    for part, count in (("train", 40), ("t10k", 10)):
        labels = np.arange(count) % 10
        images = rng.integers(0, 50, (count, 4, 5)) + labels[:, None, None] * 20
        for name, array in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
            data = idx_bytes(array)
            (folder / f"{part}-{name}{suffix}").write_bytes(gzip.compress(data) if suffix else data)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_data_dir(tmp_path, suffix):
    write_mnist(tmp_path, suffix)
    done = run("--data_dir", tmp_path, "--steps", 5, "--batch_size", 8)
    assert "accuracy on 10 held-back images: " in done.stdout


def test_malformed_file_ends_the_example_without_traceback(tmp_path):
    write_mnist(tmp_path)
    path = tmp_path / "t10k-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    done = run("--data_dir", tmp_path, status=2)
    assert done.stderr == f"mnist_softmax.py: {path}: expected 10 bytes of data for shape (10,), found 9\n"
    assert done.stdout == ""


def test_test_images_of_another_size(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(np.zeros((10, 3, 3))))
    done = run("--data_dir", tmp_path, status=2)
    assert "expected test images of (4, 5) pixels, like the training images, found (3, 3)" in done.stderr


GOOD = idx_bytes(np.arange(6).reshape(2, 3))


@pytest.mark.parametrize(
    ("data", "expected", "found"),
    [
        (b"", "a magic number of 4 bytes", "0 bytes"),
        (b"\0\0\x08", "a magic number of 4 bytes", "3 bytes"),
        (b"\x01" + GOOD[1:], "two zero bytes", "0x01000802"),
        (b"\0\0\x0d" + GOOD[3:], "type code 0x08 (unsigned byte)", "0x0d (float)"),
        (b"\0\0\x77" + GOOD[3:], "type code 0x08 (unsigned byte)", "0x77 (no known type)"),
        (b"\0\0\x08\x01" + GOOD[4:], "2 dimensions", "1"),
        (GOOD[:10], "8 bytes of dimensions", "6 bytes"),
        (GOOD[:-2], "6 bytes of data for shape (2, 3)", "4"),
        (GOOD + b"\0", "the end of the file after 6 bytes", "more bytes"),
        (b"\0\0\x08\x02" + b"\xff" * 8, "18446744065119617025 bytes of data", "0"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_malformed(tmp_path, idx, data, expected, found, suffix):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(gzip.compress(data) if suffix else data)
    with pytest.raises(idx.IdxError) as info:
        idx.read_idx(path, 2)
    text = str(info.value)
    assert text.startswith(f"{path}: expected ")
    assert expected in text
    assert text.endswith(f"found {found}")


def test_malformed_gzip(tmp_path, idx):
    path = tmp_path / "file.gz"
    packed = gzip.compress(GOOD)
    broken = bytearray(packed)
    broken[-8] ^= 0xFF  # the checksum
    flipped = bytearray(packed)
    flipped[10] = 0xFF  # the deflate stream
    for data in (GOOD, packed[:-9], bytes(broken), bytes(flipped)):
        path.write_bytes(data)
        with pytest.raises(idx.IdxError, match="expected gzip data, found"):
            idx.read_idx(path, 2)


def test_well_formed(tmp_path, idx):
    path = tmp_path / "file"
    path.write_bytes(GOOD)
    assert idx.read_idx(path, 2).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_labels_that_do_not_fit(tmp_path, idx):
    write_mnist(tmp_path)
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(np.zeros(39)))
    with pytest.raises(idx.IdxError, match=r"expected 40 labels, one for each image of .*, found 39"):
        idx.read_mnist(tmp_path, "train")
    path.write_bytes(idx_bytes(np.full(40, 10)))
    with pytest.raises(idx.IdxError, match="expected labels from 0 to 9, found 10 at position 0"):
        idx.read_mnist(tmp_path, "train")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx_bytes(np.zeros((0, 4, 5))))
    with pytest.raises(idx.IdxError, match="at least one image"):
        idx.read_mnist(tmp_path, "train")
