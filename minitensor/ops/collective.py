"""Collectives as ops: what the processes of a group compute together, recorded, differentiated and compiled.

A row's `group` is a number that stands for the group in `GROUPS`; 0 is this process by itself. `minitensor.distributed`
enters groups, and what makes their exchanges. All processes must make the same calls in the same order, so a recorded
one runs although nobody reads its result, and in its place (`Row.ordered`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from minitensor.ops.row import ROWS, movement

__all__ = ["GROUPS", "REDUCTIONS", "Exchange"]

REDUCTIONS: Final = {0: "add", 2: "multiply", 3: "minimum", 4: "maximum", 5: "and", 6: "or", 7: "xor"}
"""HLO's names of the operations, by PyTorch's numbers. A mean is a sum that is divided."""


class Exchange(Protocol):
    """A group, to these ops. Results are new tensors; parts are along the first dimension."""

    @property
    def rank(self) -> int:
        """This process's rank in the group."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The processes, by their ranks in the default group."""

    @property
    def name(self) -> str:
        """The group's name; empty for this process by itself."""

    def all_reduce(self, x: Any, op: int) -> Any:
        """The tensors of all processes combined."""

    def all_gather(self, x: Any) -> Any:
        """Those of all processes, one behind the other."""

    def reduce_scatter(self, x: Any, op: int) -> Any:
        """This process's part of what `all_reduce` gives."""

    def all_to_all(self, x: Any, results: Sequence[int], parts: Sequence[int]) -> Any:
        """This process's part of each tensor; so many rows come from each process, and so many go there."""

    def broadcast(self, x: Any, source: int) -> Any:
        """That of one process."""

    def permute(self, x: Any, pairs: Sequence[int]) -> Any:
        """That of the process which has this one as its target, in pairs of source and target; else zeros."""


class _Alone:
    """This process by itself."""

    rank: int = 0
    ranks: tuple[int, ...] = (0,)
    name: str = ""

    def _same(self, x: Any, *_: Any) -> Any:
        return x.clone()

    all_reduce = all_gather = reduce_scatter = all_to_all = broadcast = _same

    def permute(self, x: Any, pairs: Sequence[int]) -> Any:
        return x.clone() if pairs else x.new_zeros(tuple(x.shape))


GROUPS: Final[dict[int, Exchange]] = {0: _Alone()}


def _of(number: int) -> Exchange:
    group = GROUPS.get(number)
    if group is None:
        raise ValueError("a collective of a process group that was destroyed")
    return group


# ---- in HLO


def _where(b: Any, number: int, made: Any) -> Any:
    """An instruction that says whose exchange it is."""
    group = _of(number)
    if group.name:
        made.attrs["frontend_attributes"] = f'{{process_group="{group.name}"}}'
    return made


def _groups(number: int) -> tuple[tuple[int, ...], ...]:
    return (tuple(_of(number).ranks),)


def _lower_all_reduce(b: Any, x: Any, op: int, group: int) -> Any:
    return _where(b, group, b.all_reduce(x, REDUCTIONS[op], _groups(group)))


def _lower_all_gather(b: Any, x: Any, group: int) -> Any:
    return _where(b, group, b.all_gather(x, 0, _groups(group)))


def _lower_reduce_scatter(b: Any, x: Any, op: int, group: int) -> Any:
    return _where(b, group, b.reduce_scatter(x, REDUCTIONS[op], 0, _groups(group)))


def _lower_all_to_all(b: Any, x: Any, _results: Any, _parts: Any, group: int) -> Any:
    return _where(b, group, b.all_to_all(x, 0, _groups(group)))


def _lower_broadcast(b: Any, x: Any, source: int, group: int) -> Any:
    ranks = _of(group).ranks
    first = ranks[source]
    return _where(b, group, b.collective_broadcast(x, ((first, *(r for r in ranks if r != first)),)))


def _lower_permute(b: Any, x: Any, pairs: Sequence[int], group: int) -> Any:
    ranks = _of(group).ranks
    named = tuple((ranks[s], ranks[t]) for s, t in zip(pairs[::2], pairs[1::2], strict=True))
    return _where(b, group, b.collective_permute(x, named))


def _refuse_unordered(call: Any) -> str | None:
    if call.params[0] in (3, 4) and call.complex:
        return "complex numbers have no order"
    return None


