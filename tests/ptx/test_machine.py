"""How threads run: branches, loops, calls, memory, barriers, shuffles, votes and atomics."""

import numpy as np
import pytest

from .kernels import HEAD, kernel, launch
from .machine import Machine, PtxError

THREAD = """
mov.u32 %r1, %tid.x;
ld.param.u64 %d1, [x];
ld.param.u64 %d2, [y];
mul.wide.u32 %d3, %r1, 4;
add.s64 %d1, %d1, %d3;
add.s64 %d2, %d2, %d3;
"""
ZEROS = np.zeros(64, np.uint32)
IOTA = np.arange(64, dtype=np.uint32)


def both(body, x, y, **options):
    """Runs a body with %r1 the thread, %d1 and %d2 the addresses of its words of x and y; returns y."""
    return launch(kernel(THREAD + body), [x, y], **options)[1]


def test_threads_diverge_and_meet():
    body = """
    ld.global.u32 %r2, [%d1];
    and.b32 %r3, %r2, 1;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra EVEN;
    mul.lo.u32 %r4, %r2, 10;
    bra MEET;
    EVEN: add.u32 %r4, %r2, 1000;
    MEET: activemask.b32 %r5;
    setp.eq.u32 %p2, %r5, 0xFFFFFFFF;
    @%p2 add.u32 %r4, %r4, 100000;
    st.global.u32 [%d2], %r4;
    ret;"""
    got = both(body, IOTA, ZEROS, block=64)
    np.testing.assert_array_equal(got, np.where(IOTA % 2 == 0, IOTA + 1000, IOTA * 10) + 100000)


def test_loops_of_different_lengths_keep_their_values():
    # Thread t goes round t + 1 times; values of the last round are used after the loop.
    body = """
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
    LOOP:
    mul.lo.u32 %r4, %r2, %r2;
    add.u32 %r3, %r3, %r4;
    add.u32 %r2, %r2, 1;
    setp.le.u32 %p1, %r2, %r1;
    @%p1 bra LOOP;
    mad.lo.u32 %r3, %r4, 1000, %r3;
    st.global.u32 [%d2], %r3;
    ret;"""
    expected = [sum(k * k for k in range(t + 1)) + 1000 * t * t for t in range(64)]
    assert both(body, IOTA, ZEROS, block=64).tolist() == expected


def test_nested_loops_and_returns_from_inside():
    body = """
    mov.u32 %r2, 0;
    mov.u32 %r5, 0;
    OUTER:
    mov.u32 %r3, 0;
    INNER:
    add.u32 %r5, %r5, 1;
    setp.eq.u32 %p2, %r5, 40;
    @%p2 bra OUT;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra INNER;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 5;
    @%p1 bra OUTER;
    st.global.u32 [%d2], %r5;
    ret;
    OUT: st.global.u32 [%d2], 77;
    ret;"""

    def count(t):
        total = 0
        for _ in range(5):
            for _ in range(max(t, 1)):
                total += 1
                if total == 40:
                    return 77
        return total

    assert both(body, IOTA, ZEROS, block=64).tolist() == [count(t) for t in range(64)]


@pytest.mark.parametrize("predicate", ["%p1", "!%p1"])
def test_predicated_instructions_keep_the_old_value(predicate):
    body = f"""
    setp.lt.u32 %p1, %r1, 5; mov.u32 %r2, 3; @{predicate} mov.u32 %r2, 9; st.global.u32 [%d2], %r2;
    @{predicate} ret; st.global.u32 [%d2], 1; ret;"""
    got = both(body, IOTA, ZEROS, block=64)
    np.testing.assert_array_equal(got, np.where((IOTA < 5) == (predicate == "%p1"), 9, 1))


def test_functions_are_called_with_parameters_in_memory():
    function = """
    .func (.param .b32 result) twice(.param .b32 a, .param .align 8 .b8 b[16])
    {
      .reg .b32 %r<5>; .reg .b64 %d<3>; .reg .pred %p<2>;
      ld.param.u32 %r1, [a];
      ld.param.u64 %d1, [b+8];
      cvt.u32.u64 %r2, %d1;
      setp.gt.u32 %p1, %r1, 7;
      @%p1 bra BIG;
      add.u32 %r3, %r1, %r2;
      st.param.b32 [result], %r3;
      ret;
      BIG: st.param.b32 [result], 5;
      ret;
    }"""
    body = """
    cvt.u64.u32 %d5, %r1;
    {
      .param .b32 p0; .param .align 8 .b8 p1[16]; .param .b32 out;
      st.param.b32 [p0], %r1; st.param.b64 [p1+8], %d5;
      call.uni (out), twice, (p0, p1);
      ld.param.b32 %r2, [out];
    }
    {
      .param .b32 p0; .param .align 8 .b8 p1[16]; .param .b32 out;
      st.param.b32 [p0], %r2; st.param.b64 [p1+8], 100;
      call.uni (out), twice, (p0, p1);
      ld.param.b32 %r3, [out];
    }
    st.global.u32 [%d2], %r3;
    ret;"""

    def twice(a, b):
        return 5 if a > 7 else a + b

    text = kernel(THREAD + body, before=function)
    assert launch(text, [IOTA, ZEROS], block=64)[1].tolist() == [twice(twice(t, t), 100) for t in range(64)]


