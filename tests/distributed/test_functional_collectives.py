"""Collectives as ops: the same bits eagerly, recorded and compiled, gradients, and one order on all ranks."""

import numpy as np
import pytest
from ranks import init, run

import minitensor as mt
import minitensor.distributed as dist
from minitensor.distributed import _functional_collectives as functional
from minitensor.distributed.groups.work import Work


def data(rank, *dims):
    return mt.tensor(np.random.default_rng(rank).normal(size=dims).astype(np.float32))


def everything(x, half):
    """Each collective, of what was computed and read by what is."""
    size = dist.get_world_size()
    return [
        functional.all_reduce(x * 2, "sum") + 1,
        functional.all_reduce(x, "avg"),
        functional.all_reduce(half, "avg"),
        functional.all_reduce(x.abs(), "max"),
        functional.all_gather_tensor(x - 1, 0) * 2,
        functional.all_gather_tensor(x, 1, list(range(size))),
        functional.reduce_scatter_tensor(x, "sum", 0),
        functional.reduce_scatter_tensor(x.mT.contiguous(), "avg", 1, "0"),
        functional.all_to_all_single(x, None, None),
        functional.broadcast(x, 1, dist.group.WORLD),
        functional.permute_tensor(x, [(r + 1) % size for r in range(size)]),
        *functional.all_reduce_coalesced([x, x + 1, x[0]], "sum"),
        functional.wait_tensor(functional.all_reduce(x.exp(), "product")),
    ]


def bits(tensors):
    return [t.detach().view(mt.uint8).numpy().tobytes() for t in tensors]


def three_ways(rank, size):
    compiled = mt.function(everything, jit_compile=True)
    for seed in range(2):
        x = data(rank + 10 * seed, 4, 3)
        eager = bits(everything(x, x.bfloat16()))
        assert bits(compiled(x, x.bfloat16())) == eager
        with mt.jit.options(auto_jit=2, cpu_global_jit=True):
            assert bits(everything(x, x.bfloat16())) == eager
    module = compiled.lower(x, x.bfloat16()).as_text("hlo")
    assert f"replica_groups={{{{{','.join(map(str, range(size)))}}}}}" in module
    assert 'process_group="0"' in module
    return [t.float().numpy() for t in everything(data(rank, 4, 3), data(rank, 4, 3).bfloat16())]


def test_the_same_bits_eagerly_recorded_and_compiled(tmp_path):
    results = run(2, three_ways, tmp_path, 2)
    a, b = (data(rank, 4, 3).numpy() for rank in range(2))
    for rank, found in enumerate(results):
        mine, other = (a, b) if rank == 0 else (b, a)
        want = [
            a * 2 + b * 2 + 1, (a + b) / 2, None, np.maximum(abs(a), abs(b)), np.concatenate([a - 1, b - 1]) * 2,
            np.concatenate([a, b], 1), (a + b)[2 * rank : 2 * rank + 2], ((a + b) / 2).T[:, 2 * rank : 2 * rank + 2],
            np.concatenate([a[2 * rank : 2 * rank + 2], b[2 * rank : 2 * rank + 2]]), b, other,
            a + b, (a + 1) + (b + 1), a[0] + b[0], None,
        ]  # fmt: skip
        assert mine is not other
        for k, (x, y) in enumerate(zip(found, want, strict=True)):
            if y is not None:
                np.testing.assert_array_equal(x, y, err_msg=str(k))


def gradients(rank):
    found = []
    for function in (
        lambda x: functional.all_reduce(x * x, "avg"),
        lambda x: functional.all_gather_tensor(x, 0) ** 2,
        lambda x: functional.reduce_scatter_tensor(x, "sum", 0) ** 2,
        lambda x: functional.all_to_all_single(x, [1, 1] if rank == 0 else [3, 3], [1, 3]) ** 2,
        lambda x: functional.broadcast(x, 1) ** 2,
        lambda x: functional.permute_tensor(x, [1, 0]) ** 2,
    ):
        x = data(rank, 4, 3).requires_grad_()
        (function(x).sum() * (rank + 1)).backward()
        found.append(x.grad.numpy())
    x = data(rank, 4).requires_grad_()
    with pytest.raises(RuntimeError, match="only sums and means have gradients"):
        functional.all_reduce(x, "max").sum().backward()
    dist.barrier()
    return found


