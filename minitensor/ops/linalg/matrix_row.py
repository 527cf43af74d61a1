"""What rows of linear algebra are made of: kernels through LAPACK, and the parts of matrices that gradients read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from minitensor import _C
from minitensor._import.lazy import LazyModule
from minitensor.ops.library.interruptible import interruptible
from minitensor.ops.library.threads import for_matrices
from minitensor.ops.row import ROWS, opaque

np: Any = LazyModule("numpy")

__all__: list[str] = []

_WHY = "it runs in a library (LAPACK)"
IN_ORDER = "each row of a triangular system needs those before it"
_DTYPES = {"float32", "float64", "complex64", "complex128"}


class LinAlgError(RuntimeError):
    """A computation failed because of the values of a matrix: it is singular, or not positive-definite, ..."""


LinAlgError.__module__ = "minitensor.linalg"


def adjoint(x: Any) -> Any:
    """The conjugate transpose of each matrix."""
    return x.mT.conj() if x.is_complex() else x.mT


def _of_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a row: tensors become arrays for `function`, and its arrays tensors."""

    def run(*arguments: Any) -> Any:
        given = [a.numpy() if isinstance(a, _C.Tensor) else a for a in arguments]
        try:
            with for_matrices(max((n for a in given if isinstance(a, np.ndarray) for n in a.shape[-2:]), default=0)):
                found = interruptible(_quietly(function), *given) if _takes_long(given) else _quietly(function)(*given)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(str(error)) from None
        made = tuple(
            _C.from_numpy(np.require(a, requirements=["C", "W", "O"]))
            for a in (found if isinstance(found, tuple) else (found,))
        )
        return made if isinstance(found, tuple) else made[0]

    return run


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without NumPy's warnings."""

    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return run


def _takes_long(arguments: list[Any]) -> bool:
    """Whether a cubic algorithm needs more than about a tenth of a second for one of them."""
    return any(isinstance(a, np.ndarray) and a.ndim > 1 and a.size * max(a.shape[-2:]) > 1 << 28 for a in arguments)


def matrix_row(
    schema: str, doc: str, kernel: Callable[..., Any], shape: Callable[..., Any], vjp: Any = None, **options: Any
) -> Any:
    """A row whose kernel is for arrays."""
    return tensor_row(schema, doc, _of_arrays(kernel), shape, vjp, why=_WHY, **options)


def tensor_row(
    schema: str,
    doc: str,
    kernel: Callable[..., Any],
    shape: Callable[..., Any],
    vjp: Any,
    why: str = IN_ORDER,
    dtypes: Collection[str] | None = _DTYPES,
    called: str = "",
    grad_fn: str = "",
) -> Any:
    """A row whose kernel is for tensors, with a first operand of these dtypes; None: any."""
    name = schema[: schema.index("(")]

    def checked(rule: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            if dtypes is not None and arguments[0].dtype.name not in dtypes:
                raise NotImplementedError(f"{name} is not implemented for {arguments[0].dtype.name}")
            return rule(*arguments)

        return run

    rules = {"kernel": checked(kernel), "shape": checked(shape), "vjp": vjp, "called": called, "grad_fn": grad_fn}
    return opaque(schema, doc, why=why, **rules)


def tril(x: Any, diagonal: int = 0) -> Any:
    """The lower triangle of each matrix, from a diagonal on."""
    return ROWS["tril"].call(x, diagonal)


def triu(x: Any, diagonal: int = 0) -> Any:
    """The upper triangle of each matrix, from a diagonal on."""
    return ROWS["triu"].call(x, diagonal)


def eye(n: int, like: Any) -> Any:
    """The identity of n rows, of the dtype and on the device of `like`."""
    return ROWS["eye"].call(n, dtype=like.dtype, device=like.device)


def real_part(x: Any) -> Any:
    """The real part, of a real tensor itself."""
    return x.real if x.is_complex() else x


def like_operand(g: Any, a: Any) -> Any:
    """The gradient of a real operand is the real part of what a complex function gives."""
    return g.real if g.is_complex() and not a.is_complex() else g


def halved_diagonal(x: Any) -> Any:
    """The matrix with half its diagonal."""
    n = x.shape[-1]
    real = real_part(x)
    return x * (1 - 0.5 * ROWS["eye"].call(n, dtype=real.dtype, device=x.device))


def without_diagonal(x: Any) -> Any:
    """The matrix with zeros on its diagonal."""
    return x * (1 - ROWS["eye"].call(x.shape[-1], dtype=real_part(x).dtype, device=x.device))


def diagonal_matrix(d: Any) -> Any:
    """The matrix with d on its diagonal."""
    return d.unsqueeze(-1) * eye(d.shape[-1], d)


def quotient(x: Any, differences: Any) -> Any:
    """x / differences, and zero where both are, as on the diagonal; linear in x, as what goes forward needs."""
    nothing = (x == 0).logical_and(differences == 0)
    return ROWS["where"].call(nothing, x * 0, x / _nonzero(nothing, differences))


def _nonzero(nothing: Any, differences: Any) -> Any:
    return ROWS["where"].call(nothing, differences * 0 + 1, differences)
