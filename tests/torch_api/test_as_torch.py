"""Programs that import torch run on minitensor: `python -m minitensor.as_torch`."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor as mt

ROOT = Path(mt.__file__).resolve().parent.parent

TRAIN = """
import sys
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 4)
for _ in range(3):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :2])
    loss.backward()
    optimizer.step()
print(float(loss).hex(), x.shape, x.double().dtype, __name__, *sys.argv[1:])
"""


def run(*arguments, status=0, cwd=None):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MT_")}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
    )
    assert done.returncode == status, done.stderr
    return done


def aliased(tmp_path, source, *options, arguments=(), status=0):
    script = tmp_path / "program.py"
    script.write_text(source)
    return run("-m", "minitensor.as_torch", *options, script, *arguments, status=status)


def test_a_script_written_for_torch(tmp_path):
    found = aliased(tmp_path, TRAIN, arguments=["--lr", "x"]).stdout.split(" ", 1)
    assert found[1] == "torch.Size([16, 4]) torch.float64 __main__ --lr x\n"
    plain = TRAIN.replace("import torch.nn.functional as F\nfrom torch", "from minitensor")
    plain = plain.replace("import torch\n", "import minitensor as torch\nimport minitensor.nn.functional as F\n")
    plain = "import minitensor\nminitensor.random.use('torch')\n" + plain
    (tmp_path / "plain.py").write_text(plain)
    assert run(tmp_path / "plain.py").stdout.split()[0] == found[0]


def test_a_module(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "other.py").write_text("import torch\nname = torch.__name__\n")
    (package / "__main__.py").write_text(
        "import sys\nfrom .other import name\nprint(name, __package__, *sys.argv[1:])\n"
    )
    done = run("-m", "minitensor.as_torch", "-m", "package", "a", cwd=tmp_path)
    assert done.stdout == "torch package a\n"
    (tmp_path / "single.py").write_text("import torch\nprint(__name__, torch.ones(2).tolist())\n")
    assert run("-m", "minitensor.as_torch", "-m", "single", cwd=tmp_path).stdout == "__main__ [1.0, 1.0]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a script, or -m and a module"),
        (["-m"], "expected a module after -m"),
        (["-m", "no_such_module_here"], "no module named no_such_module_here"),
        (["--nothing"], "unknown option --nothing"),
        (["/nowhere/x.py"], "can't read /nowhere/x.py: No such file"),
    ],
)
def test_a_wrong_command_line(arguments, message):
    done = run("-m", "minitensor.as_torch", *arguments, status=2)
    assert message in done.stderr
    assert "usage: python -m minitensor.as_torch" in done.stderr


def test_a_module_of_pytorchs_name():
    done = run("-m", "minitensor.as_torch", "-m", "torch.distributed.run", "--help")
    assert done.stdout.startswith("usage: python -m minitensor.distributed.run")


def test_the_modules_are_ours(tmp_path):
    source = """
import importlib.metadata, importlib.util, sys
import minitensor
import torch, torch.nn, torch.nn.functional, torch.optim, torch.utils.checkpoint
assert torch.nn is minitensor.nn and sys.modules["torch.nn"] is minitensor.nn
assert torch.nn.functional.relu is minitensor.nn.functional.relu
assert torch.Tensor is minitensor.Tensor and torch.optim.SGD is minitensor.optim.SGD
assert minitensor.nn.__name__ == minitensor.nn.__spec__.name == "minitensor.nn"
assert torch.linalg.norm and torch.fft.fft and torch.special.gamma if hasattr(torch.special, "gamma") else True
assert torch.jit is not minitensor.jit and torch.jit.script is minitensor.jit.script and not torch.jit.is_scripting()
assert torch.distributed.is_available() and not torch.distributed.is_initialized() and not torch.cuda.is_available()
assert torch.__version__ == importlib.metadata.version("torch") == "2.13.0+minitensor"
assert torch.version.__version__ == torch.__version__ and torch.version.cuda is None
assert importlib.metadata.metadata("Torch")["Name"] == "torch"
assert [d.version for d in importlib.metadata.distributions(name="torch")][0] == torch.__version__
assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch.nn.functional")
assert importlib.util.find_spec("torch.no_such_module") is None
assert not hasattr(torch, "no_such_name") and not hasattr(torch.nn, "NoSuchModule")
assert "nn" in dir(torch) and "jit" in dir(torch) and "Tensor" in dir(torch)
for wrong in ("import torch.no_such_module", "from torch import no_such_name", "from torch.nn import NoSuch"):
    try:
        exec(wrong)
    except ImportError as error:
        assert "torch" in str(error) or "minitensor.nn" in str(error), error
    else:
        raise AssertionError(wrong)
