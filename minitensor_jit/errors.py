"""What the compiler raises. Each error names the op and the line of the user's program that it is about."""

from __future__ import annotations

from typing import Protocol

from minitensor.streams import AcceleratorError


class SourceLine(Protocol):
    """A place in the user's program, such as `clustering.graph.Source`."""

    @property
    def file(self) -> str:
        """Its file."""
        ...

    @property
    def line(self) -> int:
        """Its line, from 1."""
        ...


class JitError(Exception):
    """Anything that the compiler can't do."""


class InvalidArgumentError(JitError, ValueError):
    """Something was to be compiled that can't be: an op of a function with `jit_compile=True`."""

    def __init__(self, op: str, reason: str, source: SourceLine | None = None, fix: str = "") -> None:
        self.op = op
        self.reason = reason
        self.source = source
        self.fix = fix
        super().__init__(f"{op} can't be compiled: {reason}{_where(source)}{f'. {fix}' if fix else ''}")

    def __reduce__(self) -> tuple[object, ...]:
        return InvalidArgumentError, (self.op, self.reason, self.source, self.fix)


class CompileError(JitError, RuntimeError):
    """The compiler has no code for something that it had accepted. Unless it must be compiled, it runs eagerly."""

    def __init__(self, opcode: str, reason: str, source: SourceLine | None = None) -> None:
        self.opcode = opcode
        self.reason = reason
        self.source = source
        super().__init__(f"{opcode}: {reason}{_where(source)}")

    def __reduce__(self) -> tuple[object, ...]:
        return CompileError, (self.opcode, self.reason, self.source)


class LoweringError(JitError, RuntimeError):
    """The lowering of an extension's op raised an error, or gave something else than the op's results.

    `source` is the line of the lowering.
    """

    def __init__(self, op: str, reason: str, source: SourceLine | None = None) -> None:
        self.op = op
        self.reason = reason
        self.source = source
        super().__init__(f"the lowering of {op} {reason}{_where(source)}")

    def __reduce__(self) -> tuple[object, ...]:
        return LoweringError, (self.op, self.reason, self.source)


class CudaUnavailableError(JitError, RuntimeError, AssertionError):
    """A GPU was asked for, and none can be used. The message says what is missing: package, driver or GPU.

    PyTorch raises AssertionError in a build without CUDA, and RuntimeError where the driver is missing: it is both.
    """


class CudaError(JitError, AcceleratorError):
    """The driver refused something, or what runs on a GPU failed. After a failure there its context is lost."""


class NumericsError(JitError, FloatingPointError):
    """A cluster read or gave NaN or infinity while its numbers were checked. `op` is the one that reads or makes it."""

    def __init__(self, message: str, cluster: str, op: str, source: SourceLine | None = None) -> None:
        self.message = message
        self.cluster = cluster
        self.op = op
        self.source = source
        super().__init__(f"{message}: {op}{_where(source)}")

    def __reduce__(self) -> tuple[object, ...]:
        return NumericsError, (self.message, self.cluster, self.op, self.source)


class MismatchError(JitError, RuntimeError):
    """Compiled code gave other results than the ops that it stands for. `op` is the first that differs."""

    def __init__(self, message: str, cluster: str, op: str, source: SourceLine | None = None) -> None:
        self.message = message
        self.cluster = cluster
        self.op = op
        self.source = source
        super().__init__(f"{message}: {op}{_where(source)}")

    def __reduce__(self) -> tuple[object, ...]:
        return MismatchError, (self.message, self.cluster, self.op, self.source)


class DumpError(JitError, OSError):
    """The folder of `--dump_to`, or the file of `--report`, can't be written."""


class CacheDirectoryError(JitError, OSError):
    """The folder of `--persistent_cache_directory` can't be used, or is not private."""


def _where(source: SourceLine | None) -> str:
    return "" if source is None else f' (File "{source.file}", line {source.line})'
