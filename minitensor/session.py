"""Sessions: a scope with a configuration, in which functions run.

A session says how its functions run, above all whether they are compiled, and can record what ran. State lives in
tensors and modules, not in the session.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from minitensor._jit import entry_points
from minitensor._profile.step_stats import StepStats

R = TypeVar("R")


class _Options:
    """A fixed set of attributes; a wrong name or type is an error when it is assigned."""

    __slots__ = ()
    _types: ClassVar[dict[str, type]] = {}
    _choices: ClassVar[dict[str, dict[str, int]]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        expected = self._types.get(name)
        if expected is None:
            raise self._unknown(name)
        # bool is an int to Python: only where a number is meant is True a mistake.
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise TypeError(
                f"{type(self).__name__}.{name} must be of type {expected.__name__}, not {type(value).__name__}"
            )
        choices = self._choices.get(name)
        if choices is not None and value not in choices.values():
            known = ", ".join(f"{key} ({number})" for key, number in choices.items())
            raise ValueError(f"{type(self).__name__}.{name} must be one of {known}, not {value}")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise self._unknown(name)

    def _unknown(self, name: str) -> AttributeError:
        from difflib import get_close_matches

        near = get_close_matches(name, self._types, n=1, cutoff=0.4)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(self._types)}"
        return AttributeError(f"'{type(self).__name__}' has no attribute '{name}'; {hint}", name=name, obj=self)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._types)
        return f"{type(self).__name__}({values})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._types)

    __hash__ = None  # type: ignore[assignment]


class OptimizerOptions(_Options):
    """What the compiler does with a session's functions.

    ``global_jit_level`` is ``DEFAULT`` (as the environment says), ``OFF``, ``ON_1`` or ``ON_2``. Ops on a CPU are
    clustered only if ``cpu_global_jit`` is set too.
    """

    OFF = -1
    DEFAULT = 0
    ON_1 = 1
    ON_2 = 2

    __slots__ = ("cpu_global_jit", "global_jit_level")
    _types: ClassVar = {"global_jit_level": int, "cpu_global_jit": bool}
    _choices: ClassVar = {"global_jit_level": {"OFF": OFF, "DEFAULT": DEFAULT, "ON_1": ON_1, "ON_2": ON_2}}

    global_jit_level: int
    cpu_global_jit: bool

    def __init__(self, *, global_jit_level: int = DEFAULT, cpu_global_jit: bool = False) -> None:
        self.global_jit_level = global_jit_level
        self.cpu_global_jit = cpu_global_jit


class GraphOptions(_Options):
    """How recorded graphs are treated."""

    __slots__ = ("optimizer_options",)
    _types: ClassVar = {"optimizer_options": OptimizerOptions}

    optimizer_options: OptimizerOptions

    def __init__(self, *, optimizer_options: OptimizerOptions | None = None) -> None:
        self.optimizer_options = OptimizerOptions() if optimizer_options is None else optimizer_options


class GPUOptions(_Options):
    """How a session's memory of GPUs is kept, by TensorFlow's names: here it grows as it is needed, whatever they say.

    ``per_process_gpu_memory_fraction`` is from 0 to 1, or above for more than there is.
    """

    __slots__ = ("allow_growth", "per_process_gpu_memory_fraction", "visible_device_list")
    _types: ClassVar = {"allow_growth": bool, "per_process_gpu_memory_fraction": float, "visible_device_list": str}

    allow_growth: bool
    per_process_gpu_memory_fraction: float
    visible_device_list: str

    def __init__(
        self,
        *,
        allow_growth: bool = False,
        per_process_gpu_memory_fraction: float = 0.0,
        visible_device_list: str = "",
    ) -> None:
        self.allow_growth = allow_growth
        self.per_process_gpu_memory_fraction = float(per_process_gpu_memory_fraction)
        self.visible_device_list = visible_device_list


class ConfigProto(_Options):
    """A session's configuration.

    ``allow_soft_placement``, ``log_device_placement`` and ``gpu_options`` are there for scripts that set them: ops run
    where their tensors are, so nothing is placed elsewhere, and nothing is logged.
    """

    __slots__ = ("allow_soft_placement", "gpu_options", "graph_options", "log_device_placement")
    _types: ClassVar = {
        "graph_options": GraphOptions,
        "allow_soft_placement": bool,
        "log_device_placement": bool,
        "gpu_options": GPUOptions,
    }

    graph_options: GraphOptions
    allow_soft_placement: bool
    log_device_placement: bool
    gpu_options: GPUOptions

    def __init__(
        self,
        *,
        graph_options: GraphOptions | None = None,
        allow_soft_placement: bool = False,
        log_device_placement: bool = False,
        gpu_options: GPUOptions | None = None,
    ) -> None:
        self.graph_options = GraphOptions() if graph_options is None else graph_options
        self.allow_soft_placement = allow_soft_placement
        self.log_device_placement = log_device_placement
        self.gpu_options = GPUOptions() if gpu_options is None else gpu_options


class RunOptions(_Options):
    """How one run is traced: ``trace_level`` above ``NO_TRACE`` fills the run's :class:`RunMetadata`."""

    NO_TRACE = 0
    SOFTWARE_TRACE = 1
    HARDWARE_TRACE = 2
    FULL_TRACE = 3

    __slots__ = ("trace_level",)
    _types: ClassVar = {"trace_level": int}
    _choices: ClassVar = {
        "trace_level": {
            "NO_TRACE": NO_TRACE,
            "SOFTWARE_TRACE": SOFTWARE_TRACE,
            "HARDWARE_TRACE": HARDWARE_TRACE,
            "FULL_TRACE": FULL_TRACE,
        }
    }

    trace_level: int

    def __init__(self, *, trace_level: int = NO_TRACE) -> None:
        self.trace_level = trace_level


