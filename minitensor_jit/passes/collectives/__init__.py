"""Passes on what several devices compute together."""
