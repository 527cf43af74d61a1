"""Batches of samples."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from minitensor._C import Tensor, float64
from minitensor._functions.offered import as_tensor, stack, tensor

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

_REFUSAL = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _mapping_like(old: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Another mapping of the class of the old one, or a dict if that can't be made."""
    try:
        if isinstance(old, MutableMapping):
            made = copy.copy(old)
            made.update(items)
            return made
        return type(old)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _sequence_like(old: Sequence[Any], items: list[Any]) -> Any:
    """Another sequence of the class of the old one, or a list if that can't be made."""
    try:
        if isinstance(old, MutableSequence):
            made = copy.copy(old)
            for at, item in enumerate(items):
                made[at] = item
            return made
        return type(old)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _is_named(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def default_convert(data: Any) -> Any:
    """The same structure with NumPy's arrays and scalars as tensors; other things as they are."""
    kind = type(data)
    if isinstance(data, Tensor):
        return data
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "string_"):
        if kind.__name__ != "ndarray":
            return as_tensor(sys.modules["numpy"].array(data))
        return data if data.dtype.kind in "SaUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(data[key]) for key in data})
    if _is_named(data):
        return kind(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _sequence_like(data, [default_convert(item) for item in data])
    return data


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """A batch of samples of one structure: what the function for a type makes of all values at one place.

    The functions get a list of values and the map. Mappings, tuples with names and sequences are taken apart.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(first, known):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        items = {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
        return _mapping_like(first, items)
    if _is_named(first):
        columns = zip(*batch, strict=False)
        return kind(*(collate(column, collate_fn_map=collate_fn_map) for column in columns))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        found = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
        return found if isinstance(first, tuple) else _sequence_like(first, found)
    raise TypeError(_REFUSAL.format(kind))


def _of_tensors(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return stack(list(batch), 0)


def _of_floats(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return tensor(batch, dtype=float64)


def _of_ints(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return tensor(batch)


def _of_texts(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return batch


def _of_arrays(batch: Any, *, collate_fn_map: Any = None) -> Any:
    if batch[0].dtype.kind in "SaUO":
        raise TypeError(_REFUSAL.format(batch[0].dtype))
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def _of_scalars(batch: Any, *, collate_fn_map: Any = None) -> Any:
    import numpy as np

    return as_tensor(np.asarray(batch))


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: _of_tensors,
    float: _of_floats,
    int: _of_ints,
    str: _of_texts,
    bytes: _of_texts,
}


def _know_numpy() -> None:
    """NumPy's types, once it has been imported: before that there are no values of them."""
    numpy = sys.modules.get("numpy")
    if numpy is None or numpy.ndarray in default_collate_fn_map:
        return
    others = {kind: default_collate_fn_map.pop(kind) for kind in list(default_collate_fn_map) if kind is not Tensor}
    default_collate_fn_map[numpy.ndarray] = _of_arrays
    default_collate_fn_map[numpy.bool_, numpy.number, numpy.object_] = _of_scalars
    default_collate_fn_map.update(others)


def default_collate(batch: Any) -> Any:
    """A batch of samples: tensors and arrays stacked, numbers as tensors, texts as lists, structures of these."""
    _know_numpy()
    return collate(batch, collate_fn_map=default_collate_fn_map)
