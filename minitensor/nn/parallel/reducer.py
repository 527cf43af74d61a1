"""When gradients are averaged over processes: bucket after bucket, while the backward pass goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minitensor import _C
from minitensor import distributed as dist
from minitensor._C import Tensor, float32, float64, int32
from minitensor._functions import offered
from minitensor._functions.offered import cat, nonzero, zeros, zeros_like
from minitensor.autograd import no_grad
from minitensor.autograd.hooks import register
from minitensor.distributed import _functional_collectives as functional
from minitensor.nn.parallel.buckets import BUCKET_BYTES, FIRST_BUCKET_BYTES, Bucket, GradBucket, bucket_assignment

__all__ = ["Reducer", "tensors_in"]

_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that "
    "your module has parameters that were not used in producing loss. You can enable unused parameter detection by "
    "passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by "
    "making sure all `forward` function outputs participate in calculating loss. Parameters which did not receive grad "
    "for rank {rank}: {names}"
)
_TWICE = (
    "Expected to mark a variable ready only once: the gradient of {name} came a second time in one backward pass, as "
    "where a module runs in several reentrant checkpoints, or a graph goes backward twice. static_graph=True counts "
    "how often each comes, if that is the same in every pass"
)

# The engine divides these with the bits of a division afterwards. Of others it would round once in the place of twice.
_DIVIDED = (float32, float64)


class Reducer:
    """Averages the gradients of parameters, `(name, parameter)`, over the processes of a group.

    A gradient that is there is copied to its place in a bucket. A bucket that is full is sent as soon as those before
    it are, so that all processes have one order; the pass goes on meanwhile. The last gradient of a pass waits for all
    buckets, and has `.grad` be the averages: sums in the order of the ranks, divided by their number, so that their
    bits do not depend on buckets. After the first pass buckets are filled in the order in which gradients came.

    In a function that is recorded as a whole, buckets are values of its program, and so is their exchange.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, Any]],
        group: Any,
        *,
        bucket_bytes: Sequence[int] | None = None,
        find_unused: bool = False,
        as_view: bool = False,
        static: bool = False,
    ) -> None:
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.group = group
        # The first is small, so that something is on its way early.
        self.limits = (FIRST_BUCKET_BYTES, BUCKET_BYTES) if bucket_bytes is None else tuple(bucket_bytes)
        self.find_unused = find_unused
        self.as_view = as_view
        self.static = static
        self.hook: tuple[Any, Callable[..., Any]] | None = None
        self.divisor: int | None = None  # other than the size of the group
        self.expecting = False  # gradients of a pass
        self.came: list[int] = []
        self.passes = 0
        self.rebuild = not find_unused or static
        self.counts: list[int] | None = None  # of a static graph: how often each gradient comes in a pass
        self.unused: list[int] | None = None
        self.on_start: Callable[[], None] | None = None
        self._build(range(len(self.parameters) - 1, -1, -1))
        self._handles = [
            register(parameter, self._hook_of(number), "post_accumulate_in_programs")
            for number, parameter in enumerate(self.parameters)
        ]

    def _hook_of(self, number: int) -> Callable[[Any], None]:
        return lambda parameter: self._ready(number)

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _build(self, order: Sequence[int]) -> None:
        assigned = bucket_assignment(self.parameters, order, self.limits)
        self.buckets = [Bucket(k, part, [self.parameters[n] for n in part]) for k, part in enumerate(assigned)]
        self.place = {n: (b, k) for b in self.buckets for k, n in enumerate(b.numbers)}

    # ---- before

    def before_forward(self) -> None:
        """Begin a pass. RuntimeError if gradients of the last one never came."""
        if self.expecting:
            missing = [self.names[n] for b in self.buckets for n in b.numbers if not self.seen[n]]
            raise RuntimeError(_UNFINISHED.format(rank=dist.get_rank(self.group), names=", ".join(missing)))
        if _C.in_recorded_call():
            return
        self.passes += 1
        if self.rebuild and self.passes == 2:
            # Rank 0 may have had no pass, where some have no inputs.
            whole = len(self.came) == len(self.parameters)
            order = offered.tensor(self.came if whole else [-1] * len(self.parameters))
            dist.broadcast(order, group=self.group, group_src=0)
            if int(order[0]) < 0:
                return
            kept = {n: b.views[k] for n, (b, k) in self.place.items()} if self.as_view else {}
            self._build(order.tolist())
            for n, view in kept.items():
                if self.parameters[n].grad is view:
                    bucket, k = self.place[n]
                    bucket.views[k].copy_(view)
                    self.parameters[n].grad = bucket.views[k]

    def before_backward(self, outputs: Any) -> None:
        """Expect the gradients of a pass from `outputs`, tensors in any containers."""
        self.expecting = True
        self.started = False
        self.came = []
        self.seen = [False] * len(self.parameters)
        self.left = list(self.counts) if self.counts is not None else [1] * len(self.parameters)
        self.next = 0
        for bucket in self.buckets:
            bucket.waits_for = len(bucket.numbers)
            bucket.work, bucket.hooked = None, False
        self.recorded = _C.in_recorded_call()
        if not self.find_unused and not self.static:
            self.unused = []
        elif self.unused is None or not self.static:
            used = _reached(outputs)
            self.unused = [n for n, p in enumerate(self.parameters) if id(p) not in used]
        self.locally_unused = set(self.unused)

    # ---- gradients come

    def _ready(self, number: int) -> None:
        """The gradient of a parameter is there."""
        if not self.expecting:
            return
        if not self.started:
            self._start()
        self.left[number] -= 1
        if self.left[number] > 0:
            return
        if self.seen[number]:
            if self.static and self.counts is None:
                raise RuntimeError(
                    f"static_graph: the gradient of {self.names[number]} comes in parts, as of reentrant checkpoints; "
                    "use checkpoint(..., use_reentrant=False)"
                )
            raise RuntimeError(_TWICE.format(name=self.names[number]))
        self._put(number)

    def _start(self) -> None:
        self.started = True
        if self.on_start is not None:
            self.on_start()
        for number in sorted(self.locally_unused):
            self._put(number)

    def _put(self, number: int) -> None:
        self.seen[number] = True
        self.came.append(number)
        bucket, k = self.place[number]
        if not self.recorded:
            self._copy(number, bucket.views[k])
        bucket.waits_for -= 1
        while self.next < len(self.buckets) and not self.buckets[self.next].waits_for:
            self.next += 1
            self._send(self.buckets[self.next - 1])
        if self.next == len(self.buckets):
            self._finish()

    def shadow(self) -> None:
        """Take part in the exchanges of a pass with zeros, in a process that has no inputs."""
        self.divisor = self.group.size()
        for bucket in self.buckets:
            bucket.buffer.zero_()
            self.recorded = False
            self._send(bucket)
            bucket.work.wait()
        if self.find_unused and not self.static:
            dist.all_reduce(zeros(len(self.parameters), dtype=int32), group=self.group)

    def _copy(self, number: int, view: Any) -> None:
        parameter = self.parameters[number]
        gradient = parameter.grad
        with no_grad():
            if gradient is None:
                view.zero_()
            elif gradient.is_sparse:
                raise RuntimeError(
                    f"DistributedDataParallel: the gradient of {self.names[number]} is sparse; buckets hold dense "
                    "ones. Make the embedding without sparse=True"
                )
            elif gradient is not view:
                view.copy_(gradient)
                if self.as_view and number not in self.locally_unused:
                    parameter.grad = view

    # ---- exchange

    def _send(self, bucket: Bucket) -> None:
        if self.recorded:
            self._send_recorded(bucket)
        elif self.hook is not None:
            state, hook = self.hook
            bucket.hooked = True
            bucket.work = hook(state, GradBucket(bucket, bucket.index == len(self.buckets) - 1))
            if not hasattr(bucket.work, "wait"):
                raise RuntimeError(f"a communication hook returns a future, not {type(bucket.work).__name__}")
        else:
            mean = self.divisor is None and bucket.buffer.dtype in _DIVIDED
            op = dist.ReduceOp.AVG if mean else dist.ReduceOp.SUM
            bucket.work = dist.all_reduce(bucket.buffer, op, self.group, async_op=True)

    def _finish(self) -> None:
        """The last gradient has come: what is sent is waited for."""
        self.expecting = False
        if self.recorded:
            self._finish_recorded()
            return
        used = None
        if self.find_unused and not self.static:
            # A parameter that no process used keeps its gradient.
            used = offered.tensor([n not in self.locally_unused for n in range(len(self.parameters))], dtype=int32)
            dist.all_reduce(used, group=self.group)
        with no_grad():
            for bucket in self.buckets:
                found = bucket.work.wait()
                if bucket.hooked:
                    found = found[0] if isinstance(found, (list, tuple)) else found
                    if found is not bucket.buffer:
                        bucket.buffer.copy_(found.view(-1))
                elif self.divisor is not None or bucket.buffer.dtype not in _DIVIDED:
                    bucket.buffer.div_(self.divisor or self.group.size())
                bucket.work = None
            chosen = range(len(self.parameters)) if used is None else nonzero(used).flatten().tolist()
            for number in chosen:
                self._give(number)

    def _give(self, number: int) -> None:
        bucket, k = self.place[number]
        parameter, view = self.parameters[number], bucket.views[k]
        if parameter.grad is None:
            # Unused by all in a static graph: nothing has come, and nothing is to.
            if not (self.static and number in self.locally_unused):
                parameter.grad = view if self.as_view else view.clone()
        elif self.as_view:
            if parameter.grad is not view:
                parameter.grad = view
        else:
            parameter.grad.copy_(view)

    def _send_recorded(self, bucket: Bucket) -> None:
        """The same as values of the program that is recorded."""
        if self.hook is not None:
            raise RuntimeError("a compiled function has no communication hooks; call it without, or step eagerly")
        with no_grad():
            given = [zeros_like(p) if p.grad is None else p.grad for p in bucket.parameters]
            flat = cat([g.reshape(-1) for g in given])
            bucket.work = functional.all_reduce(flat, "avg" if self.divisor is None else "sum", self.group)

    def _finish_recorded(self) -> None:
        with no_grad():
            for bucket in self.buckets:
                mean = bucket.work if self.divisor is None else bucket.work / self.divisor
                bucket.work = None
                for number, part in zip(bucket.numbers, bucket.parts(mean), strict=True):
                    if number not in self.locally_unused or not self.static:
                        self.parameters[number].grad = part


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in nested containers and in the attributes of data classes."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors_in(one)
    elif isinstance(value, (list, tuple, set)):
        for one in value:
            yield from tensors_in(one)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name))


def _reached(outputs: Any) -> set[int]:
    """The leaves that the graph of the outputs ends in, by identity."""
    found: set[int] = set()
    nodes = []
    for tensor in tensors_in(outputs):
        if tensor.grad_fn is not None:
            nodes.append(tensor.grad_fn)
        elif tensor.requires_grad:
            found.add(id(tensor))
    seen: set[Any] = set(nodes)
    while nodes:
        node = nodes.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return found