import torch.utils.data
assert torch.utils.data.DataLoader.__module__ == "torch.utils.data.dataloader"  # libraries look for that
torch.nn.functional.relu = 5
assert minitensor.nn.functional.relu == 5
print("well")
"""
    assert aliased(tmp_path, source).stdout == "well\n"


def test_a_program_that_imports_the_alias_first(tmp_path):
    (tmp_path / "program.py").write_text("import minitensor.as_torch\n" + TRAIN)
    assert run(tmp_path / "program.py").stdout.split(" ", 1)[1].startswith("torch.Size([16, 4])")


def test_pytorch_itself_was_imported_before(tmp_path):
    (tmp_path / "torch.py").write_text("")
    (tmp_path / "program.py").write_text("import torch\nimport minitensor.as_torch\n")
    error = run(tmp_path / "program.py", status=1).stderr
    assert "ImportError: minitensor.as_torch: PyTorch was imported before, from " in error
    assert str(tmp_path / "torch.py") in error


def test_it_can_be_undone(tmp_path):
    (tmp_path / "torch.py").write_text("real = True")
    (tmp_path / "program.py").write_text(
        "import minitensor.as_torch as a, sys\nimport torch, torch.nn, torch.utils.data as data\n"
        "assert torch.__version__ == a.VERSION\n"
        "a.uninstall()\nimport minitensor\nassert repr(minitensor.float32) == 'minitensor.float32'\n"
        "assert 'torch.nn' not in sys.modules\nassert data.Dataset.__module__ == 'minitensor.utils.data.dataset'\n"
        "import torch\nprint(torch.real)\n"
    )
    assert run(tmp_path / "program.py").stdout == "True\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_have_it_too(tmp_path, method):
    source = f"""
import multiprocessing
import torch

def work(n):
    return (torch.arange(n) * 2).sum().item(), torch.__version__

if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(1) as pool:
        print(pool.map(work, [4]))
"""
    assert aliased(tmp_path, source).stdout == "[(12, '2.13.0+minitensor')]\n"


CHILD = """
import importlib.util, subprocess, sys
import torch
code = "import torch.nn as nn, torch; from torch.nn import ReLU; print(torch.__version__, ReLU()(torch.ones(1)))"
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
print(done.stdout or done.stderr.splitlines()[-1])
"""


def test_programs_that_a_program_starts(tmp_path):
    assert aliased(tmp_path, CHILD, "--children").stdout == "2.13.0+minitensor tensor([1.])\n\n"
    # Without the option they find what is installed.
    found = aliased(tmp_path, CHILD.replace("import torch.nn as nn, torch;", "import torch;")).stdout
    assert "minitensor" not in found


def test_a_report_of_what_was_used(tmp_path):
    source = """
import torch
import torch.nn as nn
from torch.nn.functional import relu
from helper import doubled
print(doubled(relu(torch.ones(1))).item(), nn.Linear(1, 1).in_features, hasattr(torch, "quantize_me"))
print(hasattr(nn, "NoSuchLayer"), torch.float32)
nn.functional.mine = 1
assert torch.nn.functional.mine == 1
raise SystemExit(3)
"""
    (tmp_path / "helper.py").write_text("import torch\ndef doubled(x):\n    return torch.add(x, x)\n")
    done = aliased(tmp_path, source, "--report", status=3)
    assert done.stdout == "2.0 1 False\nFalse torch.float32\n"
    lines = [line.split() for line in done.stderr.splitlines()]
    places = {line[0]: line[1] for line in lines if len(line) == 2 and line[0].startswith("torch")}
    assert places["torch.add"] == f"{tmp_path}/helper.py:3"
    assert places["torch.ones"] == places["torch.nn.Linear"] == f"{tmp_path}/program.py:6"
    assert places["torch.nn.functional.relu"] == f"{tmp_path}/program.py:4"
    missing = done.stderr.index("Missing: 2")
    assert done.stderr.index("torch.quantize_me") > missing
    assert done.stderr.index("torch.nn.NoSuchLayer") > missing > done.stderr.index("torch.add")


def test_scripted_functions_are_the_functions(tmp_path):
    source = """
from typing import Dict, List, Optional
import torch

@torch.jit.script
def double(x):
    return x * 2

