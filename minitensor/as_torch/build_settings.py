"""`torch.__config__`: how this was built, and how many threads it has, as text."""

from __future__ import annotations

import io

import minitensor

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return what :func:`minitensor.show_config` prints."""
    text = io.StringIO()
    minitensor.show_config(text)
    return text.getvalue()


def parallel_info() -> str:
    """Return how many threads an op runs on."""
    return f"minitensor.get_num_threads() : {minitensor.get_num_threads()}\n"
