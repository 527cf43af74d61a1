"""safetensors files: what comes back, what the library's own functions read, and what is refused."""

import os

import numpy as np
import pytest
import safetensors.numpy

import minitensor as mt
from minitensor.serialization.safetensors import load, load_file, save, save_file

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64",
]  # fmt: skip


def test_every_dtype(tmp_path):
    made = {name: mt.tensor([[0, 1, 1], [0, 1, 1]], dtype=getattr(mt, name)) for name in DTYPES}
    made |= {"empty": mt.empty(0, 3), "scalar": mt.tensor(2.5), "view": mt.arange(6.0).reshape(2, 3).T}
    path = tmp_path / "x.safetensors"
    save_file(made, path, {"made": "here"})
    got = load_file(path)
    assert set(got) == set(made)
    for name, t in made.items():
        assert (got[name].dtype, got[name].shape) == (t.dtype, t.shape), name
        assert got[name].tolist() == t.tolist(), name
    got["float32"][0, 0] = 5  # memory of its own
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_the_library_reads_ours_and_we_read_its(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(3, dtype=np.int16)}
    path = tmp_path / "x.safetensors"
    save_file({name: mt.from_numpy(a) for name, a in arrays.items()}, path)
    theirs = safetensors.numpy.load_file(path)
    assert all(np.array_equal(theirs[name], a) for name, a in arrays.items())
    ours = load(safetensors.numpy.save(arrays))
    assert all(np.array_equal(ours[name].numpy(), a) for name, a in arrays.items())


def test_refused(tmp_path):
    x = mt.arange(6.0)
    with pytest.raises(RuntimeError, match="'a' and 'b' share memory"):
        save({"a": x, "b": x[2:]})
    with pytest.raises(ValueError, match="no dtype complex128"):
        save({"a": mt.ones(1, dtype=mt.complex128)})
    with pytest.raises(ValueError, match="expected a name and a Tensor"):
        save({"a": 3})
    with pytest.raises(ValueError, match="Expected a dict"):
        save([x])
    whole = save({"a": x})
    for broken in (b"", b"hello", whole[:-1], whole[:20]):
        with pytest.raises(RuntimeError, match="damaged"):
            load(broken)
    with pytest.raises(RuntimeError, match="Parent directory"):
        save_file({"a": x}, tmp_path / "no" / "x")


def test_tensors_without_elements_may_share_memory():
    x = mt.arange(6.0)
    saved = {"none": x[:0], "x": x, "none either": x[3:3]}
    got = load(save(saved))
    assert {name: t.tolist() for name, t in got.items()} == {name: t.tolist() for name, t in saved.items()}
    for sharing in ({"x": x, "part": x[:1]}, {"part": x[5:], "x": x}):
        with pytest.raises(RuntimeError, match="share memory"):
            save(sharing)
    assert load(save({"x": x}))["x"].tolist() == x.tolist()
