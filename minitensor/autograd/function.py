"""Custom differentiable functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor._warning import as_shown, warn
from minitensor.autograd.grad_mode import enable_grad, no_grad

__all__ = ["Function", "FunctionContext", "FunctionCtx", "InplaceFunction", "once_differentiable"]

Tensor = _C.Tensor

_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


_INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `no_grad()` instead of `inference_mode()`."
)


def _history(tensor: Any) -> Any:
    """What has a tensor's place in the graph, without its contents; a leaf itself, which the graph holds anyway."""
    if tensor.is_leaf:
        return tensor
    from minitensor.ops.creation import full

    return _C.take_history(full((0,), 0, dtype=tensor.dtype), tensor)


def _handle(tensor: Any) -> Any:
    """Another object of the same contents, without history."""
    if not _C.is_sparse_storage(tensor):
        return _C.detach_handle(tensor)
    from minitensor.sparse.tensor import SparseTensor, raw

    return raw(tensor._pattern, tensor._elements) if isinstance(tensor, SparseTensor) else tensor.detach()


def history_of(tensor: Any) -> Any:
    """The node that made a tensor; None for a view whose history can't be told, which refuses every use of it."""
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


class Saved:
    """One tensor kept for backward."""

    __slots__ = ("history", "packed", "place", "tensor", "unpack", "version")

    def __init__(self, tensor: Any, place: int | None) -> None:
        # A result is kept without its history, which leads back here; `place` says which result it is.
        if tensor is not None and tensor.is_inference() and _C.recording():
            raise RuntimeError(_INFERENCE)
        self.place, self.unpack = place, None
        hooks = None if tensor is None else _C.saved_tensor_hooks()
        self.version = None if tensor is None or tensor.is_inference() else tensor._version
        self.tensor = tensor if tensor is None or place is None else _handle(tensor)
        if hooks is not None:
            pack, self.unpack = hooks
            self.history = _history(tensor) if place is None and _C.is_recorded(tensor) else None
            with no_grad():
                self.packed = pack(self.tensor)
            self.tensor = None

    def get(self, context: Any = None) -> Any:
        """The tensor, with the history that it had; that of a result only where the context's node is asked."""
        if self.unpack is not None:
            tensor = self.unpack(self.packed)
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(tensor)}"
                )
            if self.history is None and self.place is None and not tensor.requires_grad:
                return tensor
            tensor = _handle(tensor)
            if self.history is not None:
                return _C.take_history(tensor, self.history)
        else:
            tensor = self.tensor
            if self.version is not None and tensor._version != self.version:
                raise RuntimeError(
                    as_shown(
                        "one of the variables needed for gradient computation has been modified by an inplace "
                        f"operation: [{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; expected "
                        f"version {self.version} instead. Hint: enable anomaly detection to find the operation that "
                        "failed to compute its gradient, with minitensor.autograd.set_detect_anomaly(True, "
                        "check_nan=False)."
                    )
                )
        if self.place is not None:
            return _C.as_result(tensor, self.place, context)
        if tensor is not None:
            _ = tensor.is_leaf  # refuses a view whose history can't be known
        return tensor


class FunctionContext:
    """What forward leaves for backward. Anything else that backward needs may be an attribute."""

    def __init__(self) -> None:
        self._given: tuple[Any, ...] = ()
        self._given_forward: tuple[Any, ...] = ()
        self._saved: list[Saved] | None = None
        self._saved_forward: list[Saved] | None = None
        self._released = False
        self._forward = False  # while jvp runs
        self._non_differentiable: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors, or None, for backward; changing one in place meanwhile is an error.

        What is neither is a TypeError, where somebody wants a gradient.
        """
        self._given = tensors

    def _check_saved(self) -> None:
        for i, tensor in enumerate(self._given):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(tensor).__name__}"
                )

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors, or None, for `jvp`, to which they are `saved_tensors`."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"save_for_forward can only save variables, but argument is of type {type(tensor)}")
        self._given_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that were saved."""
        if self._forward:
            return tuple(saved.get(self) for saved in self._saved_forward or ())
        if self._released:
            raise RuntimeError(_FREED)
        if self._saved is None:
            return self._given
        return tuple(saved.get(self) for saved in self._saved)

    def _check_marks(self) -> None:
        for name, marked in (("mark_dirty", self._dirty), ("mark_non_differentiable", self._non_differentiable)):
            for i, one in enumerate(marked):
                if not isinstance(one, Tensor):
                    raise RuntimeError(f"{name} can only accept variables, but argument {i} is of type {type(one)}")
        for tensor in self._dirty:
            if not (tensor.is_inference() and _C.is_inference_mode_enabled()):
                _C.increment_version(tensor)

    def _attach(self, results: list[Any], node: Any, forward: bool) -> None:
        def place(tensor: Any) -> int | None:
            # One that was returned twice is the last of them; one without a gradient is not the node's.
            at = next((i for i in reversed(range(len(results))) if results[i] is tensor), None)
            return None if at is None or history_of(tensor) != node else at

        self._saved = [Saved(t, None if t is None else place(t)) for t in self._given]
        if forward:
            given = self._given_forward or self._given
            self._saved_forward = [Saved(t, None if t is None else place(t)) for t in given]
        self._given_forward = self._given = self._dirty = self._non_differentiable = ()

    def _release(self) -> None:
        self._saved, self._saved_forward, self._released = None, None, True

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which inputs forward has changed in place; they must be results as well."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which results have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients that nobody sent arrive as zeros (the default) or as None."""
        if not isinstance(value, bool):
            raise TypeError(f"set_materialize_grads(): argument 'value' must be bool, not {type(value).__name__}")
        self._materialize = value


