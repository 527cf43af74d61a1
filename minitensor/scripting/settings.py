"""Settings of TorchScript's compiler: they are kept, and change nothing, since it is Python that runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = [
    "enable_onednn_fusion", "onednn_fusion_enabled", "optimized_execution", "set_fusion_strategy", "strict_fusion",
]  # fmt: skip

_kept = {"onednn": False}
_strategy: list[tuple[str, int]] = [("STATIC", 2), ("DYNAMIC", 10)]


def enable_onednn_fusion(enabled: bool) -> None:
    """Keep whether oneDNN's fusion is wanted."""
    _kept["onednn"] = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """Return what was kept."""
    return _kept["onednn"]


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Keep pairs of `"STATIC"` or `"DYNAMIC"` and a depth, and return those before. RuntimeError for other kinds."""
    wrong = [kind for kind, _ in strategy if kind not in ("STATIC", "DYNAMIC")]
    if wrong:
        raise RuntimeError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {wrong[0]}")
    before = list(_strategy)
    _strategy[:] = [(kind, int(depth)) for kind, depth in strategy]
    return before


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing, as long as it lasts."""
    yield


class strict_fusion(contextlib.nullcontext[None]):  # noqa: N801
    """Do nothing, as long as it lasts: no TorchScript is fused."""
