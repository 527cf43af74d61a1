"""What kernels must not do is found, and named with its line and thread; what they may do isn't."""

import re

import numpy as np
import pytest

from .kernels import ELEMENTS, kernel, launch, pack
from .machine import Machine, Memory, PtxFault

ZEROS = np.zeros(64, np.uint32)
THREAD = ELEMENTS.format(x=4, y=4)
SHARED = ".shared .align 16 .b8 s[1024]; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2;\n"


def run(body, block=64, grid=1, x=ZEROS, y=ZEROS, shared=0, **options):
    text = kernel(THREAD + body + "\nret;")
    machine = Machine(text, **options)
    return machine, launch(text, [x, y], block=block, grid=grid, shared=shared, machine=machine)


def fault(kind, body, match, **options):
    """Runs a body that must fault, in the line that the word BAD marks."""
    text = kernel(THREAD + body + "\nret;")
    lines = [k for k, line in enumerate(text.split("\n"), 1) if "BAD" in line]
    with pytest.raises(PtxFault, match=match) as caught:
        run(body, **options)
    assert caught.value.kind == kind
    if lines:
        said = int(re.search(r"PTX line (\d+)", str(caught.value))[1])
        assert said in lines, caught.value


@pytest.mark.parametrize("access", ["ld.global.u32 %r5, [%d1+256];", "st.global.u32 [%d1+256], %r1;",
                                    "ld.global.u32 %r5, [%d1-4];",
                                    "atom.global.add.u32 %r5, [%d1+256], 1;", "ld.u32 %r5, [%d1+4096];"])  # fmt: skip
def test_out_of_bounds_of_global_memory(access):
    fault("out of bounds", f"{access} // BAD", r"belongs to no allocation.*thread \(\d+, 0, 0\)")


def test_one_element_too_many_is_found():
    fault(
        "out of bounds",
        "ld.global.u32 %r5, [%d1]; // BAD",
        r"thread \(64, 0, 0\) of block \(0, 0, 0\) and 31 more",
        block=96,
    )


def test_freed_memory_is_nobodys():
    memory = Memory(1 << 16)
    x = memory.allocate(256)
    memory.write(x, bytes(256))
    memory.free(x)
    machine = Machine(kernel("ld.param.u64 %d1, [x]; ld.global.u32 %r1, [%d1]; ret;", ".param .u64 x"))
    with pytest.raises(PtxFault, match="belongs to no allocation"):
        machine.launch("k", 1, 1, 0, pack([x]), memory)


@pytest.mark.parametrize(
    "access", ["st.shared.u32 [%r3+1024], %r1;", "ld.shared.u32 %r5, [%r3+1024];", "st.local.u32 [l+8], %r1;"]
)
def test_out_of_bounds_of_other_memory(access):
    fault("out of bounds", f"{SHARED} .local .align 4 .b8 l[8];\n{access} // BAD", r"where (1024|8) bytes are")


def test_misaligned_addresses():
    fault("misaligned address", "ld.global.u32 %r5, [%d1+2]; // BAD", "for 4 bytes")
    fault("misaligned address", "ld.global.v2.u32 {%r5, %r6}, [%d1]; // BAD", r"for 8 bytes.*thread \(1, 0, 0\)")
    fault("misaligned address", SHARED + "st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1}; // BAD", "for 16 bytes")


def test_memory_that_was_never_written():
    memory = Memory(1 << 16)
    x = memory.allocate(256)
    memory.write(x, bytes(128))
    text = kernel(
        "mov.u32 %r1, %tid.x; ld.param.u64 %d1, [x]; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;\n"
        "ld.global.u32 %r2, [%d1]; ret;",
        ".param .u64 x",
    )
    Machine(text).launch("k", 1, 32, 0, pack([x]), memory)
    with pytest.raises(PtxFault, match=r"uninitialized memory.*thread \(32, 0, 0\)"):
        Machine(text).launch("k", 1, 64, 0, pack([x]), memory)
    fault("uninitialized memory", SHARED + "ld.shared.u32 %r5, [%r3]; // BAD", "shared address")
    fault("uninitialized memory", ".local .align 4 .b8 l[8];\nld.local.u32 %r5, [l]; // BAD", "local address")