class _Backward:
    """What the engine calls with the gradients of a function's differentiable results."""

    __slots__ = ("__name__", "context", "function", "inputs", "metas", "positions", "total")

    def __init__(self, function: Any, context: FunctionContext, args: Any) -> None:
        self.__name__ = f"{function.__name__}Backward"
        self.function, self.context, self.total = function, context, len(args)
        self.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.inputs = [(tuple(a.shape), a.dtype, a.device) for a in args if isinstance(a, Tensor)]
        self.metas: list[Any] = []

    def set_outputs(self, outputs: list[Any]) -> None:
        self.metas = [(tuple(o.shape), o.dtype, o.device) if isinstance(o, Tensor) else None for o in outputs]

    def release(self) -> None:
        self.context._release()

    def _gradient(self, gradient: Any, meta: Any) -> Any:
        if gradient is None and self.context._materialize and meta is not None:
            from minitensor.ops.creation import full

            return full(meta[0], 0, dtype=meta[1], device=meta[2])
        return gradient

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        gradients = [self._gradient(*both) for both in zip(given, self.metas, strict=True)]
        forward = _C.goes_forward() and _C.is_recorded(*gradients)
        if forward and self.function.jvp is not Function.jvp:
            return tuple(_Along.apply(self, *gradients)[i] for i in range(len(self.positions)))
        returned = gradients_of(self.function, self.context, gradients, self.total)
        for i in set(range(self.total)) - set(self.positions):
            if returned[i] is not None:
                raise RuntimeError(
                    f"function {self.__name__} returned a gradient different than None at position {i + 1}, but the "
                    "corresponding forward input was not a Tensor"
                )
        if forward and any(g is not None and _has_gradient(g) and not _C.is_recorded(g) for g in returned):
            raise NotImplementedError(
                "You must implement the jvp function for custom autograd.Function to use it with forward mode AD: what "
                f"the backward of {self.function.__name__} gives can't be differentiated"
            )
        return tuple(returned[i] for i in self.positions)

    def push(self, tangents: Sequence[Any]) -> tuple[Any, ...]:
        """The derivatives of the results along tangents of the tensors among the arguments, by `jvp`."""
        context = self.context
        given: list[Any] = [None] * self.total
        for position, tangent, meta in zip(self.positions, tangents, self.inputs, strict=True):
            # jvp may write to it, and is called once for each derivative that is asked for.
            given[position] = None if tangent is None else tangent.clone()
            given[position] = self._gradient(given[position], meta)
        context._forward = True
        try:
            results = self.function.jvp(context, *given)
        finally:
            context._forward = False
        return results if isinstance(results, tuple) else (results,)


def gradients_of(function: Any, context: Any, gradients: Sequence[Any], total: int) -> tuple[Any, ...]:
    """What backward returns for the arguments of forward, which are `total`."""
    by, backward = function.vjp, function.backward
    if by is Function.vjp:
        by = backward
    elif backward is not Function.backward:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement "
            "one of them."
        )
    returned = by(context, *gradients)
    returned = returned if isinstance(returned, tuple) else (returned,)
    if len(returned) < total or any(g is not None for g in returned[total:]):
        raise RuntimeError(
            f"function {function.__name__}Backward returned an incorrect number of gradients (expected {total}, got "
            f"{len(returned)})"
        )
    return returned[:total]


def _bound(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], split: bool) -> tuple[Any, ...]:
    """The arguments by position, which is how backward counts them; those that have no position are refused.

    `setup_context` is given defaults, too.
    """
    context = () if split else (None,)
    try:
        signature = inspect.signature(cls.forward)
    except (TypeError, ValueError):  # written in C
        if not kwargs:
            return args
        raise TypeError(f"{cls.__name__}.forward takes no keyword arguments, since it says no names") from None
    bound = signature.bind(*context, *args, **kwargs)
    if split:
        bound.apply_defaults()
    for name in bound.kwargs:
        raise TypeError(
            f"{cls.__name__}.apply() got an argument '{name}' that has no position in forward, so that backward could "
            "give no gradient for it"
        )
    return bound.args[len(context) :]