def test_calls_of_itself_are_refused():
    text = kernel("call.uni again; ret;", before=".func again() { call.uni again; ret; }")
    with pytest.raises(PtxError, match="calls itself"):
        launch(text, [ZEROS, ZEROS])


@pytest.mark.parametrize("block", [64, 33, (8, 4, 2)])
def test_values_go_through_shared_memory(block):
    threads = int(np.prod(block))
    body = """
    .shared .align 4 .b8 buffer[256];
    .reg .u32 %a, %b, %n, %t;
    mov.u32 %a, %tid.y; mov.u32 %b, %tid.z;
    mov.u32 %r2, %ntid.x; mov.u32 %r3, %ntid.y;
    mad.lo.u32 %b, %b, %r3, %a;
    mad.lo.u32 %t, %b, %r2, %r1;
    mul.lo.u32 %n, %r2, %r3; mov.u32 %r4, %ntid.z; mul.lo.u32 %n, %n, %r4;
    mov.u32 %r5, buffer;
    shl.b32 %r6, %t, 2;
    add.u32 %r7, %r5, %r6;
    mul.lo.u32 %r8, %t, 3;
    st.shared.u32 [%r7], %r8;
    bar.sync 0;
    sub.u32 %r9, %n, 1; sub.u32 %r9, %r9, %t;
    shl.b32 %r9, %r9, 2; add.u32 %r9, %r5, %r9;
    ld.shared.u32 %r10, [%r9];
    ld.param.u64 %d2, [y];
    mul.wide.u32 %d3, %t, 4; add.s64 %d2, %d2, %d3;
    st.global.u32 [%d2], %r10;
    ret;"""
    got = both(body, IOTA, ZEROS, block=block)
    np.testing.assert_array_equal(got[:threads], 3 * np.arange(threads)[::-1])


def test_dynamic_shared_memory_lies_behind_the_static():
    text = kernel(
        THREAD
        + """
    .shared .align 4 .b8 small[20];
    mov.u32 %r2, small; mov.u32 %r3, large; sub.u32 %r4, %r3, %r2;
    st.global.u32 [%d2], %r4; mov.u32 %r5, %dynamic_smem_size; st.global.u32 [%d1], %r5;
    shl.b32 %r6, %r1, 2; add.u32 %r6, %r6, %r3; st.shared.u32 [%r6], %r1;
    ret;""",
        before=".extern .shared .align 16 .b8 large[];",
    )
    x, y = launch(text, [ZEROS, ZEROS], block=4, shared=16)
    assert y[0] == 32
    assert x[0] == 16


def test_constants_variables_and_generic_addresses():
    text = kernel(
        THREAD
        + """
    .shared .align 8 .b8 s[256];
    .local .align 8 .b8 l[16];
    and.b32 %r2, %r1, 3;
    mul.wide.u32 %d5, %r2, 4;
    mov.u64 %d6, table; cvta.const.u64 %d6, %d6; add.s64 %d6, %d6, %d5;
    ld.u32 %r3, [%d6];
    mov.u64 %d7, other; cvta.global.u64 %d7, %d7; add.s64 %d7, %d7, %d5;
    ld.u32 %r4, [%d7];
    mov.u64 %d8, s; cvta.shared.u64 %d8, %d8; add.s64 %d8, %d8, %d3;
    st.u32 [%d8], %r4; ld.u32 %r5, [%d8];
    mov.u64 %d9, l; cvta.local.u64 %d9, %d9; st.u32 [%d9+4], %r3; ld.local.u32 %r6, [l+4];
    cvta.to.shared.u64 %d10, %d8; ld.shared.u32 %r7, [%d10];
    add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r7;
    st.global.u32 [%d2], %r5;
    ret;""",
        before=".const .align 4 .b32 table[4] = {1, 2, 3, 4};\n"
        ".global .align 4 .b8 other[16] = {10, 0, 0, 0, 20, 0, 0, 0, 30, 0, 0, 0, 40};",
    )
    got = launch(text, [ZEROS, ZEROS], block=64)[1]
    np.testing.assert_array_equal(got, (IOTA % 4 + 1) * 21)


