"""How an op on mapped tensors runs: once on what is behind them, by a rule that follows from the kind of its row.

Behind a mapped tensor is one with the mapped dimension first. A rule gets the operands like that, with a flag for each,
and gives results likewise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from minitensor import _C
from minitensor.ops import ROWS
from minitensor.ops.row import Row

__all__ = ["RANDOMNESS", "run"]

Tensor = _C.Tensor
Results = tuple[tuple[Any, bool], ...]
Rule = Callable[[Row, list[Any], list[bool], list[Any], int], Results]


class _InForce(threading.local):
    """What the vmaps of this thread do about random ops, and their sizes, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[tuple[str, int]] = []


RANDOMNESS = _InForce()

_DIMS = {"dim", "dims", "dim0", "dim1", "dim2", "dimension"}
# Parameters whose meaning does not change when a dimension comes first.
_PLAIN = {
    "keepdim",
    "dtype",
    "descending",
    "stable",
    "start",
    "end",
    "step",
    "index",
    "offset",
    "diagonal",
    "pad",
    "value",
}


@cache
def _arguments(row: Row) -> tuple[list[tuple[bool, str]], list[str]]:
    """(whether it's an operand, its name) of the positional arguments, and the names of those by keyword only."""
    inside = row.schema.partition("->")[0]
    positional, _, keywords = inside[inside.index("(") + 1 : inside.rindex(")")].partition("*,")
    count = len([part for part in positional.split(",") if part.strip()])
    named = [(text.startswith("Tensor"), text.split("=")[0].split()[-1]) for text in row.arguments]
    return named[:count], [name for _, name in named[count:]] if keywords else []


def _call(row: Row, operands: list[Any], params: list[Any]) -> tuple[Any, ...]:
    """The op on operands and parameters that stand in the order of kernels."""
    positional, keywords = _arguments(row)
    named = dict(zip(row.parameters, params, strict=True))
    rest = iter([list(operands)] if "Tensor[]" in row.schema.partition("->")[0] else operands)
    args = [next(rest) if operand else named.pop(name) for operand, name in positional]
    result = row.call(*args, **{name: named[name] for name in keywords if named.get(name) is not None})
    return tuple(result) if isinstance(result, tuple) else (result,)


def _mapped(results: tuple[Any, ...]) -> Results:
    return tuple((result, True) for result in results)


def _rank(operand: Any, is_mapped: bool) -> int:
    return operand.ndim - is_mapped if isinstance(operand, Tensor) else 0


def _aligned(operand: Any, rank: int) -> Any:
    """A mapped operand with ones after the mapped dimension, so that it broadcasts as its slices do."""
    missing = rank - (operand.ndim - 1)
    for _ in range(missing):
        operand = operand.unsqueeze(1)
    return operand


def _everywhere(operand: Any, is_mapped: bool, size: int) -> Any:
    return operand if is_mapped else operand.unsqueeze(0).expand((size, *operand.shape))


# ---- the kinds