class M(torch.nn.Module):
    __constants__ = ["k"]
    k: torch.jit.Final[int] = 3
    @torch.jit.export
    def other(self, x):
        return x + self.k
    @torch.jit.ignore
    def one(self):
        return 1
    @torch.jit.ignore(drop=True)
    def two(self):
        return 2
    @torch.jit.unused
    def three(self):
        return 3
    def forward(self, x):
        return self.other(x)

m = torch.jit.script(M())
t = torch.jit.trace(m, torch.ones(2))
assert t is m and type(m).__name__ == "RecursiveScriptModule"
assert t(torch.ones(2)).tolist() == [4.0, 4.0] and (m.one(), m.two(), m.three()) == (1, 2, 3)
assert isinstance(m, torch.nn.Module) and isinstance(m, torch.jit.ScriptModule)
assert torch.jit.isinstance([1], List[int]) and not torch.jit.isinstance(["a"], List[int])
assert torch.jit.isinstance({"a": [1.0]}, Dict[str, List[float]]) and torch.jit.isinstance(None, Optional[int])
assert torch.jit.isinstance((1, "a"), tuple[int, str]) and not torch.jit.isinstance((1,), tuple[int, str])
assert torch.jit.annotate(List[int], []) == [] and torch.jit.wait(torch.jit.fork(double, 2)) == 4
for wrong in (lambda: torch.jit.script(3), lambda: torch.jit.trace(M(), "no tensor")):
    try:
        wrong()
    except (RuntimeError, TypeError):
        pass
    else:
        raise AssertionError
assert not isinstance(torch.nn.Linear(1, 1), torch.jit.ScriptModule) and not hasattr(m, "graph")
print(double(torch.ones(1)).item())
"""
    assert aliased(tmp_path, source).stdout == "2.0\n"


def test_build_settings(tmp_path):
    source = """
import torch

print(torch.__config__.show().splitlines()[0].split()[0])
torch.set_num_threads(1)
import torch.__config__ as config

print(config is torch.__config__, config.parallel_info().strip().split()[-1], hasattr(torch, "__no_such_name__"))
"""
    assert aliased(tmp_path, source).stdout.splitlines() == ["minitensor:", "True 1 False"]


NAMES = """
import torch.distributed as dist
import torch.onnx
from torch.nn.parallel import DistributedDataParallel
import torch.backends.cudnn as cudnn

cudnn.benchmark = True
print(torch.backends.cudnn.benchmark, dist.is_available(), torch.onnx.is_in_onnx_export(), torch.float8_e4m3fn)
for refused in (
    lambda: dist.init_process_group("nccl"),
    lambda: dist.get_rank(),
    lambda: torch.onnx.export(torch.nn.Linear(1, 1), torch.ones(1), "model.onnx"),
):
    try:
        refused()
    except (RuntimeError, ValueError) as error:
        print(type(error).__name__, error)
"""


def test_names_that_scripts_import(tmp_path):
    printed = aliased(tmp_path, NAMES).stdout.splitlines()
    assert printed == [
        "True True False torch.float8_e4m3fn",
        "RuntimeError Distributed package doesn't have NCCL built in: there are gloo and mpi; gloo takes tensors of "
        "GPUs too, through the CPU's memory",
        "ValueError Default process group has not been initialized, please make sure to call init_process_group.",
        "NotImplementedError torch.onnx.export: minitensor has no exporter to ONNX; save the state_dict and export it "
        "with PyTorch",
    ]


PRIVATE = """
import torch._dynamo
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

table = torch.arange(4) * 10
with TransformGetItemToIndex():
    print(torch.vmap(lambda i: table[i])(torch.tensor([2, 0])).tolist(), torch._dynamo.is_compiling())
print(torch._C._log_api_usage_once("name"), torch._C._get_tracing_state(), torch._C.dtype is torch.dtype)
print(torch.ones(1).type(), hasattr(torch._C, "nothing"))
print(isinstance(3, torch.SymInt), torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX, torch.SymInt)
"""


def test_modules_in_modules_that_only_pytorch_has(tmp_path):
    printed = aliased(tmp_path, PRIVATE).stdout.splitlines()
    assert printed == [
        "[20, 0] False",
        "None None True",
        "torch.FloatTensor False",
        "False _extra_state <class 'torch.SymInt'>",
    ]
    failed = aliased(tmp_path, "import torch._dynamo.nothing", status=1)
    assert "No module named 'torch._dynamo.nothing'" in failed.stderr


SETTINGS = """
import torch, torch._dynamo, torch._inductor.config as inductor
import torch.compiler.config as config

