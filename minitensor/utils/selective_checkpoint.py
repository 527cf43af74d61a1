"""Selective checkpoints: a policy says of each op whether its results are kept, or computed again in the backward pass.

For example::

    def policy(ctx, op, *args, **kwargs):
        kept = op in (mt.ops.aten.mm.default, mt.ops.aten.addmm.default)
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    checkpoint(function, x, use_reentrant=False, context_fn=contexts)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from typing import Any

from minitensor import _C

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts", "ignored_ops"]

Tensor = _C.Tensor


class CheckpointPolicy(Enum):
    """What a selective checkpoint does with the results of an op: the two that save keep them, others don't."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told of the run: whether it is the second one, and the op's result."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


_SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_AGAIN, _TAKEN = object(), object()


class _Kept:
    """Results as they were: a write in place is noticed."""

    def __init__(self, results: tuple[Any, ...]) -> None:
        self.results = results
        self.versions = [t._version for t in results]

    def get(self, may_change: bool) -> tuple[Any, ...]:
        if not may_change and self.versions != [t._version for t in self.results]:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.results


class _Store:
    """What became of each call in the first run, by op and the number of its call."""

    def __init__(self) -> None:
        self._calls: dict[Any, list[Any]] = defaultdict(list)

    def add(self, op: Any, results: tuple[Any, ...] | None) -> None:
        self._calls[op].append(_AGAIN if results is None else _Kept(results))

    def take(self, op: Any, number: int, may_change: bool) -> tuple[Any, ...] | None:
        """The results that were kept, or None: compute them."""
        calls = self._calls.get(op)
        if calls is None or number >= len(calls):
            what = "not found in storage" if calls is None else f"call {number} of it not found in storage"
            raise RuntimeError(
                f"{op} encountered during backward but {what}. The function did not call the same ops when it was "
                "computed again as in the first run."
            )
        entry = calls[number]
        if entry is _TAKEN:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        if entry is _AGAIN:
            return None
        results: tuple[Any, ...] = entry.get(may_change)
        calls[number] = _TAKEN
        return results


class _Watching:
    """A context within which this thread's calls of ops are told to `self`."""

    _asked_before = False

    def __init__(self, store: _Store) -> None:
        self._store = store
        self._outer: list[tuple[Any, bool]] = []

    def __enter__(self) -> None:
        self._outer.append(_C.watch_calls(self, self._asked_before))

    def __exit__(self, *exception: object) -> None:
        _C.watch_calls(*self._outer.pop())

    def __call__(self, row: str, draws: bool, operands: Any, params: Any, results: Any) -> tuple[Any, ...] | None:
        raise NotImplementedError

    @staticmethod
    def _unwatched(run: Callable[[Any], Any], given: list[Any]) -> Any:
        outer = _C.watch_calls(None)
        try:
            return run(given)
        finally:
            _C.watch_calls(*outer)


class _First(_Watching):
    """The first run: the policy is asked, and results are kept."""

    def __init__(self, policy: Callable[..., Any], store: _Store) -> None:
        super().__init__(store)
        self._policy = policy

    def _keeps(self, op: Any, output: Any, args: Any) -> bool:
        found = self._policy(SelectiveCheckpointContext(is_recompute=False, op_output=output), op, *args)
        return found if isinstance(found, bool) else found in _SAVED

    def __call__(self, row: str, draws: bool, operands: Any, params: Any, results: Any) -> None:
        """Note what becomes of a call of an op."""
        from minitensor.library.aten import overload_of

        op = overload_of(row, operands, params)
        output = results[0] if len(results) == 1 else results
        self._store.add(op, results if self._keeps(op, output, (*operands, *params)) else None)

    def run_custom(self, op: Any, given: list[Any], run: Callable[[Any], Any]) -> Any:
        """Run a custom op, and note what becomes of its results."""
        output = self._unwatched(run, given)
        results = _flat(output)
        kept = results is not None and self._unwatched(lambda args: self._keeps(op, output, args), given)
        self._store.add(op, tuple(t.detach() for t in results or ()) if kept else None)
        return output


class _Second(_Watching):
    """The second run: what was kept is not computed."""

    _asked_before = True

    def __init__(self, store: _Store, may_change: bool) -> None:
        super().__init__(store)
        self._may_change = may_change
        self._numbers: dict[Any, int] = defaultdict(int)

    def __enter__(self) -> None:
        self._numbers.clear()
        super().__enter__()

    def _take(self, op: Any) -> tuple[Any, ...] | None:
        number = self._numbers[op]
        self._numbers[op] += 1
        return self._store.take(op, number, self._may_change)

    def __call__(self, row: str, draws: bool, operands: Any, params: Any, results: Any) -> tuple[Any, ...] | None:
        """Return the results that were kept of a call, or None."""
        from minitensor.library.aten import overload_of

        return self._take(overload_of(row, operands, params))

    def run_custom(self, op: Any, given: list[Any], run: Callable[[Any], Any]) -> Any:
        """Return the results that were kept of a custom op, or run it."""
        results = self._take(op)
        if results is None:
            return self._unwatched(run, given)
        fresh = tuple(t.detach() for t in results)
        return fresh if len(fresh) > 1 else fresh[0]


def _flat(output: Any) -> tuple[Any, ...] | None:
    """The tensors that a custom op gave; None if it gave something else, which is computed again."""
    results = (output,) if isinstance(output, Tensor) else output
    whole = isinstance(results, tuple) and all(isinstance(t, Tensor) for t in results) and len(results) > 0
    return results if whole and (len(results) > 1 or results[0] is output) else None


def ignored_ops() -> frozenset[Any]:
    """Return the ops that no policy is asked about: what gives no new tensor."""
    from minitensor.library.aten import Aten

    aten = Aten()
    return frozenset(getattr(aten, name).default for name in ("detach", "size", "stride", "storage_offset", "numel"))


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Return the contexts of a checkpoint's two runs, in which a policy chooses what is kept.

    `policy(ctx, op, *args)` is asked in the first run after each call of an op that gives new tensors: not for views,
    nor for writes in place, which are always made again. `op` is `ops.aten.mm.default` and its like, or a custom op;
    `args` are the operands and then the parameters of the op as it runs here. It returns a :class:`CheckpointPolicy`,
    or whether to keep. A list of ops instead keeps the results of these.

    Draws of random numbers that are kept are made in the second run all the same, so that later ones go on from there.
    ValueError for a list with something else, TypeError for what is neither. In the backward pass RuntimeError where
    what was kept has been written in place, unless `allow_cache_entry_mutation`, and for a second backward pass.
    """
    if isinstance(policy_fn_or_list, list):
        from minitensor.library.aten import OpOverload, OpOverloadPacket
        from minitensor.library.custom_ops import CustomOp

        kept = policy_fn_or_list
        for op in kept:
            if not isinstance(op, (OpOverload, CustomOp)):
                more = (
                    " Please update the OpOverloadPacket to a specific OpOverload. For example, if you have "
                    "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                    if isinstance(op, OpOverloadPacket)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{more}"
                )

        def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
            return op in kept

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    store = _Store()
    return _First(policy, store), _Second(store, allow_cache_entry_mutation)
