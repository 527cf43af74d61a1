"""Matrix products of warps, matrices in shared memory, and copies that go on by themselves."""

import ml_dtypes
import numpy as np
import pytest

from .kernels import ELEMENTS, kernel, launch
from .machine import Machine, PtxFault

RNG = np.random.default_rng(3)
ZEROS = np.zeros(64, np.uint32)


def warp_kernel(body, words):
    """x and y have so many words for each lane: lane t's are at %d1 and %d2."""
    return kernel(ELEMENTS.format(x=4 * words, y=16) + body + "\nret;")


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_products_of_halves(kind):
    dtype = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    a, b = RNG.standard_normal((16, 16)).astype(dtype), RNG.standard_normal((16, 8)).astype(dtype)
    c = RNG.standard_normal((16, 8)).astype(np.float32)
    x = np.zeros((32, 12), np.uint32)
    for t in range(32):
        g, p = t // 4, t % 4

        def pair(first, second):
            return int(first.view(np.uint16)) | int(second.view(np.uint16)) << 16

        for j, (row, column) in enumerate([(g, 2 * p), (g + 8, 2 * p), (g, 2 * p + 8), (g + 8, 2 * p + 8)]):
            x[t, j] = pair(a[row, column], a[row, column + 1])
        for j in range(2):
            x[t, 4 + j] = pair(b[2 * p + 8 * j, g], b[2 * p + 8 * j + 1, g])
        x[t, 8:] = np.array([c[g, 2 * p], c[g, 2 * p + 1], c[g + 8, 2 * p], c[g + 8, 2 * p + 1]]).view(np.uint32)
    body = f"""
    ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%d1]; ld.global.v2.u32 {{%r6, %r7}}, [%d1+16];
    ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%d1+32];
    mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%f5, %f6, %f7, %f8}},
      {{%r2, %r3, %r4, %r5}}, {{%r6, %r7}}, {{%f1, %f2, %f3, %f4}};
    st.global.v4.f32 [%d2], {{%f5, %f6, %f7, %f8}};"""
    y = launch(warp_kernel(body, 12), [x, np.zeros((32, 4), np.float32)])[1]
    expected = (a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float32)
    for t in range(32):
        g, p = t // 4, t % 4
        wanted = [expected[g, 2 * p], expected[g, 2 * p + 1], expected[g + 8, 2 * p], expected[g + 8, 2 * p + 1]]
        np.testing.assert_allclose(y[t], wanted, rtol=1e-6)


