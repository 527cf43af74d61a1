"""Fusion: which instructions become one kernel."""
