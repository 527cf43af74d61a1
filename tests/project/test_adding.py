"""docs/adding.md is true: what it adds to the sources is added to a copy of them, and its scripts run there.

A block with `add=FILE` goes to the end of that file of the copy; a file that isn't there is made. One of `diff` adds
its lines with `+` after the line before them. Blocks with `in=copy` are one script, and the text after each is what it
printed.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig

import pytest

from tests.project.test_docs import ROOT, Block, blocks, unmatched

DOCUMENT = "docs/adding.md"
END = "---- the end of a block ----"


@pytest.fixture
def copy(tmp_path):
    for package in ("minitensor", "minitensor_jit"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.so", "*.pyi", "__pycache__")
        )
    for extension in (ROOT / "minitensor").glob("_C.*.so"):
        (tmp_path / "minitensor" / extension.name).symlink_to(extension)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/generate_functions", tmp_path / "scripts")
    return tmp_path


def add(path, block):
    text = path.read_text() if path.exists() else ""
    if block.language == "diff":
        first, *added = block.text.splitlines()
        line = f"{first[1:]}\n"
        assert line in text, f"{path} has no line {line!r}"
        assert all(one.startswith("+") for one in added)
        text = text.replace(line, line + "".join(f"{one[1:]}\n" for one in added), 1)
    else:
        text += f"\n\n{block.text}" if text else block.text
    path.write_text(text)


def test_what_is_added_works(copy):
    script, expected = [], []
    for block in blocks(DOCUMENT):
        if "add" in block.attributes:
            if block.attributes["add"].startswith("csrc/"):
                continue
            add(copy / block.attributes["add"], block)
        elif "in" in block.attributes:
            script.append(f"{block.text}\nprint({END!r}, flush=True)\n")
            expected.append("")
        elif block.language == "text":
            expected[-1] = block.text
    assert len(script) > 5
    subprocess.run([sys.executable, copy / "scripts/generate_functions"], cwd=copy, check=True)
    done = subprocess.run(
        [sys.executable, "-c", "".join(script)], cwd=copy, env={"PYTHONPATH": str(copy)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for wanted, printed in zip(expected, done.stdout.split(f"{END}\n"), strict=False):
        assert unmatched(wanted, printed) is None, f"expected\n{wanted}\nprinted\n{printed}"


def compile_file(folder, name, output):
    """What the compiler says of a file of the copied sources; empty if it has an object."""
    command = [*shlex.split(os.environ.get("CXX", "g++")), "-std=c++20", "-O0", "-w", "-Icsrc", "-DMT_TARGET_BASELINE"]
    command += ["-isystem", sysconfig.get_path("include"), "-c", name, "-o", str(output)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode == 0) == output.exists()
    return done.stderr


@pytest.fixture
def csrc(tmp_path):
    if shutil.which(shlex.split(os.environ.get("CXX", "g++"))[0]) is None:
        pytest.skip("there is no compiler")
    shutil.copytree(ROOT / "csrc", tmp_path / "csrc")
    return tmp_path


def test_cpp_that_is_added_compiles(csrc):
    files = []
    for block in blocks(DOCUMENT):
        file = block.attributes.get("add", "")
        if file.startswith("csrc/"):
            add(csrc / file, block)
            files.append(file)
    sources = [file for file in files if file.endswith(".cpp")]
    assert len(files) == 2
    assert len(sources) == 1
    assert compile_file(csrc, sources[0], csrc / "out.o") == ""
    assert b"isru" in (csrc / "out.o").read_bytes()


ROWS = "csrc/kernels/cpu/elementwise/rows.h"
FUNCTIONS = "csrc/kernels/cpu/pointwise/vector_functions.cpp"
LOOPS = "csrc/kernels/cpu/elementwise/loops.cpp"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("file", "line", "wrong", "compiled", "message"),
    [
        (FUNCTIONS, "(unary_loop, MT_MATH(erf))", "(binary_loop, MT_MATH(erf))", FUNCTIONS, "no match"),
        (FUNCTIONS, '{"erfc",', '{"erf",', FUNCTIONS, "names_differ"),
        (ROWS, '"isinf", Bool', '"isinf", Same', LOOPS, "what isinf gives, and what its row says"),
        (ROWS, "MT_UNARY(Exp,", "MT_UNARY(Exq,", LOOPS, "Exq"),
        (ROWS, "MT_BINARY(Maximum,", "MT_ARITHMETIC(Maximum,", LOOPS, "rows of arithmetic come before the other ones"),
        (ROWS, '"ge", Bool', '"gt", Bool', LOOPS, "every op has one row"),
    ],
)
def test_a_row_that_does_not_go_together_is_refused(csrc, file, line, wrong, compiled, message):
    text = (csrc / file).read_text()
    assert text.count(line) == 1
    (csrc / file).write_text(text.replace(line, wrong))
    assert message in compile_file(csrc, compiled, csrc / "out.o")


def test_a_place_that_is_gone_is_noticed(tmp_path):
    (tmp_path / "file.py").write_text("a\nb\n")
    add(tmp_path / "file.py", Block("diff", {}, " a\n+c\n", 1))
    assert (tmp_path / "file.py").read_text() == "a\nc\nb\n"
    with pytest.raises(AssertionError, match="no line 'd"):
        add(tmp_path / "file.py", Block("diff", {}, " d\n+c\n", 1))