def test_registers_that_were_never_written():
    fault("uninitialized register", "add.u32 %r5, %r6, 1; st.global.u32 [%d2], %r5;", "%r6 is read")
    body = "setp.lt.u32 %p1, %r1, 40; @%p1 mov.u32 %r6, 1; st.global.u32 [%d2], %r6;"
    fault("uninitialized register", body, r"%r6 is read.*thread \(40, 0, 0\).* and 23 more")
    run(body + "", block=40)


# Barriers and warps


def test_barriers_that_not_all_threads_of_a_warp_reach():
    fault(
        "divergent barrier",
        "setp.lt.u32 %p1, %r1, 40; @%p1 bra OUT;\nbar.sync 0; // BAD\nOUT:",
        "not all threads of its warp",
    )
    fault(
        "divergent barrier",
        "setp.lt.u32 %p1, %r1, 40; @%p1 bra B;\nbar.sync 0; // BAD\nbra OUT; B:\nbar.sync 0; // BAD\nOUT:",
        "not all threads of its warp",
    )


def test_whole_warps_may_have_ended():
    run("setp.lt.u32 %p1, %r1, 32; @%p1 ret; bar.sync 0; st.global.u32 [%d2], %r1;")


def test_barriers_that_never_complete():
    fault(
        "divergent barrier",
        "setp.lt.u32 %p1, %r1, 32; @%p1 bra B;\nbar.sync 1, 64; // BAD\nbra OUT; B:\nbar.sync 2, 64; // BAD\nOUT:",
        "never come",
    )


def test_shuffles_of_threads_that_are_not_there():
    fault(
        "divergent warp",
        "setp.lt.u32 %p1, %r1, 7; @%p1 bra OUT;\nshfl.sync.bfly.b32 %r5, %r1, 1, 31, -1; // BAD\nOUT:",
        "the mask names aren't here",
    )
    fault(
        "divergent warp",
        "shfl.sync.bfly.b32 %r5, %r1, 1, 31, 0xFFFF; // BAD",
        r"lacks the thread itself.*thread \(16, 0, 0\)",
    )
    body = "setp.ge.u32 %p1, %r1, 8; @%p1 bra OUT;\nshfl.sync.idx.b32 %r5, %r1, 9, 31, 0xFF; // BAD\nOUT:"
    fault("divergent warp", body, "reads a thread that isn't here")
    fault(
        "divergent warp",
        "setp.ge.u32 %p1, %r1, 8; @%p1 bra OUT;\nvote.sync.any.pred %p2, %p1, 0xFFFFFFFF; // BAD\nOUT:",
        "aren't here",
    )


def test_traps_and_endless_loops():
    fault("trap", "setp.eq.u32 %p1, %r1, 3;\n@%p1 trap; // BAD", r"thread \(3, 0, 0\)")
    machine = Machine(kernel("L: bra L;", ".param .u64 x"))
    machine.max_steps = 1000
    with pytest.raises(PtxFault, match="endless"):
        machine.launch("k", 1, 1, 0, pack([0]), Memory(1 << 16))


def test_launches_that_cannot_be():
    text = kernel("ret;", ".param .u64 x").replace(")\n{", ") .maxntid 64, 1, 1\n{")
    with pytest.raises(PtxFault, match=r"declared with \.maxntid"):
        Machine(text).launch("k", 1, 65, 0, pack([0]), Memory(1 << 16))
    with pytest.raises(PtxFault, match="8 bytes of parameters, not 4"):
        Machine(text).launch("k", 1, 1, 0, bytes(4), Memory(1 << 16))
    with pytest.raises(PtxFault, match="shared memory"):
        Machine(text).launch("k", 1, 1, 300000, pack([0]), Memory(1 << 16))


# Races

WRITE = SHARED + "st.shared.u32 [%r3], %r1;\n"
NEIGHBOUR = "xor.b32 %r4, %r1, {0}; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r2;\n"


@pytest.mark.parametrize("distance", [1, 32])
def test_reading_what_another_thread_writes_needs_a_barrier(distance):
    read = NEIGHBOUR.format(distance) + "ld.shared.u32 %r5, [%r4]; // BAD\nst.global.u32 [%d2], %r5;"
    fault("race", WRITE + read, "shared address .* is read here and written by thread")
    _, (_, y) = run(WRITE + "bar.sync 0;\n" + read)
    assert y.tolist() == [t ^ distance for t in range(64)]


