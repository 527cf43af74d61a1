"""Clusters compiled once for all sizes of a dimension: how often, and whether they have the bits of eager code."""

import os

import numpy as np
import pytest
from fuzz.sizes import check

import minitensor as mt
from minitensor.nn import functional as F
from minitensor_jit.compiler import launcher, shape_polymorphism

SIZES = int(os.environ.get("MT_DYNAMIC_SIZES", "60"))


@pytest.fixture
def compiled(monkeypatch):
    """The names of clusters as they are compiled."""
    mt.jit.cache_clear()
    names = []
    original = launcher.Launcher.generate

    def generate(self, lowered, name, *args, **options):
        names.append(name)
        return original(self, lowered, name, *args, **options)

    monkeypatch.setattr(launcher.Launcher, "generate", generate)
    return names


def sizes(most=700, count=SIZES):
    """Random batch sizes, 1 among them."""
    found = np.random.RandomState(7).randint(1, most, count)
    found[count // 2] = 1
    return [int(n) for n in found]


def rows(n):
    return (mt.randn(n, 32),)


def parameters():
    mt.manual_seed(5)
    return mt.randn(32, 64), mt.randn(64, 10), mt.randn(10), mt.randn(50, 16)


W1, W2, B, TABLE = parameters()
WIDE = mt.ones(32, 256) / 7

PROGRAMS = {
    "elementwise": (lambda x: mt.tanh(x) * 2.5 + x, rows),
    "vector": (lambda x: mt.sin(x) * 2.5 + 1.5, lambda n: (mt.randn(n),)),
    "sum of rows": (lambda x: (x * 1.5).sum(dim=1), rows),
    "sum of columns": (lambda x: (x * 1.25).sum(dim=0), rows),
    "sum of a vector": (lambda x: (mt.sin(x) * 2.5).sum(), lambda n: (mt.randn(n),)),
    "mean": (lambda x: (x * x).mean(), rows),
    "standard deviation": (lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5), lambda n: (mt.randn(n + 1, 32),)),
    "softmax": (lambda x: mt.softmax(x * 2.5, dim=1), rows),
    "softmax of long rows": (lambda x: mt.softmax(x * 2.5, dim=-1), lambda n: (mt.randn(8, n),)),
    "matmul": (lambda x: mt.relu(x @ W1) @ W2 + B, rows),
    "product with what follows": (lambda x: mt.tanh(x @ WIDE + 0.25) * 2.5, rows),
    "equal steps": (lambda x: mt.cumsum(mt.cumsum(x, 0) * 1.5, 0) + (x * 1.25).sum(0) + (x * 1.75).sum(0), rows),
    "product over the batch": (lambda x: mt.relu(x @ W1).t() @ x * 2.5, rows),
    "attention": (
        lambda q, k, v: mt.softmax(q @ k.transpose(1, 2), dim=-1) @ v,
        lambda n: tuple(mt.randn(3, n % 50 + 1, 16) for _ in range(3)),
    ),
    "concatenation": (lambda x: mt.cat([x, x * 2.5], dim=0).sum(dim=1), rows),
    "slices": (lambda x: x[1:] * 2.5 - x[:-1], lambda n: (mt.randn(n + 1, 32),)),
    "flip": (lambda x: x.flip(0) * 2.5 + x, rows),
    "broadcasting and transposing": (
        lambda x: (x[:, :1].expand(-1, 32) * x + x.sum(0, keepdim=True)).t().contiguous() * 1.5,
        rows,
    ),
    "kernels that compiled code calls": (lambda x: mt.cumsum(F.gelu(F.layer_norm(x, (32,))), 0) + 1.5, rows),
    "indices": (lambda i: F.embedding(i, TABLE).sum(dim=1) * 2.5, lambda n: (mt.randint(0, 50, (n, 7)),)),
    "extremes": (lambda x: x.max(dim=1).values * 2.5 + x.argmax(dim=1), rows),
    "half precision": (lambda x: (x.bfloat16() * 2.5).float() + x.half().float(), rows),
    "positions": (lambda x: x * mt.arange(x.shape[0]).float().unsqueeze(1) + 2.5, rows),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_sizes_cost_three_compilations_and_have_the_bits_of_eager_code(name, compiled):
    fn, make = PROGRAMS[name]
    for place, n in enumerate(sizes()):
        mt.manual_seed(place)
        args = make(n)
        with mt.jit_scope():
            result = fn(*args)
        np.testing.assert_array_equal(result.numpy(), fn(*args).numpy(), err_msg=f"size {n}")
    assert 2 <= len(compiled) <= 3


@pytest.mark.parametrize("loss", ["cross entropy", "squares"])
def test_a_training_step_with_random_batch_sizes(loss, compiled):
    def make():
        mt.manual_seed(1)
        net = mt.nn.Sequential(mt.nn.Linear(32, 64), mt.nn.ReLU(), mt.nn.Linear(64, 10))
        optimizer = mt.optim.SGD(net.parameters(), lr=0.1)

        def step(x, y, t):
            optimizer.zero_grad()
            out = net(x)
            value = F.cross_entropy(out, y) if loss == "cross entropy" else ((out - t) ** 2).mean()
            value.backward()
            optimizer.step()
            return value

        return net, step

    (net, step), (twin, eager) = make(), make()
    for place, n in enumerate(sizes(300)):
        mt.manual_seed(place)
        args = mt.randn(n, 32), mt.randint(0, 10, (n,)), mt.randn(n, 10)
        with mt.jit_scope():
            value = step(*args)
        np.testing.assert_array_equal(value.detach().numpy(), eager(*args).detach().numpy())
        for p, q in zip(net.parameters(), twin.parameters(), strict=True):
            np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    assert len(compiled) <= 3


def test_sizes_on_both_sides_of_every_block_and_vector(compiled):
    """The sizes where the order of additions and the shapes of loops change."""

    def fn(x, y):
        return (x * 1.5).sum(), (y * 2.5).sum(dim=0), mt.softmax(y, dim=0), x.flip(0) + 1.5

    edges = [k + d for k in (16, 64, 256, 512, 4096, 8192, 16384) for d in (-1, 0, 1)]
    for n in [40, 50, 2, 3, *edges]:
        x, y = mt.randn(n), mt.randn(n, 3)
        with mt.jit_scope():
            results = fn(x, y)
        for result, expected in zip(results, fn(x, y), strict=True):
            np.testing.assert_array_equal(result.numpy(), expected.numpy(), err_msg=f"size {n}")
    # Nothing connects the four results: each is a cluster of its own.
    assert len(compiled) <= 4 * 3


@pytest.mark.parametrize("dtype", [mt.float32, mt.float64, mt.bfloat16, mt.int32])
def test_rows_of_every_short_length(dtype, compiled):
    """Vectors that a row has no elements for are passed by."""

    def fn(x):
        y = x + x
        return y.sum(dim=1), y.amax(dim=1), (y == 2).any(dim=1), mt.softmax(y.float(), dim=1)

    f = mt.function(fn, jit_compile=True)
    mt.manual_seed(3)
    for n in [40, 50, *range(1, 140, 3), 128, 64]:
        x = (mt.randn(3, n) * 4).to(dtype)
        for result, expected in zip(f(x), fn(x), strict=True):
            assert mt.equal(result, expected), n
    assert len(compiled) <= 3


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_matter(threads):
    before = mt.get_num_threads()
    mt.set_num_threads(threads)
    try:
        for n in (1000, 2000, 3000, 50_000):
            x = mt.randn(n, 33)
            with mt.jit_scope():
                y = mt.tanh(x) * 2.5 + x.sum(dim=0)
            np.testing.assert_array_equal(y.numpy(), (mt.tanh(x) * 2.5 + x.sum(dim=0)).numpy())
    finally:
        mt.set_num_threads(before)


def test_functions_that_must_be_compiled_too(compiled):
    f = mt.function(lambda x: mt.tanh(x @ W1).sum(dim=1), jit_compile=True)
    for n in (5, 9, 30, 31, 32, 200, 5):
        x = mt.randn(n, 32)
        np.testing.assert_array_equal(f(x).numpy(), mt.tanh(x @ W1).sum(dim=1).numpy())
    assert len(compiled) == 2
    assert f.programs == 6
    del f
    # Its code has gone with it.
    g = mt.function(lambda x: mt.tanh(x @ W1).sum(dim=1), jit_compile=True)
    g(mt.randn(40, 32))
    assert len(compiled) == 3


def test_only_what_differs_is_a_symbol(compiled):
    def fn(x, y):
        return mt.tanh(x) * 2.5 @ y

    for m, k in [(4, 8), (5, 8), (6, 8), (6, 9), (6, 10), (7, 9), (20, 11)]:
        x, y = mt.randn(m, k), mt.randn(k, 3)
        with mt.jit_scope():
            result = fn(x, y)
        np.testing.assert_array_equal(result.numpy(), fn(x, y).numpy())
    assert len(compiled) < 7


def test_written_tensors_and_results_in_place():
    state = {}

    def fn(x, total):
        total.add_(x.sum(dim=0))
        x.mul_(1.5)
        return x - total

    for mode in ("compiled", "eager"):
        total, found = mt.zeros(3), []
        for n in (4, 7, 12, 12, 5):
            mt.manual_seed(n)
            x = mt.randn(n, 3)
            if mode == "compiled":
                with mt.jit_scope():
                    result = fn(x, total)
            else:
                result = fn(x, total)
            found += [result.numpy().copy(), x.numpy().copy(), total.numpy().copy()]
        state[mode] = found
    for a, b in zip(state["compiled"], state["eager"], strict=True):
        np.testing.assert_array_equal(a, b)


def test_indices_are_checked_against_the_size_at_hand():
    def fn(table, i):
        return table[i] * 2.5

    for n in (5, 9, 30):
        table = mt.randn(n, 4)
        with mt.jit_scope():
            y = fn(table, mt.tensor([0, n - 1]))
        np.testing.assert_array_equal(y.numpy(), fn(table, mt.tensor([0, n - 1])).numpy())
        with pytest.raises(IndexError), mt.jit_scope():
            fn(table, mt.tensor([0, n])).numpy()


def test_explain_says_what_it_was_and_the_flag_turns_it_off():
    def calls():
        return [(mt.tanh(mt.ones(n) * x) * 2.625 + x).sum().item() for n, x in ((4, 1.5), (5, 2.5), (6, 3.5))]

    options = {"auto_jit": 2, "cpu_global_jit": True, "min_cluster_size": 1}
    whys = []
    for dynamic in (True, False):
        with mt.jit.options(dynamic_shapes=dynamic, enable_lazy_compilation=False, **options):
            mt.jit.cache_clear()
            whys.append([entry["why"] for entry in mt.jit.explain(calls)().to_json()["compiles"]])
    assert len(whys[0]) == 2
    assert whys[0][1].startswith("for all sizes s of a dimension")
    assert len(whys[1]) == 3
    assert not any("all sizes" in why for why in whys[1])


def test_what_cannot_be_said_of_all_sizes_is_compiled_for_each(monkeypatch, compiled):
    def fail(self, *args):
        raise TypeError("no symbols today")

    monkeypatch.setattr(shape_polymorphism.AllSizes, "_compile", fail)
    with mt.jit.options(enable_lazy_compilation=False):
        for n in (4, 5, 6):
            x = mt.randn(n)
            with mt.jit_scope():
                y = mt.tanh(x) * 2.6875 + x
            np.testing.assert_array_equal(y.numpy(), (mt.tanh(x) * 2.6875 + x).numpy())
    assert len(compiled) == 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_random_programs_at_random_sizes(seed):
    with np.errstate(all="ignore"):
        assert [found for k in range(seed, seed + 4) if (found := check(k)) is not None] == []


def test_a_number_that_chooses_a_dimension_is_no_size(compiled):
    # From -2 to 0, as sizes went from 7 to 5: no polynomial of the size.
    def scaled(x, dim):
        shifted = x - x.amax(dim, keepdim=True)
        e = shifted.exp()
        return shifted, e / e.sum(dim, keepdim=True)

    for shape, dim in (((7, 64), -2), ((5, 600), 0), ((5, 600), 1), ((7, 64), 1)):
        x = mt.randn(shape)
        with mt.jit_scope():
            got = scaled(x, dim)
        for one, other in zip(got, scaled(x, dim), strict=True):
            assert np.array_equal(one.numpy(), other.numpy())


def test_sizes_that_have_nothing_to_do_with_each_other_are_not_made_one(compiled):
    def scaled(x):
        with mt.jit.options(enable_lazy_compilation=False), mt.jit_scope():
            return (x * 1.5 + 2).tanh()

    def calls():
        for shape in ((7, 64), (5, 600), (9, 800), (8, 320), (6, 96)):
            x = mt.randn(shape)
            assert np.array_equal(scaled(x).numpy(), (x * 1.5 + 2).tanh().numpy())

    text = mt.jit.explain(calls)().text()
    assert "for all sizes s, s1 of dimensions" in text
    assert "for all sizes s of a dimension" not in text


def test_where_several_sizes_can_not_vary_one_may(compiled, monkeypatch):
    original = shape_polymorphism.AllSizes._compile

    def compile_one(self, graph, context, places, *more):
        if len(places) > 1:
            raise ValueError("no code for several")
        return original(self, graph, context, places, *more)

    monkeypatch.setattr(shape_polymorphism.AllSizes, "_compile", compile_one)
    f = mt.function(lambda x: mt.tanh(x) * 2.5 + x, jit_compile=True)
    for n, m in ((100, 33), (117, 45), (125, 57), *((n, 45) for n in range(130, 160))):
        x = mt.randn(n, m)
        assert mt.equal(f(x), mt.tanh(x) * 2.5 + x)
    assert len(compiled) < 10
