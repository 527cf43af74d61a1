"""Clusters compiled once for all sizes of two dimensions: how often, and whether they have the bits of eager code."""

import os

import numpy as np
import pytest
from test_dynamic_shapes import compiled  # noqa: F401  (a fixture)

import minitensor as mt
from minitensor.nn import functional as F
from minitensor_jit.compiler import launcher

PAIRS = int(os.environ.get("MT_DYNAMIC_PAIRS", "30"))

mt.manual_seed(3)
QKV, OUT, TABLE, HEAD = mt.randn(16, 48) / 4, mt.randn(16, 16) / 4, mt.randn(50, 16), mt.randn(50, 16) / 4


def attention(x, weight):
    batch, length, _ = x.shape
    q, k, v = (part.view(batch, length, 2, 8).transpose(1, 2) for part in (x @ weight).split(16, 2))
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return (a.transpose(1, 2).reshape(batch, length, 16) @ OUT).relu()


def language_model(i, y):
    weight = QKV.detach().requires_grad_()
    x = F.embedding(i, TABLE)
    x = F.layer_norm(x + attention(x, weight), (16,))
    loss = F.cross_entropy((x @ HEAD.t()).view(-1, 50), y.view(-1))
    return loss, *mt.autograd.grad(loss, weight)


def grid(m, n):
    return (mt.randn(m, n),)


def text(m, n):
    return mt.randint(0, 50, (m, n)), mt.randint(0, 50, (m, n))


PROGRAMS = {
    "elementwise": (lambda x, y: mt.tanh(x) * 2.5 + y, lambda m, n: (mt.randn(m, n), mt.randn(m, n))),
    "outer product": (lambda x, y: x.unsqueeze(1) * y + 1.5, lambda m, n: (mt.randn(m), mt.randn(n))),
    "softmax": (lambda x: mt.softmax(x * 2.5, -1), grid),
    "sum of rows": (lambda x: (x * 2.5).sum(1), grid),
    "sum of columns": (lambda x: (x * 2.5).sum(0), grid),
    "sums of all": (lambda x: (x * 2.5).sum() + x.mean(), grid),
    "product": (lambda x, y: (x @ y).relu() * 2.5, lambda m, n: (mt.randn(m, 7), mt.randn(7, n))),
    "product over one": (lambda x, y: (x @ y).relu() * 2.5, lambda m, n: (mt.randn(m, n), mt.randn(n, 5))),
    "concatenation": (lambda x, y: mt.cat([x, y * 2.5], 1).sum(1), lambda m, n: (mt.randn(5, m), mt.randn(5, n))),
    "reshape": (lambda x: (x * 2.5).reshape(-1) + 1, lambda m, n: (mt.randn(m, n, 3),)),
    "transpose": (lambda x: x.transpose(0, 1).contiguous() * 2.5, lambda m, n: (mt.randn(m, n, 4),)),
    "neighbours": (lambda x: (x[:, 1:] - x[:, :-1]).reshape(-1, 4) * 2.5, lambda m, n: (mt.randn(m, n + 1, 4),)),
    "attention": (lambda x: attention(x, QKV), lambda m, n: (mt.randn(m, n, 16),)),
    "language model": (language_model, text),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_pairs_cost_few_compilations_and_have_the_bits_of_eager_code(name, compiled):  # noqa: F811
    fn, make = PROGRAMS[name]
    for place, (m, n) in enumerate(np.random.RandomState(3).randint(2, 60, (PAIRS, 2)).tolist()):
        mt.manual_seed(place)
        args = make(m, n)
        with mt.jit.options(enable_lazy_compilation=False), mt.jit_scope():
            results = fn(*args)
        expected = fn(*args)
        for one, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (results, expected)), strict=True):
            np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy(), err_msg=f"sizes {m} and {n}")
    assert 2 <= len(compiled) <= 5


def test_one_after_the_other(compiled):  # noqa: F811
    """A dimension that varies later becomes another symbol, though its sizes happen to lie on a line with the first."""

    def fn(x):
        return mt.softmax(x * 2.5, -1) + x.sum(0)

    sizes = [(8, 16), (9, 16), (30, 16), (12, 24), (12, 25), (13, 26), (50, 100), (7, 300), (100, 8), (41, 41), (3, 2)]
    for m, n in sizes:
        x = mt.randn(m, n)
        with mt.jit.options(enable_lazy_compilation=False), mt.jit_scope():
            y = fn(x)
        np.testing.assert_array_equal(y.numpy(), fn(x).numpy(), err_msg=f"sizes {m} and {n}")
    assert len(compiled) <= 6


