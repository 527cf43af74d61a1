"""The command line tool that runs passes on a file."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.pipeline import PASSES
from minitensor_jit.tools.opt import main

TEXT = """HloModule m
ENTRY main {
  x = f32[4] parameter(0), metadata={op_name="input"}
  a = f32[4] negate(x)
  b = f32[4] negate(x)
  ROOT r = f32[4] add(a, b)
}
// -----
this is not read
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    return path


def test_passes_run_in_order(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--passes=cse,fusion", str(file)]) == 0
    module = parse_module(capsys.readouterr().out)
    assert [i.opcode for i in module.entry] == ["parameter", "fusion"]
    assert len(module.entry.root.attrs["calls"]) == 3


def test_without_passes_it_prints_what_it_read(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(file)]) == 0
    out = capsys.readouterr().out
    assert difference(parse_module(out), parse_module(TEXT.split("// -----")[0]), metadata=True) is None
    assert main([str(file), "--no-metadata"]) == 0
    assert "metadata" not in capsys.readouterr().out


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    assert main(["--passes=all", "--stage=dot", "-"]) == 0
    assert capsys.readouterr().out.startswith("digraph")


def test_it_lists_every_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-passes"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(PASSES)


def test_decisions_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("""HloModule m
ENTRY main {
  s = f32[8] parameter(0)
  x = f32[8,100] parameter(1)
  l = f32[8] log(s)
  b = f32[8,100] broadcast(l), dimensions={0}
  ROOT r = f32[8,100] subtract(x, b)
}
""")
    assert main(["--passes=fusion", "--decisions", str(path)]) == 0
    assert "fusion: l into r: no: it is expensive" in capsys.readouterr().err


def test_each_pass_is_verified_unless_told_otherwise(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Narrower:
        """A wrong pass: says that the result has another shape."""

        name = "dce"

        def run(self, module: Module) -> bool:
            module.entry.root.shape = Shape("f32", (3,))
            return True

    monkeypatch.setitem(PASSES, "dce", Narrower)
    assert main(["--passes=dce", str(file)]) == 1
    assert "f32[3]" in capsys.readouterr().err
    assert main(["--passes=dce", "--no-verify", str(file)]) == 0
    assert "ROOT r = f32[3]" in capsys.readouterr().out


def test_an_unknown_pass_is_an_error_with_a_hint(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--passes=fuson", str(file)])
    assert "unknown pass 'fuson'; did you mean fusion" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"HloModule m\nENTRY main {\n  x = f32[2] foo()\n}\n", "line 3: unknown opcode 'foo'"),
        (b"HloModule m\nENTRY main {\n  x = f32[2] parameter(0)\n  y = f32[3] negate(x)\n}\n", "must be f32[2]{0}"),
        (b"\xff\xfe", "can't decode"),
    ],
)
def test_bad_files_are_reported(
    tmp_path: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.hlo"
    path.write_bytes(content)
    assert main([str(path)]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert not captured.out
    assert main([str(tmp_path / "missing.hlo")]) == 1


@pytest.mark.parametrize(
    ("stage", "shown"), [("llvm", "define i32 @entry"), ("asm", "entry:"), ("buffer-assignment", "parameter")]
)
def test_stages_of_code(file: Path, capsys: pytest.CaptureFixture[str], stage: str, shown: str) -> None:
    assert main(["--passes=all", f"--stage={stage}", str(file)]) == 0
    out = capsys.readouterr().out
    assert shown in out
    assert stage != "buffer-assignment" or "16 bytes of parameters, 16 of results" in out


def test_what_has_no_code_is_an_error_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    call = 'custom-call(x), custom_call_target="nobody"'
    path.write_text(f"HloModule m\nENTRY main {{ x = f32[3] parameter(0) ROOT r = f32[3] {call} }}\n")
    assert main(["--stage=asm", str(path)]) == 1
    assert "nobody" in capsys.readouterr().err
