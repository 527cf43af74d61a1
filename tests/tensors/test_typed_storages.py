"""PyTorch's old storages by dtype."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt

ROOT = Path(mt.__file__).resolve().parent.parent
KINDS = {
    "Bool": "bool", "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64",
    "Half": "float16", "BFloat16": "bfloat16", "Float": "float32", "Double": "float64",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_storage_of_each_dtype(name):
    kind, dtype = getattr(mt, f"{name}Storage"), getattr(mt, KINDS[name])
    made = kind([1, 0, 1])
    assert type(made) is mt.TypedStorage
    assert made.dtype is kind.dtype is dtype
    assert made.tolist() == [1, 0, 1]
    assert made.type() == f"minitensor.{name}Storage"
    assert (len(kind(5)), kind(5).nbytes(), len(kind())) == (5, 5 * dtype.itemsize, 0)
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_storages_are_known_again_by_their_dtype():
    storage = mt.ones(3, dtype=mt.int16).storage()
    assert isinstance(storage, mt.ShortStorage)
    assert not isinstance(storage, mt.IntStorage)
    assert not isinstance(storage.untyped(), mt.ShortStorage)
    assert not isinstance(mt.ones(3, device="meta").storage(), mt.FloatStorage)


def test_over_the_bytes_of_another_storage_and_of_a_file(tmp_path):
    x = mt.tensor([1.0, 2.0])
    shared = mt.FloatStorage(wrap_storage=x.untyped_storage())
    shared[1] = 7.0
    assert x.tolist() == [1.0, 7.0]
    np.arange(4, dtype=np.int64).tofile(tmp_path / "numbers")
    assert mt.LongStorage.from_file(str(tmp_path / "numbers"), False, 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "named", "error"),
    [
        ((2, 2), {}, "Too many positional arguments"),
        ((2,), {"dtype": mt.int8}, "Keyword argument 'dtype' cannot be specified"),
        ((2,), {"device": "cpu"}, "Keyword argument 'device' cannot be specified"),
        ((2,), {"wrap_storage": mt.ones(1).untyped_storage()}, "No positional arguments should be given"),
        ((), {"wrap_storage": mt.ones(1, device="meta").untyped_storage()}, "Device of 'wrap_storage' must be cpu"),
    ],
)
def test_what_is_refused(arguments, named, error):
    with pytest.raises(RuntimeError, match=error):
        mt.FloatStorage(*arguments, **named)
    with pytest.raises(TypeError, match="must be UntypedStorage"):
        mt.FloatStorage(wrap_storage=mt.ones(2))
    with pytest.raises(TypeError):
        mt.FloatStorage(2.5)


SHOWN = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for name in ("Bool", "Byte", "Half", "BFloat16", "ComplexDouble", "Long"):
        kind = getattr(torch, name + "Storage")
        print(kind([1, 0]), kind([1, 0]).type(), kind.dtype, len(kind(4)), isinstance(kind(1), kind))
    x = torch.ones(2)
    print(isinstance(x.storage(), torch.FloatStorage), isinstance(x.storage(), torch.LongStorage), x.storage().type())
print(len(seen), [str(w.message)[:27] for w in seen])
"""


@pytest.mark.torch
def test_they_print_what_pytorchs_print():
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MT_")}
    environment["PYTHONPATH"] = str(ROOT)
    found = [
        subprocess.run(
            [sys.executable, "-c", start + "import torch\n" + SHOWN],
            env=environment, capture_output=True, text=True, timeout=300, check=True,
        ).stdout
        for start in ("", "import minitensor.as_torch\n")
    ]  # fmt: skip
    assert found[0] == found[1]
    assert "TypedStorage is deprecated." in found[0]