def test_the_account_says_how_many(compiled):  # noqa: F811
    def calls():
        return [(mt.tanh(mt.ones(m, n)) * x + 1.5).sum().item() for m, n, x in ((4, 9, 1.5), (7, 5, 2.5), (6, 60, 3.5))]

    options = {"auto_jit": 2, "cpu_global_jit": True, "min_cluster_size": 1, "enable_lazy_compilation": False}
    with mt.jit.options(**options):
        whys = [entry["why"] for entry in mt.jit.explain(calls)().to_json()["compiles"]]
    assert [why.split(",")[0] for why in whys] == ["first use", "for all sizes s"]
    assert whys[1].startswith("for all sizes s, s1 of dimensions, here ")


def test_their_code_is_kept_on_disk(tmp_path, monkeypatch):
    def call():
        found = []
        mt.manual_seed(4)
        mt.jit.cache_clear()
        for m, n in ((5, 9), (8, 7), (30, 2), (3, 50), (40, 41)):
            x = mt.randn(m, n)
            with mt.jit_scope():
                y = mt.softmax(x * 2.5, -1) + x.sum(0)
            found.append(y.numpy())
        return found

    with mt.jit.options(persistent_cache_directory=str(tmp_path), enable_lazy_compilation=False):
        first = call()
        entries = len(list(tmp_path.iterdir()))
        monkeypatch.setattr(launcher.Launcher, "generate", lambda *args, **options: pytest.fail("compiled anew"))
        second = call()
    assert entries >= 2
    assert len(list(tmp_path.iterdir())) == entries
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_code_on_disk_is_not_taken_for_sizes_beyond_its_guards(tmp_path, compiled):  # noqa: F811
    """Sums of few and of many columns have code of their own."""

    def calls(sizes):
        mt.jit.cache_clear()
        for m, n in sizes:
            x = mt.randn(m, n)
            with mt.jit_scope():
                y = (x * 2.5).sum(0)
            np.testing.assert_array_equal(y.numpy(), (x * 2.5).sum(0).numpy())

    sizes = np.random.RandomState(3).randint(2, 60, (20, 2)).tolist()
    with mt.jit.options(persistent_cache_directory=str(tmp_path), enable_lazy_compilation=False):
        calls(sizes)
        count = len(compiled)
        assert count > 2  # one for the first sizes, several for all
        calls(sizes)
        assert len(compiled) == count
        calls(sizes[::-1])  # other sizes are at hand
        assert len(compiled) <= count + 3


def test_sums_of_many_columns_have_one_code(compiled):  # noqa: F811
    """Panels of columns: their accumulators' memory is of a size that is known."""
    with mt.jit.options(enable_lazy_compilation=False):
        for rows, columns in np.random.RandomState(5).randint((20, 200), (60, 1000), (30, 2)).tolist():
            x = mt.randn(rows, columns)
            with mt.jit_scope():
                y, z = (x * 2.5).sum(0), x.abs().amax(0)
            assert mt.equal(y, (x * 2.5).sum(0))
            assert mt.equal(z, x.abs().amax(0))
    assert len(compiled) <= 6


def test_code_on_disk_for_few_rows_is_not_run_for_many(tmp_path, compiled):  # noqa: F811
    """From 16,384 rows on they are summed in another order: these sizes have other bits in the wrong code."""

    def calls(*counts):
        mt.jit.cache_clear()  # as if in a new process
        for count in counts:
            x = mt.randn(count, 3)
            with mt.jit_scope():
                y = (x * 2.5).sum(0)
            np.testing.assert_array_equal(y.numpy(), (x * 2.5).sum(0).numpy())

    with mt.jit.options(persistent_cache_directory=str(tmp_path / "code"), enable_lazy_compilation=False):
        calls(300, 500, 700)
        calls(20_000, 30_000, 50_000)
        count = len(compiled)
        calls(700, 500, 300)
        assert len(compiled) <= count + 1
