"""The transform itself: arguments are mapped, the function runs once, results are brought back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._vmap import rules
from minitensor._vmap.tree import broadcast, flatten

__all__ = ["vmap"]

Tensor = _C.Tensor


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` over a dimension of its arguments.

    `in_dims` says which dimension of each argument is mapped, None for arguments that every example shares; it may be
    nested as the arguments are. `out_dims` says where the mapped dimension goes in the results. Random ops raise with
    `randomness="error"`; with "different" each example has its own numbers, with "same" all have the same. With
    `chunk_size` so many examples are computed at a time. Every op of `func` runs once for all examples, by a rule that
    follows from its kind, or once for each example where there is none; ops whose result's shape depends on data raise
    a RuntimeError.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, dims, rebuild, size = _arguments(func, in_dims, args)
        if chunk_size is None or chunk_size >= size:
            return _run(func, leaves, dims, rebuild, size, out_dims, randomness, kwargs)
        chunks = []
        for start in range(0, size, chunk_size):
            count = min(chunk_size, size - start)
            part = [leaf if d is None else leaf.narrow(d, start, count) for leaf, d in zip(leaves, dims, strict=True)]
            chunks.append(_run(func, part, dims, rebuild, count, out_dims, randomness, kwargs))
        return _concatenated(chunks, out_dims)

    return wrapped


def _name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))


def _arguments(func: Any, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[Any], Any, int]:
    called = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"{called}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    leaves, rebuild = flatten(args)
    dims = broadcast(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args)
    if dims is None:
        raise ValueError(
            f"{called}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{type(in_dims)} but inputs has {len(args)} arguments."
        )
    normal: list[Any] = []
    sizes = set()
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is None:
            normal.append(None)
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{called}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{called}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -leaf.ndim <= dim < leaf.ndim:
            raise ValueError(
                f"{called}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.ndim} "
                f"so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
            )
        normal.append(dim % leaf.ndim)
        sizes.add(leaf.shape[dim])
    if not sizes:
        raise ValueError(f"{called}: at least one of the in_dims must be an int, so that there is a dimension to map.")
    if len(sizes) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)} for "
            "the mapped dimension"
        )
    return leaves, normal, rebuild, sizes.pop()


def _run(
    func: Any, leaves: list[Any], dims: list[Any], rebuild: Any, size: int, out_dims: Any, randomness: str, kwargs: Any
) -> Any:
    level = _C.vmap_depth() + 1
    moved = [leaf if d is None else leaf.movedim(d, 0) for leaf, d in zip(leaves, dims, strict=True)]
    nested = len(rules.RANDOMNESS.stack)
    try:
        rules.RANDOMNESS.stack.append((randomness, size))
        _C.set_vmap_depth(level)
        given = [leaf if d is None else _C.vmap_wrap(leaf, level) for leaf, d in zip(moved, dims, strict=True)]
        result = func(*rebuild(given), **kwargs)
        values, restore = flatten(result)
        places = broadcast(out_dims if not isinstance(out_dims, list) else tuple(out_dims), result)
        if places is None:
            raise ValueError(
                f"vmap({_name(func)}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of "
                "`outputs`."
            )
        physical = [_C.vmap_unwrap(value, level) if isinstance(value, Tensor) else None for value in values]
    finally:
        # One call, the last: a signal's handler raises after a call.
        del rules.RANDOMNESS.stack[nested:]
        _C.set_vmap_depth(level - 1)
    outputs = []
    for value, pair, place in zip(values, physical, places, strict=True):
        if pair is None:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(value)}. Did you "
                "mean to set out_dims= to None for output?"
            )
        tensor, is_mapped = pair
        if place is None:
            if is_mapped:
                raise ValueError(
                    f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
                )
            outputs.append(tensor)
            continue
        tensor = tensor if is_mapped else tensor.unsqueeze(0).expand((size, *tensor.shape))
        if not -tensor.ndim <= place < tensor.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-tensor.ndim}, {tensor.ndim - 1}], but got "
                f"{place})"
            )
        outputs.append(tensor.movedim(0, place) if place else tensor)
    return restore(outputs)


def _concatenated(chunks: list[Any], out_dims: Any) -> Any:
    from minitensor.ops.movement import cat

    flat = [flatten(chunk)[0] for chunk in chunks]
    places = broadcast(out_dims if not isinstance(out_dims, list) else tuple(out_dims), chunks[0]) or []
    rebuild = flatten(chunks[0])[1]
    return rebuild([
        parts[0] if place is None else cat(list(parts), place)
        for place, *parts in zip(places, *flat, strict=True)
    ])  # fmt: skip