def test_vectors_of_memory_and_narrow_elements():
    body = """
    ld.param.u64 %d1, [x];
    mul.wide.u32 %d3, %r1, 16;
    add.s64 %d4, %d1, %d3;
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d4];
    st.global.v2.u32 [%d4+8], {%r2, %r3};
    st.global.v2.b16 [%d4], {%h1, %h2};
    st.global.u8 [%d4+4], 255;
    ld.global.s8 %r6, [%d4+4];
    st.global.u32 [%d2], %r6;
    ret;"""
    x = np.arange(32, dtype=np.uint32)
    got, y = launch(kernel(THREAD + "mov.b16 %h1, 7; mov.b16 %h2, 9;" + body), [x, ZEROS], block=8)
    rows = got.reshape(8, 4)
    np.testing.assert_array_equal(rows[:, 2:], x.reshape(8, 4)[:, :2])
    np.testing.assert_array_equal(rows[:, 0], np.full(8, 9 << 16 | 7))
    np.testing.assert_array_equal(rows[:, 1] & 255, np.full(8, 255))
    np.testing.assert_array_equal(y[:8], np.full(8, 0xFFFFFFFF))


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("distance", [1, 5, 17])
def test_shuffles(mode, width, distance):
    control = (32 - width) << 8 | (0 if mode == "up" else 31)
    body = f"""
    ld.global.u32 %r2, [%d1];
    shfl.sync.{mode}.b32 %r3|%p1, %r2, {distance}, {control}, 0xFFFFFFFF;
    selp.b32 %r4, 1000, 0, %p1;
    add.u32 %r3, %r3, %r4;
    st.global.u32 [%d2], %r3;
    ret;"""
    got = both(body, IOTA + 7, ZEROS, block=64)
    expected = []
    for t in range(64):
        lane, first = t % 32, t % 32 // width * width
        source = {
            "up": lane - distance,
            "down": lane + distance,
            "bfly": lane ^ distance,
            "idx": first + distance % width,
        }[mode]
        inside = first <= source < first + width if mode != "up" else source >= first
        # A butterfly beyond the segment is outside if it's above it.
        if mode == "bfly":
            inside = source < first + width
        expected.append(t // 32 * 32 + (source if inside else lane) + 7 + 1000 * inside)
    assert got.tolist() == expected


def test_a_partial_warp_reduces():
    body = "".join(f"shfl.sync.bfly.b32 %r3, %r2, {k}, 31, 0xFFFF; add.u32 %r2, %r2, %r3;\n" for k in (8, 4, 2, 1))
    body = (
        f"ld.global.u32 %r2, [%d1]; setp.ge.u32 %p1, %r1, 16; @%p1 bra OUT; {body} st.global.u32 [%d2], %r2; OUT: ret;"
    )
    got = both(body, IOTA, ZEROS, block=32)
    assert got[:17].tolist() == [120] * 16 + [0]


def test_votes_matches_and_warp_reductions():
    body = """
    setp.lt.u32 %p1, %r1, 40;
    vote.sync.ballot.b32 %r2, %p1, 0xFFFFFFFF;
    vote.sync.any.pred %p2, %p1, 0xFFFFFFFF;
    vote.sync.all.pred %p3, %p1, 0xFFFFFFFF;
    vote.sync.uni.pred %p4, %p1, 0xFFFFFFFF;
    selp.b32 %r3, 1, 0, %p2; selp.b32 %r4, 2, 0, %p3; selp.b32 %r5, 4, 0, %p4;
    add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5;
    and.b32 %r6, %r1, 7;
    match.any.sync.b32 %r7, %r6, 0xFFFFFFFF;
    popc.b32 %r8, %r7;
    redux.sync.add.s32 %r9, %r1, 0xFFFFFFFF;
    redux.sync.max.u32 %r10, %r1, 0xFFFFFFFF;
    mad.lo.u32 %r3, %r8, 10, %r3;
    mad.lo.u32 %r3, %r9, 100, %r3;
    st.global.u32 [%d2], %r3; st.global.u32 [%d1], %r2;
    ret;"""
    masks, got = launch(kernel(THREAD + body), [ZEROS, ZEROS], block=64)
    assert masks[[0, 40]].tolist() == [0xFFFFFFFF, 0xFF]
    assert got[0] == 100 * sum(range(32)) + 40 + 7
    assert got[63] == 100 * sum(range(32, 64)) + 40 + 1


def test_atomics_see_every_thread():
    body = """
    ld.param.u64 %d2, [y];
    and.b32 %r2, %r1, 1;
    mul.wide.u32 %d5, %r2, 4;
    add.s64 %d6, %d2, %d5;
    atom.global.add.u32 %r3, [%d6], %r1;
    red.global.max.s32 [%d2+8], %r1;
    atom.global.inc.u32 %r4, [%d2+12], 6;
    atom.global.cas.b32 %r5, [%d2+16], 0, %r1;
    red.global.add.f32 [%d2+20], 0f3F000000;
    st.global.u32 [%d1], %r3;
    ret;"""
    old, got = launch(kernel(THREAD + body), [ZEROS, ZEROS], grid=1, block=64)
    assert got[:2].tolist() == [sum(range(0, 64, 2)), sum(range(1, 64, 2))]
    assert got[2] == 63
    assert got[3] == 64 % 7
    assert got[4] == 1  # the first thread leaves 0, the second finds it
    assert got[5:6].view(np.float32)[0] == 32
    assert old[4] == 0 + 2


def test_reductions_at_barriers():
    body = """
    setp.lt.u32 %p1, %r1, 40;
    bar.red.popc.u32 %r2, 0, %p1;
    bar.red.and.pred %p2, 0, %p1;
    bar.red.or.pred %p3, 0, %p1;
    selp.b32 %r3, 100, 0, %p2; selp.b32 %r4, 1000, 0, %p3;
    add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;
    st.global.u32 [%d2], %r2;
    ret;"""
    assert set(both(body, ZEROS, ZEROS, block=64).tolist()) == {1040}


def test_named_barriers_join_some_of_the_warps():
    # The first warp produces, the second consumes.
    body = """
    .shared .align 4 .b8 buffer[128];
    mov.u32 %r3, buffer; and.b32 %r4, %r1, 31; shl.b32 %r4, %r4, 2; add.u32 %r3, %r3, %r4;
    setp.ge.u32 %p1, %r1, 32;
    @%p1 bra CONSUME;
    mul.lo.u32 %r5, %r1, 3;
    st.shared.u32 [%r3], %r5;
    bar.arrive 1, 64;
    bra END;
    CONSUME: bar.sync 1, 64;
    ld.shared.u32 %r6, [%r3];
    st.global.u32 [%d2], %r6;
    END: ret;"""
    got = both(body, ZEROS, ZEROS, block=64)
    np.testing.assert_array_equal(got[32:], 3 * np.arange(32))


def test_many_blocks_run_in_batches():
    text = kernel(
        """
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
    mov.u32 %r4, %tid.x; mov.u32 %r5, %ntid.x; mad.lo.u32 %r6, %r1, %r5, %r4;
    ld.param.u64 %d1, [x]; mul.wide.u32 %d2, %r6, 4; add.s64 %d1, %d1, %d2;
    shl.b32 %r7, %r1, 12; or.b32 %r7, %r7, %r4;
    st.global.u32 [%d1], %r7; ret;""",
        ".param .u64 x",
    )
    (got,) = launch(text, [np.zeros(300 * 256, np.uint32)], grid=(100, 3), block=256)
    np.testing.assert_array_equal(got.reshape(300, 256), (np.arange(300)[:, None] << 12) | np.arange(256))


def test_counts():
    machine = Machine(
        kernel(
            THREAD
            + "ld.global.u32 %r2, [%d1]; setp.lt.u32 %p1, %r1, 10; @%p1 bra A; ret; A: st.global.u32 [%d2], %r2; ret;"
        )
    )
    launch("", [IOTA, ZEROS], block=64, machine=machine)
    counts = machine.counts
    assert counts.global_bytes_read == 256
    assert counts.global_bytes_written == 40
    assert counts.instructions["st.global.u32"] == 10
    assert counts.instructions["ret"] == 64


def test_mistakes_in_the_text_name_their_line():
    for text, message in (
        (HEAD + ".visible .entry k() {\n frobnicate.u32 1;\n ret; }", "line 5: frobnicate.u32"),
        (HEAD + ".visible .entry k() {\n .reg .b32 %r<2>;\n add.u32 %r1, %r7, 1;\n ret; }", "%r7"),
        (
            HEAD + ".visible .entry k() {\n .reg .b32 %r<2>; .reg .b64 %d;\n add.u64 %d, %r1, 1;\n ret; }",
            "32 bits, not 64",
        ),
        (HEAD + ".visible .entry k() {\n bra AWAY;\n ret; }", "no label AWAY"),
        (HEAD + ".visible .entry k() {\n ret }", "line"),
    ):
        with pytest.raises(PtxError, match=message):
            Machine(text).launch("k", 1, 1, 0, b"", None)
