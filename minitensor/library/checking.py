"""`opcheck`: whether what is registered for a custom op fits together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import testing
from minitensor._C import Tensor
from minitensor.autograd import no_grad
from minitensor.utils._pytree import tree_leaves, tree_map_only

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """A test of `opcheck` failed."""


_ALL = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _ALL,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:  # fmt: skip
    """Call an op in several ways, and say "SUCCESS" for each test or what went wrong.

    `test_schema`: it writes to nothing but what the schema names, and gives results of their own. `test_faketensor`:
    its rule for device "meta" has the shapes and dtypes of the results. `test_autograd_registration`: a formula is
    registered where gradients are wanted. `test_aot_dispatch_dynamic`: recorded, it gives the same.
    """
    found: dict[str, str] = {}
    for name in [test_utils] if isinstance(test_utils, str) else test_utils:
        if name not in _TESTS:
            raise ValueError(f"there is no test '{name}'; there are {sorted(_TESTS)}")
        try:
            _TESTS[name](getattr(op, "_op", op), args, kwargs or {}, atol, rtol)
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            found[name] = f"{type(error).__name__}: {error}"
    return found


def _copied(values: Any) -> Any:
    return tree_map_only(Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), values)


def _schema(op: Any, args: Any, kwargs: Any, _atol: Any, _rtol: Any) -> None:
    with no_grad():
        op(*_copied(args), **_copied(kwargs))


def _fake(op: Any, args: Any, kwargs: Any, _atol: Any, _rtol: Any) -> None:
    with no_grad():
        real = op(*_copied(args), **_copied(kwargs))
        meta = tree_map_only(Tensor, lambda t: t.detach().to("meta"), (args, kwargs))
        fake = op(*meta[0], **meta[1])
    for want, got in zip(tree_leaves(real), tree_leaves(fake), strict=True):
        if isinstance(want, Tensor) and (want.shape, want.dtype) != (got.shape, got.dtype):
            raise AssertionError(
                f"the fake impl gives {got.dtype} of shape {tuple(got.shape)}, the kernel {want.dtype} of shape "
                f"{tuple(want.shape)}"
            )


def _gradients(op: Any, args: Any, kwargs: Any, _atol: Any, _rtol: Any) -> None:
    given = _copied((args, kwargs))
    if not any(isinstance(t, Tensor) and t.requires_grad for t in tree_leaves(given)):
        return
    results = [t for t in tree_leaves(op(*given[0], **given[1])) if isinstance(t, Tensor) and t.requires_grad]
    sum(t.sum() for t in results).backward()  # type: ignore[union-attr]


def _recorded(op: Any, args: Any, kwargs: Any, atol: Any, rtol: Any) -> None:
    from minitensor_jit import jit_scope

    want = op(*_copied(args), **_copied(kwargs))
    with jit_scope():
        got = op(*_copied(args), **_copied(kwargs))
    for one, other in zip(tree_leaves(want), tree_leaves(got), strict=True):
        if isinstance(one, Tensor):
            testing.assert_close(other.detach(), one.detach(), atol=atol, rtol=rtol)


_TESTS: dict[str, Any] = {
    "test_schema": _schema, "test_faketensor": _fake, "test_autograd_registration": _gradients,
    "test_aot_dispatch_dynamic": _recorded, "test_aot_dispatch_static": _recorded,
}  # fmt: skip
