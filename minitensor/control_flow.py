"""`cond` and `while_loop`: control flow as calls, by PyTorch's names.

They run what the value of a tensor chooses. So they are ordinary code: in a function that is compiled as a whole the
value can't be read, and the error says so. PyTorch traces both branches of a `cond`, and refuses a program for the one
that isn't chosen; here a branch is checked when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._C import Tensor
from minitensor.ops import ROWS
from minitensor.utils import _pytree

__all__ = ["cond", "while_loop"]


def _decided(value: Any, what: str) -> bool:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise RuntimeError(f"Expected {what} to be bool or single-element tensor, but got {value}.")
        return bool(value)
    if not isinstance(value, (bool, int, float)):
        raise RuntimeError(f"Expected {what} to be bool or tensor, but got {value}.")
    return bool(value)


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """Return `true_fn(*operands)` if `pred`, else `false_fn(*operands)`.

    `pred` is a bool, a number, or a tensor of one element; operands are tensors, also in tuples, lists and dicts.
    RuntimeError for anything else, and for a branch that writes to an operand. Gradients are those of the branch that
    ran. Where `vmap` maps `pred` both run for all slices, and each slice gets the results of its own.
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(leaf, Tensor) for leaf in _pytree.tree_leaves(operands)
    ):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}."
        )
    if isinstance(pred, Tensor) and _C.vmap_level(pred):
        return _chosen(pred, _run(true_fn, operands), _run(false_fn, operands))
    return _run(true_fn if _decided(pred, "pred") else false_fn, operands)


def _run(branch: Callable[..., Any], operands: tuple[Any, ...] | list[Any]) -> Any:
    leaves = _pytree.tree_leaves(operands)
    before = [leaf._version for leaf in leaves]
    result = branch(*operands)
    for place, (leaf, version) in enumerate(zip(leaves, before, strict=True)):
        if leaf._version != version:
            raise RuntimeError(
                f"Encountered input mutation: a branch of cond() wrote to operand {place}. A branch computes new "
                "tensors; clone the operand to write to the copy."
            )
    return result


def _chosen(pred: Tensor, by_true: Any, by_false: Any) -> Any:
    """Of what both branches return, what each slice of `pred` chooses."""
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got one of shape {pred.shape}.")
    pred = pred.reshape(()).bool()
    ours, spec = _pytree.tree_flatten(by_true)
    theirs, other = _pytree.tree_flatten(by_false)
    described = [[_described(leaf) for leaf in leaves] for leaves in (ours, theirs)]
    if spec != other or described[0] != described[1]:
        raise RuntimeError(
            "Expected the branches of cond() to return the same structure with the same metadata, but found: "
            f"{', '.join(described[0])} vs {', '.join(described[1])}"
        )
    where = ROWS["where"].call
    pairs = zip(ours, theirs, strict=True)
    return _pytree.tree_unflatten([where(pred, a, b) if isinstance(a, Tensor) else a for a, b in pairs], spec)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple[Any, ...] | list[Any]
) -> Any:
    """Run `values = body_fn(*values)` while `cond_fn(*values)`, from `carried_inputs` on; return the last values.

    `body_fn` returns what it gets: the same structure of tensors and numbers, with the same shapes and dtypes.
    `cond_fn` returns a bool, or a tensor of one. RuntimeError otherwise. Without a turn
    the inputs are returned, as a tuple.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple or list, but got {type(carried_inputs)}.")
    leaves, spec = _pytree.tree_flatten(tuple(carried_inputs))
    wanted = [_described(leaf) for leaf in leaves]
    result: Any = tuple(carried_inputs)
    values: Any = result
    while _decided(cond_fn(*values), "what cond_fn returns"):
        result = body_fn(*values)
        # One value may come as it is.
        values = result if isinstance(result, (tuple, list)) else (result,)
        leaves, found = _pytree.tree_flatten(tuple(values))
        described = [_described(leaf) for leaf in leaves]
        if found != spec or described != wanted:
            raise RuntimeError(
                "Expected body_fn_output and carried_inputs to have same metadata but found: "
                f"{', '.join(described)} vs {', '.join(wanted)}"
            )
    return result


def _described(leaf: Any) -> str:
    return f"{leaf.dtype} {tuple(leaf.shape)}" if isinstance(leaf, Tensor) else type(leaf).__name__
