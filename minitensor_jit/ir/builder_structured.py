"""Builder methods of windows, control flow, linear algebra and calls of what is outside of the module."""

from __future__ import annotations

from collections.abc import Sequence

from .builder_base import Dims, InstructionBuilder
from .infer.infer_shape import ShapeError
from .module import Attrs, Computation, Instruction
from .semantics.collective import Groups
from .semantics.combiners import combiner
from .semantics.window import ConvolutionDims, Window, WindowDim
from .shape import AnyShape, Shape, TupleShape

__all__ = ["WholeArrays"]


def _exchange(channel_id: int, groups: Groups, flat: bool = False) -> Attrs:
    attrs: Attrs = {"channel_id": channel_id, "replica_groups": groups}
    if flat:
        attrs["use_global_device_ids"] = True
    return attrs


class WholeArrays(InstructionBuilder):
    """The part of `Builder` for opcodes that are neither elementwise nor movement."""

    # ---- windows

    def reduce_window(
        self, x: Instruction, init: Instruction, window: Window, kind: str | Computation = "add"
    ) -> Instruction:
        """Combines the elements under each place of a window, from the scalar `init`; `kind` is as for reduce."""
        to_apply = kind if isinstance(kind, Computation) else combiner(kind, x.dtype)
        return self.emit("reduce-window", (x, init), {"window": window, "to_apply": to_apply})

    def select_and_scatter(
        self,
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
        self,
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

    def fft(self, x: Instruction, fft_type: str, fft_length: Dims) -> Instruction:
        """The transform over the last dimensions; `fft_type` is FFT, IFFT, RFFT or IRFFT."""
        return self.emit("fft", (x,), {"fft_type": fft_type, "fft_length": tuple(fft_length)})

    def cholesky(self, x: Instruction, *, lower: bool = True) -> Instruction:
        """The triangular factor of positive definite matrices; NaN where there is none."""
        return self.emit("cholesky", (x,), {"lower": lower})

    def triangular_solve(
        self,
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

    def topk(self, x: Instruction, k: int, *, largest: bool = True) -> Instruction:
        """The tuple of the k largest elements of each row, in order, and of their positions (s32)."""
        return self.emit("topk", (x,), {"k": k, "largest": largest})

    def rng_bit_generator(self, state: Instruction, bits: Shape, algorithm: str = "rng_default") -> Instruction:
        """The tuple of the next state and an array of random bits."""
        shape = TupleShape((state.shape, bits))
        return self.emit("rng-bit-generator", (state,), {"algorithm": algorithm}, shape=shape)

    # ---- collectives

    def all_reduce(
        self, x: Instruction, kind: str | Computation, groups: Groups, *, channel_id: int = 1
    ) -> Instruction:
        """x combined with that of the other devices of the group, in the group's order; `kind` is as for reduce.

        `groups` number devices. `channel_id` is theirs who exchange it, as in XLA.
        """
        to_apply = kind if isinstance(kind, Computation) else combiner(kind, x.dtype)
        return self.emit("all-reduce", (x,), {**_exchange(channel_id, groups, True), "to_apply": to_apply})

    def all_gather(self, x: Instruction, dimension: int, groups: Groups, *, channel_id: int = 1) -> Instruction:
        """The group's arrays one after the other along a dimension."""
        attrs = _exchange(channel_id, groups, True)
        return self.emit("all-gather", (x,), {**attrs, "dimensions": (dimension,)})

    def reduce_scatter(
        self,
        x: Instruction,
        kind: str | Computation,
        dimension: int,
        groups: Groups,
        *,
        channel_id: int = 1,
    ) -> Instruction:
        """The device's part, along a dimension, of what `all_reduce` gives."""
        to_apply = kind if isinstance(kind, Computation) else combiner(kind, x.dtype)
        attrs = {**_exchange(channel_id, groups, True), "dimensions": (dimension,), "to_apply": to_apply}
        return self.emit("reduce-scatter", (x,), attrs)

    def all_to_all(self, x: Instruction, dimension: int, groups: Groups, *, channel_id: int = 1) -> Instruction:
        """The device's part, along a dimension, of each array of the group, one after the other."""
        return self.emit("all-to-all", (x,), {**_exchange(channel_id, groups), "dimensions": (dimension,)})

    def collective_permute(self, x: Instruction, pairs: Groups, *, channel_id: int = 1) -> Instruction:
        """What the device that is paired with this one as its target has; zeros where none is."""
        return self.emit("collective-permute", (x,), {"channel_id": channel_id, "source_target_pairs": pairs})

    def collective_broadcast(self, x: Instruction, groups: Groups, *, channel_id: int = 1) -> Instruction:
        """What the first device of the group has."""
        return self.emit("collective-broadcast", (x,), _exchange(channel_id, groups))

    def partition_id(self) -> Instruction:
        """The number of the partition that runs the module, u32."""
        return self.emit("partition-id")

    # ---- control flow and calls

    def while_(self, state: Instruction, condition: Computation, body: Computation) -> Instruction:
        """The first state of `state`, `body(state)`, ... for which the condition is false."""
        return self.emit("while", (state,), {"condition": condition, "body": body})

    def conditional(
        self, index: Instruction, branches: Sequence[Computation], operands: Sequence[Instruction]
    ) -> Instruction:
        """What branch `index` (the last one if out of range) gives; of a pred, the true one is first."""
        if index.shape == Shape("pred"):
            if len(branches) != 2:
                raise ShapeError(f"conditional on a pred has {len(branches)} branches")
            attrs: Attrs = {"true_computation": branches[0], "false_computation": branches[1]}
        else:
            attrs = {"branch_computations": tuple(branches)}
        return self.emit("conditional", (index, *operands), attrs)

    def map(self, function: Computation, *operands: Instruction) -> Instruction:
        """A function of scalars, applied element by element."""
        dimensions = tuple(range(len(operands[0].dims))) if operands else ()
        return self.emit("map", operands, {"dimensions": dimensions, "to_apply": function})

    def custom_call(
        self, target: str, operands: Sequence[Instruction], shape: AnyShape, backend_config: str = ""
    ) -> Instruction:
        """What the function registered for `target` gives."""
        attrs: Attrs = {"custom_call_target": target}
        if backend_config:
            attrs["backend_config"] = backend_config
        return self.emit("custom-call", operands, attrs, shape=shape)