def test_products_of_tf32():
    a, b = RNG.standard_normal((16, 8)).astype(np.float32), RNG.standard_normal((8, 8)).astype(np.float32)
    x = np.zeros((32, 8), np.float32)
    for t in range(32):
        g, p = t // 4, t % 4
        x[t, :4] = a[g, p], a[g + 8, p], a[g, p + 4], a[g + 8, p + 4]
        x[t, 4:6] = b[p, g], b[p + 4, g]
    body = """
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d1]; ld.global.v2.u32 {%r6, %r7}, [%d1+16]; mov.f32 %f1, 0f00000000;
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f5, %f6, %f7, %f8}, {%r2, %r3, %r4, %r5}, {%r6, %r7},
      {%f1, %f1, %f1, %f1};
    st.global.v4.f32 [%d2], {%f5, %f6, %f7, %f8};"""
    y = launch(warp_kernel(body, 8), [x, np.zeros((32, 4), np.float32)])[1]

    def short(v):
        return (v.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)

    expected = short(a) @ short(b)
    for t in range(32):
        g, p = t // 4, t % 4
        wanted = [expected[g, 2 * p], expected[g, 2 * p + 1], expected[g + 8, 2 * p], expected[g + 8, 2 * p + 1]]
        np.testing.assert_allclose(y[t], wanted, rtol=1e-6)


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_of_shared_memory(transposed):
    x = RNG.integers(0, 1 << 16, (32, 8), np.uint16)
    body = f"""
    .shared .align 16 .b8 s[512]; .shared .align 16 .b8 q[512];
    mov.u32 %r2, s; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2; mov.u32 %r8, q; sub.u32 %r9, %r8, %r2;
    ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%d1]; st.shared.v4.u32 [%r3], {{%r4, %r5, %r6, %r7}};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4{".trans" if transposed else ""}.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r3];
    st.global.v4.u32 [%d2], {{%r4, %r5, %r6, %r7}};
    add.u32 %r9, %r3, %r9;
    stmatrix.sync.aligned.m8n8.x4{".trans" if transposed else ""}.shared.b16 [%r9], {{%r4, %r5, %r6, %r7}};
    bar.warp.sync -1;
    ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r9]; st.global.v4.u32 [%d1], {{%r4, %r5, %r6, %r7}};"""
    again, y = launch(warp_kernel(body, 4), [x.view(np.uint32), np.zeros((32, 4), np.uint32)])
    np.testing.assert_array_equal(again.view(np.uint16), x)
    matrices = x.reshape(4, 8, 8)
    for t in range(32):
        for j in range(4):
            one = matrices[j].T if transposed else matrices[j]
            assert y[t, j] == int(one[t // 4, 2 * (t % 4)]) | int(one[t // 4, 2 * (t % 4) + 1]) << 16


def test_a_warp_must_be_whole():
    body = "setp.eq.u32 %p1, %r1, 3; mov.f32 %f1, 0f00000000; @%p1 bra OUT;\n" + (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f1, %f1, %f1}, {%r1, %r1, %r1, %r1}, {%r1, %r1},"
        " {%f1, %f1, %f1, %f1};\nOUT:"
    )
    with pytest.raises(PtxFault, match="all 32 threads"):
        launch(warp_kernel(body, 4), [np.zeros(128, np.uint32)] * 2)


COPY = """
.shared .align 16 .b8 s[1024];
mov.u32 %r2, s; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2; mov.u32 %r9, {used};
cp.async.cg.shared.global [%r3], [%d1], 16, %r9;
cp.async.commit_group;
{wait}
{barrier}
xor.b32 %r4, %r1, {distance}; shl.b32 %r4, %r4, 4; add.u32 %r4, %r4, %r2;
ld.shared.v4.u32 {{%r5, %r6, %r7, %r8}}, [%r4];
st.global.v4.u32 [%d2], {{%r5, %r6, %r7, %r8}};
"""
WAIT, BARRIER = "cp.async.wait_group 0;", "bar.sync 0;"


@pytest.mark.parametrize("used", [16, 4, 0])
def test_copies_go_on_until_somebody_waits(used):
    x = np.arange(256, dtype=np.uint32).reshape(64, 4) + 1
    body = COPY.format(wait=WAIT, barrier=BARRIER, distance=33, used=used)
    y = launch(warp_kernel(body, 4), [x, np.zeros_like(x)], block=64)[1]
    expected = np.zeros_like(x)
    expected[:, : used // 4] = x[:, : used // 4]
    np.testing.assert_array_equal(y, expected[np.arange(64) ^ 33])


@pytest.mark.parametrize(
    ("wait", "barrier", "distance"), [("", BARRIER, 0), (WAIT, "", 1), ("cp.async.wait_group 1;", BARRIER, 0)]
)
def test_copies_that_nobody_waited_for(wait, barrier, distance):
    x = np.arange(256, dtype=np.uint32).reshape(64, 4)
    text = warp_kernel(COPY.format(wait=wait, barrier=barrier, distance=distance, used=16), 4)
    with pytest.raises(PtxFault, match=r"race|uninitialized memory"):
        launch(text, [x, np.zeros_like(x)], block=64)


def test_a_pipeline_of_copies():
    # Each round copies ahead by one stage; the buffers are used again only behind a barrier.
    body = """
    .shared .align 16 .b8 s[1024];
    mov.u32 %r2, s; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2;
    mov.u32 %r10, 0; mov.u32 %r11, 0;
    cp.async.ca.shared.global [%r3], [%d1], 16; cp.async.commit_group;
    LOOP:
    add.u32 %r12, %r10, 1; and.b32 %r13, %r12, 1; shl.b32 %r13, %r13, 9; add.u32 %r14, %r3, %r13;
    add.s64 %d1, %d1, 512;
    setp.lt.u32 %p1, %r12, 8;
    @%p1 cp.async.ca.shared.global [%r14], [%d1], 16;
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    and.b32 %r15, %r10, 1; shl.b32 %r15, %r15, 9; xor.b32 %r16, %r1, 5; shl.b32 %r16, %r16, 4; add.u32 %r16, %r16, %r2;
    add.u32 %r16, %r16, %r15; ld.shared.u32 %r17, [%r16]; add.u32 %r11, %r11, %r17;
    {barrier}
    add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 8; @%p2 bra LOOP;
    st.global.u32 [%d2], %r11;"""
    x = np.arange(8 * 128, dtype=np.uint32)
    y = launch(warp_kernel(body.format(barrier=BARRIER), 4), [x, np.zeros(128, np.uint32)])[1]
    rows = x.reshape(8, 32, 4)[:, :, 0].sum(axis=0)
    np.testing.assert_array_equal(y.reshape(32, 4)[:, 0], rows[np.arange(32) ^ 5])
    with pytest.raises(PtxFault, match="race"):
        launch(warp_kernel(body.format(barrier=""), 4), [x, np.zeros(128, np.uint32)])


def test_banks_of_matrices():
    def conflicts(stride):
        body = f"""
        .shared .align 16 .b8 s[8192]; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, {stride}, %r2;
        st.shared.v4.u32 [%r3], {{%r1, %r1, %r1, %r1}}; bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r3];"""
        machine = Machine(warp_kernel(body, 4), measure=True)
        launch("", [np.zeros(128, np.uint32)] * 2, machine=machine)
        return machine.counts.bank_conflicts

    assert conflicts(16) == 0
    assert conflicts(80) == 0
    assert conflicts(128) > 0
