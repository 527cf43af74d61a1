"""Reductions, scans and orders."""
