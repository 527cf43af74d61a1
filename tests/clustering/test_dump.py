import errno
import logging
import os

import numpy as np
import pytest

from minitensor_jit.errors import DumpError, JitError
from minitensor_jit.inspect.dump import Dumper

needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def test_files_of_a_module(tmp_path):
    dumper = Dumper(tmp_path / "new" / "folder")
    dumper.graphs("step", {"mark_for_compilation": "graph", "build_launch_ops": "graph"}, "digraph {}")
    for name in ["cluster_0", "jit(f)/../x"]:
        module = dumper.module(name)
        module.hlo("before_optimizations", "HloModule a", None)
        module.hlo(module.pass_stage("algsimp"), "HloModule a", "digraph {}")
        module.hlo("after_optimizations", "HloModule b", None)
        for kind in ["ir-no-opt.ll", "ir-with-opt.ll", "s", "buffer-assignment.txt"]:
            module.code(kind, "; \udcff")
        module.repro("--fast_math")
        module.inputs({"arg0": np.arange(3)})
        module.failure("it failed")
    of_a_module = [
        "{}.01.after_algsimp.dot",
        "{}.01.after_algsimp.txt",
        "{}.after_optimizations-buffer-assignment.txt",
        "{}.after_optimizations.txt",
        "{}.before_optimizations.txt",
        "{}.failure.txt",
        "{}.inputs.npz",
        "{}.repro.py",
    ]
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == sorted(
        [
            "graph_0000.step.1_mark_for_compilation.txt",
            "graph_0000.step.2_build_launch_ops.txt",
            "graph_0000.step.dot",
            "index.html",
            *(f"module_000{n}.{kind}" for n in range(2) for kind in ["ir-no-opt.ll", "ir-with-opt.ll", "s"]),
            *(name.format("module_0000.cluster_0") for name in of_a_module),
            *(name.format("module_0001.jit_f__.._x") for name in of_a_module),
        ]
    )
    file = tmp_path / "new" / "folder" / "module_0000.cluster_0.after_optimizations.txt"
    assert file.read_text() == "HloModule b"
    with np.load(tmp_path / "new" / "folder" / "module_0000.cluster_0.inputs.npz") as arrays:
        assert arrays["arg0"].tolist() == [0, 1, 2]
    compile((tmp_path / "new" / "folder" / "module_0001.jit_f__.._x.repro.py").read_text(), "repro.py", "exec")


def test_two_dumpers_of_one_folder_do_not_write_over_each_other(tmp_path):
    for _ in range(2):
        Dumper(tmp_path).module("cluster_0").code("s", "ret")
    assert sorted(os.listdir(tmp_path)) == ["module_0000.s", "module_0001.s"]


def test_standard_output_gets_frames_and_no_programs(capsys):
    dumper = Dumper("-")
    module = dumper.module("cluster_0")
    module.hlo("before_optimizations", "HloModule a", None)
    module.repro("")
    assert not module.inputs({"arg0": np.arange(3)})
    name = module.name
    assert capsys.readouterr().out == (
        f"==== begin {name}.before_optimizations.txt ====\nHloModule a\n==== end {name}.before_optimizations.txt ====\n"
    )


def test_only_modules_and_passes_that_match(tmp_path):
    dumper = Dumper(tmp_path, module_re="^cluster_[13]$", pass_re="fusion|cse")
    assert dumper.module("cluster_0") is None
    assert dumper.module("cluster_1").name == "module_0000.cluster_1"
    assert dumper.wants_pass("row-fusion")
    assert not dumper.wants_pass("algsimp")
    dumper.graphs("trace_0", {"mark": "%1 = add {_MtCluster=cluster_0}"})
    assert os.listdir(tmp_path) == []
    dumper.graphs("trace_0", {"mark": "%1 = add {_MtCluster=cluster_3}"})
    assert sorted(os.listdir(tmp_path)) == ["graph_0000.trace_0.1_mark.txt", "index.html"]


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in [tmp_path / "file", tmp_path / "file" / "below"]:
        with pytest.raises(DumpError, match="can't write to the folder of --dump_to") as info:
            Dumper(folder)
        assert str(folder) in str(info.value)
        assert isinstance(info.value, OSError)
        assert isinstance(info.value, JitError)


@needs_permissions
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DumpError, match="Permission denied"):
        Dumper(tmp_path)


def test_a_folder_on_a_read_only_file_system():
    with pytest.raises(DumpError, match="/proc/no_such_folder"):
        Dumper("/proc/no_such_folder")


def test_a_disk_that_is_full_stops_dumping_with_one_warning(tmp_path, monkeypatch, caplog):
    dumper = Dumper(tmp_path)
    assert dumper.write("first.txt", "complete")
    replace = os.replace

    def no_space(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)

    monkeypatch.setattr(os, "replace", no_space)
    with caplog.at_level(logging.WARNING, logger="minitensor_jit"):
        assert not dumper.write("second.txt", "x")
        monkeypatch.setattr(os, "replace", replace)
        assert not dumper.write("third.txt", "x")
    assert dumper.stopped
    assert [record.getMessage() for record in caplog.records] == [
        f"dumping stopped: can't write {tmp_path}/second.txt: No space left on device. "
        "The program goes on without dumps."
    ]
    assert os.listdir(tmp_path) == ["first.txt"], "nothing is left of what failed"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_write_that_fails_when_the_file_is_closed(tmp_path, monkeypatch):
    dumper = Dumper(tmp_path)
    monkeypatch.setattr("tempfile.mkstemp", lambda **_: (os.open("/dev/full", os.O_WRONLY), str(tmp_path / "gone")))
    assert not dumper.write("file.txt", "text")
    assert os.listdir(tmp_path) == []
