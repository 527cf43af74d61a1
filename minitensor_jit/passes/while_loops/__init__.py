"""Passes on while loops, and what is known of these."""
