"""The Transformer: Vaswani and others, "Attention Is All You Need" (2017)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import full, triu
from minitensor._warning import warn
from minitensor.nn import functional as F
from minitensor.nn import init
from minitensor.nn.modules.activation import GELU, ReLU
from minitensor.nn.modules.attention import MultiheadAttention
from minitensor.nn.modules.container import ModuleList
from minitensor.nn.modules.dropout import Dropout
from minitensor.nn.modules.linear import Linear
from minitensor.nn.modules.module import Module
from minitensor.nn.modules.normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

_Activation = str | Callable[[Tensor], Tensor]


def _get_clones(module: Module, N: int) -> ModuleList:  # noqa: N803
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    return triu(full((sz, sz), float("-inf"), dtype=dtype, device=device), diagonal=1)


class _Layer(Module):
    """What both kinds of layers share: self-attention, and two linear maps with an activation between."""

    self_attn: MultiheadAttention
    linear1: Linear
    linear2: Linear
    dropout: Dropout
    activation: Any
    norm_first: bool

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)

    def _attended(
        self, attention: MultiheadAttention, x: Tensor, source: Tensor, mask: Any, hidden: Any, is_causal: bool
    ) -> Tensor:
        return attention(  # type: ignore[no-any-return]
            x, source, source, attn_mask=mask, key_padding_mask=hidden, need_weights=False, is_causal=is_causal
        )[0]

    def _mapped(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # type: ignore[no-any-return]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and a layer normalisation.

    ``[L, N, d_model]``, or ``[N, L, d_model]`` with ``batch_first``, in and out. With ``norm_first`` the normalisations
    come first.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where: Any = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **where)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        chosen: Any = _get_activation_fn(activation) if isinstance(activation, str) else activation
        is_relu = chosen is F.relu or isinstance(chosen, ReLU)
        is_gelu = chosen is F.gelu or isinstance(chosen, GELU)
        self.activation_relu_or_gelu = 1 if is_relu else 2 if is_gelu else 0
        self.activation = chosen

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the layer's result; the masks are those of :class:`MultiheadAttention`."""
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))  # type: ignore[no-any-return]

    def _sa_block(self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Tensor:
        return self.dropout1(  # type: ignore[no-any-return]
            self._attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal)
        )

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._mapped(x))  # type: ignore[no-any-return]


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's results, and a feed-forward network, each with its residual."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where: Any = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **where)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **where)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the layer's result; ``memory`` is the encoder's."""
        x = tgt
        of_itself = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        of_memory = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *of_itself)
            x = x + self._mha_block(self.norm2(x), *of_memory)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *of_itself))
        x = self.norm2(x + self._mha_block(x, *of_memory))
        return self.norm3(x + self._ff_block(x))  # type: ignore[no-any-return]

    def _sa_block(self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Tensor:
        return self.dropout1(  # type: ignore[no-any-return]
            self._attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal)
        )

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Tensor:
        return self.dropout2(  # type: ignore[no-any-return]
            self._attended(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal)
        )

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._mapped(x))  # type: ignore[no-any-return]


def _why_not_packed(layer: Any) -> str:
    """Say why PyTorch would not drop the padding inside an encoder of such layers; nothing if it would."""
    what = "encoder_layer"
    if not isinstance(layer, TransformerEncoderLayer):
        return f"{what} was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = {
        f"{what}.norm_first was True": layer.norm_first,
        f"{what}.self_attn.batch_first was not True(use batch_first for better inference performance)": (
            not attention.batch_first
        ),
        f"{what}.self_attn._qkv_same_embed_dim was not True": not attention._qkv_same_embed_dim,
        f"{what}.self_attn was passed bias=False": attention.in_proj_bias is None,
        f"{what}.activation_relu_or_gelu was not True": not layer.activation_relu_or_gelu,
        f"{what}.norm1.eps was not equal to {what}.norm2.eps": layer.norm1.eps != layer.norm2.eps,
        f"{what}.self_attn.num_heads is odd": attention.num_heads % 2 == 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other, and a normalisation at the end if there is one.

    Where PyTorch drops the padding in between (``enable_nested_tensor``, evaluation without gradients, padding at the
    end of sequences only), its results are 0, here as there.
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        why_not = _why_not_packed(encoder_layer)
        if enable_nested_tensor and why_not:
            warn(f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why_not}")
        self.use_nested_tensor = enable_nested_tensor and not why_not

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the encoded ``src``; True in ``src_key_padding_mask`` ``[N, L]`` is padding."""
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=src_key_padding_mask)
        if src_key_padding_mask is not None and mask is None and self._drops_padding(src):
            padding = src_key_padding_mask
            if padding.dtype != _C.bool:
                padding = padding == float("-inf")
            at_end = (padding[:, 1:] | ~padding[:, :-1]).all() if self.mask_check else True
            output = output.masked_fill((padding & at_end).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)  # type: ignore[no-any-return]

    def _drops_padding(self, src: Tensor) -> bool:
        first = self.layers[0]
        if not getattr(self, "use_nested_tensor", False) or first.training or src.dim() != 3:
            return False
        tensors = (src, *first.parameters())
        return not _C.is_recorded(*tensors)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other, and a normalisation at the end if there is one."""

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoded ``tgt``; ``memory`` is the encoder's result."""
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)  # type: ignore[no-any-return]


class Transformer(Module):
    """An encoder and a decoder. ``src`` is ``[S, N, d_model]`` and ``tgt`` ``[T, N, d_model]``, or the batch first."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where: Any = {"device": device, "dtype": dtype}
        shape: Any = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options: Any = {"batch_first": batch_first, "norm_first": norm_first, "bias": bias, **where}
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*shape, **options)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            decoder_layer = TransformerDecoderLayer(*shape, **options)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoder's result for the encoded ``src`` and ``tgt``."""
        batched = src.dim() == 3
        batch = 0 if self.batch_first else 1
        if batched and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(  # type: ignore[no-any-return]
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return ``[sz, sz]`` with -inf above the diagonal and zeros elsewhere."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for param in self.parameters():
            if param.dim() > 1:
                init.xavier_uniform_(param)
