"""flex_attention: scores that a function changes or masks, and the blocks of masks."""

import math

import pytest

import minitensor as mt
from minitensor.nn.attention import flex_attention as flex
from minitensor.nn.functional import scaled_dot_product_attention


def causal(b, h, q, k):
    return q >= k


def near(b, h, q, k):
    return (q - k).abs() <= 2


def by_distance(score, b, h, q, k):
    return score - 0.1 * (h + 1) * (q - k).abs()


def tensors(package, batch=2, heads=4, groups=4, queries=5, keys=7, dtype="float32"):
    made = []
    for number, shape in enumerate(((batch, heads, queries, 3), (batch, groups, keys, 3), (batch, groups, keys, 2))):
        count = math.prod(shape)
        values = [math.sin(1.7 * i * (number + 1)) for i in range(count)]
        made.append(package.tensor(values, dtype=getattr(package, dtype)).reshape(shape).requires_grad_())
    return made


def test_without_functions_it_is_plain_attention():
    q, k, v = tensors(mt)
    assert mt.allclose(flex.flex_attention(q, k, v), scaled_dot_product_attention(q, k, v), atol=1e-6)
    q, k, v = tensors(mt, groups=2)
    found = flex.flex_attention(q, k, v, scale=0.5, enable_gqa=True)
    assert mt.allclose(found, scaled_dot_product_attention(q, k, v, scale=0.5, enable_gqa=True), atol=1e-6)


def test_blocks_of_a_causal_mask():
    mask = flex.create_block_mask(causal, None, None, 6, 8, BLOCK_SIZE=(2, 4))
    assert mask.shape == (1, 1, 6, 8)
    assert mask.numel() == 48
    assert mask.to_dense().tolist() == [[[[1, 0], [1, 0], [1, 1]]]]
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 0, 1]]]
    assert mask.kv_indices[0, 0, 2].tolist() == [1, 0]
    assert mask.sparsity() == pytest.approx(100 * 2 / 6)
    assert mask.allowed()[0, 0].tolist() == [[q >= k for k in range(8)] for q in range(6)]
    assert repr(mask) == "BlockMask(shape=(1, 1, 6, 8), sparsity=33.33%, BLOCK_SIZE=(2, 4))"
    assert mask.to("cpu").allowed().equal(mask.allowed())
    parts = flex.create_block_mask(causal, None, None, 6, 8, BLOCK_SIZE=4, separate_full_blocks=False)
    assert parts.full_kv_num_blocks is None
    assert parts.allowed().equal(mask.allowed())


def test_a_mask_in_blocks_is_the_mask():
    q, k, v = tensors(mt, queries=6, keys=6)
    mask = flex.create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=4)
    out, lse = flex.flex_attention(q, k, v, block_mask=mask, return_lse=True)
    assert mt.allclose(out, scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-6)
    scores = (q @ k.transpose(-1, -2) / math.sqrt(3)).masked_fill(mt.ones(6, 6).triu(1).bool(), -math.inf)
    assert mt.allclose(lse, scores.logsumexp(-1), atol=1e-6)


def test_a_query_that_sees_nothing_gives_zeros():
    q, k, v = tensors(mt)
    mask = flex.create_block_mask(lambda b, h, i, j: i > 2, None, None, 5, 7)
    out, aux = flex.flex_attention(q, k, v, block_mask=mask, return_aux=flex.AuxRequest(lse=True, max_scores=True))
    assert out[:, :, :3].abs().max().item() == 0
    assert aux.lse[0, 0, :3].tolist() == [-math.inf] * 3
    assert aux.max_scores[:, :, 3:].isfinite().all()
    out.sum().backward()
    assert q.grad.isfinite().all()


def test_masks_of_masks():
    both, either = flex.and_masks(causal, near), flex.or_masks(causal, near)
    size = range(6)
    assert flex.create_mask(both, 1, 1, 6, 6)[0, 0].tolist() == [
        [i >= j and abs(i - j) <= 2 for j in size] for i in size
    ]
    assert flex.create_mask(either, 2, 1, 6, 6)[1, 0].tolist() == [
        [i >= j or abs(i - j) <= 2 for j in size] for i in size
    ]
    assert flex.create_mask(flex.noop_mask, None, None, 2, 2).tolist() == [[[[True] * 2] * 2]]
    of_scores = flex.create_mask(lambda s, b, h, i, j: mt.where(i > j, s, -math.inf), None, None, 2, 2)
    assert of_scores.tolist() == [[[[False, False], [True, False]]]]
    with pytest.raises(RuntimeError, match="callable mask_mods"):
        flex.and_masks(causal, 3)


def test_errors():
    q, k, v = tensors(mt, groups=2)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        flex.flex_attention(q, k, v)
    with pytest.raises(ValueError, match="Expected query to be 4-D"):
        flex.flex_attention(q[0], k, v)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        flex.BlockMask.from_kv_blocks(mt.tensor(1), mt.tensor([0]))


@pytest.mark.parametrize("changed", [False, True])
def test_gradients(changed):
    inputs = tensors(mt, batch=1, heads=2, groups=1, queries=3, keys=4, dtype="float64")
    mask = flex.create_block_mask(near, None, None, 3, 4, BLOCK_SIZE=2)

    def attention(q, k, v):
        return flex.flex_attention(q, k, v, by_distance if changed else None, mask, enable_gqa=True)

    assert mt.autograd.gradcheck(attention, inputs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("mask", "changed"), [(None, True), ("causal", False), ("near", True)])
def test_pytorch_s_results(mask, changed):
    torch = pytest.importorskip("torch")
    theirs_flex = __import__("torch.nn.attention.flex_attention", fromlist=["_"])
    results = []
    for package, module in ((mt, flex), (torch, theirs_flex)):
        q, k, v = (t.detach() for t in tensors(package, groups=2, queries=6, keys=7))
        blocks = None
        if mask:
            blocks = module.create_block_mask(globals()[mask], 2, 4, 6, 7, device="cpu", BLOCK_SIZE=4)
        found = [*module.flex_attention(q, k, v, by_distance if changed else None, blocks, None, True, True)]
        if blocks is not None:
            found += [blocks.to_dense(), blocks.kv_num_blocks, blocks.full_kv_num_blocks, blocks.kv_indices]
        results.append([t.tolist() for t in found])
    for ours, theirs in zip(*results, strict=True):
        mt.testing.assert_close(mt.tensor(ours), mt.tensor(theirs), rtol=1e-4, atol=1e-5)
