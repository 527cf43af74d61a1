"""What registering a hook of a module gives back, and how a module's gradients are shown to its hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from minitensor import autograd
from minitensor._C import Tensor, is_grad_enabled
from minitensor._warning import warn
from minitensor.autograd.hooks import RemovableHandle

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def add_hook(hooks: OrderedDict[int, Any], hook: Any, *extra: dict[int, Any], prepend: bool = False) -> RemovableHandle:
    """Add `hook` after the others, or before them; `extra` are dicts that say something of hooks."""
    handle = RemovableHandle(hooks, extra_dict=list(extra))
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a hook of a tensor as one that is not saved with it."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn if a tensor that is saved has hooks, which are not saved."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning"
            )


class _Boundary(autograd.Function):
    """The identity: its node is where the gradients of several tensors come by together."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        """Show the tensors."""
        shown = tuple(t.view_as(t) for t in tensors)
        ctx.mark_non_differentiable(*[s for s, t in zip(shown, tensors, strict=True) if not t.requires_grad])
        return shown

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Pass the gradients on."""
        return gradients


class BackwardHook:
    """One call of a module, whose gradients of arguments and results are shown to hooks.

    Arguments and results each pass through one node of the graph. The hooks are called when the gradients of the
    arguments are there; where no argument wants any, with those of the results alone.
    """

    def __init__(
        self, module: Any, user_hooks: Sequence[Callable[..., Any]], user_pre_hooks: Sequence[Callable[..., Any]]
    ) -> None:
        """`user_hooks` take the module and both kinds of gradients, `user_pre_hooks` those of the results alone."""
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: Any = None
        self.n_outputs = -1
        self.output_tensors_index: list[int] | None = None
        self.n_inputs = -1
        self.input_tensors_index: list[int] | None = None

    def setup_input_hook(self, args: tuple[Any, ...]) -> Any:
        """Return the arguments as the module gets them."""
        passed, self.input_tensors_index = self._through(args, self._watch_arguments)
        self.n_inputs = len(args)
        return passed

    def setup_output_hook(self, args: Any) -> Any:
        """Return the results as the module's caller gets them."""
        several = args if isinstance(args, tuple) else (args,)
        self.n_outputs = len(several)
        passed, self.output_tensors_index = self._through(several, self._watch_results)
        return passed if isinstance(args, tuple) else passed[0]

    def _through(self, args: tuple[Any, ...], watch: Callable[[Any], None]) -> tuple[Any, list[int] | None]:
        places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        if not (is_grad_enabled() and any(args[i].requires_grad for i in places)):
            return args, None
        passed = _Boundary.apply(*(args[i] for i in places))
        watch(next(t.grad_fn for t in passed if t.grad_fn is not None))
        changed = list(args)
        for place, tensor in zip(places, passed, strict=True):
            changed[place] = tensor
        return tuple(changed) if type(args) is tuple else type(args)(*changed), places

    @staticmethod
    def _spread(places: list[int], gradients: Sequence[Any], count: int) -> tuple[Any, ...]:
        spread = [None] * count
        for place, gradient in zip(places, gradients, strict=True):
            spread[place] = gradient
        return tuple(spread)

    def _watch_arguments(self, node: Any) -> None:
        def arrived(grad_input: Any, _: Any) -> Any:
            if self.grad_outputs is None:
                # The gradients were asked for in another order: the module's results had none.
                return None
            places = self.input_tensors_index or []
            grad_inputs = self._spread(places, grad_input, self.n_inputs)
            for hook in self.user_hooks:
                out = hook(self.module, grad_inputs, self.grad_outputs)
                if out is None:
                    continue
                if len(out) != len(grad_inputs):
                    raise RuntimeError(
                        "Backward hook returned an invalid number of grad_input, "
                        f"got {len(out)}, but expected {len(grad_inputs)}"
                    )
                grad_inputs = out
            self.grad_outputs = None
            return tuple(grad_inputs[i] for i in places)

        node.register_hook(arrived)

    def _watch_results(self, node: Any) -> None:
        def arrived(_: Any, grad_output: Any) -> Any:
            places = self.output_tensors_index or []
            self.grad_outputs = self._spread(places, grad_output, self.n_outputs)
            for hook in self.user_pre_hooks:
                out = hook(self.module, self.grad_outputs)
                if out is None:
                    continue
                if len(out) != len(self.grad_outputs):
                    raise RuntimeError(
                        "Backward pre hook returned an invalid number of grad_output, "
                        f"got {len(out)}, but expected {len(self.grad_outputs)}"
                    )
                self.grad_outputs = out
            changed = self.grad_outputs
            if self.input_tensors_index is None:
                self._without_arguments()
            return tuple(changed[i] for i in places)

        node.register_hook(arrived)

    def _without_arguments(self) -> None:
        if self.user_hooks:
            warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                "inputs require gradients."
            )
        for hook in self.user_hooks:
            out = hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
            if out is not None and not (isinstance(out, tuple) and all(g is None for g in out)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None "
                    "for all gradients."
                )
        self.grad_outputs = None
