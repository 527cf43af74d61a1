"""Code says which instruction it is for, and is the same code."""

import pytest

from minitensor import _C
from minitensor._profile import events as profile_events
from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.codegen.cpu.provenance import with_locations, with_notes
from minitensor_jit.ir.testing import random_module
from minitensor_jit.passes.pipeline import run_pipeline


@pytest.mark.parametrize("seed", range(4))
def test_annotated_code_is_the_same_code(seed):
    texts = {}
    plain = compile_module(run_pipeline(random_module(seed, 30)), name="m")
    noted = compile_module(run_pipeline(random_module(seed, 30)), name="m", dump=texts.__setitem__, annotated=True)
    assert noted.object_code == plain.object_code
    names = {i.name for c in run_pipeline(random_module(seed, 30)).computations for i in c.instructions}
    found = {line.rpartition("  ; ")[2] for line in texts["ir-no-opt.ll"].splitlines() if "  ; " in line}
    # Some are of loops that code generation makes itself, such as copies.
    assert found & names
    assert len(found - names) < 6
    assert "dump" in noted.compile_seconds


def test_notes_go_through_line_numbers():
    text = 'define void @"f.1"(ptr %x) #0 {\nentry1:\n  store i32 1, ptr %x  ; one\n  ret void\n}\n'
    located, names = with_locations(text)
    assert names == ["", "one"]
    assert located.count("!dbg") == 3
    assembly = "f.1:\n.Lfunc_begin0:\n\t.loc\t1 1 0\n\tmovl\t$1, (%rdi)\n\tnop\n\t.loc\t1 0 0\n\tretq\n"
    assembly += "\t.section\t.debug_line\n\tx\n"
    assert with_notes(assembly, names) == "f.1:\n\tmovl\t$1, (%rdi)\t# one\n\tnop\n\tretq\n"


def test_a_profile_can_be_taken_beside_a_listener():
    import minitensor as mt

    seen = []
    assert profile_events.watch(seen.extend)
    try:
        assert not profile_events.watch(seen.extend)
        mt.ones(3) + 1
        profile_events.start()
        with pytest.raises(RuntimeError, match="taken already"):
            profile_events.start()
        mt.ones(3) * 2
        assert [event[0] for event in profile_events.stop()][-1] == "mul"
        mt.ones(3) - 1
        profile_events.start()
        mt.ones(3) / 2
    finally:
        profile_events.end_watch()
    assert [name for name in (event[0] for event in seen) if name in ("add", "mul", "sub", "div")] == [
        "add",
        "mul",
        "sub",
        "div",
    ]
    mt.ones(3).exp()
    assert [event[0] for event in profile_events.stop()][-1] == "exp", "it goes on"
    with pytest.raises(RuntimeError):
        _C.take_profile()