def test_a_barrier_of_the_warp_orders_the_warp_only():
    for distance, well in ((1, True), (32, False)):
        body = WRITE + "bar.warp.sync 0xFFFFFFFF;\n" + NEIGHBOUR.format(distance) + "ld.shared.u32 %r5, [%r4]; // BAD"
        if well:
            run(body)
        else:
            fault("race", body, "is read here and written by")


@pytest.mark.parametrize("distance", [1, 32])
def test_writing_what_another_thread_reads_needs_a_barrier(distance):
    read = WRITE + "bar.sync 0;\n" + NEIGHBOUR.format(distance) + "ld.shared.u32 %r5, [%r4];\n"
    fault("race", read + "st.shared.u32 [%r3], %r5; // BAD", "is written here and read by thread")
    run(read + "bar.sync 0;\nst.shared.u32 [%r3], %r5;")


def test_writing_after_many_have_read():
    body = (
        WRITE
        + "bar.sync 0;\nld.shared.u32 %r5, [s];\n{0}setp.ne.u32 %p1, %r1, {1}; @%p1 bra OUT;\n"
        + "st.shared.u32 [s], %r1; // BAD\nOUT:"
    )
    for writer in (0, 5, 63):
        fault("race", body.format("", writer), "is written here and read by")
        run(body.format("bar.sync 0;\n", writer))
    fault("race", body.format("bar.warp.sync -1;\n", 40), "is written here and read by")


def test_writing_the_same_place():
    fault("race", SHARED + "st.shared.u32 [s], %r1; // BAD", "by several threads at once, with different values")
    run(SHARED + "st.shared.u32 [s], 7;")
    fault(
        "race",
        SHARED + "setp.lt.u32 %p1, %r1, 32;\n@%p1 st.shared.u32 [s], 7;\n@!%p1 st.shared.u32 [s], 7; // BAD",
        "is written here and written by",
    )


def test_bytes_beside_each_other_are_no_race():
    run(".shared .b8 b[64]; mov.u32 %r2, b; add.u32 %r2, %r2, %r1; st.shared.u8 [%r2], 1; ld.shared.u8 %r5, [%r2];")


def test_named_barriers_order_the_warps_that_take_part():
    body = SHARED + """
    setp.ge.u32 %p1, %r1, {0}; @%p1 bra CONSUME;
    st.shared.u32 [%r3], %r1;
    bar.arrive 1, 64; bra END;
    CONSUME: setp.ge.u32 %p2, %r1, 64; @%p2 bra OTHER;
    bar.sync 1, 64;
    ld.shared.u32 %r6, [%r3-128];
    bra END;
    OTHER:
    {1}
    END:"""  # fmt: skip
    run(body.format(32, ""), block=96)


def test_global_memory_between_threads_and_blocks():
    text = "ld.param.u64 %d5, [y]; xor.b32 %r4, %r1, {0}; mul.wide.u32 %d6, %r4, 4; add.s64 %d6, %d6, %d5;\n"
    body = text.format(32) + "st.global.u32 [%d2], %r1;\n{0}ld.global.u32 %r5, [%d6]; // BAD\n"
    fault("race", body.format(""), "global address .* is read here and written by thread")
    run(body.format("bar.sync 0;\n"))
    # A barrier orders no blocks.
    blocks = "mov.u32 %r6, %ctaid.x; add.u32 %r6, %r6, %r1; st.global.u32 [%d2], %r6; // BAD"
    fault("race", blocks, "race", grid=2)


def test_global_memory_between_batches_of_blocks():
    # So many blocks that they run one after the other.
    body = """
    mov.u32 %r6, %ctaid.x; setp.ne.u32 %p1, %r6, {0}; @%p1 bra OTHER;
    st.global.u32 [%d2], 5; // BAD
    bra OUT;
    OTHER: setp.eq.u32 %p1, %r6, {1}; @!%p1 bra OUT;
    ld.global.u32 %r7, [%d2]; // BAD
    OUT:"""
    y = np.zeros(512, np.uint32)
    fault("race", body.format(0, 299), "is read here and written by thread", grid=300, block=512, x=y, y=y)
    fault("race", body.format(299, 0), "is written here and read by thread", grid=300, block=512, x=y, y=y)


def test_the_next_launch_comes_after_this_one():
    machine, memory = (
        Machine(kernel(THREAD + "ld.global.u32 %r5, [%d1]; add.u32 %r5, %r5, 1; st.global.u32 [%d2], %r5; ret;")),
        Memory(1 << 16),
    )
    x, y = memory.allocate(256), memory.allocate(256)
    memory.write(x, bytes(256))
    for k in range(5):
        machine.launch("k", 1, 64, 0, pack([x, y] if k % 2 == 0 else [y, x]), memory)
    assert np.frombuffer(memory.read(y, 256), np.uint32).tolist() == [5] * 64