class RunMetadata(_Options):
    """What a traced run reports."""

    __slots__ = ("step_stats",)
    _types: ClassVar = {"step_stats": StepStats}

    step_stats: StepStats

    def __init__(self) -> None:
        self.step_stats = StepStats()


class Session:
    """Runs functions as its configuration says.

    >>> config = mt.ConfigProto()
    >>> config.graph_options.optimizer_options.global_jit_level = mt.OptimizerOptions.ON_1
    >>> config.graph_options.optimizer_options.cpu_global_jit = True
    >>> with mt.Session(config=config) as session:
    ...     result = session.run(step, images, labels)
    """

    def __init__(self, config: ConfigProto | None = None) -> None:
        if config is not None and not isinstance(config, ConfigProto):
            raise TypeError(f"Session: config must be a ConfigProto, not {type(config).__name__}")
        self._config = ConfigProto() if config is None else config
        self._closed = False
        self._runs: Any = None

    def run(
        self,
        fn: Callable[..., R],
        *args: Any,
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> R:
        """Return ``fn(*args)``.

        What ``fn`` records has run when this returns. Where the configuration has it compiled, a function that is run
        again becomes a program, as by :func:`minitensor.function`: later runs replay it without Python as long as
        nothing that it depends on has changed, and give what ``fn`` would. The session doesn't keep ``fn``.

        If ``options`` asks for a trace, ``run_metadata.step_stats`` tells what ran.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not callable(fn):
            raise TypeError(f"Session.run: fn must be callable, not {type(fn).__name__}")
        if options is not None and not isinstance(options, RunOptions):
            raise TypeError(f"Session.run: options must be a RunOptions, not {type(options).__name__}")
        if run_metadata is not None and not isinstance(run_metadata, RunMetadata):
            raise TypeError(f"Session.run: run_metadata must be a RunMetadata, not {type(run_metadata).__name__}")
        if options is None or options.trace_level == RunOptions.NO_TRACE or run_metadata is None:
            return self._call(fn, args)
        with entry_points.collect_step_stats() as stats:
            result = self._call(fn, args)
        run_metadata.step_stats = stats
        return result

    def _call(self, fn: Callable[..., R], args: tuple[Any, ...]) -> R:
        optimizer_options = self._config.graph_options.optimizer_options
        level = optimizer_options.global_jit_level
        if level == OptimizerOptions.DEFAULT:
            return fn(*args)
        if self._runs is None:
            self._runs = entry_points.session_runs()
        return self._runs.run(fn, args, level, optimizer_options.cpu_global_jit)

    def close(self) -> None:
        """Refuse further runs, and drop the programs."""
        self._closed = True
        self._runs = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