class Function:
    """A function with a gradient of its own: static methods `forward(ctx, *args)` and `backward(ctx, *gradients)`.

    `forward` may also take only the arguments, with a `setup_context(ctx, inputs, output)` beside it. `vjp` is another
    name for `backward`. `jvp(ctx, *tangents)` gives the derivatives of the results along tangents of the arguments,
    which are None for those that are no tensors; without it forward mode differentiates `backward`.
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: a Function is called by `apply`."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method: call it by `apply` of the class."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Leave for backward what it needs, where `forward` takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Give the gradient of every argument of forward, None for those without."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *gradients: Any) -> Any:
        """Another name for `backward`."""
        raise NotImplementedError("vjp is another name for backward")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Give the derivative of every result of forward along the tangents of its arguments."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """How it is mapped, `(results, out_dims)`; without one forward and backward run on mapped tensors."""
        raise NotImplementedError("You must implement the vmap staticmethod or leave it to forward and backward.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        split = cls.setup_context is not Function.setup_context
        if split or kwargs:
            args = _bound(cls, args, kwargs, split)
        ctx = FunctionContext()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        wanted = _C.is_recorded(*args)
        level = max(map(_C.vmap_level, args), default=0) if _C.vmap_depth() else 0
        tensors = [a for a in args if isinstance(a, Tensor)]
        run = _Backward(cls, ctx, args) if wanted else None
        forward = wanted and cls.jvp is not Function.jvp and _C.is_forward_mode()
        node = None if run is None else _C.begin_function(run, tensors)

        def compute() -> Any:
            if not split:
                return cls.forward(ctx, *args)
            result = cls.forward(*args)
            cls.setup_context(ctx, args, result)
            return result

        if level:
            from minitensor.autograd.mapped_function import forward_mapped, needs_gradient

            ctx.needs_input_grad = tuple(map(needs_gradient, args))
            result = forward_mapped(cls, ctx, args, level, compute)
        else:
            recording = _C.recording()
            try:
                _C.set_recording(0)
                result = compute()
            finally:
                _C.set_recording(recording)
        if wanted or level:
            ctx._check_saved()
        single = not isinstance(result, (tuple, list))
        outputs = [result] if single else list(result)
        if ctx._dirty or ctx._non_differentiable:
            ctx._check_marks()
        if any(all(t is not o for o in outputs) for t in ctx._dirty):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function."
            )
        saved = [t for t in ctx._given if isinstance(t, Tensor)] if split else ()
        results = _C.finish_function(node, tensors, outputs, ctx._dirty, ctx._non_differentiable, saved)
        if run is not None:
            run.set_outputs(results)
            ctx._attach(results, node, forward)
        return results[0] if single else tuple(results)


def _has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """For `backward`: it is computed without a graph, and differentiating it again is an error."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        if not _C.is_recorded(*args):
            return outputs
        single = not isinstance(outputs, tuple)
        attached = [_refusing(o) for o in ((outputs,) if single else outputs)]
        return attached[0] if single else tuple(attached)

    return wrapper


class _Along(Function):
    """The first of the two passes that a derivative forward is made of: its own gradient is what `jvp` gives.

    What it gives itself is not read: only how it depends on the gradients is.
    """

    @staticmethod
    def forward(ctx: Any, run: _Backward, *gradients: Any) -> tuple[Any, ...]:
        from minitensor.ops.creation import full

        ctx.run, ctx.wanted = run, [g is not None for g in gradients]
        ctx.set_materialize_grads(False)
        return tuple(full(size, 0, dtype=dtype, device=device) for size, dtype, device in run.inputs)

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        results = ctx.run.push(tangents)
        if len(results) != len(ctx.wanted):
            raise RuntimeError(
                f"{ctx.run.function.__name__}.jvp must give as many tangents as forward gives results: "
                f"{len(ctx.wanted)}, got {len(results)}"
            )
        return (None, *(r if wanted else None for r, wanted in zip(results, ctx.wanted, strict=True)))


class _Refusal:
    """The backward of what must not be differentiated."""

    __name__ = "DelayedError"

    def __call__(self, *gradients: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def _refusing(output: Any) -> Any:
    if not _has_gradient(output):
        return output
    fresh = output.detach()
    with enable_grad():
        inputs = [output.detach().requires_grad_()]
        _C.finish_function(_C.begin_function(_Refusal(), inputs), inputs, [fresh], (), (), ())
    return fresh


class InplaceFunction(Function):
    """A `Function` under PyTorch's older name for those that change an argument, which `ctx.mark_dirty` says."""


FunctionCtx = FunctionContext  # PyTorch's name


def __getattr__(name: str) -> Any:
    if name == "NestedIOFunction":  # PyTorch's has its place here
        from minitensor.autograd.nested_function import NestedIOFunction

        return NestedIOFunction
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