def refused(call):
    try:
        call()
    except (AttributeError, AssertionError, TypeError, RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"

print(config is torch.compiler.config, config.recompile_limit, config.force_disable_caches, config.job_id)
with config.patch(force_disable_caches=True), config.patch("job_id", "a"), config.patch({"verbose": True}):
    print(config.force_disable_caches, config.job_id, config.verbose)
print(config.force_disable_caches, config.job_id, config.verbose)
print(refused(lambda: config.nothing), refused(lambda: setattr(config, "nothing", 1)))
print(refused(lambda: config.patch(nothing=1).__enter__()))
kept = config.save_config()
config.job_id = "b"
config.load_config(kept)
print(config.job_id, config.get_config_copy()["force_disable_caches"])

@torch._dynamo.config.patch(suppress_errors=True)
def f():
    return torch._dynamo.config.suppress_errors
print(f(), torch._dynamo.config.suppress_errors, torch._dynamo.config.cache_size_limit)
patch = inductor.patch(max_autotune=True)
for _ in range(2):
    with patch:
        print(inductor.max_autotune)
inductor.coordinate_descent_tuning = True
copy, kept = inductor.get_config_copy(), inductor.save_config()
inductor.coordinate_descent_tuning = False
inductor.load_config(kept)
print(copy["coordinate_descent_tuning"], inductor.coordinate_descent_tuning, "recompile_limit" in copy)
"""


NUMBERS = """
import torch

def refused(call):
    try:
        return call()
    except (AssertionError, RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"

print(torch.sym_int(2.7), torch.sym_float(2), torch.sym_not(0), torch.sym_max(1, 2.0), torch.sym_min(1, 2.0),
      torch.sym_max(3, 2), torch.sym_sum([1, 2, 3]), torch.sym_sum(1, 2), torch.sym_sqrt(2), torch.sym_ite(True, 1, 2))
print(refused(lambda: torch.sym_sqrt(-1)), torch.GradScaler is torch.amp.GradScaler)
print([torch.sym_fresh_size(n) for n in (3, 2.5, True, [2])], torch.sym_constrain_range(torch.tensor(3), min=1))
for check in (torch.sym_constrain_range, torch.sym_constrain_range_for_size):
    for size in (3, 3.7, -1, 0):
        for bounds in ({}, {"min": 1, "max": 5}, {"max": 2}, {"min": 5, "max": 3}, {"min": 4}, {"max": 3}):
            print(size, bounds, refused(lambda: check(size, **bounds)))
x = torch.arange(3.0)
for pred in (True, 0, 1.0, x.sum() > 1, torch.tensor([False]), torch.tensor(2)):
    print(torch.cond(pred, lambda x: (x + 1, {"a": x * 2}), lambda x: (x - 1, {"a": x * 3}), (x,)))
print(torch.cond(torch.tensor(True), lambda: torch.ones(2), lambda: torch.zeros(2)))
w = torch.ones(3, requires_grad=True)
for pred in (True, False):
    print(torch.autograd.grad(torch.cond(torch.tensor(pred), lambda x: x * w * 3, lambda x: x * w, [x]).sum(), w))
print(refused(lambda: torch.cond(torch.tensor([True, True]), torch.sin, torch.cos, (x,))))
print(refused(lambda: torch.cond("a", torch.sin, torch.cos, (x,))))
print(refused(lambda: torch.cond(x.sum() > 1, 3, torch.cos, (x,))))
print(refused(lambda: torch.cond(x.sum() > 1, torch.sin, torch.cos, x)))
print(torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)))
print(torch.while_loop(lambda i, x: i < 3, lambda i, x: [i + 1, x * 2], [0, x]))
print(torch.while_loop(lambda i: i < 3, lambda i: (i + 1,), (torch.tensor(0),)))
print(torch.while_loop(lambda i: i < 3, lambda i: (i + 1,), [torch.tensor(5)]))
print(torch.while_loop(lambda s: s["i"] < 2, lambda s: {"i": s["i"] + 1, "x": s["x"] * 2},
                       ({"i": torch.tensor(0), "x": x},)))
"""


@pytest.mark.parametrize("program", [SETTINGS, NUMBERS], ids=["settings", "numbers"])
def test_it_prints_what_pytorch_prints(tmp_path, program):
    pytest.importorskip("torch")
    script = tmp_path / "theirs.py"
    script.write_text(program)
    theirs = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
    assert aliased(tmp_path, program).stdout == theirs


def test_ranges_of_known_sizes_are_checked(tmp_path):
    source = """
