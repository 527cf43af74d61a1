"""Gives convolutions the one order of dimensions that they are computed in."""

from __future__ import annotations

from typing import Any

from ..ir.builder import Builder
from ..ir.module import Computation, Instruction, Module
from ..ir.semantics.window import ConvolutionDims, Window, WindowDim

__all__ = ["ConvolutionCanonicalization", "canonical"]


def canonical(rank: int) -> ConvolutionDims:
    """`bf01_oi01->bf01`, for so many spatial dimensions: as the eager kernels have them."""
    spatial = tuple(range(2, 2 + rank))
    return ConvolutionDims(0, 1, spatial, 1, 0, spatial, 0, 1, spatial)


class ConvolutionCanonicalization:
    """Transposes the operands and results of convolutions, so that all are `bf01_oi01->bf01`.

    Contract: afterwards operands have the result's type, and no window is reversed: the kernel is. What is transposed
    already cancels against the transposes that this makes, and the rest fuses with what is around or is folded into
    products by `layout-assignment`.
    """

    name = "conv-canonicalization"

    def run(self, module: Module) -> bool:
        """Rewrite the convolutions of every computation."""
        changed = [_rewrite(computation) for computation in module.computations]
        return any(changed)


def _rewrite(computation: Computation) -> bool:
    made: list[Instruction] = []
    replaced: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        if i.opcode != "convolution" or _is_canonical(i):
            made.append(i)
            continue
        b = Builder(i.name)
        with b.source(i.metadata):
            new = _canonical(b, i)
        for one in b.build_computation(new).instructions:
            one.name = f"{i.name}.{one.name}"
            made.append(one)
        replaced[i] = new
    if not replaced:
        return False
    computation.instructions = made
    computation.root = replaced.get(computation.root, computation.root)
    computation.make_names_unique()
    return True


def _is_canonical(i: Instruction) -> bool:
    labels: ConvolutionDims = i.attrs["dim_labels"]
    window: Window = i.attrs.get("window", Window())
    return (
        labels == canonical(labels.rank)
        and all(o.dtype == i.dtype for o in i.operands)
        and not any(w.reversal for w in window.dims)
    )


def _canonical(b: Builder, i: Instruction) -> Instruction:
    labels: ConvolutionDims = i.attrs["dim_labels"]
    window: Window = i.attrs.get("window", Window())
    lhs, rhs = (o if o.dtype == i.dtype else b.convert(o, i.dtype) for o in i.operands)
    lhs = _transposed(b, lhs, (labels.lhs_batch, labels.lhs_feature, *labels.lhs_spatial))
    rhs = _transposed(b, rhs, (labels.rhs_output, labels.rhs_input, *labels.rhs_spatial))
    flipped = [2 + d for d, w in enumerate(window.dims) if w.reversal]
    if flipped:
        rhs = b.reverse(rhs, flipped)
    attrs: dict[str, Any] = {**i.attrs, "dim_labels": canonical(labels.rank)}
    if window.dims:
        attrs["window"] = Window(
            tuple(WindowDim(w.size, w.stride, w.low, w.high, w.base_dilation, w.window_dilation) for w in window.dims)
        )
    product = b.emit("convolution", (lhs, rhs), attrs)
    places = (labels.out_batch, labels.out_feature, *labels.out_spatial)
    return _transposed(b, product, sorted(range(len(places)), key=places.__getitem__))


def _transposed(b: Builder, x: Instruction, order: Any) -> Instruction:
    return x if list(order) == sorted(order) else b.transpose(x, tuple(order))