def _refuse_uneven(call: Any) -> str | None:
    results, parts, _ = call.params
    if len({*results, *parts}) > 1:
        return "HLO's all-to-all exchanges parts of equal size"
    return None


# ---- shapes


def _rows(x: Any, count: int) -> Any:
    return x.new_empty((count, *x.shape[1:]))


def _gathered(x: Any, group: int) -> Any:
    return _rows(x, x.shape[0] * len(_of(group).ranks))


def _scattered(x: Any, op: int, group: int) -> Any:
    return _rows(x, x.shape[0] // len(_of(group).ranks))


# ---- gradients: every process's result depends on every operand


def _reduced(g: Any, _out: Any, _x: Any, op: int, group: int) -> Any:
    if op != 0:
        raise RuntimeError(f"all_reduce: only sums and means have gradients, not {REDUCTIONS[op]}")
    return ROWS["_all_reduce"].call(g, 0, group)


def _spread(g: Any, _out: Any, _x: Any, op: int, group: int) -> Any:
    if op != 0:
        raise RuntimeError(f"reduce_scatter: only sums and means have gradients, not {REDUCTIONS[op]}")
    return ROWS["_all_gather"].call(g, group)


def _collected(g: Any, _out: Any, _x: Any, source: int, group: int) -> Any:
    total = ROWS["_all_reduce"].call(g, 0, group)
    return total if _of(group).rank == source else total * 0


def _returned(g: Any, _out: Any, _x: Any, pairs: Sequence[int], group: int) -> Any:
    back = [n for s, t in zip(pairs[::2], pairs[1::2], strict=True) for n in (t, s)]
    return ROWS["_collective_permute"].call(g, back, group)


def _collective(schema: str, doc: str, shape: Callable[..., Any], **rules: Any) -> Any:
    return movement(
        schema, doc, function=False, method=False, inplace=False, raises=True, ordered=True, shape=shape, **rules
    )


_all_reduce = _collective(
    "_all_reduce(Tensor input, int op, int group)",
    "The tensors of all processes combined, in the order of their ranks.",
    lambda x, *_: x.new_empty(tuple(x.shape)),
    kernel=lambda x, op, group: _of(group).all_reduce(x, op),
    lower=_lower_all_reduce,
    vjp=_reduced,
    refuse=_refuse_unordered,
)
_all_gather = _collective(
    "_all_gather(Tensor input, int group)",
    "The tensors of all processes, one behind the other.",
    _gathered,
    kernel=lambda x, group: _of(group).all_gather(x),
    lower=_lower_all_gather,
    vjp=lambda g, _out, _x, group: ROWS["_reduce_scatter"].call(g, 0, group),
)
_reduce_scatter = _collective(
    "_reduce_scatter(Tensor input, int op, int group)",
    "Each process's part of the tensors of all processes combined.",
    _scattered,
    kernel=lambda x, op, group: _of(group).reduce_scatter(x, op),
    lower=_lower_reduce_scatter,
    vjp=_spread,
)
_all_to_all = _collective(
    "_all_to_all(Tensor input, int[] results, int[] parts, int group)",
    "Each process's part of the tensor of each process.",
    lambda x, results, _parts, _group: _rows(x, sum(results)),
    kernel=lambda x, results, parts, group: _of(group).all_to_all(x, results, parts),
    lower=_lower_all_to_all,
    refuse=_refuse_uneven,
    vjp=lambda g, _out, _x, results, parts, group: ROWS["_all_to_all"].call(g, parts, results, group),
)
_collective_broadcast = _collective(
    "_collective_broadcast(Tensor input, int source, int group)",
    "The tensor of one process.",
    lambda x, *_: x.new_empty(tuple(x.shape)),
    kernel=lambda x, source, group: _of(group).broadcast(x, source),
    lower=_lower_broadcast,
    vjp=_collected,
)
_collective_permute = _collective(
    "_collective_permute(Tensor input, int[] pairs, int group)",
    "The tensor of the process that has this one as its target; zeros where none has.",
    lambda x, *_: x.new_empty(tuple(x.shape)),
    kernel=lambda x, pairs, group: _of(group).permute(x, pairs),
    lower=_lower_permute,
    vjp=_returned,
)
