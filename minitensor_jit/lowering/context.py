"""The builder that rows lower through: HLO's opcodes, and the shapes that tensor programs need made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Computation, Instruction
from minitensor_jit.ir.shape import Shape, strides_of
from minitensor_jit.ir.size import NotSymbolic, Size
from minitensor_jit.lowering.call import FLOATING, RecordedCall, loop_dtype
from minitensor_jit.lowering.views import view_read, view_write

Dims = Sequence[int]


@dataclass(frozen=True, slots=True)
class BoundsCheck:
    """What compiled code relies on: the elements of operand `operand` of trace node `node` lie in [low, high).

    Those that are `ignored` may lie elsewhere.
    """

    node: int
    operand: int
    low: int
    high: int
    ignored: int | None = None


def _size(dims: Dims) -> int:
    count = 1
    for n in dims:
        count *= n
    return count


def number_of(value: complex | float | int | bool, dtype: str) -> complex | float | int | bool:
    """A Python number as the core stores it in `dtype`: fractions cut off, integers wrapped."""
    if isinstance(value, Size):
        return value  # type: ignore[return-value]  # Lowering.constant computes it
    if dtype == "pred":
        return bool(value)
    if dtype in ("c64", "c128") or isinstance(value, complex):
        return complex(value)
    if dtype in FLOATING:
        return float(value)
    bits = int(dtype[1:])
    wrapped = int(value) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if dtype[0] == "s" and wrapped >> (bits - 1) else wrapped


class Lowering(Builder):
    """A builder for one cluster. `recorded` and `result` are the call being lowered and its first result's shape."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.checks: list[BoundsCheck] = []
        self.failures: list[Instruction] = []
        """Whether an op raises an error, each a pred without dimensions."""
        self.inputs: list[Instruction | None] = []
        """The operands of the call being lowered."""
        self.size_parameters: list[Instruction] = []
        """The symbol in the shapes, if there is one."""
        self.exact_products = False
        """Whether the products of this call ask for the highest precision, and others of the cluster don't."""
        self._recorded: RecordedCall | None = None

    def emit(self, opcode: str, *args: Any, **more: Any) -> Instruction:
        """Append an instruction; see `Builder.emit`."""
        made = super().emit(opcode, *args, **more)
        if opcode == "dot" and self.exact_products:
            made.attrs["operand_precision"] = ("highest", "highest")
        return made

    def begin(self, call: RecordedCall) -> None:
        """Say which call is lowered next."""
        self._recorded = call

    @property
    def recorded(self) -> RecordedCall:
        """The call that is being lowered."""
        assert self._recorded is not None
        return self._recorded

    @property
    def result(self) -> Shape:
        """The shape of its first result."""
        dtype, dims = self.recorded.results[0]
        return Shape(dtype, dims)

    # ---- types and broadcasting

    def filled(self, value: float | int | bool) -> Instruction:
        """The result's shape full of one number."""
        return self.full(self.result, number_of(value, self.result.dtype))

    def number(self, value: float | int | bool, dtype: str) -> Instruction:
        """A number as an element of the type."""
        return self.constant(number_of(value, dtype), dtype)

    def constant(self, value: Any, dtype: str | None = None) -> Instruction:
        """A literal; or a size that is a symbol, which is computed."""
        if isinstance(value, Size):
            return self.size_number(value, dtype or "s64")
        return super().constant(value, dtype)

    def size_number(self, n: Size, dtype: str) -> Instruction:
        """A size that is a symbol as an element of the type; NotSymbolic for one that isn't a polynomial."""
        total: Instruction | None = None
        for monomial, c in n.terms:
            term = self.constant(c, "s64")
            for atom in monomial:
                if atom.op != "size":
                    raise NotSymbolic(f"the number {n}")
                term = self.multiply(term, self.size_parameters[atom.operands[0]])
            total = term if total is None else self.add(total, term)
        assert total is not None
        return total if dtype == "s64" else self.convert(total, dtype)

    def to_dtype(self, x: Instruction, dtype: str) -> Instruction:
        """x converted as docs/numerics.md says."""
        source = x.dtype
        if source == dtype:
            return x
        if dtype == "pred":
            return self.compare(x, self.full(Shape(source, x.dims), 0), "NE")
        if source in ("c64", "c128") and dtype not in ("c64", "c128"):
            x = self.real(x)
        return self.convert(x, dtype)

    def widened(self, x: Instruction) -> Instruction:
        """x in the type that elements are computed in; what a row makes of it is rounded once, at the end."""
        return self.to_dtype(x, loop_dtype(x.dtype))

    def truth(self, x: Instruction) -> Instruction:
        """Whether each element is not zero."""
        return self.to_dtype(x, "pred")

    def broadcast_to(self, x: Instruction, dims: Dims) -> Instruction:
        """x expanded to dims, by PyTorch's rule."""
        own, dims = x.dims, tuple(dims)
        if own == dims:
            return x
        lead = len(dims) - len(own)
        kept = [d for d, n in enumerate(own) if n != 1 or dims[lead + d] == 1]
        squeezed = tuple(own[d] for d in kept)
        if squeezed != own:
            x = self.reshape(x, squeezed)
        return self.broadcast(x, dims, [lead + d for d in kept])

    def spread(self, x: Instruction, like: Instruction) -> Instruction:
        """x, reduced with keepdim, expanded to `like`."""
        return self.broadcast_to(x, like.dims)

    # ---- reductions

    def _normal_dims(self, rank: int, dim: int | Dims | None) -> tuple[int, ...]:
        if dim is None or (not isinstance(dim, int) and not tuple(dim)):
            return tuple(range(rank))
        given = (dim,) if isinstance(dim, int) else tuple(dim)
        return tuple(sorted(d % rank for d in given)) if rank else ()

    def reduced_count(self, x: Instruction, dim: int | Dims | None) -> int:
        """How many elements go into each result."""
        return _size([x.dims[d] for d in self._normal_dims(len(x.dims), dim)])

    def reduce_dims(self, x: Instruction, kind: str, dim: int | Dims | None, keepdim: bool) -> Instruction:
        """A reduction in the documented order: sizes of 1 dropped, neighbours merged, innermost group first."""
        dims = x.dims
        wanted = self._normal_dims(len(dims), dim)
        out = tuple(1 if d in wanted else n for d, n in enumerate(dims) if keepdim or d not in wanted)
        kept = [d for d, n in enumerate(dims) if n != 1]
        groups: list[list[int]] = []  # positions among `kept`, of neighbours that are reduced together
        for place, d in enumerate(kept):
            if d not in wanted:
                continue
            if groups and groups[-1][-1] == place - 1:
                groups[-1].append(place)
            else:
                groups.append([place])
        if not groups:
            return self.reshape(x, out) if out != dims else x
        if len(kept) != len(dims):
            x = self.reshape(x, [dims[d] for d in kept])
        for group in reversed(groups):
            x = self._reduce_once(x, kind, group)
        return self.reshape(x, out) if x.dims != out else x

    def _reduce_once(self, x: Instruction, kind: str, dims: Dims) -> Instruction:
        if kind == "add":
            return self.reduce_sum(x, dims)
        if kind == "maximum":
            return self.reduce_max(x, dims)
        if kind == "minimum":
            return self.reduce_min(x, dims)
        if kind == "multiply":
            return self.reduce(x, self.constant(1, x.dtype), dims, kind)
        return self.reduce(x, self.constant(kind == "and", "pred"), dims, kind)

    # ---- movement

    def view_read(self, base: Instruction, size: Dims, stride: Dims, offset: int) -> Instruction:
        """What a strided view of a row-major value shows."""
        return view_read(self, base, tuple(size), tuple(stride), offset)

    def view_write(self, base: Instruction, value: Instruction, size: Dims, stride: Dims, offset: int) -> Instruction:
        """A row-major value with a strided view of it replaced."""
        return view_write(self, base, value, tuple(size), tuple(stride), offset)

    def concatenate_all(self, operands: Sequence[Instruction], dim: int) -> Instruction:
        """The operands, converted to the result's type, one after the other along dim."""
        rank = len(self.result.dims)
        parts = [self.to_dtype(x, self.result.dtype) for x in operands if len(x.dims) == rank]
        return parts[0] if len(parts) == 1 else self.concatenate(parts, dim % rank)

    def triangle(self, x: Instruction, diagonal: int, direction: str) -> Instruction:
        """x where column - row stands in `direction` to the diagonal, zero elsewhere."""
        dims = x.dims
        index = Shape("s64", dims)
        row, column = self.iota(index, len(dims) - 2), self.iota(index, len(dims) - 1)
        inside = self.compare(column, self.add(row, self.full(index, diagonal)), direction)
        return self.select(inside, x, self.full(Shape(x.dtype, dims), 0))

    def diagonal_ones(self) -> Instruction:
        """The identity matrix of the result's shape."""
        shape = self.result
        index = Shape("s64", shape.dims)
        return self.to_dtype(self.compare(self.iota(index, 0), self.iota(index, 1), "EQ"), shape.dtype)

    # ---- contraction

    def matmul_broadcast(self, x: Instruction, y: Instruction) -> Instruction:
        """The matrix product with PyTorch's rules for vectors and batches."""
        out = self.result.dims
        a, b = x.dims, y.dims
        if len(a) <= 2 and len(b) <= 2:
            return self.dot(x, y, lhs_contracting_dims=(len(a) - 1,), rhs_contracting_dims=(max(len(b) - 2, 0),))
        if len(b) <= 2 and len(a) > 2:
            # All batches of the left side are rows of one product.
            flat = self.reshape(x, (_size(a[:-1]), a[-1]))
            product = self.dot(flat, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(max(len(b) - 2, 0),))
            return self.reshape(product, out)
        if len(a) == 1:
            x, a = self.reshape(x, (1, *a)), (1, *a)
        if len(b) == 1:
            y, b = self.reshape(y, (*b, 1)), (*b, 1)
        batch = _broadcast(a[:-2], b[:-2])
        count = _size(batch)
        x = self.reshape(self.broadcast_to(x, (*batch, *a[-2:])), (count, *a[-2:]))
        y = self.reshape(self.broadcast_to(y, (*batch, *b[-2:])), (count, *b[-2:]))
        product = self.dot(
            x, y, lhs_contracting_dims=(2,), rhs_contracting_dims=(1,), lhs_batch_dims=(0,), rhs_batch_dims=(0,)
        )
        return self.reshape(product, out)

    # ---- indices

    def check_index(
        self, operand: int, low: int, high: int, index: Instruction | None = None, *, ignored: int | None = None
    ) -> None:
        """Have an index operand checked: compiled code clamps where eager code raises.

        An argument is checked before the launch, but for elements that are `ignored`; what the cluster computes itself
        within, as `index` if that is given, which has none to ignore.
        """
        if self.recorded.is_input(operand):
            self.checks.append(BoundsCheck(self.recorded.node, operand, low, high, ignored))
            return
        index = index or self.inputs[operand]
        assert index is not None
        index = self.to_dtype(index, "s64")
        below = self.compare(index, self.full(index.array_shape, low), "LT")
        self.fail_where(self.or_(below, self.compare(index, self.full(index.array_shape, high), "GE")))

    def fail_where(self, condition: Instruction) -> None:
        """Have the op raise its error if the condition holds anywhere: then all ops run again, one by one."""
        dims = tuple(range(len(condition.dims)))
        self.failures.append(self.reduce(condition, self.constant(False), dims, "or") if dims else condition)

    def wrapped(self, index: Instruction, size: int) -> Instruction:
        """The index with what counts from the end made to count from the beginning."""
        index = self.to_dtype(index, "s64")
        shape = Shape("s64", index.dims)
        negative = self.compare(index, self.full(shape, 0), "LT")
        return self.select(negative, self.add(index, self.full(shape, size)), index)

    def _full_positions(self, index: Instruction, dim: int) -> Instruction:
        """For each element of `index` its own place, with its value along dim; the last dimension runs over it."""
        dims = index.dims
        column = (*dims, 1)
        index = self.to_dtype(index, "s64")
        parts = [
            self.reshape(index, column) if d == dim else self.iota(Shape("s64", column), d) for d in range(len(dims))
        ]
        return parts[0] if len(parts) == 1 else self.concatenate(parts, len(dims))

    def gather_along(
        self, x: Instruction, index: Instruction, dim: int, *, low: int = 0, ignored: int | None = None
    ) -> Instruction:
        """x[i][index[i][j]] for dim 1, and so on. An operand that is `ignored` is something else in `index`."""
        rank = len(x.dims)
        if rank == 0:
            self.check_index(1, low, 1, ignored=ignored)
            return self.broadcast_to(x, index.dims)
        if not index.dims:
            return self.reshape(self.gather_along(x, self.reshape(index, (1,)), dim, low=low, ignored=ignored), ())
        dim %= rank
        self.check_index(1, low, x.dims[dim], index, ignored=ignored)
        if 0 in x.dims or 0 in index.dims:  # an index of nothing may have any number of dimensions
            return self.full(Shape(x.dtype, index.dims), 0)
        return self.pick(x, index, dim)

    def pick(self, x: Instruction, index: Instruction, dim: int) -> Instruction:
        """The elements at places along dim that are known to be there, as `gather_along` gives them."""
        rank = len(x.dims)
        dim %= rank
        if (places := self._flat_places(index, x.dims, dim)) is not None:
            return self.gather(
                self.reshape(x, (x.array_shape.size,)),
                places,
                offset_dims=(),
                collapsed_slice_dims=(0,),
                start_index_map=(0,),
                index_vector_dim=rank,
                slice_sizes=(1,),
            )
        return self.gather(
            x,
            self._full_positions(index, dim),
            offset_dims=(),
            collapsed_slice_dims=tuple(range(rank)),
            start_index_map=tuple(range(rank)),
            index_vector_dim=rank,
            slice_sizes=(1,) * rank,
        )

    def scatter_along(
        self, x: Instruction, index: Instruction, src: Instruction, dim: int, kind: str | Computation
    ) -> Instruction:
        """x with the elements of src combined into the places that index names along dim."""
        rank = len(x.dims)
        if rank <= 1 and not (rank and index.dims and src.dims):
            # A tensor without dimensions counts as one of one element.
            line, places, values = (a if a.dims else self.reshape(a, (1,)) for a in (x, index, src))
            written = self.scatter_along(line, places, values, 0, kind)
            return self.reshape(written, x.dims) if written.dims != x.dims else written
        dim %= rank
        self.check_index(1, 0, x.dims[dim])
        dims = index.dims
        if 0 in x.dims or 0 in dims:
            return x
        if src.dims != dims:
            src = self.slice(src, (0,) * rank, dims)
        if (numbers := self._flat_places(index, x.dims, dim)) is not None:
            flat = self.scatter(
                self.reshape(x, (x.array_shape.size,)),
                numbers,
                src,
                update_window_dims=(),
                inserted_window_dims=(0,),
                scatter_dims_to_operand_dims=(0,),
                index_vector_dim=rank,
                kind=kind,
            )
            return self.reshape(flat, x.dims)
        return self.scatter(
            x,
            self._full_positions(index, dim),
            src,
            update_window_dims=(),
            inserted_window_dims=tuple(range(rank)),
            scatter_dims_to_operand_dims=tuple(range(rank)),
            index_vector_dim=rank,
            kind=kind,
        )

    def _flat_places(self, index: Instruction, dims: Dims, dim: int) -> Instruction | None:
        """The same as numbers of elements of an array of `dims`: one number a place instead of one for each dimension.

        None where sizes aren't known that would be factors.
        """
        strides = strides_of(dims)
        if len(dims) == 1 or any(isinstance(n, Size) for n in (*strides, _size(dims))):
            return None
        dtype = "s32" if _size(dims) < 2**31 else "s64"
        shape = Shape(dtype, index.dims)
        total: Instruction | None = None
        for d, stride in enumerate(strides):
            part = self.to_dtype(index, dtype) if d == dim else self.iota(shape, d)
            if stride != 1:
                part = self.multiply(part, self.full(shape, stride))
            total = part if total is None else self.add(total, part)
        return total

    def _index_within(self, index: Instruction, size: int, low: int | None, checked: bool) -> Instruction:
        """Operand 1 as indices from 0: checked before the launch to lie in [low, size), -size if no low is given."""
        if not checked:
            self.check_index(1, -size if low is None else low, size)
        return self.to_dtype(index, "s64") if checked or low == 0 else self.wrapped(index, size)

    def take(
        self, x: Instruction, index: Instruction, dim: int, *, low: int | None = None, checked: bool = False
    ) -> Instruction:
        """The slices of x along dim that index, of any shape, names."""
        dims = x.dims
        dim %= len(dims)
        index = self._index_within(index, dims[dim], low, checked)
        many = len(index.dims)
        out_rank = len(dims) - 1 + many
        if 0 in dims:
            # Nothing is there to be taken, or nothing of what is taken; windows would not fit.
            return self.full(Shape(x.dtype, (*dims[:dim], *index.dims, *dims[dim + 1 :])), 0)
        return self.gather(
            x,
            index,
            offset_dims=tuple(d for d in range(out_rank) if not dim <= d < dim + many),
            collapsed_slice_dims=(dim,),
            start_index_map=(dim,),
            index_vector_dim=many,
            slice_sizes=tuple(1 if d == dim else n for d, n in enumerate(dims)),
        )

    def put(
        self,
        x: Instruction,
        index: Instruction,
        src: Instruction,
        dim: int,
        kind: str,
        *,
        low: int | None = None,
        checked: bool = False,
    ) -> Instruction:
        """x with the slices that index names along dim combined with those of src."""
        dims = x.dims
        if not dims:
            flat = self.put(self.reshape(x, (1,)), index, self.reshape(src, (1,)), 0, kind, low=low, checked=checked)
            return self.reshape(flat, ())
        dim %= len(dims)
        count = _size(index.dims)
        if 0 in dims or not count:
            self._index_within(index, dims[dim], low, checked)
            return x
        index = self.reshape(self._index_within(index, dims[dim], low, checked), (count,))
        src = self.reshape(src, tuple(count if d == dim else n for d, n in enumerate(dims)))
        return self.scatter(
            x,
            index,
            src,
            update_window_dims=tuple(d for d in range(len(dims)) if d != dim),
            inserted_window_dims=(dim,),
            scatter_dims_to_operand_dims=(dim,),
            index_vector_dim=1,
            kind=kind,
        )

    def one_hot_select(self, target: Instruction, value: Instruction, classes: int) -> Instruction:
        """value[n] at [n, target[n]], zero elsewhere."""
        dims = (*target.dims, classes)
        index = Shape("s64", dims)
        lead = tuple(range(len(dims) - 1))
        hit = self.compare(
            self.iota(index, len(dims) - 1), self.broadcast(self.to_dtype(target, "s64"), dims, lead), "EQ"
        )
        return self.select(hit, self.broadcast(value, dims, lead), self.full(Shape(value.dtype, dims), 0))


def _broadcast(a: Dims, b: Dims) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))
