import errno
import logging
import os

import pytest

from minitensor_jit.errors import DumpError, JitError
from minitensor_jit.inspect.dump import Dumper

needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def test_files_of_a_module(tmp_path):
    dumper = Dumper(tmp_path / "new" / "folder")
    dumper.graphs("step", {"mark_for_compilation": "graph", "build_launch_ops": "graph"}, "digraph {}")
    for name in ["cluster_0", "jit(f)/../x"]:
        module = dumper.module(name)
        module.before_optimizations("HloModule a")
        module.after_optimizations("HloModule b")
        module.ir_no_opt("; 1")
        module.ir_with_opt("; 2 \udcff")
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == [
        "graph_0000.step.1_mark_for_compilation.txt",
        "graph_0000.step.2_build_launch_ops.txt",
        "graph_0000.step.dot",
        "module_0000.cluster_0.after_optimizations.txt",
        "module_0000.cluster_0.before_optimizations.txt",
        "module_0000.ir-no-opt.ll",
        "module_0000.ir-with-opt.ll",
        "module_0001.ir-no-opt.ll",
        "module_0001.ir-with-opt.ll",
        "module_0001.jit_f__.._x.after_optimizations.txt",
        "module_0001.jit_f__.._x.before_optimizations.txt",
    ]
    file = tmp_path / "new" / "folder" / "module_0000.cluster_0.after_optimizations.txt"
    assert file.read_text() == "HloModule b"


def test_two_dumpers_of_one_folder_do_not_write_over_each_other(tmp_path):
    for _ in range(2):
        Dumper(tmp_path).module("cluster_0").ir_no_opt("; ir")
    assert sorted(os.listdir(tmp_path)) == ["module_0000.ir-no-opt.ll", "module_0001.ir-no-opt.ll"]


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
