"""Shape rules of what slides a window: reduce-window, select-and-scatter and convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..semantics.window import ConvolutionDims, Window
from ..shape import AnyShape, Shape, TupleShape
from .checks import Attrs, Rule, ShapeError, accumulated, check_combiner, same_dims, wrong

__all__ = ["WINDOW_RULES"]


def _window(opcode: str, attrs: Attrs, rank: int) -> Window:
    window: Window = attrs.get("window", Window())
    if len(window.dims) != rank:
        raise ShapeError(f"{opcode} needs a window of {rank} dimensions, got {window}")
    if not window.valid():
        raise ShapeError(f"{opcode}: sizes, strides and dilations of {window} must be positive")
    return window


def _reduce_window(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes or len(shapes) % 2:
        raise ShapeError(f"reduce-window needs as many initial values as inputs, got {len(shapes)} operands")
    n = len(shapes) // 2
    inputs, inits = shapes[:n], shapes[n:]
    dims = same_dims("reduce-window", inputs)
    for x, init in zip(inputs, inits, strict=True):
        if init != Shape(x.dtype):
            wrong(f"reduce-window of {x} with an initial value of shape {init}, expected {x.dtype}[]")
    elements = [Shape(x.dtype) for x in inputs]
    check_combiner("reduce-window", attrs["to_apply"], [*elements, *elements], elements)
    places = _window("reduce-window", attrs, len(dims)).positions(dims)
    results = tuple(x.with_dims(places) for x in inputs)
    return results[0] if n == 1 else TupleShape(results)


def _select_and_scatter(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    operand, source, init = shapes
    window = _window("select-and-scatter", attrs, operand.rank)
    if any(d.base_dilation != 1 or d.window_dilation != 1 for d in window.dims):
        wrong("select-and-scatter has no dilation")
    element = Shape(operand.dtype)
    check_combiner("select-and-scatter", attrs["select"], [element] * 2, [Shape("pred")])
    check_combiner("select-and-scatter", attrs["scatter"], [element] * 2, [element])
    if init != element or source.dtype != operand.dtype:
        wrong(f"select-and-scatter of {operand}, {source} and {init}: types must be equal")
    if source.dims != window.positions(operand.dims):
        wrong(
            f"select-and-scatter: the source is {source}, the window has {list(window.positions(operand.dims))} places"
        )
    return operand


def _convolution(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    lhs, rhs = shapes
    labels: ConvolutionDims = attrs["dim_labels"]
    rank = labels.rank
    if lhs.rank != rank + 2 or rhs.rank != rank + 2:
        wrong(f"convolution {labels} of {lhs} and {rhs}: ranks must be {rank + 2}")
    if lhs.dtype != rhs.dtype:
        wrong(f"convolution of {lhs} and {rhs}: types must be equal")
    window = _window("convolution", attrs, rank)
    features, batches = attrs.get("feature_group_count", 1), attrs.get("batch_group_count", 1)
    if features < 1 or batches < 1 or (features > 1 and batches > 1):
        wrong(f"convolution with {features} feature groups and {batches} batch groups")
    for d, size in zip(labels.rhs_spatial, (w.size for w in window.dims), strict=True):
        if rhs.dims[d] != size:
            wrong(f"convolution: the window {window} is not the size of the kernel {rhs}")
    batch, channels = lhs.dims[labels.lhs_batch], lhs.dims[labels.lhs_feature]
    made = rhs.dims[labels.rhs_output]
    if channels != rhs.dims[labels.rhs_input] * features:
        wrong(f"convolution: {channels} input features are not {features} groups of {rhs.dims[labels.rhs_input]}")
    if made % features or made % batches or batch % batches:
        wrong(f"convolution: {made} output features or {batch} batches do not divide into the groups")
    dims = [0] * (rank + 2)
    dims[labels.out_batch], dims[labels.out_feature] = batch // batches, made
    places = window.positions([lhs.dims[d] for d in labels.lhs_spatial])
    for d, n in zip(labels.out_spatial, places, strict=True):
        dims[d] = n
    return accumulated("convolution", lhs, declared).with_dims(tuple(dims))


WINDOW_RULES: Final[dict[str, Rule]] = {
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "convolution": _convolution,
}
