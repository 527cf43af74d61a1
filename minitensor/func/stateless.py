"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C

__all__ = ["functional_call", "stack_module_state"]

Tensor = _C.Tensor


_ABSENT = object()


class _Swapped(_C.Context):
    """A module with other tensors in place of its parameters and buffers, for the time of a `with` block."""

    def __init__(self, module: Any, values: dict[str, Any]) -> None:
        self._module, self._values, self._kept = module, values, list[tuple[str, Any, str, Any]]()
        self.left: dict[str, Any] = {}
        """What stood under each name at the end of the block."""

    def _now(self) -> None:
        return None

    def _set(self) -> None:
        try:
            for path, value in self._values.items():
                self._swap(path, value)
        except BaseException:
            self._restore(None)
            raise

    def _swap(self, path: str, value: Any) -> None:
        if not (value is None or isinstance(value, Tensor)):
            raise TypeError(f"functional_call expected a tensor for {path!r}, but got {type(value).__name__}")
        *owners, name = path.split(".")
        if not name:
            raise KeyError("the name of a parameter or buffer can't be empty")
        holder = self._module
        for owner in owners:
            holder = getattr(holder, owner)
        for table in (holder._parameters, holder._buffers):
            if name in table:
                self._kept.append((path, table, name, table[name]))
                # Past the registry: for a compiled function that captured the module it stays what it is.
                dict.__setitem__(table, name, value)
                return
        found = getattr(holder, name, None)
        if not (found is None or isinstance(found, Tensor)):
            raise TypeError(f"functional_call replaces tensors, and {path!r} is a {type(found).__name__}")
        attributes = vars(holder)
        self._kept.append((path, attributes, name, attributes.get(name, _ABSENT)))
        attributes[name] = value

    def _restore(self, before: None) -> None:
        for path, table, name, value in reversed(self._kept):
            if name in table:
                self.left[path] = table[name]
            if value is not _ABSENT:
                dict.__setitem__(table, name, value)
            elif name in table:
                dict.__delitem__(table, name)
        self._kept.clear()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with the tensors of a dict, or of several, in place of its parameters and buffers.

    With `tie_weights` a parameter that stands under several names is replaced under all of them, and two tensors for
    it are a ValueError. With `strict` every parameter and buffer must be given, and nothing else; without it, a name
    that the module lacks is an attribute of it during the call. What the module puts in place of a tensor is in the
    dict afterwards, if one was given.
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        values = dict(parameter_and_buffer_dicts)
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        values = {}
        for given in parameter_and_buffer_dicts:
            if not isinstance(given, dict):
                raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
            if repeated := set(values) & set(given):
                raise ValueError(f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call "
                                 "is ambiguous")  # fmt: skip
            values.update(given)
    else:
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    named = _named(module)
    if strict:
        missing, extra = sorted(set(named) - set(values)), sorted(set(values) - set(named))
        if missing or extra:
            raise RuntimeError(f"Error(s) in functional_call: missing key(s) {missing}, unexpected key(s) {extra}")
    if tie_weights:
        by_tensor: dict[int, list[str]] = {}
        for name, tensor in named.items():
            by_tensor.setdefault(id(tensor), []).append(name)
        for name in list(values):
            for other in by_tensor.get(id(named.get(name)), []):
                if values.setdefault(other, values[name]) is not values[name]:
                    tied = sorted(by_tensor[id(named[name])])
                    raise ValueError(f"functional_call got multiple values for keys {tied}, which are tied. Consider "
                                     "using tie_weights=False")  # fmt: skip
    given_args = () if args is None else args if isinstance(args, tuple) else (args,)
    swapped = _Swapped(module, values)
    try:
        with swapped:
            return module(*given_args, **(kwargs or {}))
    finally:
        if isinstance(parameter_and_buffer_dicts, dict):
            for name, value in parameter_and_buffer_dicts.items():
                if swapped.left.get(name, value) is not value:
                    parameter_and_buffer_dicts[name] = swapped.left[name]


def _named(module: Any) -> dict[str, Any]:
    """Every parameter and buffer by every name that it has."""
    if not hasattr(module, "_parameters"):
        raise TypeError(f"expected a module, but got {type(module).__name__}")
    found: dict[str, Any] = {}

    def visit(holder: Any, prefix: str) -> None:
        for table in (holder._parameters, holder._buffers):
            found.update({prefix + name: tensor for name, tensor in table.items() if tensor is not None})
        for name, child in holder._modules.items():
            if child is not None:
                visit(child, f"{prefix}{name}.")

    visit(module, "")
    return found


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several modules of one architecture, stacked, for use with `vmap`."""
    from minitensor.composite.joining import stack

    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    for model in models:
        if not hasattr(model, "_parameters"):
            raise TypeError(f"stack_module_state: expected modules, but got {type(model).__name__}")
    if len({type(m) for m in models}) != 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    if len({m.training for m in models}) != 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")

    def stacked(tables: list[dict[str, Any]], leaves: bool) -> dict[str, Any]:
        made = {}
        for name in tables[0]:
            tensors = [table[name] for table in tables]
            whole = stack([t.detach() for t in tensors], 0)
            made[name] = whole.requires_grad_(tensors[0].requires_grad) if leaves else whole
        return made

    params = stacked([dict(m.named_parameters()) for m in models], True)
    buffers = stacked([dict(m.named_buffers()) for m in models], False)
    return params, buffers