def _elementwise(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    rank = max(_rank(*both) for both in zip(operands, flags, strict=True))
    operands = _promoted(row, operands, flags)
    given = [_aligned(o, rank) if flag else o for o, flag in zip(operands, flags, strict=True)]
    return _mapped(_call(row, given, params))


def _promoted(row: Row, operands: list[Any], flags: list[bool]) -> list[Any]:
    """A slice without dimensions gives way in type promotion, which what is behind it would not."""
    tensors = [
        (o, flag)
        for place, (o, flag) in enumerate(zip(operands, flags, strict=True))
        if place != row.predicate and isinstance(o, Tensor)
    ]
    if len({o.dtype for o, _ in tensors}) < 2 or not any(flag and o.ndim == 1 for o, flag in tensors):
        return operands
    metas = [_C.empty((1,) * min(_rank(o, flag), 1), o.dtype, _C.device("meta")) for o, flag in tensors]
    total = metas[0]
    for meta in metas[1:]:
        total = ROWS["add"].call(total, meta)
    cast = ROWS["cast"].call
    return [
        cast(o, total.dtype) if i != row.predicate and flag and o.ndim == 1 else o
        for i, (o, flag) in enumerate(zip(operands, flags, strict=True))
    ]


def _along(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    """One operand, and parameters that name dimensions."""
    names = row.parameters
    without = row.kind == "reduction" and "dim" not in names  # of all elements, which the mapped dimension isn't one of
    if without or len(operands) != 1 or not set(names) <= _DIMS | _PLAIN:
        return _loop(row, operands, flags, params, size)
    (x,) = operands
    rank = x.ndim - 1
    if rank == 0:
        if row.kind == "view":
            return _loop(row, operands, flags, params, size)
        # Dimension 0 of a number: one that is added for it.
        x = x.unsqueeze(1)
    values = dict(zip(names, params, strict=True))
    whole = "dim" in values and values["dim"] in (None, (), [])
    keepdim = bool(values.get("keepdim"))
    if whole and not _takes_dims(row):
        # argmax and its like count the elements of the whole.
        x, values["dim"], values["keepdim"] = x.reshape((size, -1)), 1, False
    elif whole:
        values["dim"] = tuple(range(1, x.ndim))
    else:
        for name in _DIMS & set(names):
            values[name] = _shifted(values[name], max(rank, 1))
    results = _call(row, [x], [values[name] for name in names])
    if rank == 0:
        results = tuple(r.reshape((size,)) for r in results)
    elif whole and keepdim and not _takes_dims(row):
        results = tuple(r.reshape((size,) + (1,) * rank) for r in results)
    return _mapped(results)


def _takes_dims(row: Row) -> bool:
    return any(argument.startswith("int[]") and " dim" in argument for argument in row.arguments)


def _shifted(dim: Any, rank: int) -> Any:
    if isinstance(dim, (tuple, list)):
        return tuple(_shifted(d, rank) for d in dim)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank + 1


def _loop(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    """Slice by slice: right for every op that changes nothing, and slow."""
    if row.kind == "opaque" and "depends on the data" in row.why:
        raise RuntimeError(
            f"vmap: the op '{row.name}' has no rule: {row.why}. Operators that can output a dynamic shape can't be "
            "mapped."
        )
    if size == 0:
        raise RuntimeError(f"vmap: the op '{row.name}' has no rule for a mapped dimension of size 0")
    every = []
    for i in range(size):
        given = [o.select(0, i) if flag else o for o, flag in zip(operands, flags, strict=True)]
        every.append(_call(row, given, params))
    return _mapped(tuple(ROWS["cat"].call([r.unsqueeze(0) for r in column], 0) for column in zip(*every, strict=True)))


# ---- rows that need more than their kind says


def _view(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    (x,), (shape,) = operands, params
    known = 1
    for n in shape:
        known *= n if n != -1 else 1
    whole = x.numel() // size if size else 0
    sizes = [whole // known if n == -1 and known else n for n in shape]
    return _mapped((ROWS["view"].call(x, (size, *sizes)),))


def _expand(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    (x,), (shape,) = operands, params
    return _mapped((ROWS["expand"].call(_aligned(x, len(shape)), (size, *shape)),))


def _squeeze(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    (x,), (dim,) = operands, params
    rank = x.ndim - 1
    if dim is None:
        dims = tuple(d for d in range(1, x.ndim) if x.shape[d] == 1)
    else:
        dims = () if rank == 0 else tuple(_shifted(d, rank) for d in ((dim,) if isinstance(dim, int) else dim))
    return _mapped((ROWS["squeeze"].call(x, dims) if dims else x.alias(),))


def _unsqueeze(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    (x,), (dim,) = operands, params
    return _mapped((x.unsqueeze(_shifted(dim, x.ndim)),))


def _permute(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    (x,), (dims,) = operands, params
    return _mapped((x.permute((0, *(_shifted(d, x.ndim - 1) for d in dims))),))


def _as_strided(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    """A view, which is written through. Here the offset counts from where a slice begins."""
    (x,), (shape, strides, offset) = operands, params
    start = x.storage_offset() + offset
    return _mapped((ROWS["as_strided"].call(x, (size, *shape), (x.stride(0), *strides), start),))


def _alias(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    return _mapped(_call(row, operands, params))


def _cat(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    rank = max(_rank(*both) for both in zip(operands, flags, strict=True))
    given = [_everywhere(o, flag, size) for o, flag in zip(operands, flags, strict=True)]
    # Empty vectors are left out whatever the others' shape.
    kept = [g for g in given if not (g.ndim == 2 and g.shape[1] == 0 and rank != 1)]
    return _mapped((ROWS["cat"].call(kept, _shifted(params[0], rank)),))


def _product(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    x, y = operands
    rx, ry = _rank(x, flags[0]), _rank(y, flags[1])
    x = x.unsqueeze(-2) if rx == 1 else x
    y = y.unsqueeze(-1) if ry == 1 else y
    rank = max(rx, ry, 2)
    x = _aligned(x, rank) if flags[0] else x
    y = _aligned(y, rank) if flags[1] else y
    result = ROWS["matmul"].call(x, y)
    result = result.squeeze(-1) if ry == 1 else result
    if rx == 1:
        result = result.squeeze(-1 if ry == 1 else -2)
    return _mapped((result,))


def _same_rank(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    """gather and scatter: all operands have the dimensions of the first."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    if len(tensors) != len(operands) or any(_rank(*both) == 0 for both in zip(operands, flags, strict=True)):
        return _loop(row, operands, flags, params, size)
    given = [_everywhere(o, flag, size) for o, flag in zip(operands, flags, strict=True)]
    shifted = [_shifted(p, given[0].ndim - 1) if n == "dim" else p for n, p in zip(row.parameters, params, strict=True)]
    return _mapped(_call(row, given, shifted))


def _with_index(row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int) -> Results:
    """index_select, index_add, index_copy: fast while all slices share the index."""
    if flags[1] or row.parameters != ["dim"] or _rank(operands[0], flags[0]) == 0:
        return _loop(row, operands, flags, params, size)
    given = [o if i == 1 else _everywhere(o, flags[i], size) for i, o in enumerate(operands)]
    return _mapped(_call(row, given, [_shifted(params[0], given[0].ndim - 1)]))


_RULES: dict[str, Rule] = {
    "view": _view, "expand": _expand, "squeeze": _squeeze, "unsqueeze": _unsqueeze, "permute": _permute,
    "alias": _alias, "as_strided": _as_strided, "cat": _cat, "matmul": _product, "mm": _product, "bmm": _product,
    "mv": _product, "dot": _product, "gather": _same_rank, "scatter": _same_rank, "scatter_add": _same_rank,
    "_scatter_reduce": _same_rank, "index_select": _with_index, "index_add": _with_index, "index_copy": _with_index,
}  # fmt: skip
_KINDS: dict[str, Rule] = {
    "elementwise": _elementwise, "reduction": _along, "view": _along, "movement": _along, "index": _along,
}  # fmt: skip


# ---- random ops


def _random(row: Row, operands: list[Any], flags: list[bool], params: list[Any], destination: Any) -> Results:
    mode, size = RANDOMNESS.stack[-1]
    if mode == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        )
    # An outer vmap sees the op as it is called from here.
    depth, kept = _C.vmap_depth(), list(RANDOMNESS.stack)
    try:
        del RANDOMNESS.stack[-1:]
        _C.set_vmap_depth(depth - 1)
        return _drawn(row, operands, flags, params, destination, mode, size)
    finally:
        RANDOMNESS.stack[:] = kept
        _C.set_vmap_depth(depth)


def _drawn(
    row: Row, operands: list[Any], flags: list[bool], params: list[Any], destination: Any, mode: str, size: int
) -> Results:
    names = row.parameters
    different = mode == "different"
    if destination is not None:
        written, is_mapped = destination
        if different and not is_mapped:
            raise RuntimeError(
                f"vmap: Cannot ask for different inplace randomness on an unbatched tensor ({row.name}_). This will "
                "appear like same randomness. If this is necessary for your usage, please file an issue with functorch."
            )
        if row.operands:
            raise RuntimeError(f"vmap: the random op '{row.name}_' has no rule")
        if different and "size" in names:
            values = [(size, *v) if n == "size" else v for n, v in zip(names, params, strict=True)]
            result = _call(row, [], values)[0]
        else:
            result = _call(row, [], params)[0]
        written.copy_(result)
        return ()
    if any(flags) or (different and "size" not in names):
        if not different:
            raise RuntimeError(f"vmap: the random op '{row.name}' has no rule for mapped operands with 'same'")
        return _loop(row, operands, flags, params, size)
    if not different:
        return tuple((result, False) for result in _call(row, operands, params))
    values = [(size, *v) if n == "size" else v for n, v in zip(names, params, strict=True)]
    return _mapped(_call(row, operands, values))


# ---- the entry


def run(
    row: Row, operands: list[Any], flags: list[bool], params: list[Any], size: int, _compute: Any, destination: Any
) -> Results:
    """Run one call. With a destination, a tensor and whether it is mapped, that is written and nothing returned."""
    if row.kind == "random":
        return _random(row, operands, flags, params, destination)
    rule = _RULES.get(row.name) or _KINDS.get(row.kind, _loop)
    if destination is None:
        return rule(row, operands, flags, params, size)
    written, _ = destination
    if row.vjp is not None and not row.overwrites:
        # Gradients read what was there before: the tape keeps that of a write, but what it sees here is another op.
        place = written._storage_id()
        operands = [
            x.clone() if isinstance(x, Tensor) and x.requires_grad and x._storage_id() == place else x for x in operands
        ]
    if row.overwrites and params:  # with a number
        written.fill_(params[0])
    else:
        source, is_mapped = (operands[1], flags[1]) if row.overwrites else rule(row, operands, flags, params, size)[0]
        written.copy_(_aligned(source, written.ndim - 1) if is_mapped else source)
    return ()


_C.set_vmap_rule(run)
