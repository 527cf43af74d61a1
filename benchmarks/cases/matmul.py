"""Matrix products from 64 to 2048, and what is made of them."""

from benchmarks.op_case import op

for _n in (64, 128, 256, 512, 1024, 2048):
    op(
        "matmul",
        f"{_n}",
        "X @ Y",
        lambda d, n=_n: {"X": d.normal(n, n), "Y": d.normal(n, n)},
        backward=True,
    )
op("nn", "bmm_64", "t.bmm(X, Y)", lambda d: {name: d.normal(64, 64, 64) for name in "XY"}, backward=True)
op("nn", "bmm_256", "t.bmm(X, Y)", lambda d: {name: d.normal(16, 256, 256) for name in "XY"}, backward=True)
op("nn", "matmul_f64", "X @ Y", lambda d: {name: d.normal(512, 512).double() for name in "XY"}, backward=True)
op("nn", "matmul_transposed", "X @ Y.T", lambda d: {name: d.normal(512, 512) for name in "XY"}, backward=True)
op("nn", "mv", "X @ v", lambda d: {"X": d.normal(2000, 2000), "v": d.normal(2000)}, backward=True)
op("nn", "row_4096", "v @ X", lambda d: {"X": d.normal(4096, 4096), "v": d.normal(1, 4096)})
op("nn", "row_4096_transposed", "v @ X.T", lambda d: {"X": d.normal(4096, 4096), "v": d.normal(1, 4096)})
op("nn", "row_1024_f64", "v @ X", lambda d: {"X": d.normal(1024, 1024).double(), "v": d.normal(1, 1024).double()})
op(
    "nn",
    "row_4096_bf16",
    "v @ X",
    lambda d: {"X": d.normal(4096, 4096).bfloat16(), "v": d.normal(1, 4096).bfloat16()},
)
op(
    "nn",
    "rows_8_f16_transposed",
    "v @ X.T",
    lambda d: {"X": d.normal(1024, 1024).half(), "v": d.normal(8, 1024).half()},
)
op("nn", "dot", "t.dot(X, Y)", lambda d: {name: d.normal(10**6) for name in "XY"}, backward=True)
op(
    "nn",
    "einsum",
    "t.einsum('bij,bkj->bik', X, Y)",
    lambda d: {name: d.normal(16, 128, 128) for name in "XY"},
    backward=True,
)
op("nn", "cdist", "t.cdist(X, Y)", lambda d: {name: d.normal(1000, 64) for name in "XY"}, backward=True)
op("nn", "outer", "t.outer(X, Y)", lambda d: {name: d.normal(1000) for name in "XY"}, backward=True)
op("nn", "addmm", "t.addmm(B, X, Y)", lambda d: {name: d.normal(512, 512) for name in "BXY"}, backward=True)
