"""Files of exported programs, their HLO, and programs with their modules again."""

import io
import json
import subprocess
import sys
import zipfile

import pytest

import minitensor as mt
import minitensor.nn.functional as F
from minitensor import export, nn
from tests.torch_api.test_export import Block, Model, Sized, ids


def altered(data, change, entry="program.json"):
    """The file with another program."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content) if name == entry else content)
    stream.seek(0)
    return stream


def saved(program):
    stream = io.BytesIO()
    export.save(program, stream)
    return stream.getvalue()


def test_a_process_without_the_source(tmp_path):
    program = export.export(Model().eval(), (ids(3, 5),), dynamic_shapes={"ids": {0: export.Dim("b")}})
    export.save(program, tmp_path / "m.pt2", extra_files={"note": "hello"})
    wanted = program.module()(ids(4, 5))["logits"]
    script = (
        "import sys, minitensor as mt\nextra = {'note': ''}\n"
        f"run = mt.export.load({str(tmp_path / 'm.pt2')!r}, extra_files=extra).module()\n"
        "x = mt.arange(20).reshape(4, 5) * 7 % 11\n"
        f"mt.save(run(x)['logits'].detach(), {str(tmp_path / 'out.pt')!r})\n"
        "print(extra['note'], 'tests' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.stdout == "hello False\n", done.stderr
    assert mt.equal(mt.load(tmp_path / "out.pt"), wanted.detach())


def test_the_entries(tmp_path):
    program = export.export(Block(), (mt.randn(1, 4, 8),))
    data = saved(program)
    assert data == saved(program)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert set(file.namelist()) == {"program.json", "weights", "constants", "example", "program.hlo"}
        assert file.read("program.hlo").decode() == program.hlo()
        weights = file.read("weights")
        header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    assert header["both.weight"]["dtype"] == "F32"
    assert header["both.weight"]["shape"] == [24, 8]
    safetensors = pytest.importorskip("safetensors")
    found = dict(safetensors.deserialize(weights))
    assert bytes(found["norm.bias"]["data"]) == program.state_dict["norm.bias"].detach().numpy().tobytes()


def test_an_atomic_write(tmp_path):
    path = tmp_path / "m.pt2"
    path.write_bytes(b"old")
    program = export.export(Sized(lambda x: x + 1), (mt.ones(1),))
    program._inputs[0].value = object()  # what no file can hold
    with pytest.raises(RuntimeError, match="a object among its arguments"):
        export.save(program, path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["m.pt2"]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8", "bool", "complex64"])
def test_dtypes(dtype):
    held = mt.arange(-3, 3).to(getattr(mt, dtype))

    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", held)

        def forward(self, x):
            return mt.cat([x, self.held]), float("inf"), 1 + 2j

    loaded = export.load(io.BytesIO(saved(export.export(Held(), (held.clone(),)))))
    found = loaded.module()(held)
    assert mt.equal(found[0], mt.cat([held, held]))
    assert found[1:] == (float("inf"), 1 + 2j)


def test_files_that_are_none(tmp_path):
    (tmp_path / "text").write_text("no zip")
    with pytest.raises(RuntimeError, match="no exported program, or is damaged"):
        export.load(tmp_path / "text")
    for entries, text in ((["m/archive_format"], "program of PyTorch's"), (["other"], "a zip of another kind")):
        with zipfile.ZipFile(tmp_path / "z", "w") as file:
            for entry in entries:
                file.writestr(entry, b"pt2")
        with pytest.raises(RuntimeError, match=text):
            export.load(tmp_path / "z")
    with pytest.raises(FileNotFoundError):
        export.load(tmp_path / "nothing")


def test_damaged_files():
    data = saved(export.export(nn.Linear(2, 2), (mt.ones(1, 2),)))
    for cut in (10, len(data) // 2, len(data) - 3):
        with pytest.raises(RuntimeError, match="damaged"):
            export.load(io.BytesIO(data[:cut]))
    for entry in ("weights", "program.json"):
        for change in (lambda b: b[: len(b) // 2], lambda b: b"{}", lambda b: b""):
            with pytest.raises(RuntimeError, match="damaged"):
                export.load(altered(data, change, entry))
    with pytest.raises(RuntimeError, match="version 9"):
        export.load(altered(data, lambda b: b.replace(b'"version": 1', b'"version": 9')))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("minitensor.nn.functional.relu", "minitensor.load"),
        ("minitensor.nn.functional.relu", "os.system"),
        ("minitensor.nn.functional.relu", "builtins.eval"),
        ("minitensor.nn.functional.relu", "minitensor.nn.functional.__builtins__"),
        ("minitensor.nn.functional.relu", "minitensor.hub.load"),
        ("call_function", "call_module"),
        ("call_function", "get_attr"),
    ],
)
def test_files_that_call_what_they_may_not(old, new):
    data = saved(export.export(Sized(F.relu), (mt.ones(1),)))
    with pytest.raises(RuntimeError, match=r"may call|unknown node"):
        export.load(altered(data, lambda b: b.replace(f'"{old}"'.encode(), f'"{new}"'.encode())))


@pytest.mark.parametrize(("old", "new"), [('"add"', '"__class__"'), ('"add"', '"__init__"'), ('"add"', '"nothing"')])
def test_methods_that_are_none(old, new):
    data = saved(export.export(Sized(lambda x: x + 1), (mt.ones(1),)))
    with pytest.raises(RuntimeError, match="no method of tensors"):
        export.load(
            altered(data, lambda b: b.replace(b'"call_method", "add", "add"', b'"call_method", "add", ' + new.encode()))
        )


def test_attributes_that_are_none():
    data = saved(export.export(Sized(lambda x: x.T), (mt.ones(1, 2),)))
    with pytest.raises(RuntimeError, match="no attribute of tensors"):
        export.load(altered(data, lambda b: b.replace(b'"T"', b'"__dict__"')))


def test_hlo():
    program = export.export(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), (mt.ones(5, 3),))
    text = program.hlo()
    assert text.startswith("HloModule main")
    assert "f32[5,4]" in text
    assert " tanh(" in text
    assert "fusion" in program.hlo("optimized_hlo") or "custom-call" in program.hlo("optimized_hlo")
    program = export.export(Sized(lambda x: mt.nonzero(x)), (mt.ones(3),))
    with pytest.raises(mt.InvalidArgumentError):
        program.hlo()
    assert mt.equal(export.load(io.BytesIO(saved(program))).module()(mt.ones(3)), mt.nonzero(mt.ones(3)))


def test_unflattened():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
            self.shift = nn.Parameter(mt.ones(2))

        def forward(self, x):
            return self.inner(self.inner(x) + self.shift)

    mt.manual_seed(0)
    module = Twice()
    made = export.unflatten(export.export(module, (mt.ones(3, 2),)))
    assert [n.target for n in made.graph.nodes if n.op == "call_module"] == ["inner", "inner@1"]
    x = mt.randn(3, 2)
    assert mt.equal(made(x), module(x))
    assert made.inner._modules["0"].weight is not None
    assert dict(made.named_parameters())["inner.0.weight"] is module.inner[0].weight
    with pytest.raises(AssertionError, match="Guard failed"):
        made(mt.randn(4, 2))
    made.set_submodule("inner.1", nn.Identity())
    assert not mt.equal(made(x), module(x))
    with pytest.raises(TypeError, match="expected an ExportedProgram"):
        export.unflatten(module)


def test_an_adapter():
    class Swap(export.FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args[::-1]

    class Pair(nn.Module):
        def forward(self, x, y):
            return x - y

    made = export.unflatten(export.export(Pair(), (mt.ones(1), mt.zeros(1))), Swap())
    assert made(mt.ones(1), mt.zeros(1)).item() == 1
    assert made([mt.ones(1), mt.zeros(1)]).item() == -1
