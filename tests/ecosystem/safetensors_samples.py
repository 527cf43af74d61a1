"""safetensors.torch: files of tensors and of models."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name, tmp_path):
    tensor = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
    save_file({"x": tensor}, tmp_path / "x.safetensors", metadata={"made": "here"})
    found = load_file(tmp_path / "x.safetensors")["x"]
    assert found.dtype is tensor.dtype
    assert torch.equal(found, tensor)
    assert torch.equal(load(save({"x": tensor}))["x"], tensor)


def test_slices(tmp_path):
    save_file({"x": torch.arange(12.0).reshape(3, 4)}, tmp_path / "x.safetensors", metadata={"made": "here"})
    with safe_open(tmp_path / "x.safetensors", framework="pt") as file:
        assert list(file.keys()) == ["x"]
        assert file.metadata() == {"made": "here"}
        assert file.get_slice("x")[1:, :2].tolist() == [[4.0, 5.0], [8.0, 9.0]]


def test_models(tmp_path):
    first = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    first[1].weight = first[0].weight
    save_model(first, str(tmp_path / "m.safetensors"))
    second = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    second[1].weight = second[0].weight
    assert load_model(second, str(tmp_path / "m.safetensors")) == (set(), [])
    assert torch.equal(first[0].weight, second[1].weight)


def test_shared_memory_is_refused():
    x = torch.zeros(4)
    with pytest.raises(RuntimeError, match="share memory"):
        save({"x": x, "y": x})
