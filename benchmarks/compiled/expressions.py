"""The programs: what a few lines of ordinary code do with one array ``x``, as expressions over it, ``t`` and ``F``."""

from __future__ import annotations

from typing import Final

__all__ = ["EXPRESSIONS"]

_FLAT: Final = (200_000,)
_ROWS: Final = (256, 512)
_SHORT: Final = (3125, 64)
_IMAGES: Final = (8, 16, 32, 32)
_HEADS: Final = (8, 4, 32, 128)

EXPRESSIONS: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    # functions without HLO of their own, alone, in chains, in sums
    "sin": ("t.sin(x)", _FLAT),
    "atan": ("t.atan(x)", _FLAT),
    "erf": ("t.erf(x)", _FLAT),
    "gelu": ("F.gelu(x)", _FLAT),
    "softplus": ("F.softplus(x)", _FLAT),
    "elu": ("F.elu(x)", _FLAT),
    "leaky_relu": ("F.leaky_relu(x * 2 + 1) * x", _FLAT),
    "hardswish": ("F.hardswish(x * 2 + 1) * x", _FLAT),
    "sign": ("t.sign(x)", _FLAT),
    "remainder": ("(x * 7) % 3", _FLAT),
    "waves": ("t.sin(x * 2 + 1) * t.cos(x) + t.tanh(x) * 0.5", _FLAT),
    "waves_of_waves": ("t.sin(t.cos(t.sin(t.cos(x) * 1.1) * 0.9) + x)", _FLAT),
    "sum_of_squares_between": ("((x[:, 1:] - x[:, :-1]) ** 2).mean()", _ROWS),
    "sum_of_window": ("x[:, 1:-100].sum()", _ROWS),
    "sum_of_transpose": ("(x.T * 2).sum()", _ROWS),
    "sum_of_sin": ("t.sin(x * 2).sum()", _FLAT),
    "rows_of_sin": ("t.sin(x).sum(1)", _ROWS),
    "columns_of_sin": ("t.sin(x).sum(0)", _ROWS),
    "integer_square": ("(x * 100).long() ** 2", _FLAT),
    # windows of wider rows
    "differences": ("x[:, 1:] - x[:, :-1]", _ROWS),
    "stencil": ("x[1:-1, 1:-1] * -4 + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]", _ROWS),
    "torus": ("x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x", _ROWS),
    "gated": ("F.silu(x[:, :256]) * x[:, 256:]", _ROWS),
    "every_other": ("x[:, ::2] * x[:, 1::2]", _ROWS),
    "heads": ("x.reshape(8, 32, 4, 128).transpose(1, 2).contiguous() * 2", _ROWS),
    "queries": ("x.reshape(8, 16, 2, 4, 128).permute(2, 0, 3, 1, 4)[0] * 2", _ROWS),
    "merged_heads": ("x.transpose(1, 2).reshape(8, 32, 512) * 2", _HEADS),
    "patches": ("x.reshape(8, 16, 4, 8, 4, 8).permute(0, 2, 4, 3, 5, 1).reshape(8, 16, 1024) * 2", _IMAGES),
    # pieces put together
    "joined": ("t.cat([x, x * 2])", _FLAT),
    "stacked_rows": ("t.stack([x[n] * 2 for n in range(50)])", _ROWS),
    "joined_columns": ("t.cat([x, x * 2], 1) * 3", _SHORT),
    "rotary": ("t.cat([-x[:, 32:], x[:, :32]], 1) * 2 + x", _SHORT),
    "padded": ("F.pad(x, (1, 1, 1, 1)) * 2", _IMAGES),
    "rolled": ("x.roll(1) * 2 + x", _FLAT),
    "backwards": ("x.flip(0) * 2", _FLAT),
    "masks_joined": ("t.cat([x > 0, x < 1], 1)", _ROWS),
    "lower_triangle": ("t.tril(x * 2) + 1", (400, 400)),
    # rows
    "softmax": ("t.softmax(x * 2, 1)", _SHORT),
    "layer_norm": ("F.layer_norm(x * 2, (512,))", _ROWS),
    "rms_norm": ("x * t.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)", _ROWS),
    "standardised": ("(x - x.mean(0)) / x.std(0)", _ROWS),
    "entropy": ("-(t.softmax(x, 1) * t.log_softmax(x, 1)).sum(1)", _ROWS),
    "maxima": ("(x * 2).max(1).values", _SHORT),
    "distances": ("((x[:, None] - x[None]) ** 2).sum(-1).sqrt()", (100, 32)),
    "smooth_l1": ("F.smooth_l1_loss(x, x * x)", _FLAT),
    "cross_entropy": ("F.cross_entropy(x, t.arange(256) % 512)", _ROWS),
    # places that data give
    "gathered": ("x.gather(1, (x * 1000).long().abs() % 512) * 2", _ROWS),
    "embedded": ("F.embedding(t.arange(0, 512, 3) % 256, x)", _ROWS),
    "scattered": ("t.zeros(256, 512).scatter_add(1, (x * 1000).long().abs() % 512, x)", _ROWS),
    # images
    "normalised_channels": ("(x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True)", _IMAGES),
    "channels_last": ("(x.permute(0, 2, 3, 1) * 2).contiguous()", _IMAGES),
    "pixel_shuffle": ("F.pixel_shuffle(x, 2) * 2", _IMAGES),
    "upsampled": ("F.interpolate(x, scale_factor=2) * 2", _IMAGES),
    "pooled": ("F.max_pool2d(x, 2) * 2", _IMAGES),
    "squeezed": ("x * x.mean((2, 3), keepdim=True).sigmoid()", _IMAGES),
    # products
    "attention": ("F.scaled_dot_product_attention(x, x, x, is_causal=True)", _HEADS),
    "of_rows": ("t.softmax(x @ x.T, -1) @ x", (100, 32)),
    "by_a_row": ("x @ x[0]", (512, 512)),
    "two_layers": ("F.gelu(x @ x.T) @ x", (64, 256)),
}  # fmt: skip
"""By name: the expression, and the shape of ``x``, of the standard normal distribution."""
