"""What the flags that dump write of whole programs, and that the programs among it run."""

import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from processes import ROOT, run
from recording import recorded

import minitensor as mt
from minitensor_jit.errors import DumpError
from minitensor_jit.inspect.dump import dumper_for
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.tools.repro import main as repro

PROGRAM = """
import minitensor as mt
x = mt.arange(12.0).reshape(3, 4)
with mt.jit_scope():
    y = (x @ x.t() * 2 + 1).relu().sum(0)
print(y.tolist())
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_every_stage_of_a_module(tmp_path):
    eager = run(PROGRAM, "").stdout
    assert run(PROGRAM, f"--dump_to={tmp_path} --dump_hlo_as_text --dump_hlo_as_dot").stdout == eager
    found = names(tmp_path)
    stem = "module_0000.cluster_0"
    for name in (
        [f"{stem}.{when}_optimizations.{kind}" for when in ("before", "after") for kind in ("txt", "dot")]
        + [f"{stem}.repro.py", f"{stem}.inputs.npz"]
        + ["module_0000.ir-no-opt.ll", "module_0000.ir-with-opt.ll", "module_0000.s"]
        + [f"{stem}.after_optimizations-buffer-assignment.txt"]
    ):
        assert name in found
    assert [n for n in found if n.endswith(".tmp")] == []
    passes = [n for n in found if re.fullmatch(rf"{stem}\.\d\d\.after_[\w-]+\.txt", n)]
    assert f"{passes[-1]}".endswith("fusion.txt")
    texts = [(tmp_path / n).read_text() for n in (f"{stem}.before_optimizations.txt", *passes)]
    assert len(set(texts)) == len(texts), "a file only after what changed something"
    assert (tmp_path / f"{stem}.after_optimizations.txt").read_text() == texts[-1]
    for text in texts:
        parse_module(text)
    assert "fusion" in (tmp_path / f"{stem}.after_optimizations.dot").read_text()
    assert "define i32 @entry" in (tmp_path / "module_0000.ir-with-opt.ll").read_text()
    assert "entry:" in (tmp_path / "module_0000.s").read_text()


@pytest.mark.parametrize("flags", [(), ("dot",), ("text", "dot")])
def test_text_is_the_form_of_hlo_that_is_dumped_unless_another_is_asked_for(flags, tmp_path):
    given = {f"dump_hlo_as_{name}": True for name in flags}
    dumper = dumper_for(mt.jit.current_options().replace(dump_to=str(tmp_path), **given))
    assert (dumper.text, dumper.dot) == ("text" in flags or not flags, "dot" in flags)


def test_the_page_of_a_folder_links_to_every_file(tmp_path):
    (tmp_path / "index.html").write_text("of another run")
    run(PROGRAM.replace("print", "mt.exp(x).add(1).mul(2).sum()\nprint"), f"--dump_to={tmp_path} --dump_hlo_as_dot")
    page = (tmp_path / "index.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    linked = re.findall(r'href="([^"]+)"', page)
    assert sorted(linked) == [n for n in names(tmp_path) if n != "index.html"]
    assert len(set(linked)) == len(linked)
    rows = re.findall(r'<tr><td>([^<]*)<td class="n">([\d,]*)<td><a href="([^"]+\.txt)"', page)
    for _, count, file in rows:
        if count:
            module = parse_module((tmp_path / file).read_text())
            assert int(count) == sum(len(one.instructions) for one in module.computations), file
    assert sum(what == "HLO as lowered" for what, *_ in rows) == page.count("Kernels: ") == 1
    assert "<code>&lt;string&gt;:5</code>" in page


def test_the_page_of_a_folder_tells_of_a_failure(tmp_path):
    broken = """
import warnings
import minitensor as mt
import minitensor_jit.codegen.cpu.compiler as compiler
def fail(*arguments, **named):
    raise RuntimeError("put in")
