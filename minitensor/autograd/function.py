"""Custom differentiable functions."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.autograd.modes import no_grad

Tensor = _C.Tensor


class FunctionContext:
    """What forward leaves for backward."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] | None = ()
        self._versions: tuple[int, ...] = ()
        # For each saved tensor, which result it is. It's kept without its history, which leads back here.
        self._results: tuple[int | None, ...] = ()
        self._non_differentiable: set[int] = set()
        self._materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward; changing one in place meanwhile is an error."""
        self._saved = tensors
        self._versions = tuple(-1 if t is None else t._version for t in tensors)
        self._results = (None,) * len(tensors)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that were saved."""
        if self._saved is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time."
            )
        for tensor, version in zip(self._saved, self._versions, strict=True):
            if tensor is not None and tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"it is at version {tensor._version}; expected version {version} instead"
                )
        return tuple(
            t if place is None else _C.as_result(t, place) for t, place in zip(self._saved, self._results, strict=True)
        )

    def _attach(self, differentiable: list[Any]) -> None:
        """Keep what is saved of the results without their history."""
        places = [next((i for i, o in enumerate(differentiable) if o is t), None) for t in self._saved or ()]
        self._results = tuple(places)
        pairs = zip(self._saved or (), places, strict=True)
        self._saved = tuple(t if place is None else t.detach() for t, place in pairs)

    def _release(self) -> None:
        self._saved = None

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which results have no gradient."""
        self._non_differentiable.update(map(id, tensors))

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients that nobody sent arrive as zeros (the default) or as None."""
        self._materialize = value


class Function:
    """A function with a gradient of its own: static methods `forward(ctx, *args)` and `backward(ctx, *gradients)`.

    `forward` may also take only the arguments, with a `setup_context(ctx, inputs, output)` beside it.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Give the gradient of every argument of forward, None for those without."""
        raise NotImplementedError(
            "You must implement the backward for your custom autograd.Function to use it with backward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call the function."""
        ctx = FunctionContext()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        with no_grad():
            setup = getattr(cls, "setup_context", None)
            result = cls.forward(*args) if setup else cls.forward(ctx, *args)
            if setup:
                setup(ctx, args, result)
        if not (_C.is_grad_enabled() and any(ctx.needs_input_grad)):
            return result
        single = not isinstance(result, tuple)
        outputs = [result] if single else list(result)
        outputs = [o.alias() if isinstance(o, Tensor) and any(o is a for a in args) else o for o in outputs]
        differentiable = [
            o
            for o in outputs
            if isinstance(o, Tensor) and id(o) not in ctx._non_differentiable and o.is_floating_point()
        ]
        positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        sent = [next((i for i, d in enumerate(differentiable) if d is o), None) for o in outputs]
        metas = [(tuple(o.shape), o.dtype) if isinstance(o, Tensor) else None for o in outputs]
        ctx._attach(differentiable)

        def gradient(given: tuple[Any, ...], place: int | None, meta: Any) -> Any:
            g = None if place is None else given[place]
            if g is None and ctx._materialize and meta is not None:
                from minitensor.ops.creation import full

                return full(meta[0], 0, dtype=meta[1])
            return g

        def run(*given: Any) -> tuple[Any, ...]:
            gradients = [gradient(given, place, meta) for place, meta in zip(sent, metas, strict=True)]
            returned = cls.backward(ctx, *gradients)
            returned = returned if isinstance(returned, tuple) else (returned,)
            if len(returned) < len(args):
                raise RuntimeError(
                    f"function {cls.__name__}Backward returned an incorrect number of gradients "
                    f"(expected {len(args)}, got {len(returned)})"
                )
            return tuple(returned[i] for i in positions)

        run.__name__ = f"{cls.__name__}Backward"
        run.release = ctx._release  # type: ignore[attr-defined]  # called when the graph is freed
        _C.attach_function(run, [args[i] for i in positions], differentiable)
        return outputs[0] if single else tuple(outputs)
