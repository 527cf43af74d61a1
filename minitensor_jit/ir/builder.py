"""Builds a module, one method an opcode, with shapes inferred and checked at every step."""

from __future__ import annotations

from collections.abc import Sequence

from .builder_base import Dims
from .builder_elementwise import Elementwise
from .builder_structured import WholeArrays
from .infer.infer_shape import ShapeError
from .module import Attrs, Computation, Instruction
from .semantics.combiners import combiner, highest, lowest
from .semantics.kernel_call import KERNEL_PREFIX, KernelCall, Param
from .shape import Shape, TupleShape

__all__ = ["Builder", "combiner", "highest", "lowest"]


class Builder(Elementwise, WholeArrays):
    """Appends instructions to one computation and, at the end, makes a module (or a computation) of them."""

    # ---- data movement

    def reshape(self, x: Instruction, dims: Dims) -> Instruction:
        """The same elements in row-major order, with other dimensions."""
        return self.emit("reshape", (x,), shape=x.array_shape.with_dims(tuple(dims)))

    def transpose(self, x: Instruction, permutation: Dims) -> Instruction:
        """Dimension k of the result is dimension `permutation[k]` of x."""
        return self.emit("transpose", (x,), {"dimensions": tuple(permutation)})

    def slice(self, x: Instruction, starts: Dims, limits: Dims, strides: Dims | None = None) -> Instruction:
        """The elements `starts[d] : limits[d] : strides[d]` in each dimension d."""
        strides = (1,) * len(starts) if strides is None else strides
        if not len(starts) == len(limits) == len(strides):
            raise ShapeError("slice needs as many starts as limits and strides")
        return self.emit("slice", (x,), {"slice": tuple(zip(starts, limits, strides, strict=True))})

    def concatenate(self, operands: Sequence[Instruction], dimension: int) -> Instruction:
        """The operands one after the other along `dimension`."""
        return self.emit("concatenate", tuple(operands), {"dimensions": (dimension,)})

    def pad(self, x: Instruction, value: Instruction, padding: Sequence[Sequence[int]]) -> Instruction:
        """Adds (low, high[, interior]) elements of `value` in each dimension; negative ones crop."""
        full = tuple((int(p[0]), int(p[1]), int(p[2]) if len(p) > 2 else 0) for p in padding)
        return self.emit("pad", (x, value), {"padding": full})

    def reverse(self, x: Instruction, dimensions: Dims) -> Instruction:
        """The elements in reverse order along `dimensions`."""
        return self.emit("reverse", (x,), {"dimensions": tuple(dimensions)})

    def dynamic_slice(self, x: Instruction, starts: Sequence[Instruction], sizes: Dims) -> Instruction:
        """A window of the given sizes; starts are clamped so that it lies inside x."""
        return self.emit("dynamic-slice", (x, *starts), {"dynamic_slice_sizes": tuple(sizes)})

    def dynamic_update_slice(self, x: Instruction, update: Instruction, starts: Sequence[Instruction]) -> Instruction:
        """x with a window replaced by `update`; starts are clamped so that it lies inside x."""
        return self.emit("dynamic-update-slice", (x, update, *starts))

    def gather(
        self,
        x: Instruction,
        indices: Instruction,
        *,
        offset_dims: Dims,
        collapsed_slice_dims: Dims,
        start_index_map: Dims,
        index_vector_dim: int,
        slice_sizes: Dims,
        indices_are_sorted: bool = False,
    ) -> Instruction:
        """Windows of x at positions read from `indices` (XLA's gather); positions are clamped."""
        attrs: Attrs = {
            "offset_dims": tuple(offset_dims),
            "collapsed_slice_dims": tuple(collapsed_slice_dims),
            "start_index_map": tuple(start_index_map),
            "index_vector_dim": index_vector_dim,
            "slice_sizes": tuple(slice_sizes),
        }
        if indices_are_sorted:
            attrs["indices_are_sorted"] = True
        return self.emit("gather", (x, indices), attrs)

    def scatter(
        self,
        x: Instruction,
        indices: Instruction,
        updates: Instruction,
        *,
        update_window_dims: Dims,
        inserted_window_dims: Dims,
        scatter_dims_to_operand_dims: Dims,
        index_vector_dim: int,
        kind: str | Computation = "add",
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Instruction:
        """x with windows combined with `updates` in their order (XLA's scatter); windows out of bounds are skipped."""
        attrs: Attrs = {
            "update_window_dims": tuple(update_window_dims),
            "inserted_window_dims": tuple(inserted_window_dims),
            "scatter_dims_to_operand_dims": tuple(scatter_dims_to_operand_dims),
            "index_vector_dim": index_vector_dim,
            "to_apply": self._combiner(kind, x.dtype),
        }
        if indices_are_sorted:
            attrs["indices_are_sorted"] = True
        if unique_indices:
            attrs["unique_indices"] = True
        return self.emit("scatter", (x, indices, updates), attrs)

    # ---- reductions and contractions

    def _combiner(self, kind: str | Computation, dtype: str) -> Computation:
        if isinstance(kind, Computation):
            return kind
        known = self._combiners.get((kind, dtype))
        if known is None:
            known = self._combiners[kind, dtype] = combiner(kind, dtype)
        return known

    def reduce(
        self,
        operands: Instruction | Sequence[Instruction],
        inits: Instruction | Sequence[Instruction],
        dimensions: Dims,
        kind: str | Computation = "add",
    ) -> Instruction:
        """Combines the elements along `dimensions`, from the scalar `inits`.

        `kind` is add, multiply, maximum, minimum, and, or, xor, or a computation; one that reduces several operands at
        once takes `(accumulators..., values...)` and the result is then a tuple.
        """
        inputs = (operands,) if isinstance(operands, Instruction) else tuple(operands)
        starts = (inits,) if isinstance(inits, Instruction) else tuple(inits)
        if not inputs:
            raise ShapeError("reduce needs an operand")
        attrs: Attrs = {"dimensions": tuple(dimensions), "to_apply": self._combiner(kind, inputs[0].dtype)}
        return self.emit("reduce", (*inputs, *starts), attrs)

    def reduce_sum(self, x: Instruction, dimensions: Dims) -> Instruction:
        """The sum along `dimensions`, from zero."""
        return self.reduce(x, self.constant(0, x.dtype), dimensions, "add")

    def reduce_max(self, x: Instruction, dimensions: Dims) -> Instruction:
        """The maximum along `dimensions`, from the lowest value of the type."""
        return self.reduce(x, self.constant(lowest(x.dtype), x.dtype), dimensions, "maximum")

    def reduce_min(self, x: Instruction, dimensions: Dims) -> Instruction:
        """The minimum along `dimensions`, from the highest value of the type."""
        return self.reduce(x, self.constant(highest(x.dtype), x.dtype), dimensions, "minimum")

    def sort(
        self, operands: Sequence[Instruction], dimension: int, comparator: Computation, *, is_stable: bool = True
    ) -> Instruction:
        """Sorts the operands together along `dimension` by `comparator(a0, b0, a1, b1, ...) -> pred`."""
        attrs: Attrs = {"dimensions": (dimension,), "to_apply": comparator}
        if is_stable:
            attrs["is_stable"] = True
        return self.emit("sort", tuple(operands), attrs)

    def dot(
        self,
        lhs: Instruction,
        rhs: Instruction,
        *,
        lhs_contracting_dims: Dims,
        rhs_contracting_dims: Dims,
        lhs_batch_dims: Dims = (),
        rhs_batch_dims: Dims = (),
    ) -> Instruction:
        """The general dot product: batch dimensions first, then those of lhs, then those of rhs."""
        attrs: Attrs = {}
        if lhs_batch_dims or rhs_batch_dims:
            attrs["lhs_batch_dims"] = tuple(lhs_batch_dims)
        attrs["lhs_contracting_dims"] = tuple(lhs_contracting_dims)
        if lhs_batch_dims or rhs_batch_dims:
            attrs["rhs_batch_dims"] = tuple(rhs_batch_dims)
        attrs["rhs_contracting_dims"] = tuple(rhs_contracting_dims)
        return self.emit("dot", (lhs, rhs), attrs)

    def matmul(self, lhs: Instruction, rhs: Instruction) -> Instruction:
        """The product of matrices, with equal leading batch dimensions."""
        rank = lhs.array_shape.rank
        if rank < 2 or rhs.array_shape.rank != rank:
            raise ShapeError(f"matmul of {lhs.shape} and {rhs.shape}: ranks must be equal and at least 2")
        batch = tuple(range(rank - 2))
        return self.dot(
            lhs,
            rhs,
            lhs_contracting_dims=(rank - 1,),
            rhs_contracting_dims=(rank - 2,),
            lhs_batch_dims=batch,
            rhs_batch_dims=batch,
        )

    # ---- kernels of the core

    def kernel_call(
        self,
        op: str,
        operands: Sequence[Instruction],
        results: Sequence[Shape],
        *,
        kinds: str,
        params: Sequence[Param],
        default_dtype: str = "f32",
        may_fail: bool = False,
    ) -> list[Instruction]:
        """The results of an op of the core, computed by its eager kernel; `kernel_call.py` says what `kinds` are.

        One that may fail is called even if nobody reads what it gives.
        """
        attrs: Attrs = {
            "custom_call_target": KERNEL_PREFIX + op,
            "backend_config": KernelCall(op, kinds, tuple(params), default_dtype).config(),
        }
        if may_fail:
            attrs["custom_call_has_side_effect"] = True
        if len(results) == 1:
            return [self.emit("kernel-call", operands, attrs, shape=results[0])]
        call = self.emit("kernel-call", operands, attrs, shape=TupleShape(tuple(results)))
        return [self.get_tuple_element(call, k) for k in range(len(results))]

    # ---- calls

    def call(self, computation: Computation, *operands: Instruction) -> Instruction:
        """The result of a computation."""
        return self.emit("call", operands, {"to_apply": computation})

    def fusion(self, computation: Computation, *operands: Instruction, kind: str = "kLoop") -> Instruction:
        """The result of a computation that is compiled as one kernel."""
        return self.emit("fusion", operands, {"kind": kind, "calls": computation})
