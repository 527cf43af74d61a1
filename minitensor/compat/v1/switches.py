"""What scripts switch off so that graphs are made: here nothing else was ever on."""

from __future__ import annotations

from collections.abc import Callable

__all__ = [
    "disable_control_flow_v2", "disable_eager_execution", "disable_resource_variables", "disable_tensor_equality",
    "disable_v2_behavior", "disable_v2_tensorshape", "executing_eagerly",
]  # fmt: skip


def _off(name: str) -> Callable[[], None]:
    def switch() -> None:
        """Nothing: graphs are made and run as in the first style."""

    switch.__name__ = switch.__qualname__ = name
    return switch


disable_control_flow_v2 = _off("disable_control_flow_v2")
disable_eager_execution = _off("disable_eager_execution")
disable_resource_variables = _off("disable_resource_variables")
disable_tensor_equality = _off("disable_tensor_equality")
disable_v2_behavior = _off("disable_v2_behavior")
disable_v2_tensorshape = _off("disable_v2_tensorshape")


def executing_eagerly() -> bool:
    """False: ops wait for a session."""
    return False
