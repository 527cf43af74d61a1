"""Passes over graphs of :mod:`minitensor.fx`."""

__all__ = ["shape_prop"]

from minitensor.fx.passes import shape_prop
