"""Errors of an export."""

__all__ = ["UserError"]


class UserError(RuntimeError):
    """A module, its example or its dynamic shapes can't be exported as they are; the message says what to change."""
