"""Builder methods of windows, control flow, linear algebra and calls of what is outside of the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .combiners import combiner
from .infer import ShapeError
from .module import Attrs, Computation, Instruction, Literal
from .shape import AnyShape, Shape, TupleShape
from .window import ConvolutionDims, Window, WindowDim

__all__ = ["WholeArrays"]

Dims = Sequence[int]


class _Emits(Protocol):
    def emit(
        self,
        opcode: str,
        operands: Sequence[Instruction] = (),
        attrs: Attrs | None = None,
        *,
        shape: AnyShape | None = None,
        literal: Literal | None = None,
        parameter_number: int | None = None,
        name: str | None = None,
    ) -> Instruction:
        """Appends any instruction."""


class WholeArrays:
    """The part of `Builder` for opcodes that are neither elementwise nor movement."""

    # ---- windows

    def reduce_window(
        self: _Emits, x: Instruction, init: Instruction, window: Window, kind: str | Computation = "add"
    ) -> Instruction:
        """Combines the elements under each place of a window, from the scalar `init`; `kind` is as for reduce."""
        to_apply = kind if isinstance(kind, Computation) else combiner(kind, x.dtype)
        return self.emit("reduce-window", (x, init), {"window": window, "to_apply": to_apply})

    def select_and_scatter(
        self: _Emits,
        x: Instruction,
        source: Instruction,
        init: Instruction,
        window: Window,
        *,
        select: Computation,
        scatter: Computation,
    ) -> Instruction:
        """Combines each element of `source` into the place that `select` chooses: pooling's gradient."""
        attrs: Attrs = {"window": window, "select": select, "scatter": scatter}
        return self.emit("select-and-scatter", (x, source, init), attrs)

    def convolution(
        self: _Emits,
        lhs: Instruction,
        rhs: Instruction,
        *,
        dim_labels: ConvolutionDims | str,
        window: Window | None = None,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        dtype: str | None = None,
    ) -> Instruction:
        """The convolution, by default with stride 1 and no padding; `dtype` is the result's, if it is wider."""
        labels = ConvolutionDims.parse(dim_labels) if isinstance(dim_labels, str) else dim_labels
        if window is None:
            window = Window(tuple(WindowDim(rhs.dims[d]) for d in labels.rhs_spatial))
        attrs: Attrs = {"window": window, "dim_labels": labels}
        if feature_group_count != 1:
            attrs["feature_group_count"] = feature_group_count
        if batch_group_count != 1:
            attrs["batch_group_count"] = batch_group_count
        return self.emit("convolution", (lhs, rhs), attrs, shape=None if dtype is None else Shape(dtype))

    # ---- linear algebra, order, random bits

    def fft(self: _Emits, x: Instruction, fft_type: str, fft_length: Dims) -> Instruction:
        """The transform over the last dimensions; `fft_type` is FFT, IFFT, RFFT or IRFFT."""
        return self.emit("fft", (x,), {"fft_type": fft_type, "fft_length": tuple(fft_length)})

    def cholesky(self: _Emits, x: Instruction, *, lower: bool = True) -> Instruction:
        """The triangular factor of positive definite matrices; NaN where there is none."""
        return self.emit("cholesky", (x,), {"lower": lower})

    def triangular_solve(
        self: _Emits,
        a: Instruction,
        b: Instruction,
        *,
        left_side: bool = True,
        lower: bool = True,
        unit_diagonal: bool = False,
        transpose_a: str = "NO_TRANSPOSE",
    ) -> Instruction:
        """x of op(a) x = b, or of x op(a) = b; one triangle of a is read."""
        attrs: Attrs = {
            "left_side": left_side,
            "lower": lower,
            "unit_diagonal": unit_diagonal,
            "transpose_a": transpose_a,
        }
        return self.emit("triangular-solve", (a, b), attrs)

    def topk(self: _Emits, x: Instruction, k: int, *, largest: bool = True) -> Instruction:
        """The tuple of the k largest elements of each row, in order, and of their positions (s32)."""
        return self.emit("topk", (x,), {"k": k, "largest": largest})

    def rng_bit_generator(self: _Emits, state: Instruction, bits: Shape, algorithm: str = "rng_default") -> Instruction:
        """The tuple of the next state and an array of random bits."""
        shape = TupleShape((state.shape, bits))
        return self.emit("rng-bit-generator", (state,), {"algorithm": algorithm}, shape=shape)

    # ---- control flow and calls

    def while_(self: _Emits, state: Instruction, condition: Computation, body: Computation) -> Instruction:
        """The first state of `state`, `body(state)`, ... for which the condition is false."""
        return self.emit("while", (state,), {"condition": condition, "body": body})

    def conditional(
        self: _Emits, index: Instruction, branches: Sequence[Computation], operands: Sequence[Instruction]
    ) -> Instruction:
        """What branch `index` (the last one if out of range) gives; of a pred, the true one is first."""
        if index.shape == Shape("pred"):
            if len(branches) != 2:
                raise ShapeError(f"conditional on a pred has {len(branches)} branches")
            attrs: Attrs = {"true_computation": branches[0], "false_computation": branches[1]}
        else:
            attrs = {"branch_computations": tuple(branches)}
        return self.emit("conditional", (index, *operands), attrs)

    def map(self: _Emits, function: Computation, *operands: Instruction) -> Instruction:
        """A function of scalars, applied element by element."""
        dimensions = tuple(range(len(operands[0].dims))) if operands else ()
        return self.emit("map", operands, {"dimensions": dimensions, "to_apply": function})

    def custom_call(
        self: _Emits, target: str, operands: Sequence[Instruction], shape: AnyShape, backend_config: str = ""
    ) -> Instruction:
        """What the function registered for `target` gives."""
        attrs: Attrs = {"custom_call_target": target}
        if backend_config:
            attrs["backend_config"] = backend_config
        return self.emit("custom-call", operands, attrs, shape=shape)