import torch
torch.sym_constrain_range(3, min=1, max=5)
torch.sym_constrain_range_for_size(torch.tensor(3), max=5)
for call in (lambda: torch.sym_constrain_range(3, min=4), lambda: torch.sym_constrain_range_for_size(-1),
             lambda: torch.sym_constrain_range("3"), lambda: torch.sym_constrain_range(3, max=4.0)):
    try:
        call()
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__, error)
print(torch.sym_fresh_size([4]), torch.sym_fresh_size.__module__)
"""
    assert aliased(tmp_path, source).stdout.splitlines() == [
        "RuntimeError Invalid value range for 3 between [4, 9223372036854775807].",
        "RuntimeError Invalid value range for -1 between [0, 9223372036854775807].",
        "TypeError sym_constrain_range(): argument 'size' (position 1) must be Number, not str",
        "TypeError sym_constrain_range(): argument 'max' must be int, not float",
        "4 torch",
    ]


def test_loops_that_change_what_they_carry():
    x = mt.ones(2)
    with pytest.raises(RuntimeError, match=r"same metadata but found: .*\(4,\) vs .*\(2,\)"):
        mt.while_loop(lambda x: True, lambda x: (mt.cat([x, x]),), (x,))
    with pytest.raises(RuntimeError, match="same metadata"):
        mt.while_loop(lambda i, x: True, lambda i, x: (i,), (0, x))
    with pytest.raises(RuntimeError, match="what cond_fn returns to be bool or single-element tensor"):
        mt.while_loop(lambda x: x, lambda x: (x,), (x,))


GRAPHS = """
import io, pickle
import torch

class M(torch.nn.Module):
    def forward(self, x):
        return torch.zeros(2, dtype=torch.float64) + x.to(torch.float32).sum()

traced = torch.fx.symbolic_trace(M())
assert "minitensor" not in traced.code + str(traced.graph) + traced.print_readable(print_output=False), traced.code
for module in (traced, pickle.loads(pickle.dumps(traced))):
    print(module(torch.ones(2)).tolist())
program = torch.export.export(M(), (torch.ones(2),))
file = io.BytesIO()
torch.export.save(program, file)
file.seek(0)
for made in (program, torch.export.load(file)):
    print(made.module()(torch.ones(2)).tolist())
with open("graph.pkl", "wb") as stream:
    pickle.dump(traced, stream)
with open("program.pt2", "wb") as stream:
    stream.write(file.getvalue())
"""


def test_graphs_are_written_with_the_programs_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert aliased(tmp_path, GRAPHS).stdout == "[2.0, 2.0]\n" * 4
    # What was written under that name is read without it.
    assert mt.export.load("program.pt2").module()(mt.ones(2)).tolist() == [2.0, 2.0]
    with open("graph.pkl", "rb") as stream:
        assert pickle.load(stream)(mt.ones(2)).tolist() == [2.0, 2.0]


def test_layouts_and_memory_formats_have_pytorchs_names(tmp_path):
    source = "import torch\nprint(torch.strided, torch.channels_last, torch.ones(2).to_sparse())\n"
    assert aliased(tmp_path, source).stdout == (
        "torch.strided torch.channels_last tensor(indices=tensor([[0, 1]]),\n       values=tensor([1., 1.]),\n"
        "       size=(2,), nnz=2, layout=torch.sparse_coo)\n"
    )


ANNOTATED = """
import dataclasses
import torch

def scaled(x: torch.Tensor, *, by: float = 2.0) -> torch.Tensor:
    return x * by

@dataclasses.dataclass
class Settings:
    rate: float = 0.1

print(scaled.__annotations__["by"], Settings.__dataclass_fields__["rate"].type)
graph = torch.fx.symbolic_trace(scaled)
print(graph.code.strip().splitlines()[0], graph.forward.__annotations__["by"], graph(torch.ones(1)).item())
unit = torch.jit.CompilationUnit("def double(x: float):\\n    return 2 * x")
print(unit.double.__annotations__)
"""


def test_annotations_of_a_script_are_its_own(tmp_path):
    # They are texts only where the script itself asks for that.
    assert aliased(tmp_path, ANNOTATED).stdout.splitlines() == [
        "<class 'float'> <class 'float'>",
        "def forward(self, x : torch.Tensor, by : float = 2.0): <class 'float'> 2.0",
        "{'x': <class 'float'>}",
    ]
    asking = "from __future__ import annotations\n" + ANNOTATED.partition("graph =")[0]
    assert aliased(tmp_path, asking).stdout == "float float\n"
