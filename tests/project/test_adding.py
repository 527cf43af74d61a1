"""docs/adding.md is true: what it adds to the sources is added to a copy of them, and its scripts run there.

A block with `add=FILE` goes to the end of that file of the copy; a file that isn't there is made. One of `diff` adds
its lines with `+` after the line before them. Blocks with `in=copy` are one script, and the text after each is what it
printed.
"""

import shutil
import subprocess
import sys

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


def test_a_place_that_is_gone_is_noticed(tmp_path):
    (tmp_path / "file.py").write_text("a\nb\n")
    add(tmp_path / "file.py", Block("diff", {}, " a\n+c\n", 1))
    assert (tmp_path / "file.py").read_text() == "a\nc\nb\n"
    with pytest.raises(AssertionError, match="no line 'd"):
        add(tmp_path / "file.py", Block("diff", {}, " d\n+c\n", 1))
