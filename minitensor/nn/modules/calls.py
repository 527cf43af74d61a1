"""Calling a module, and the hooks around that: of one module, and of all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from minitensor import _C
from minitensor._C import Tensor
from minitensor._warning import warn
from minitensor.utils.hooks import BackwardHook, RemovableHandle, add_hook

__all__ = [
    "Calls",
    "register_module_backward_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]

_Hooks = OrderedDict[int, Callable[..., Any]]

_global_forward_pre_hooks: _Hooks = OrderedDict()
_global_forward_hooks: _Hooks = OrderedDict()
_global_forward_hooks_with_kwargs: dict[int, bool] = {}
_global_forward_hooks_always_called: dict[int, bool] = {}
_global_backward_pre_hooks: _Hooks = OrderedDict()
_global_backward_hooks: _Hooks = OrderedDict()
_global_is_full_backward_hook: bool | None = None

GLOBAL_HOOKS = (_global_forward_pre_hooks, _global_forward_hooks, _global_backward_pre_hooks, _global_backward_hooks)
"""Those of all modules, which every call of a module runs."""

_C.set_global_module_hooks(GLOBAL_HOOKS)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have ``hook(module, args)`` called before every module's ``forward``, before the module's own hooks."""
    return add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Have ``hook(module, args, output)`` called after every module's ``forward``, before the module's own hooks."""
    handle = add_hook(
        _global_forward_hooks, hook, _global_forward_hooks_with_kwargs, _global_forward_hooks_always_called
    )
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def _set_global_kind(full: bool) -> None:
    global _global_is_full_backward_hook
    if _global_backward_hooks and _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
            "Please use only one of them."
        )
    _global_is_full_backward_hook = full


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have ``hook(module, grad_input, grad_output)`` called at every module's last node; deprecated as in PyTorch."""
    _set_global_kind(False)
    return add_hook(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have ``hook(module, grad_output)`` called when the gradients of any module's results are there."""
    return add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have ``hook(module, grad_input, grad_output)`` called when the gradients of any module's arguments are there."""
    _set_global_kind(True)
    return add_hook(_global_backward_hooks, hook)


class Calls(_C.ModuleBase):
    """The part of a module that is about calling it."""

    _forward_pre_hooks: _Hooks
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _forward_hooks: _Hooks
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]
    _backward_pre_hooks: _Hooks
    _backward_hooks: _Hooks
    _is_full_backward_hook: bool | None
    _compiled_call_impl: Callable[..., Any] | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        called: set[int] = set()
        with self._always_called(args, kwargs, called):
            return self._call_with_hooks(args, kwargs, called)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Any:
        before = [(hook, False) for hook in _global_forward_pre_hooks.values()]
        before += [(hook, i in self._forward_pre_hooks_with_kwargs) for i, hook in self._forward_pre_hooks.items()]
        for hook, with_kwargs in before:
            if with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
            elif (changed := hook(self, args)) is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        full, at_node = self._get_backward_hooks()
        pre = self._get_backward_pre_hooks()
        boundary = BackwardHook(self, full, pre) if full or pre else None
        if boundary is not None:
            args = boundary.setup_input_hook(args)
        result = self.forward(*args, **kwargs)
        for key, hook, with_kwargs, _ in self._hooks_after():
            called.add(key)
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if changed is not None:
                result = changed
        if boundary is not None:
            if not isinstance(result, (Tensor, tuple)):
                warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                    f"received {type(result)}"
                )
            result = boundary.setup_output_hook(result)
        if at_node:
            self._hook_last_node(result, at_node)
        return result

    def _hooks_after(self) -> list[tuple[int, Callable[..., Any], bool, bool]]:
        kinds, always = _global_forward_hooks_with_kwargs, _global_forward_hooks_always_called
        after = [(i, hook, i in kinds, i in always) for i, hook in _global_forward_hooks.items()]
        kinds, always = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        return after + [(i, hook, i in kinds, i in always) for i, hook in self._forward_hooks.items()]

    @contextmanager
    def _always_called(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Iterator[None]:
        try:
            yield
        except Exception:
            # Errors of these hooks would hide the one that is raised.
            for key, hook, with_kwargs, always in self._hooks_after():
                if always and key not in called:
                    try:
                        hook(self, args, kwargs, None) if with_kwargs else hook(self, args, None)
                    except Exception as error:
                        warn(
                            "module forward hook with ``always_call=True`` raised an exception that was silenced as "
                            f"another error was raised in forward: {error}"
                        )
            raise

    def _get_backward_hooks(self) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
        """Return the hooks of gradients: those of the whole module, and those of its last node."""
        full: list[Callable[..., Any]] = []
        at_node: list[Callable[..., Any]] = []
        (full if _global_is_full_backward_hook is True else at_node).extend(_global_backward_hooks.values())
        (full if self._is_full_backward_hook is True else at_node).extend(self._backward_hooks.values())
        return full, at_node

    def _get_backward_pre_hooks(self) -> list[Callable[..., Any]]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _hook_last_node(self, result: Any, hooks: list[Callable[..., Any]]) -> None:
        found = result
        while not isinstance(found, Tensor):
            if isinstance(found, dict):
                found = next(v for v in found.values() if isinstance(v, Tensor))
            else:
                found = found[0]
        if (node := found.grad_fn) is not None:
            for hook in hooks:
                node.register_hook(partial(hook, self))
            warn(
                "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and "
                "will be removed in future versions. This hook will be missing some grad_input. Please use "
                "register_full_backward_hook to get the documented behavior.",
                FutureWarning,
            ) if any(edge[0] is not None and edge[0].next_functions for edge in node.next_functions) else None

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Have ``hook(module, args)`` called before every :meth:`forward`; what it returns replaces the arguments.

        With ``with_kwargs`` it is ``hook(module, args, kwargs)``, which returns None or both.
        """
        handle = add_hook(self._forward_pre_hooks, hook, self._forward_pre_hooks_with_kwargs, prepend=prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Have ``hook(module, args, result)`` called after every :meth:`forward`; its return replaces the result.

        With ``with_kwargs`` it is ``hook(module, args, kwargs, result)``; with ``always_call`` it is also called, with
        None, where an exception is raised.
        """
        flags = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        handle = add_hook(self._forward_hooks, hook, *flags, prepend=prepend)
        for flag, wanted in zip(flags, (with_kwargs, always_call), strict=True):
            if wanted:
                flag[handle.id] = True
        return handle

    def _set_kind(self, full: bool) -> None:
        if self._backward_hooks and self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = full

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have ``hook(module, grad_input, grad_output)`` called at the last node; deprecated as in PyTorch."""
        self._set_kind(False)
        return add_hook(self._backward_hooks, hook)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Have ``hook(module, grad_output)`` called when the results' gradients are there; its return replaces them."""
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Have ``hook(module, grad_input, grad_output)`` called when the arguments' gradients are there.

        What it returns replaces ``grad_input``. Arguments and results that are no tensors have None.
        """
        self._set_kind(True)
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Have calls of the module run as compiled programs; the arguments are those of ``minitensor.compile``."""
        from minitensor.compiler import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)