compiler.compile_module = fail
warnings.simplefilter("ignore")
"""
    run(broken + PROGRAM, f"--dump_to={tmp_path}")
    page = (tmp_path / "index.html").read_text()
    assert "<p>The compilation failed.</p>" in page
    assert 'how it failed<td class="n"><td><a href="module_0000.cluster_0.failure.txt">' in page
    assert (tmp_path / "module_0000.cluster_0.failure.txt").read_text().count("put in") >= 1


def test_the_repro_runs_the_module_alone(tmp_path):
    assert run(PROGRAM, f"--dump_to={tmp_path} --dump_hlo_as_dot --fast_math").stdout
    (script,) = tmp_path.glob("*.repro.py")
    assert "flags='--fast_math'" in script.read_text()

    def alone(*args):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MT_")} | {"PYTHONPATH": ROOT}
        command = [sys.executable, str(script), *args]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120)

    done = alone("--outputs", str(tmp_path / "out.npz"))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^cluster_0: \d+ kernels? ran on module_0000.cluster_0.inputs.npz in .* ms$", done.stdout, re.M)
    assert "compiled code and evaluator agree" in done.stdout
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs["out0"].tolist() == np.maximum(x @ x.T * 2 + 1, 0).sum(0).tolist()
    assert "random inputs" in alone("--random_inputs").stdout
    # A module that is not what the compiler accepts is what such a program is sent for.
    (tmp_path / "module_0000.cluster_0.before_optimizations.txt").write_text("HloModule broken")
    done = alone()
    assert done.returncode == 2
    assert "ParseError" in done.stderr


@pytest.mark.parametrize("dtype", [mt.bfloat16, mt.float16, mt.complex64, mt.bool, mt.uint8], ids=str)
def test_the_repro_of_any_types_views_and_random_numbers(tmp_path, dtype, capsys):
    x = mt.ones(4, 6, dtype=dtype)[:, ::2]
    mt.manual_seed(3)
    with recorded(dump_to=str(tmp_path)):
        y = mt.where(mt.rand(4, 3) > 0.5, x, x.t().reshape(4, 3)).to(mt.complex128) * 3
    assert y.shape == (4, 3)
    scripts = sorted(tmp_path.glob("*.repro.py"))
    assert scripts
    for script in scripts:
        status = repro(script.with_name(script.name.removesuffix(".repro.py")), argv=[])
        assert status == 0, capsys.readouterr()


def test_inputs_are_saved_of_what_a_thread_compiled(tmp_path):
    x = mt.arange(7.0)
    end = time.monotonic() + 60
    with mt.jit.options(async_compilation=True, dump_to=str(tmp_path)):
        while not list(tmp_path.glob("*.inputs.npz")) and time.monotonic() < end:
            with mt.jit_scope():
                y = (x * 1.03125 + 1).exp()
            y.tolist()
    (script,) = tmp_path.glob("*.repro.py")
    assert repro(script.with_name(script.name.removesuffix(".repro.py")), argv=[]) == 0
    with np.load(next(tmp_path.glob("*.inputs.npz"))) as saved:
        assert any(saved[name].tolist() == x.tolist() for name in saved)


def test_only_chosen_modules_and_passes(tmp_path):
    flags = "--auto_jit=2 --cpu_global_jit --enable_lazy_compilation=false"
    flags += f" --dump_to={tmp_path} --dump_hlo_module_re=_1$ --dump_hlo_pass_re=^fusion$"
    program = "import minitensor as mt\nfor n in (3, 4): print(((mt.ones(n) * 2 + 1).exp() - 4).tolist())"
    run(program, flags)
    modules = {n.split(".")[1] for n in names(tmp_path) if n.endswith(".txt") and n.startswith("module")}
    assert modules == {"cluster_1"}
    assert [n for n in names(tmp_path) if ".after_" in n and n.endswith(".txt") and "optim" not in n] == [
        n for n in names(tmp_path) if n.endswith(".after_fusion.txt")
    ]


def test_standard_output_has_the_files_in_frames():
    for flags in ("--dump_to", "--dump_hlo_as_text", "--dump_hlo_pass_re=fusion"):
        out = run(PROGRAM, flags).stdout
        begun = re.findall(r"^==== begin (\S+) ====$", out, re.M)
        assert begun == re.findall(r"^==== end (\S+) ====$", out, re.M)
        assert "module_0000.cluster_0.before_optimizations.txt" in begun
        assert "module_0000.s" in begun
        assert not any(n.endswith((".py", ".npz")) for n in begun)
        text = re.search(r"begin module_0000.cluster_0.after_optimizations.txt ====\n(.*?)==== end", out, re.S)[1]
        assert parse_module(text).name == "cluster_0"


def test_pictures_print_the_line_that_names_them(tmp_path):
    folder = tmp_path / "pictures"
    out = run(PROGRAM, f"--generate_hlo_graph=.* --hlo_graph_path={folder}").stdout.splitlines()
    pattern = (
        r"computation cluster_0\[_MtCompiledKernel=true,_MtNumConstantArgs=\d+\]\.v\d+ "
        r"\[CPU: (.*)\]: " + re.escape(str(folder)) + r"/hlo_graph_(\d+)\.dot"
    )
    lines = [m for m in (re.fullmatch(pattern, line) for line in out) if m]
    assert lines[0][1] == "pipeline start, before inline"
    assert lines[-1][1].endswith(", pipeline end")
    assert [int(m[2]) for m in lines] == list(range(len(lines)))
    assert names(folder) == sorted(f"hlo_graph_{n}.dot" for n in range(len(lines)))
    assert all((folder / n).read_text().startswith("digraph ") for n in names(folder))


def test_pictures_of_other_modules_are_not_drawn(tmp_path):
    done = run(PROGRAM, f"--generate_hlo_graph=cluster_7 --hlo_graph_path={tmp_path / 'new'}")
    assert "computation" not in done.stdout
    assert names(tmp_path / "new") == []


@pytest.mark.parametrize("flag", ["dump_to", "hlo_graph_path"])
def test_a_folder_that_cannot_be_written_to(tmp_path, flag):
    (tmp_path / "file").write_text("")
    options = {flag: str(tmp_path / "file"), "generate_hlo_graph": "."}
    with pytest.raises(DumpError, match=f"can't write to the folder of --{flag}"), mt.jit.options(**options):
        pass


def test_files_that_grow_too_large_are_not_there_at_all(tmp_path):
    program = """
