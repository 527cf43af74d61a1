"""Modules as functions of their parameters."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor._warning import warn

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers: ``func.functional_call``, where it has moved to."""
    from minitensor import func

    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated in favor of `torch.func.functional_call`.",
        FutureWarning,
    )
    return func.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
