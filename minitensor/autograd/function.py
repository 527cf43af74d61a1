"""Custom differentiable functions."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.autograd.modes import no_grad

Tensor = _C.Tensor


class FunctionContext:
    """What forward leaves for backward."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._versions: tuple[int, ...] = ()
        self._non_differentiable: set[int] = set()
        self._materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward; changing one in place meanwhile is an error."""
        self._saved = tensors
        self._versions = tuple(-1 if t is None else t._version for t in tensors)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that were saved."""
        for tensor, version in zip(self._saved, self._versions, strict=True):
            if tensor is not None and tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"it is at version {tensor._version}; expected version {version} instead"
                )
        return self._saved

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
        metas = [(tuple(o.shape), o.dtype) for o in differentiable]

        def run(*gradients: Any) -> tuple[Any, ...]:
            if ctx._materialize:
                from minitensor.ops.creation import full

                gradients = tuple(
                    full(shape, 0, dtype=dtype) if g is None else g
                    for g, (shape, dtype) in zip(gradients, metas, strict=True)
                )
            returned = cls.backward(ctx, *gradients)
            returned = returned if isinstance(returned, tuple) else (returned,)
            if len(returned) < len(args):
                raise RuntimeError(
                    f"function {cls.__name__}Backward returned an incorrect number of gradients "
                    f"(expected {len(args)}, got {len(returned)})"
                )
            return tuple(returned[i] for i in positions)

        run.__name__ = f"{cls.__name__}Backward"
        _C.attach_function(run, [args[i] for i in positions], differentiable)
        return outputs[0] if single else tuple(outputs)
