"""Convolutions, pooling, softmax, norms, embedding, losses and attention."""

from benchmarks.op_case import op

# batch, channels, height and width; output channels, kernel, stride, padding, groups
CONVOLUTIONS = {
    "lenet1": ((64, 1, 28, 28), (6, 5, 1, 2, 1)),
    "lenet2": ((64, 6, 14, 14), (16, 5, 1, 0, 1)),
    "resnet_stem": ((4, 3, 224, 224), (64, 7, 2, 3, 1)),
    "resnet_3x3_64": ((4, 64, 56, 56), (64, 3, 1, 1, 1)),
    "resnet_3x3_256": ((4, 256, 14, 14), (256, 3, 1, 1, 1)),
    "resnet_3x3_stride": ((4, 128, 56, 56), (128, 3, 2, 1, 1)),
    "resnet_1x1": ((4, 256, 28, 28), (64, 1, 1, 0, 1)),
    "depthwise": ((4, 64, 56, 56), (64, 3, 1, 1, 64)),
}
for _name, (_shape, (_out, _kernel, _stride, _padding, _groups)) in CONVOLUTIONS.items():
    op(
        "nn",
        f"conv2d_{_name}",
        f"F.conv2d(X, W, B, {_stride}, {_padding}, 1, {_groups})",
        lambda d, s=_shape, o=_out, k=_kernel, g=_groups: {
            "X": d.normal(*s),
            "W": d.normal(o, s[1] // g, k, k) * 0.05,
            "B": d.normal(o),
        },
        backward=True,
    )

POOLING = {
    "max_pool2d": "F.max_pool2d(X, 2)",
    "max_pool2d_3x3": "F.max_pool2d(X, 3, 2, 1)",
    "avg_pool2d": "F.avg_pool2d(X, 2)",
    "avg_pool2d_3x3": "F.avg_pool2d(X, 3, 2, 1)",
    "adaptive_avg_pool2d": "F.adaptive_avg_pool2d(X, 1)",
    "interpolate": "F.interpolate(X, scale_factor=2, mode='bilinear')",
}
for _name, _statement in POOLING.items():
    op("nn", _name, _statement, lambda d: {"X": d.normal(8, 64, 56, 56)}, backward=True)
op("nn", "max_pool2d_lenet", "F.max_pool2d(X, 2)", lambda d: {"X": d.normal(64, 6, 24, 24)}, backward=True)

ROWS = {
    "softmax": "F.softmax(X, -1)",
    "log_softmax": "F.log_softmax(X, -1)",
    "layer_norm": "F.layer_norm(X, (X.shape[-1],), W, B)",
    "rms_norm": "F.rms_norm(X, (X.shape[-1],), W)",
}
for _label, (_rows, _columns) in {"1e6": (1000, 1000), "1e7": (10000, 1000), "short": (100000, 10)}.items():
    for _name, _statement in ROWS.items():
        op(
            "nn",
            f"{_name}_{_label}",
            _statement,
            lambda d, n=_rows, m=_columns, s=_statement: {
                name: value
                for name, value in {"X": d.normal(n, m), "W": d.normal(m), "B": d.normal(m)}.items()
                if f"{name}," in s or f"{name})" in s
            },
            backward=True,
        )
    op(
        "nn",
        f"cross_entropy_{_label}",
        "F.cross_entropy(X, y)",
        lambda d, n=_rows, m=_columns: {"X": d.normal(n, m), "y": d.integers(m, n)},
        backward=True,
    )
op("nn", "softmax_columns", "F.softmax(X, 0)", lambda d: {"X": d.normal(1000, 1000)}, backward=True)
op(
    "nn",
    "batch_norm",
    "F.batch_norm(X, m, v, W, B, True)",
    lambda d: {
        "X": d.normal(16, 64, 56, 56),
        "W": d.normal(64),
        "B": d.normal(64),
        "m": d.uniform(64),
        "v": d.uniform(64),
    },
    backward=True,
)
op(
    "nn",
    "group_norm",
    "F.group_norm(X, 8, W, B)",
    lambda d: {"X": d.normal(16, 64, 56, 56), "W": d.normal(64), "B": d.normal(64)},
    backward=True,
)
op(
    "nn",
    "embedding",
    "F.embedding(y, W)",
    lambda d: {"W": d.normal(30000, 256), "y": d.integers(30000, 64, 128)},
    backward=True,
)
op(
    "nn",
    "linear",
    "F.linear(X, W, B)",
    lambda d: {"X": d.normal(512, 512), "W": d.normal(512, 512), "B": d.normal(512)},
    backward=True,
)
for _name, _causal in {"sdpa": False, "sdpa_causal": True}.items():
    op(
        "nn",
        _name,
        f"F.scaled_dot_product_attention(Q, K, V, is_causal={_causal})",
        lambda d: {name: d.normal(2, 8, 256, 64) for name in "QKV"},
        backward=True,
    )
LOSSES = {
    "mse_loss": "F.mse_loss(X, y)",
    "l1_loss": "F.l1_loss(X, y)",
    "smooth_l1_loss": "F.smooth_l1_loss(X, y)",
    "binary_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits(X, p)",
}
for _name, _statement in LOSSES.items():
    op(
        "nn",
        _name,
        _statement,
        lambda d, s=_statement: (
            {"X": d.normal(10**6)} | ({"y": d.normal(10**6)} if "y)" in s else {"p": d.uniform(10**6)})
        ),
        backward=True,
    )
op("nn", "dropout", "F.dropout(X, 0.1, True)", lambda d: {"X": d.normal(10**6)}, backward=True)