def test_memory_that_is_read_as_constant_must_stay_so():
    fault(
        "race", "ld.global.nc.u32 %r5, [%d1];\nst.global.u32 [%d1], %r5; // BAD", "read by other threads, or with .nc"
    )
    fault(
        "race",
        "st.global.u32 [%d1], %r1;\nbar.sync 0;\nld.global.nc.u32 %r5, [%d1]; // BAD",
        "read with .nc here and written",
    )


def test_atomic_operations_are_no_race_among_themselves():
    run("ld.param.u64 %d2, [y]; red.global.add.u32 [%d2], 1; atom.global.max.u32 %r5, [%d2], 3;", grid=4)
    fault(
        "race",
        "ld.param.u64 %d2, [y]; red.global.add.u32 [%d2], 1;\nld.global.u32 %r5, [%d2]; // BAD",
        "is read here and written by",
    )


LAST_BLOCK = """
    .shared .align 4 .b8 last[4];
    mov.u32 %r2, %ctaid.x; ld.param.u64 %d1, [x]; mul.wide.u32 %d3, %r2, 4; add.s64 %d3, %d3, %d1;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra WAIT;
    add.u32 %r3, %r2, 10; st.global.u32 [%d3], %r3;
    {fence}
    ld.param.u64 %d2, [y]; atom.global.add.u32 %r4, [%d2], 1; st.shared.u32 [last], %r4;
    WAIT: bar.sync 0;
    ld.shared.u32 %r5, [last]; mov.u32 %r6, %nctaid.x; sub.u32 %r6, %r6, 1; setp.ne.u32 %p2, %r5, %r6; @%p2 bra OUT;
    ld.param.u64 %d1, [x]; mul.wide.u32 %d3, %r1, 4; add.s64 %d3, %d3, %d1; setp.gt.u32 %p3, %r1, %r6; @%p3 bra OUT;
    ld.global.u32 %r7, [%d3]; // BAD
    OUT:
"""


@pytest.mark.parametrize(("grid", "block"), [(8, 32), (300, 512)])
def test_the_last_block_may_read_what_the_others_released(grid, block):
    x = np.zeros(1024, np.uint32)
    run(LAST_BLOCK.format(fence="membar.gl;"), grid=grid, block=block, x=x, y=x)
    fault("race", LAST_BLOCK.format(fence=""), "is read here and written by", grid=grid, block=block, x=x, y=x)


# Counts


@pytest.mark.parametrize(("stride", "sectors"), [(4, 4), (8, 8), (32, 32), (0, 1)])
def test_sectors(stride, sectors):
    body = f"ld.param.u64 %d1, [x]; mul.wide.u32 %d3, %r1, {stride}; add.s64 %d1, %d1, %d3; ld.global.u32 %r5, [%d1];"
    machine, _ = run(body, block=32, x=np.zeros(1024, np.uint32), measure=True)
    assert (machine.counts.global_sectors_read, machine.counts.global_requests) == (sectors, 1)


@pytest.mark.parametrize(("access", "stride", "wavefronts", "ideal"), [
    ("st.shared.u32 [%r3], %r1;", 4, 1, 1), ("st.shared.u32 [%r3], %r1;", 8, 2, 1),
    ("st.shared.u32 [%r3], %r1;", 128, 32, 1),
    ("st.shared.u32 [%r3], %r1;", 132, 1, 1), ("st.shared.u32 [%r3], 5;", 0, 1, 1), ("st.shared.u8 [%r3], 5;", 1, 1, 1),
    ("st.shared.v2.u32 [%r3], {%r1, %r1};", 8, 2, 2), ("st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};", 16, 4, 4),
    ("st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};", 128, 32, 4),
])  # fmt: skip
def test_bank_conflicts(access, stride, wavefronts, ideal):
    body = f".shared .align 16 .b8 s[8192]; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, {stride}, %r2;\n{access}"
    machine, _ = run(body, block=32, measure=True)
    counts = machine.counts
    assert (counts.shared_wavefronts, counts.shared_ideal_wavefronts) == (wavefronts, ideal)
    assert counts.bank_conflicts == wavefronts - ideal
