"""Measurements of minitensor beside its peers: ``python -m benchmarks.run``."""
