"""Ops whose kernels compiled code calls on the CPU have HLO of their own on GPUs, with the bits of those kernels."""

import numpy as np
import pytest
from fuzz.programs import bits, describe

import minitensor as mt
from minitensor.ops import ROWS
from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering import convolutions
from minitensor_jit.lowering.context import Lowering
from minitensor_jit.lowering.gpu import _attention, _attention_backward
from minitensor_jit.lowering.normalization import (
    batch_norm,
    batch_norm_backward,
    batch_norm_stats,
    group_norm,
    group_norm_backward,
)
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.cuda.start import host_ops
from minitensor_jit.runtime.run_arrays import run_on_arrays

pytestmark = pytest.mark.sampled(6)

ATTENTION = {
    # batch, queries, keys, width, depth, causal: blocks of 256 and 32 queries, the last one not full
    "one block": (2, 40, 50, 8, 6, False),
    "one query": (3, 1, 70, 16, 16, False),
    "blocks": (2, 600, 300, 8, 8, False),
    "small blocks": (1, 100, 4096, 4, 3, False),
    "causal": (2, 300, 300, 8, 8, True),
    "causal, more keys": (1, 270, 400, 8, 4, True),
    "causal, fewer keys": (1, 300, 20, 8, 8, True),
}


def compiled(build, arrays):
    """What the HLO computes, by the CPU's code: the emulator would take long for large arrays."""
    b = Lowering("lowering")
    made = build(b, *[b.parameter(Shape("f32", a.shape)) for a in arrays])
    module = b.build(list(made) if isinstance(made, list) else [made])
    executable = compile_module(run_pipeline(module), name="lowering")
    return run_on_arrays(executable, arrays)


