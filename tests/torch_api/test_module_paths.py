"""Modules that programs import from PyTorch and that are elsewhere here; `torch.__version__` as a version."""

import importlib.util
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

import minitensor as mt

FOLDER = Path(mt.__file__).parent / "as_torch"


def loaded(name):
    """A module of the alias by itself: an import of the package would put it in force."""
    spec = importlib.util.spec_from_file_location(f"{name}_by_itself", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PATHS, BESIDE = loaded("module_paths").PATHS, loaded("module_paths").BESIDE
TorchVersion = loaded("torch_version").TorchVersion

# Names of PyTorch's modules that are not here, by module.
NOT_HERE = {
    "torch.autograd.gradcheck": "get_numerical_jacobian get_analytical_jacobian "
    "get_numerical_jacobian_wrt_specific_input",
    "torch.autograd.profiler_util": "EventMetadata FormattedTimesMixin Kernel MemRecordsAcc StringTable",
    "torch.distributed.constants": "default_pg_nccl_timeout",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "OptimStateKeyType",
    "torch.multiprocessing.pool": "clean_worker",
    "torch.multiprocessing.queue": "ConnectionWrapper",
    "torch.nn.parallel.parallel_apply": "get_a_var",
    "torch.optim.adamw": "adamw",
    "torch.utils.benchmark.utils.common": "set_torch_threads",
    "torch.utils.data.datapipes.map.callable": "default_fn",
}


@pytest.mark.torch
@pytest.mark.parametrize("path", sorted(path for path, ours in PATHS.items() if "as_torch" not in ours))
def test_they_have_the_names(path):
    pytest.importorskip("torch")
    theirs, ours = importlib.import_module(path), importlib.import_module(PATHS[path])
    absent = {name for name in getattr(theirs, "__all__", []) if not hasattr(ours, name)}
    assert absent <= set(NOT_HERE.get(path, "").split())


def test_they_are_found_and_leave_functions_of_the_same_name():
    program = "import minitensor.as_torch\nimport importlib, types\n"
    program += (
        f"for path, ours in {PATHS!r}.items():\n    assert importlib.import_module(path).__name__ == ours, path\n"
    )
    for package, names in BESIDE.items():
        is_module = package in ("torch.compiler", "torch.distributed.fsdp", "torch.signal.windows")
        for name in () if is_module else names:
            program += f"assert isinstance(importlib.import_module({package!r}).{name}, types.FunctionType)\n"
    program += "import torch\nimport torch._dynamo.config\nimport torch._inductor.config as other\n"
    program += "torch._dynamo.config.cache_size_limit = 8\nother.triton.unique_kernel_names = True\n"
    program += "torch._inductor.config.coordinate_descent_tuning = True\nassert other.coordinate_descent_tuning\n"
    program += "print(torch.__version__ >= (2, 0), torch.functional.einsum is torch.einsum)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "True True\n", done.stderr


VERSIONS = (
    "2.13.0", "2.13", "2.13.0+cpu", "2.13.0+cu118", "2.13.1", "2.13.0a0", "2.13.0rc1", "2.13.0.dev3", "2.13.0a0.dev1",
    "2.13.0.post1", "2.13.0.post1.dev2", "v2.1", "3", "2.13.0+cpu.1", "2.13.0+cpu.a",
)  # fmt: skip


def test_versions_are_ordered_as_pep_440_says():
    for one, other in itertools.product(VERSIONS, repeat=2):
        ours, wanted = TorchVersion(one), (Version(one), Version(other))
        assert (ours < other, ours <= other) == (wanted[0] < wanted[1], wanted[0] <= wanted[1]), (one, other)
        assert (ours == other, ours != other) == (wanted[0] == wanted[1], wanted[0] != wanted[1]), (one, other)
        assert (ours > other, ours >= other) == (wanted[0] > wanted[1], wanted[0] >= wanted[1]), (one, other)


def test_versions_compare_with_their_parts():
    version = TorchVersion("2.13.0+minitensor")
    assert (2, 0) < version < (3,)
    assert version == (2, 13, 0, "minitensor")
    assert version > [2, 13]
    assert version != (2, 13)
    assert version < "abc"
    assert repr(version) == "'2.13.0+minitensor'"
    assert {version: 1}["2.13.0+minitensor"] == 1
    with pytest.raises(TypeError):
        _ = version > 2


def test_dlpack_by_its_older_names():
    x = mt.arange(3)
    assert mt.utils.dlpack.from_dlpack(mt.utils.dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert x.__dlpack_device__()[0] == mt.utils.dlpack.DLDeviceType.kDLCPU


def test_arguments_by_name_are_scattered():
    given, named = mt.nn.parallel.parts.scatter_kwargs((mt.arange(4),), {"k": mt.ones(2)}, ["cpu", "cpu"])
    assert [[t.tolist() for t in part] for part in given] == [[[0, 1]], [[2, 3]]]
    assert [part["k"].tolist() for part in named] == [[1], [1]]
    assert mt.nn.parallel.parts.scatter_kwargs((), None, ["cpu"]) == ((), ())


def test_flat_tensors():
    utils = loaded("_utils")
    parts = [mt.ones(2), mt.zeros(2, 2)]
    flat = utils._flatten_dense_tensors(parts)
    assert flat.tolist() == [1, 1, 0, 0, 0, 0]
    back = utils._unflatten_dense_tensors(flat, parts)
    assert [part.shape for part in back] == [part.shape for part in parts]
    assert back[1].data_ptr() == flat[2:].data_ptr()
    groups = utils._take_tensors([mt.ones(2), mt.ones(3), mt.arange(1), mt.ones(1)], 12)
    assert [[t.tolist() for t in group] for group in groups] == [[[1, 1]], [[1, 1, 1]], [[0]], [[1]]]
    assert (utils._get_device_index(3), utils._get_device_index("cuda:1")) == (3, 1)
    assert utils._get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="Expected a non cpu device"):
        utils._get_device_index("cpu")
    with pytest.raises(ValueError, match="specified index"):
        utils._get_device_index("cuda")


def test_names_of_types():
    assert mt.typename(mt.arange(2)) == "minitensor.LongTensor"  # under the alias torch.LongTensor
    assert [mt.typename(x) for x in (3, int, mt.nn.Linear)] == ["int", "int", "minitensor.nn.modules.linear.Linear"]
