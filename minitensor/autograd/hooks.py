"""Hooks of tensors and of nodes of the graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from minitensor import _C

_ids = itertools.count()


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away, and so does the end of a `with` block."""

    def __init__(self, hooks_dict: dict[int, Any], *, extra_dict: Any = None) -> None:
        """`hooks_dict` has the hook under `id`, and `extra_dict`, a dict or a list of them, what is said of it."""
        self.hooks_dict = hooks_dict
        self.id = next(_ids)
        self.extra_dict = extra_dict if isinstance(extra_dict, list) else [extra_dict] if extra_dict is not None else []

    def remove(self) -> None:
        """Remove the hook. Doing so twice is harmless."""
        for hooks in (self.hooks_dict, *self.extra_dict):
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class _HandleOfNode(RemovableHandle):
    """That of a tensor's hook or a node's, which is not in a dict."""

    def __init__(self, node: Any, hook: Any) -> None:
        super().__init__({})
        self._node, self._hook = node, hook

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        if self._hook is not None:
            _C.remove_hook(self._node, self._hook)
            if isinstance(self._hook, _Once):
                self._hook.removed = True  # it may also be where `detach_()` took it
            self._node = self._hook = None

    def __copy__(self) -> RemovableHandle:
        return _HandleOfNode(self._node, self._hook)

    def __reduce__(self) -> tuple[Any, ...]:
        return _HandleOfNode, (None, None)  # for deep copies and pickles: copied tensors are without hooks


class _Once:
    """Makes each registration a callable of its own, so that removing one leaves an equal one alone."""

    __slots__ = ("hook", "removed")

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook, self.removed = hook, False

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args)


def register(target: Any, hook: Callable[..., Any], kind: str) -> RemovableHandle:
    """Put a hook of a kind, "tensor", "pre", "post" or "post_accumulate", on a tensor's node or on a node.

    One of kind "post_accumulate_in_programs" does nothing but call ops, as far as a compiled function is concerned: it
    is recorded, and a replay is without it.
    """
    own = _Once(hook)
    return _HandleOfNode(_C.register_hook(target, own, kind), own)


def register_post_accumulate_grad_hook(tensor: Any, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call `hook(tensor)` after the gradient of a leaf has been accumulated."""
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if tensor.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return register(tensor, hook, "post_accumulate")


def retain_grad(tensor: Any) -> None:
    """Keep the gradient of a tensor that is not a leaf in its `.grad`."""
    if not tensor.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    import weakref

    reference = weakref.ref(tensor)

    def keep(gradient: Any) -> None:
        kept = reference()
        if kept is not None:
            # A copy: the gradient may be the seed, another tensor's gradient too, or one number expanded.
            if kept.grad is not None:
                gradient = kept.grad + gradient
            else:
                gradient = gradient.clone() if _C.is_sparse_storage(gradient) else gradient.clone().contiguous()
            _C.put_gradient(kept, gradient)  # of the shape that the tensor had when it was computed

    _C.retain_grad(tensor, keep)