def random(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def agree(name, expected, got):
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    for k, (e, g) in enumerate(zip(expected, got, strict=True)):
        e = e.detach().numpy()
        assert bits(e) == bits(np.asarray(g)), f"{name}, result {k}: {describe(e, np.asarray(g))}"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("form", ATTENTION)
def test_attention_adds_in_the_order_of_the_cpu(form, masked):
    batch, queries, keys, width, depth, causal = ATTENTION[form]
    arrays = random(
        (batch, queries, depth),
        (batch, queries, width),
        (batch, keys, width),
        (batch, keys, depth),
        (batch, queries, keys),
    )
    arrays[4] = np.where(arrays[4] > 1.5, -np.inf, arrays[4]).astype(np.float32)
    arrays[4][0, 0] = -np.inf  # a query that sees no key
    arrays = arrays if masked else arrays[:4]
    tensors = [mt.from_numpy(a) for a in arrays]
    more = tensors[1:] if masked else [*tensors[1:], None]

    def forward(b, q, k, v, mask=None):
        return _attention(b, q, k, v, mask, 0.3, causal)

    def backward(b, g, q, k, v, mask=None):
        return _attention_backward(b, g, q, k, v, mask, 0.3, causal)

    agree(form, ROWS["attention"].call(*more, 0.3, causal), compiled(forward, arrays[1:]))
    expected = ROWS["attention_backward"].call(tensors[0], *more, 0.3, causal)
    agree(form, expected, compiled(backward, arrays))


CONVOLUTIONS = {
    # images, filters, stride, padding, dilation, groups
    "planes of two blocks": ((2, 20, 30, 31), (8, 20, 3, 3), 1, 1, 1, 1),
    "groups": ((3, 64, 9, 9), (4, 32, 5, 5), 2, 2, 1, 2),
    "small images": ((20, 3, 6, 6), (5, 3, 3, 3), 1, 0, 2, 1),
    "pointwise": ((2, 700, 5, 5), (6, 700, 1, 1), 1, 0, 1, 1),
    "places in blocks": ((32, 64, 20, 21), (2, 64, 3, 3), 1, 1, 1, 1),
    "places in blocks, strides": ((32, 64, 41, 40), (2, 64, 5, 3), 2, 1, 1, 1),
    "places in blocks, dilation": ((16, 256, 24, 8), (2, 256, 3, 3), 1, 3, 3, 1),
    "chunks of several runs": ((9, 4, 24, 24), (3, 4, 3, 3), 1, 1, 1, 1),
    "parts of channels": ((3, 200, 22, 22), (3, 200, 5, 5), 1, 2, 1, 1),
    "one filter a group": ((3, 6, 8, 9), (2, 3, 3, 3), 1, 1, 1, 2),
    "one place": ((1, 6, 3, 3), (4, 6, 3, 3), 1, 0, 1, 1),
    "one channel": ((2, 1, 30, 30), (1, 1, 3, 3), 1, 0, 1, 1),
    "one dimension": ((3, 5, 700), (4, 5, 7), 2, 3, 1, 1),
    "three dimensions": ((2, 3, 6, 7, 8), (4, 3, 3, 3, 3), 1, 1, 1, 1),
    "every channel alone": ((2, 5, 12, 13), (5, 1, 3, 3), 1, 1, 1, 5),
    "every channel alone, large": ((2, 2, 90, 90), (2, 1, 5, 5), 1, 2, 1, 2),
    "every channel alone, strides": ((3, 4, 13, 14), (4, 1, 3, 3), 2, 1, 1, 4),
    "two filters a channel": ((2, 3, 9, 9), (6, 1, 3, 3), 1, 2, 2, 3),
    "more padding than kernel": ((2, 3, 9, 9), (3, 1, 3, 3), 1, 4, 1, 3),
    "every channel of a line alone": ((2, 3, 40), (6, 1, 5), 1, 2, 1, 3),
    "every channel of a volume alone": ((2, 3, 4, 5, 6), (3, 1, 3, 3, 3), 1, 1, 1, 3),
}


@pytest.mark.parametrize("form", CONVOLUTIONS)
def test_a_convolution_adds_in_the_order_of_the_cpu(form):
    image, weight, stride, padding, dilation, groups = CONVOLUTIONS[form]
    x, w, bias = random(image, weight, weight[:1])
    rank = len(image) - 2
    more = [stride] * rank, [padding] * rank, [dilation] * rank, groups
    expected = ROWS["convolution"].call(*[mt.from_numpy(a) for a in (x, w, bias)], *more)
    agree(form, expected, compiled(lambda b, *t: convolutions.convolution(b, *t, *more), [x, w, bias]))
    (grad,) = random(tuple(expected.shape))
    expected = ROWS["convolution_backward_input"].call(mt.from_numpy(grad), mt.from_numpy(w), image, *more)
    agree(form, expected, compiled(lambda b, *t: convolutions.backward_input(b, *t, image, *more), [grad, w]))
    expected = ROWS["convolution_backward_weight"].call(mt.from_numpy(grad), mt.from_numpy(x), weight, *more)
    agree(form, expected, compiled(lambda b, *t: convolutions.backward_weight(b, *t, weight, *more), [grad, x]))


def test_layers_of_networks_stay_on_the_gpu(cuda):
    host_ops.clear()
    tokens = mt.tensor([[1, 4, 2, 4], [0, 2, 2, 3]]).cuda()
    table = mt.randn(6, 8, device="cuda").requires_grad_()
    x = mt.nn.functional.embedding(tokens, table, padding_idx=2)
    q = x.reshape(2, 4, 2, 4).transpose(1, 2)
    y = mt.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    y.sum().backward()
    assert table.grad.cpu()[2].tolist() == [0.0] * 8
    image, weight = mt.randn(2, 3, 6, 6, device="cuda"), mt.randn(4, 3, 3, 3, device="cuda")
    for dtype in (mt.float32, mt.bfloat16):
        mt.nn.functional.conv2d(image.to(dtype), weight.to(dtype), padding=1).cpu()
    y = mt.nn.functional.layer_norm(x.detach().requires_grad_(), (8,), mt.ones(8, device="cuda"))
    y.square().sum().backward()
    mt.nn.functional.batch_norm(image, None, None, training=True).cpu()
    image.requires_grad_()
    mt.nn.functional.max_pool2d(image, 3, 2, 1).sum().backward()
    assert (y.argmax(-1) == y.max(-1)[1]).all()
    assert (y.topk(3)[1] == y.sort(descending=True)[1][..., :3]).all()
    assert not host_ops, list(host_ops)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize(
    "dims",
    [(1000, 8), (257, 33), (700, 96), (3, 4096), (2100, 32), (64, 768)],
    ids=str,
)
def test_norms_of_rows_add_in_the_order_of_the_cpu(dims, centered):
    arrays = random(dims, dims, dims[1:], dims[1:])
    g, x, w, c = (mt.from_numpy(a) for a in arrays)
    expected = ROWS["group_norm"].call(x, w, c, 1, 1e-5, centered)
    agree("forward", expected, compiled(lambda b, *t: group_norm(b, *t, 1, 1e-5, centered), arrays[1:]))
    expected = ROWS["group_norm_backward"].call(g, x, w, 1, 1e-5, centered, True)
    got = compiled(lambda b, *t: group_norm_backward(b, *t, 1, 1e-5, centered, True), arrays[:3])
    agree("backward", expected, got)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize(
    ("dims", "groups"),
    [((3, 6, 5, 7), 2), ((300, 4, 3), 4), ((2, 8, 60, 70), 4), ((1, 1, 9, 9), 1), ((1, 2, 9), 2), ((5, 12), 3),
     ((2, 9000), 1), ((70, 3, 30, 30), 3), ((4, 300, 2), 1)],
    ids=str,
)  # fmt: skip
def test_norms_of_groups_add_in_the_order_of_the_cpu(dims, groups, centered, affine):
    arrays = random(dims, dims, dims[1:2], dims[1:2])
    g, x, w, c = (mt.from_numpy(a) for a in arrays)
    if affine:
        expected = ROWS["group_norm"].call(x, w, c, groups, 1e-5, centered)
        got = compiled(lambda b, *t: group_norm(b, *t, groups, 1e-5, centered), arrays[1:])
        agree("forward", expected, got)
        expected = ROWS["group_norm_backward"].call(g, x, w, groups, 1e-5, centered, True)
        got = compiled(lambda b, *t: group_norm_backward(b, *t, groups, 1e-5, centered, True), arrays[:3])
    else:
        expected = ROWS["group_norm_backward"].call(g, x, None, groups, 1e-5, centered, False)
        got = compiled(lambda b, *t: group_norm_backward(b, *t, None, groups, 1e-5, centered, False), arrays[:2])
    agree("backward", expected, got)


@pytest.mark.parametrize(
    "dims", [(40, 6), (200, 3, 7, 9), (2, 5, 64, 64), (70, 1), (90, 1, 3, 3), (300, 2, 3), (2, 3, 80, 80)], ids=str
)
def test_norms_of_batches_add_in_the_order_of_the_cpu(dims):
    arrays = random(dims, dims, dims[1:2], dims[1:2])
    g, x, w, c = (mt.from_numpy(a) for a in arrays)
    mean, variance, rstd = ROWS["batch_norm_stats"].call(x, 1e-5)
    agree("stats", (mean, variance, rstd), compiled(lambda b, t: batch_norm_stats(b, t, 1e-5), arrays[1:2]))
    more = [mean.numpy(), rstd.numpy()]
    expected = ROWS["batch_norm"].call(x, w, c, mean, rstd, True)
    agree("forward", expected, compiled(lambda b, *t: batch_norm(b, *t, True), [*arrays[1:], *more]))
    for training in (True, False):
        expected = ROWS["batch_norm_backward"].call(g, x, w, mean, rstd, training)
        got = compiled(lambda b, *t: batch_norm_backward(b, *t, training), [*arrays[:3], *more])  # noqa: B023
        agree(f"backward, training {training}", expected, got)
    grouped = ROWS["group_norm"].call(x, w, c, 1, 1e-5, True)
    agree("group", grouped, compiled(lambda b, *t: group_norm(b, *t, 1, 1e-5, True), arrays[1:]))