import resource, sys
import minitensor as mt
sys.dont_write_bytecode = True  # modules that are imported now would be cut short, for all who come after
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
with mt.jit_scope():
    y = (mt.rand(3000).sin() * 2 + 1).exp().sum()
print(y.dtype)
"""
    done = run(program, f"--dump_to={tmp_path}")
    assert done.stdout == "minitensor.float32\n"
    (warning,) = re.findall(r"dumping stopped: can't write (\S+): File too large\.", done.stderr)
    assert not os.path.exists(warning)
    assert [n for n in names(tmp_path) if n.endswith(".tmp")] == []
    for path in tmp_path.glob("module_*.cluster_0*tions.txt"):
        parse_module(path.read_text())


def test_the_buffer_assignment_has_no_two_arrays_in_one_place(tmp_path):
    mt.manual_seed(0)
    model = mt.nn.Sequential(mt.nn.Linear(8, 16), mt.nn.Tanh(), mt.nn.Linear(16, 4))
    optimizer = mt.optim.SGD(model.parameters(), lr=0.1)
    x, y = mt.rand(32, 8), mt.arange(32) % 4
    with recorded(dump_to=str(tmp_path)):
        mt.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    (path,) = tmp_path.glob("*.after_optimizations-buffer-assignment.txt")
    text = path.read_text()
    numbers = [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", text.splitlines()[1])]
    parameters, results, scratch, count, needed = numbers
    assert parameters == sum(
        int(n.replace(",", "")) for n in re.findall(r"^  \d+: parameter .*, ([\d,]+) bytes$", text, re.M)
    )
    assert results > 0
    pattern = r"^  \[([\d,]+), ([\d,]+)\): (\S+), from step (\d+) to step (\d+)$"
    lives = [[int(n.replace(",", "")) for n in (*m[:2], *m[3:])] for m in re.findall(pattern, text, re.M)]
    assert len(lives) == count > 5
    assert sum(end - begin for begin, end, _, _ in lives) == needed
    assert max(end for _, end, _, _ in lives) <= scratch < needed, "memory is used again"
    for k, (begin, end, first, last) in enumerate(lives):
        for other_begin, other_end, other_first, other_last in lives[:k]:
            apart_in_time = last < other_first or other_last < first
            apart_in_place = end <= other_begin or other_end <= begin
            # A step may write over what it is the last to read, element by element.
            in_place = begin == other_begin and (last == other_first or other_last == first)
            assert apart_in_time or apart_in_place or in_place
    steps = text.partition("\nsteps\n")[2].splitlines()
    assert [int(line.split(":")[0]) for line in steps] == list(range(len(steps)))
    assert re.search(r"may lie over parameter \d", text), "parameters that the optimizer updates"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_standard_output_that_is_full_does_not_stop_the_program(tmp_path):
    program = PROGRAM.replace("print(", "import sys; print(").replace("tolist())", "tolist(), file=sys.stderr)")
    with open("/dev/full", "w") as full:
        environment = os.environ | {"PYTHONPATH": ROOT, "MT_JIT_FLAGS": "--dump_to"}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, timeout=120)
    assert done.stderr == (
        "dumping stopped: can't write graph_0000.trace_0.1_mark_for_compilation.txt to standard output: "
        "No space left on device. The program goes on without dumps.\n[231.0, 759.0, 1287.0]\n"
    )
