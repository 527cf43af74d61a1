"""What the components of a sparse tensor must be, and whether that is checked when one is made."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor.sparse.tensor import BLOCKS, BY_COLUMNS

__all__ = ["check_compressed", "check_coo", "check_sparse_tensor_invariants", "wants_checks"]

_always = False


class check_sparse_tensor_invariants:  # noqa: N801  (PyTorch's name)
    """Whether making a sparse tensor checks its indices: for a block of code, for a function, or from now on.

    They are not checked by default. What reads elements checks indices anyway: wrong ones are an error.
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether they are checked."""
        return _always

    @staticmethod
    def enable() -> None:
        """Check them from now on."""
        global _always
        _always = True

    @staticmethod
    def disable() -> None:
        """Don't, unless a call asks for it by `check_invariants=True`."""
        global _always
        _always = False

    def _set(self, state: bool) -> None:
        self.enable() if state else self.disable()

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager instance for "
                "context nesting."
            )
        self.saved_state = self.is_enabled()
        self._set(self.state)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        assert self.saved_state is not None
        self._set(self.saved_state)
        self.saved_state = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, within which it is so."""

        @functools.wraps(function)
        def wrapped(*args: Any, **more: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **more)

        return wrapped


def wants_checks(given: bool | None) -> bool:
    """Whether a call that was given `check_invariants` checks its indices."""
    return _always if given is None else bool(given)


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise RuntimeError(text)


def check_coo(indices: Any, size: tuple[int, ...]) -> None:
    """RuntimeError unless indices `[sparse dims, nnz]` lie within the size."""
    if not indices.numel() or indices.device.type == "meta":
        return
    low, high = indices.amin(1).tolist(), indices.amax(1).tolist()
    for dim, (least, most) in enumerate(zip(low, high, strict=True)):
        _require(least >= 0, f"found negative index {least} for dim {dim}")
        _require(
            most < size[dim],
            f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found index {most}",
        )


def check_compressed(kind: Any, compressed: Any, plain: Any, values: Any, size: tuple[int, ...]) -> None:
    """RuntimeError unless these can be a tensor of a compressed layout, as PyTorch's invariants have it."""
    columns = kind in BY_COLUMNS
    of_compressed, of_plain = ("ccol_indices", "row_indices") if columns else ("crow_indices", "col_indices")
    blocks = 2 if kind in BLOCKS else 0
    for name, one in ((of_compressed, compressed), (of_plain, plain)):
        _require(one.ndim >= 1, f"{name} must have dimensionality >= 1 but got {one.ndim}")
    _require(
        compressed.ndim == plain.ndim,
        f"{of_compressed} and {of_plain} dimensionalities must be equal but got {compressed.ndim} and {plain.ndim}, "
        "respectively",
    )
    _require(
        compressed.dtype is plain.dtype,
        f"{of_compressed} and {of_plain} must have the same dtype, but got {compressed.dtype} and {plain.dtype}, "
        "respectively",
    )
    _require(
        compressed.dtype in (_C.int32, _C.int64),
        f"{of_compressed} and {of_plain} must be an int32 or int64 type, but got {compressed.dtype}",
    )
    batch = compressed.ndim - 1
    dense = values.ndim - batch - blocks - 1
    _require(
        dense >= 0,
        f"values must have dimensionality > sum of batch and block dimensionalities (={batch} + {blocks}) but got "
        f"{values.ndim}",
    )
    _require(
        len(size) == batch + 2 + dense,
        f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (={batch} + 2 + {dense}) but "
        f"got {len(size)}",
    )
    block = tuple(values.shape[batch + 1 : batch + 3]) if blocks else (1, 1)
    rows, cols = size[batch : batch + 2]
    _require(
        all(block) and rows % block[0] == 0 and cols % block[1] == 0,
        f"tensor shape[{batch}:{batch + 2}] (={list(size[batch : batch + 2])}) must be divisible with blocksize "
        f"{list(block)} as defined by values shape",
    )
    count, other = (cols // block[1], rows // block[0]) if columns else (rows // block[0], cols // block[1])
    nnz = int(plain.shape[-1])
    what = "columns" if columns else "rows"
    _require(
        compressed.shape[-1] == count + 1,
        f"{of_compressed}.shape[-1] must be equal to the number of {what} + 1 (={count + 1}), but got "
        f"{compressed.shape[-1]}",
    )
    _require(
        values.shape[batch] == nnz,
        f"{of_plain}.shape[-1] must be equal to nnz (={values.shape[batch]}) as defined by values.shape[{batch}], but "
        f"got {nnz}",
    )
    for name, one in ((of_compressed, compressed), (of_plain, plain), ("values", values)):
        _require(
            tuple(one.shape[:batch]) == tuple(size[:batch]),
            f"all batch dimensions of {name} (={list(one.shape[:batch])}) must be equal to those of size "
            f"(={list(size[:batch])})",
        )
    _require(
        tuple(values.shape[batch + 1 + blocks :]) == tuple(size[batch + 2 :]),
        f"dense dimensions of values (={list(values.shape[batch + 1 + blocks :])}) must be equal to those of size "
        f"(={list(size[batch + 2 :])})",
    )
    if compressed.device.type != "meta":
        check_places(of_compressed, of_plain, compressed, plain, other)


def check_places(of_compressed: str, of_plain: str, compressed: Any, plain: Any, other: int) -> None:
    """RuntimeError unless the values of compressed and plain indices are what they must be."""
    nnz = int(plain.shape[-1])
    main, bound = ("ncols", "nrows") if of_compressed == "ccol_indices" else ("nrows", "ncols")
    _require(not bool((compressed[..., 0] != 0).any()), f"`{of_compressed}[..., 0] == 0` is not satisfied.")
    _require(not bool((compressed[..., -1] != nnz).any()), f"`{of_compressed}[..., -1] == nnz` is not satisfied.")
    steps = compressed[..., 1:] - compressed[..., :-1]
    _require(
        not bool(((steps < 0) | (steps > other)).any()),
        f"`0 <= {of_compressed}[..., 1:] - {of_compressed}[..., :-1] <= {bound}` is not satisfied.",
    )
    if not plain.numel():
        return
    _require(not bool(((plain < 0) | (plain >= other)).any()), f"`0 <= {of_plain} < {bound}` is not satisfied.")
    rising = plain[..., 1:] > plain[..., :-1]
    flat = compressed.reshape(-1, compressed.shape[-1])
    for batch, one in enumerate(rising.reshape(flat.shape[0], nnz - 1)):
        ends = flat[batch, 1:-1].to(_C.int64)
        ends = ends[(ends > 0) & (ends < nnz)]
        one = one.clone()
        one[ends - 1] = True  # a new row, or column, begins
        _require(
            bool(one.all()),
            f"`{of_plain}[..., {of_compressed}[..., i - 1]:{of_compressed}[..., i]] for all i = 1, ..., {main} are "
            "sorted and distinct along the last dimension values` is not satisfied.",
        )
