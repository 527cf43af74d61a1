"""Small programs compiled beside the same run eagerly: ``python -m benchmarks.compiled``."""
