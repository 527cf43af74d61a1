"""Under PyTorch's name the types of tensors, dtypes, devices and sizes say PyTorch's module, also in pickles."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor as mt

ROOT = Path(mt.__file__).resolve().parent.parent
SHOWN = """
x = torch.ones(2)
for value in (x, x.dtype, x.device, x.shape):
    kind = type(value)
    print(kind, kind.__module__, kind.__qualname__, kind.__name__)
class Own(torch.Tensor):
    pass
print(Own, Own.__mro__[1])
try:
    torch.exp([1])
except TypeError as error:
    assert "minitensor" not in str(error), error
"""


def run(source):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MT_")}
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def expected(package):
    kinds = [f"<class '{package}.{name}'> {package} {name} {name}\n" for name in ("Tensor", "dtype", "device", "Size")]
    return "".join(kinds) + f"<class '__main__.Own'> <class '{package}.Tensor'>\n"


def test_types_have_the_programs_package():
    assert run("import minitensor.as_torch\nimport torch\n" + SHOWN).decode() == expected("torch")
    assert run("import minitensor as torch\n" + SHOWN.partition("try")[0]).decode() == expected("minitensor")
    undone = "import minitensor.as_torch as a\nimport torch\na.uninstall()\n" + SHOWN.partition("try")[0]
    assert run(undone).decode() == expected("minitensor")


@pytest.mark.torch
def test_pytorch_shows_the_same():
    assert run("import torch\n" + SHOWN).decode() == expected("torch")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_plain_tensors_pickled_under_the_alias_load_without_it(protocol):
    made = run(
        "import minitensor.as_torch\nimport torch, pickle, sys\n"
        "x = torch.arange(6.).reshape(2, 3)\n"
        "many = [x, x.T, x.bfloat16(), x.requires_grad_(), torch.empty(2, 3, device='meta'), torch.float32]\n"
        f"sys.stdout.buffer.write(pickle.dumps(many, {protocol}))\n"
    )
    assert b"torch" not in made
    plain, transposed, short, wanting, meta, dtype = pickle.loads(made)
    assert type(plain) is mt.Tensor
    assert plain.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert transposed.T.tolist() == plain.tolist()
    assert transposed.stride() == (1, 3)
    assert short.dtype is mt.bfloat16
    assert wanting.requires_grad
    assert meta.shape == (2, 3)
    assert dtype is mt.float32


def test_subclasses_keep_their_class_in_pickles():
    copy = pickle.loads(pickle.dumps(mt.nn.Parameter(mt.ones(2))))
    assert type(copy) is mt.nn.Parameter
    assert pickle.loads(pickle.dumps(mt.Tensor)) is mt.Tensor


NAMED = "[torch.Tensor, torch.dtype, torch.Size([2, 3]), torch.device('cpu')]"


def test_pickled_types_sizes_and_devices_come_back_under_the_alias():
    assert run(
        "import minitensor.as_torch\nimport torch, pickle\n"
        f"many = {NAMED}\ntext = pickle.dumps(many)\nassert b'minitensor' not in text\n"
        "print(pickle.loads(text) == many)\n"
    ) == b"True\n"  # fmt: skip


@pytest.mark.torch
def test_pytorch_reads_pickled_types_sizes_and_devices():
    made = run(
        f"import minitensor.as_torch\nimport torch, pickle, sys\nsys.stdout.buffer.write(pickle.dumps({NAMED}))\n"
    )
    found = run(f"import torch, pickle\nprint(pickle.loads({made!r}) == {NAMED})\n")
    assert found == b"True\n"


def test_a_tensors_attributes_are_saved_with_its_class():
    done = run(
        "import minitensor.as_torch\nimport torch, io\nx = torch.ones(2)\nx.note = 'kept'\n"
        "file = io.BytesIO()\ntorch.save({'x': x, 'size': x.shape}, file)\nfile.seek(0)\n"
        "found = torch.load(file)\nprint(found['x'].note, type(found['x']).__name__, found['size'])\n"
    )
    assert done == b"kept Tensor torch.Size([2])\n"


def test_a_compiled_function_may_ask_tensors_for_these_types():
    source = (
        "@torch.compile(fullgraph=True)\n"
        "def f(x):\n    return x * x.shape[0] if x.dtype == torch.float32 and x.device.type == 'cpu' else x\n"
        "print(f(torch.ones(3)).tolist(), f(torch.ones(3)).tolist(), f(torch.ones(2)).tolist())\n"
    )
    assert run("import minitensor.as_torch\nimport torch\n" + source) == b"[3.0, 3.0, 3.0] [3.0, 3.0, 3.0] [2.0, 2.0]\n"