def test_every_rank_contributes_to_gradients(tmp_path):
    x = [data(rank, 4, 3).numpy() for rank in range(2)]
    for rank, found in enumerate(run(2, gradients, tmp_path)):
        mine = x[rank]
        total = x[0] + x[1]
        scattered = np.concatenate([2 * total[:2], 2 * 2 * total[2:]])
        permuted = 2 * mine * (2 - rank)
        sent = np.concatenate([2 * mine[:1], 2 * 2 * mine[1:]])
        want = [mine * 3, 2 * mine * 3, scattered, sent, 2 * x[1] * 3 if rank else 0 * mine, permuted]
        for k, (a, b) in enumerate(zip(found, want, strict=True)):
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=str(k))


def orders(rank):
    """What is recorded and read by nobody, or later, comes in its place all the same."""
    pair = dist.new_group([0, 1])
    with mt.jit.options(auto_jit=2, cpu_global_jit=True):
        x = data(rank, 5)
        first = functional.all_reduce(x * 2, "sum")
        functional.all_gather_tensor(x + 1, 0, pair)
        y = x.clone()
        dist.all_reduce(y)
        late = functional.all_reduce(x, "max", pair)
        assert (late == functional.all_reduce(x, "max")).all()
        second = mt.where(x > 0, first, y)
    step = mt.function(lambda x: (functional.all_reduce(x, "sum"), x + 1)[1], jit_compile=True)
    for _ in range(3):
        step(x)
        functional.all_reduce(x, "sum")
    return second.numpy()


def test_one_order(tmp_path):
    results = run(2, orders, tmp_path)
    a, b = (data(rank, 5).numpy() for rank in range(2))
    for rank, found in enumerate(results):
        np.testing.assert_array_equal(found, np.where((a, b)[rank] > 0, a * 2 + b * 2, a + b))


def mismatch(rank):
    step = mt.function(
        (lambda x: functional.all_reduce(x * 2, "sum"))
        if rank == 0
        else (lambda x: functional.all_gather_tensor(x, 0)),
        jit_compile=True,
    )
    with pytest.raises(RuntimeError) as error:
        step(data(rank, 5))
    return str(error.value)


@pytest.mark.at_once(reason="errors of a call come when a recording runs")
def test_other_sequences_are_errors_on_every_rank(tmp_path):
    for text in run(2, mismatch, tmp_path):
        assert "all_reduce(SUM, float32[5])" in text
        assert "all_gather_into_tensor(2 x float32[5])" in text


def refusals(rank):
    x = data(rank, 3, 2)
    for call, error, message in (
        (lambda: functional.all_reduce(x, "mean"), ValueError, "no reduction is called 'mean'"),
        (lambda: functional.all_reduce(x.long(), "avg"), ValueError, "avg takes floating-point numbers"),
        (lambda: functional.all_reduce(x, "bor"), ValueError, "bor takes integers"),
        (lambda: functional.reduce_scatter_tensor(x, "sum", 0), ValueError, "multiple of group_size 2"),
        (lambda: functional.all_gather_tensor(x, 2), IndexError, "dimension 2"),
        (lambda: functional.all_to_all_single(x, None, None), ValueError, "no multiple of 2 ranks"),
        (lambda: functional.all_to_all_single(x, [1, 2], [1, 1]), ValueError, "don't add up to 3 rows"),
        (lambda: functional.broadcast(x, 2), ValueError, "rank 2 is not in the group"),
        (lambda: functional.permute_tensor(x, [0, 0]), ValueError, "no rank of its own for each"),
        (lambda: functional.all_reduce(x, "sum", [1, 0]), ValueError, "no process group has the ranks"),
    ):
        with pytest.raises(error, match=message):
            call()
    return True


