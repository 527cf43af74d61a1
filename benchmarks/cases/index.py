"""Sorting, scans, gathering, scattering, joining."""

from benchmarks.op_case import op


def _rows(d):
    return {"X": d.normal(1000, 1000)}


def _gather(d):
    return {"X": d.normal(1000, 1000), "i": d.integers(1000, 1000, 1000)}


def _pick(d):
    return {"X": d.normal(10000, 100), "i": d.permutation(10000)}


FORWARD_AND_BACKWARD = {
    "cumsum_rows": ("t.cumsum(X, 1)", _rows),
    "cumsum_columns": ("t.cumsum(X, 0)", _rows),
    "cumprod_rows": ("t.cumprod(X, 1)", _rows),
    "logcumsumexp_rows": ("t.logcumsumexp(X, 1)", _rows),
    "gather_rows": ("t.gather(X, 1, i)", _gather),
    "gather_columns": ("t.gather(X, 0, i)", _gather),
    "index_select_rows": ("t.index_select(X, 0, i)", _pick),
    "index_select_columns": (
        "t.index_select(X, 1, i)",
        lambda d: {"X": d.normal(1000, 1000), "i": d.permutation(1000)},
    ),
    "index_tensor": ("X[i]", _pick),
    "index_two": (
        "X[i, j]",
        lambda d: {"X": d.normal(1000, 1000), "i": d.integers(1000, 10**5), "j": d.integers(1000, 10**5)},
    ),
    "index_mask": ("X[c]", lambda d: {"X": d.normal(10**6), "c": d.bools(10**6)}),
    "masked_fill": ("X.masked_fill(c, 0.0)", lambda d: {"X": d.normal(10**6), "c": d.bools(10**6)}),
    "scatter_add": (
        "t.scatter_add(X, 1, i, Y)",
        lambda d: {"X": d.normal(1000, 1000), "Y": d.normal(1000, 1000), "i": d.integers(1000, 1000, 1000)},
    ),
    "scatter_add_columns": (
        "t.scatter_add(X, 0, i, Y)",
        lambda d: {"X": d.normal(1000, 1000), "Y": d.normal(1000, 1000), "i": d.integers(1000, 1000, 1000)},
    ),
    "index_add": (
        "t.index_add(X, 0, i, Y)",
        lambda d: {"X": d.normal(1000, 100), "Y": d.normal(10000, 100), "i": d.integers(1000, 10000)},
    ),
    "index_put": (
        "t.index_put(X, (i,), Y)",
        lambda d: {"X": d.normal(10000, 100), "Y": d.normal(10000, 100), "i": d.permutation(10000)},
    ),
    "index_put_accumulate": (
        "t.index_put(X, (i,), Y, True)",
        lambda d: {"X": d.normal(1000, 100), "Y": d.normal(10000, 100), "i": d.integers(1000, 10000)},
    ),
    "cat_rows": ("t.cat((X, Y))", lambda d: {"X": d.normal(1000, 1000), "Y": d.normal(1000, 1000)}),
    "cat_columns": ("t.cat((X, Y), 1)", lambda d: {"X": d.normal(1000, 1000), "Y": d.normal(1000, 1000)}),
    "stack": ("t.stack((X, Y), -1)", lambda d: {"X": d.normal(1000, 1000), "Y": d.normal(1000, 1000)}),
    "permute_copy": ("X.permute(0, 2, 3, 1).contiguous()", lambda d: {"X": d.normal(16, 64, 32, 32)}),
    "flip": ("t.flip(X, (1,))", _rows),
    "roll": ("t.roll(X, 7, 1)", _rows),
    "repeat": ("X.repeat(2, 2)", _rows),
    "pad": ("F.pad(X, (1, 1, 1, 1))", _rows),
    "pad_reflect": ("F.pad(X, (1, 1, 1, 1), mode='reflect')", lambda d: {"X": d.normal(4, 16, 128, 128)}),
    "tril": ("t.tril(X)", _rows),
    "take_along_dim": ("t.take_along_dim(X, i, 1)", _gather),
}
FORWARD = {
    "sort_rows": ("t.sort(X, 1)", _rows),
    "sort_columns": ("t.sort(X, 0)", _rows),
    "sort_all": ("t.sort(X)", lambda d: {"X": d.normal(10**6)}),
    "sort_int": ("t.sort(n)", lambda d: {"n": d.integers(10**9, 10**6)}),
    "argsort_stable": ("t.argsort(X, stable=True)", lambda d: {"X": d.normal(10**6)}),
    "topk_rows": ("t.topk(X, 10, 1)", _rows),
    "topk_all": ("t.topk(X, 1000)", lambda d: {"X": d.normal(10**6)}),
    "kthvalue": ("t.kthvalue(X, 100, 1)", _rows),
    "median": ("t.median(X)", _rows),
    "cummax": ("t.cummax(X, 1)", _rows),
    "unique": ("t.unique(n)", lambda d: {"n": d.integers(1000, 10**6)}),
    "bincount": ("t.bincount(n)", lambda d: {"n": d.integers(1000, 10**6)}),
    "histc": ("t.histc(X, 100)", _rows),
    "searchsorted": ("t.searchsorted(s, X)", lambda d: {"s": d.normal(10000).sort().values, "X": d.normal(10**6)}),
    "nonzero": ("t.nonzero(c)", lambda d: {"c": d.bools(1000, 1000)}),
    "scatter_": (
        "X.scatter_(1, i, Y)",
        lambda d: {"X": d.normal(1000, 1000), "Y": d.normal(1000, 1000), "i": d.integers(1000, 1000, 1000)},
    ),
    "masked_fill_": ("X.masked_fill_(c, 0.0)", lambda d: {"X": d.normal(10**6), "c": d.bools(10**6)}),
    "set_mask": ("X.__setitem__(c, 0.0)", lambda d: {"X": d.normal(10**6), "c": d.bools(10**6)}),
    "set_slice": ("X.__setitem__(k, 0.0)", lambda d: {"X": d.normal(1000, 1000), "k": slice(None, None, 2)}),
    "one_hot": ("F.one_hot(n, 100)", lambda d: {"n": d.integers(100, 10000)}),
    "rand": ("t.rand(10**6)", lambda d: {}),
    "randn": ("t.randn(10**6)", lambda d: {}),
    "randperm": ("t.randperm(10**6)", lambda d: {}),
    "arange": ("t.arange(10**6)", lambda d: {}),
}

for _name, (_statement, _make) in FORWARD_AND_BACKWARD.items():
    op("index", _name, _statement, _make, backward=True)
for _name, (_statement, _make) in FORWARD.items():
    op("index", _name, _statement, _make)
