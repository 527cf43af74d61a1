"""Recorded ops to HLO, by the `lower` rules of the op rows."""

from minitensor_jit.lowering.context import BoundsCheck, Lowering
from minitensor_jit.lowering.lower import LoweredCluster, lower_cluster

__all__ = ["BoundsCheck", "LoweredCluster", "Lowering", "lower_cluster"]