def test_refusals(tmp_path):
    assert run(2, refusals, tmp_path) == [True, True]


def of_a_group_that_is_made_again(rank, folder):
    """Compiled code finds the group that has the name now, and says so where none has."""
    compiled = mt.function(lambda x: functional.all_reduce(x * 2, "sum") + 1, jit_compile=True)
    x = mt.full((5,), float(rank))
    found = [compiled(x).tolist(), compiled(x).tolist()]
    dist.destroy_process_group()
    try:
        compiled(x)
    except (RuntimeError, ValueError) as error:
        found.append("destroyed" in str(error) or "not been initialized" in str(error))
    init(rank, 2, folder)
    return [*found, compiled(x).tolist(), compiled(x + 1).tolist()]


def test_a_group_that_is_made_again(tmp_path):
    again = tmp_path / "again"
    again.mkdir()
    ones, more = [3.0] * 5, [7.0] * 5
    assert run(2, of_a_group_that_is_made_again, tmp_path, str(again)) == [[ones, ones, True, ones, more]] * 2


def step_of(x, w, divisor):
    """Two large exchanges, and what needs neither, which fails if the divisor is 0."""
    a = functional.all_reduce(x * 2, "sum")
    b = functional.all_reduce(w @ w, "sum")
    c = (w @ w.T).exp() + (w.long() // divisor).float()
    return a + 1, b * 3, c, functional.all_reduce(x[:4], "sum")


def overlapping(rank):
    x, w = data(rank, 300, 300), data(rank, 256, 256) * 0.01
    n = mt.tensor(3)
    want = bits(step_of(x, w, n))
    compiled = mt.function(step_of, jit_compile=True)
    for _ in range(4):
        assert bits(compiled(x, w, n)) == want
    text = compiled.lower(x, w, n).compile().as_text()
    assert text.count(" all-reduce-start(") == text.count(" all-reduce-done(") == 2
    # All that needs no result stands before the first end.
    before, _, after = text[text.rindex("ENTRY") :].partition(" all-reduce-done(")
    assert before.count(" fusion(") == 4
    assert after.count(" fusion(") == 2
    # An error between the halves leaves the group and other programs as they were.
    for _ in range(3):
        with pytest.raises(RuntimeError, match="by zero"):
            compiled(x, w, mt.tensor(0))
        assert bits(compiled(x, w, n)) == want
    total = mt.ones(40000)
    dist.all_reduce(total)
    return total.sum().item()


def test_exchanges_are_on_their_way_while_other_code_runs(tmp_path):
    assert run(2, overlapping, tmp_path) == [80000.0, 80000.0]


def once(x, w):
    return functional.all_reduce(x * 2, "sum") + 1, (w @ w.T).exp()


def failing_on_one_rank(rank):
    x, w = data(rank, 300, 300), data(rank, 256, 256) * 0.01
    want = bits(once(x, w))
    compiled = mt.function(once, jit_compile=True)
    right = [bits(compiled(x, w)) == want]
    store = dist.group.WORLD.get_group_store()
    if rank == 1:
        store.wait(["written over"])
        right.append(bits(compiled(x, w)) == want)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Work, "wait", lambda *_: 1 // 0)
            with pytest.raises(RuntimeError, match="by zero"):
                compiled(x, w)
        # The exchange goes on; other programs, which need no more, have other memory.
        other = mt.function(lambda y: (y @ y).tanh() @ y, jit_compile=True)
        y = mt.full((300, 300), 7.0)
        right += [mt.equal(other(y), (y @ y).tanh() @ y) for _ in range(3)]
        store.set("written over", "1")
    return [*right, bits(compiled(x, w)) == want]


def test_values_stay_as_long_as_they_are_on_their_way_although_the_step_failed(tmp_path):
    first, second = run(2, failing_on_one_rank, tmp_path)
    assert first == [True] * 5
    assert second == [True] * 3
