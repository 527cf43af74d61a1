"""Custom differentiable functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor.autograd.modes import enable_grad, no_grad

__all__ = ["Function", "FunctionContext", "NestedIOFunction", "once_differentiable"]

Tensor = _C.Tensor

_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


class _Saved:
    """One tensor kept for backward."""

    __slots__ = ("history", "packed", "place", "tensor", "unpack", "version")

    def __init__(self, tensor: Any, place: int | None) -> None:
        # A result is kept without its history, which leads back here; `place` says which result it is.
        self.place, self.unpack = place, None
        hooks = None if tensor is None else _C.saved_tensor_hooks()
        self.version = -1 if tensor is None else tensor._version
        self.tensor = tensor if tensor is None or place is None else tensor.detach()
        if hooks is not None:
            pack, self.unpack = hooks
            self.history = tensor if place is None and tensor.requires_grad else None
            with no_grad():
                self.packed = pack(self.tensor)
            self.tensor = None

    def get(self) -> Any:
        if self.unpack is not None:
            tensor = self.unpack(self.packed).detach()
            if self.history is not None:
                return _C.take_history(tensor, self.history)
        else:
            tensor = self.tensor
            if tensor is not None and tensor._version != self.version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; expected version "
                    f"{self.version} instead. Hint: enable anomaly detection to find the operation that failed to "
                    "compute its gradient, with minitensor.autograd.set_detect_anomaly(True)."
                )
        return tensor if self.place is None else _C.as_result(tensor, self.place)


class FunctionContext:
    """What forward leaves for backward. Anything else that backward needs may be an attribute."""

    def __init__(self) -> None:
        self._given: tuple[Any, ...] = ()
        self._saved: list[_Saved] | None = None
        self._released = False
        self._non_differentiable: set[int] = set()
        self._dirty: tuple[Any, ...] = ()
        self._materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors, or None, for backward; changing one in place meanwhile is an error."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"save_for_backward can only save variables, but argument is of type {type(tensor)}")
        self._given = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Accepted for PyTorch's sake: forward mode runs through backward here, and `jvp` is not called."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that were saved."""
        if self._released:
            raise RuntimeError(_FREED)
        if self._saved is None:
            return self._given
        return tuple(saved.get() for saved in self._saved)

    def _attach(self, differentiable: list[Any]) -> None:
        def place(tensor: Any) -> int | None:
            return next((i for i, o in enumerate(differentiable) if o is tensor), None)

        self._saved = [_Saved(t, None if t is None else place(t)) for t in self._given]
        self._given, self._dirty = (), ()

    def _release(self) -> None:
        self._saved, self._released = None, bool(self._saved)

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which inputs forward has changed in place; they must be results as well."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which results have no gradient."""
        self._non_differentiable.update(map(id, tensors))

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients that nobody sent arrive as zeros (the default) or as None."""
        self._materialize = value


class _Backward:
    """What the engine calls with the gradients of a function's differentiable results."""

    __slots__ = ("__name__", "context", "function", "metas", "positions", "sent", "total")

    def __init__(self, function: Any, context: FunctionContext, args: Any, outputs: Any, differentiable: Any) -> None:
        self.__name__ = f"{function.__name__}Backward"
        self.function, self.context, self.total = function, context, len(args)
        self.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.sent = [next((i for i, d in enumerate(differentiable) if d is o), None) for o in outputs]
        self.metas = [(tuple(o.shape), o.dtype) if isinstance(o, Tensor) else None for o in outputs]

    def release(self) -> None:
        self.context._release()

    def _gradient(self, given: tuple[Any, ...], place: int | None, meta: Any) -> Any:
        gradient = None if place is None else given[place]
        if gradient is None and self.context._materialize and meta is not None:
            from minitensor.ops.creation import full

            return full(meta[0], 0, dtype=meta[1])
        return gradient

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        gradients = [self._gradient(given, *both) for both in zip(self.sent, self.metas, strict=True)]
        by = self.function.vjp if self.function.vjp is not Function.vjp else self.function.backward
        returned = by(self.context, *gradients)
        returned = returned if isinstance(returned, tuple) else (returned,)
        more = returned[self.total :]
        if len(returned) < self.total or any(g is not None for g in more):
            raise RuntimeError(
                f"function {self.__name__} returned an incorrect number of gradients (expected {self.total}, got "
                f"{len(returned)})"
            )
        return tuple(returned[i] for i in self.positions)


class Function:
    """A function with a gradient of its own: static methods `forward(ctx, *args)` and `backward(ctx, *gradients)`.

    `forward` may also take only the arguments, with a `setup_context(ctx, inputs, output)` beside it. `vjp` is another
    name for `backward`. A `jvp` is accepted; forward mode differentiates `backward` instead.
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch."
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
        """The derivative in a direction; accepted, not called."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        ctx = FunctionContext()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        wanted = _C.is_grad_enabled() and any(ctx.needs_input_grad)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args, **kwargs)
        single = not isinstance(result, (tuple, list))
        outputs = [result] if single else list(result)
        dirty = {id(t) for t in ctx._dirty}
        if not wanted:
            return result
        for t in ctx._dirty:
            _check_dirty(t, outputs)
        # A result that is an argument has to be another tensor, unless it was written in place.
        outputs = [o.detach() if _is_argument(o, args) and id(o) not in dirty else o for o in outputs]
        differentiable = [o for o in outputs if _has_gradient(o) and id(o) not in ctx._non_differentiable]
        if cls.backward is Function.backward and cls.vjp is Function.vjp:
            cls.backward(ctx)
        run = _Backward(cls, ctx, args, outputs, differentiable)
        _C.attach_function(run, [args[i] for i in run.positions], differentiable)
        ctx._attach(differentiable)
        return outputs[0] if single else type(result)(outputs) if type(result) in (tuple, list) else tuple(outputs)


def _has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _is_argument(value: Any, args: tuple[Any, ...]) -> bool:
    return isinstance(value, Tensor) and any(value is a for a in args)


def _check_dirty(tensor: Any, outputs: list[Any]) -> None:
    if not any(tensor is o for o in outputs):
        raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. The "
                           "inputs that are modified inplace must all be outputs of the Function.")  # fmt: skip
    if tensor.requires_grad and tensor.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    if tensor._base is not None and tensor._base.requires_grad:
        raise RuntimeError(
            "a view of a tensor that requires grad was modified inplace by a custom Function. Clone it before the call."
        )


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """For `backward`: it is computed without a graph, and differentiating it again is an error."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        if not _C.is_grad_enabled() or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        single = not isinstance(outputs, tuple)
        attached = [_refusing(o) for o in ((outputs,) if single else outputs)]
        return attached[0] if single else tuple(attached)

    return wrapper


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
        _C.attach_function(_Refusal(), [output.detach().requires_grad_()], [fresh])
    return fresh


class NestedIOFunction(Function):
    """A `Function` under PyTorch's name for those whose arguments are nested; tensors must be arguments themselves."""
