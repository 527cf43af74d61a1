"""What the machine reports: each error names the line of the PTX, the instruction and a thread."""

from __future__ import annotations


class PtxError(Exception):
    """PTX that isn't well formed, or an instruction that the machine doesn't know."""


class PtxFault(PtxError):  # noqa: N818 - what a kernel did, not only that it failed
    """A kernel that does what no kernel may do; `kind` is a word for the sort of mistake."""

    def __init__(self, kind: str, message: str):
        super().__init__(f"{kind}: {message}")
        self.kind = kind
