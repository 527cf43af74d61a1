"""Sessions that run graphs: minitensor's sessions, which replay a program for fetches that are run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitensor import _C, _forks
from minitensor import session as _session
from minitensor._C import OutOfMemoryError
from minitensor._functions.offered import from_numpy, manual_seed
from minitensor._jit import entry_points
from minitensor.compat.v1.errors import FailedPreconditionError, InvalidArgumentError, OpError, ResourceExhaustedError
from minitensor.compat.v1.framework.graph import Graph, Operation, Tensor, _brackets, get_default_graph, sessions
from minitensor.compat.v1.framework.inference import NUMPY_TYPES
from minitensor.compat.v1.framework.program import Program, Store
from minitensor.compat.v1.ops.variables import Variable
from minitensor.compat.v1.summary import SummaryOp

__all__ = ["InteractiveSession", "Session", "get_default_session"]

_END = "the end of a session run"
# What a run may be asked for, by itself or in a list.
_SINGLE = frozenset((Tensor, Operation, Variable))


class Session(_session.Session):
    """Runs parts of a graph, and keeps its variables.

    A level of the configuration's `global_jit_level` above 0 compiles on the CPU too, without `cpu_global_jit`.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        """`graph`: the default one if not given. ValueError for a `target` other than this process."""
        if target:
            raise ValueError(f"a session runs in this process; there is no target {target!r}")
        super().__init__(config)
        self.graph = get_default_graph() if graph is None else graph
        self.store = Store()
        self._programs: dict[Any, Program] = {}
        self._fetched: dict[Any, Any] = {}
        self._lock = _forks.lock()
        self._entered: list[Any] = []
        self._seeded = False

    def run(  # type: ignore[override]
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """The values of tensors and variables, None for ops, in the structure of `fetches`: a list, a tuple, a dict.

        `feed_dict` has values for placeholders or other tensors. InvalidArgumentError for a placeholder without a
        value, FailedPreconditionError for a variable without one, ValueError for a value of another shape.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        fed, values = self._fed(feed_dict) if feed_dict else ([], [])
        elements, rebuild = self._elements(fetches)
        key = (elements, tuple(fed))
        program = self._programs.get(key)
        if program is None:
            with self._lock:
                program = self._programs.get(key)
                if program is None:
                    program = Program(elements, fed, self.store)
                    self._programs[key] = program
        if not program.ready:
            self._check(program)
        try:
            found = super().run(program.function, *values, options=options, run_metadata=run_metadata)
        except OpError:
            raise
        except OutOfMemoryError as error:
            raise ResourceExhaustedError(None, None, str(error)) from error
        except (RuntimeError, IndexError) as error:
            raise InvalidArgumentError(None, None, str(error)) from error
        if not program.ready:
            self.store.initialized.update(program.writes)
            program.ready = True
        results = iter([_array(value) for value in found])
        return rebuild([next(results) if isinstance(element, Tensor) else None for element in elements])

    def _check(self, program: Program) -> None:
        for op in program.missing:
            tensor = op.outputs[0]
            name = str(tensor.dtype).rpartition(".")[2]
            shape = "" if tensor.shape.ndims is None else f" and shape {_brackets(tensor.shape)}"
            text = f"You must feed a value for placeholder tensor '{op.name}' with dtype {name}{shape}"
            raise InvalidArgumentError(None, op, text)
        for variable in program.reads:
            if variable not in self.store.initialized:
                raise FailedPreconditionError(
                    None, variable.op, f"Attempting to use uninitialized value {variable.op.name}"
                )
        if not self._seeded:
            self._seeded = True
            if self.graph.seed is not None:
                manual_seed(self.graph.seed)

    def _call(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        level = self._config.graph_options.optimizer_options.global_jit_level
        if self._runs is None:
            self._runs = entry_points.session_runs()
        default = level == _session.OptimizerOptions.DEFAULT
        found = self._runs.replay(fn, args, None if default else level)
        if _C.is_recording():
            _C.flush(_END)
        return found

    def _elements(self, fetches: Any) -> tuple[tuple[Tensor | Operation, ...], Callable[[list[Any]], Any]]:
        """The tensors and ops that are fetched, and what puts their values in the structure of `fetches`."""
        kind = type(fetches)
        key: Any = None
        if kind in _SINGLE:
            key = fetches
        elif (kind is list or kind is tuple) and all(type(each) in _SINGLE for each in fetches):
            key = (kind, *fetches)
        known = None if key is None else self._fetched.get(key)
        if known is None:
            into: list[Tensor | Operation] = []
            rebuild = self._flattened(fetches, into)
            known = tuple(into), rebuild
            if key is not None:
                self._fetched[key] = known
        return known

    def _flattened(self, fetches: Any, into: list[Tensor | Operation]) -> Callable[[list[Any]], Any]:
        """Add what is fetched; the result puts values in the same structure."""
        if isinstance(fetches, list | tuple):
            base, parts = len(into), []
            for each in fetches:
                first = len(into) - base
                build = self._flattened(each, into)
                parts.append((first, build, len(into) - base))
            kind: Any = type(fetches)
            make = kind._make if hasattr(kind, "_make") else kind
            return lambda values: make([build(values[first:end]) for first, build, end in parts])
        if isinstance(fetches, SummaryOp):
            build = self._flattened(list(fetches.tensors), into)
            return lambda values: fetches.serialized(build(values))
        if isinstance(fetches, dict):
            names = list(fetches)
            build = self._flattened([fetches[name] for name in names], into)
            return lambda values: type(fetches)(zip(names, build(values), strict=True))
        try:
            into.append(self.graph.as_graph_element(fetches))
        except (KeyError, ValueError) as error:
            raise ValueError(f"Fetch argument {fetches!r} cannot be interpreted as a Tensor. ({error})") from None
        except TypeError:
            raise TypeError(
                f"Fetch argument {fetches!r} has invalid type {type(fetches).__name__}, must be a string or Tensor."
            ) from None
        return lambda values: values[0]

    def _fed(self, feed_dict: Any) -> tuple[list[Tensor], list[_C.Tensor]]:
        fed, values = [], []
        for key, value in feed_dict.items():
            tensor = key
            if type(key) is not Tensor or key.op.graph is not self.graph:
                try:
                    tensor = self.graph.as_graph_element(key)
                except (KeyError, ValueError, TypeError) as error:
                    raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error}") from None
                if not isinstance(tensor, Tensor):
                    raise TypeError(f"Cannot interpret feed_dict key as Tensor: {tensor!r}")
            if type(value) is not np.ndarray and isinstance(getattr(value, "graph_element", value), Tensor):
                raise TypeError("The value of a feed cannot be a tf.Tensor object. Acceptable feed values include "
                                "Python scalars, strings, lists, numpy ndarrays.")  # fmt: skip
            fed.append(tensor)
            values.append(_tensor(tensor, value))
        return fed, values

    def as_default(self) -> Any:
        """Have `eval` and `run` of tensors and ops use this session, in this thread."""
        return _Default(self)

    def __enter__(self) -> Session:
        self._entered.append(self.as_default())
        self._entered.append(self.graph.as_default())
        for each in self._entered[-2:]:
            each.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        for _ in range(2):
            self._entered.pop().__exit__(*exception)
        self.close()

    def close(self) -> None:
        """Refuse further runs, and drop programs and variables."""
        super().close()
        self._programs = {}
        self._fetched = {}


class InteractiveSession(Session):
    """A session that is the default one of its thread until it is closed."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        """As :class:`Session`."""
        super().__init__(target, graph, config)
        sessions().append(self)

    def close(self) -> None:
        """Refuse further runs; it is no default any more."""
        if self in sessions():
            sessions().remove(self)
        super().close()


class _Default:
    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> Session:
        sessions().append(self._session)
        return self._session

    def __exit__(self, *exception: Any) -> None:
        sessions().remove(self._session)


def get_default_session() -> Session | None:
    """The default session of this thread, None if there is none."""
    found: list[Session] = sessions()
    return found[-1] if found else None


def _tensor(tensor: Tensor, value: Any) -> _C.Tensor:
    if isinstance(value, _C.Tensor):
        given = value.detach().to(tensor.dtype)
    else:
        wanted = NUMPY_TYPES[tensor.dtype]
        try:
            array: np.ndarray = np.asarray(value, dtype=wanted)
        except (ValueError, TypeError) as error:
            raise ValueError(f"Cannot feed {tensor.name!r}, which takes numbers of {tensor.dtype}: {error}") from None
        if array.flags.writeable and array.flags.c_contiguous and array.dtype.isnative:
            given = from_numpy(array)
        else:
            given = from_numpy(np.array(array, wanted, order="C"))
    shape, sizes = tensor.shape, tuple(given.shape)
    if not shape.takes(sizes):
        raise ValueError(f"Cannot feed value of shape {sizes} for Tensor '{tensor.name}', which has shape '{shape}'")
    return given


def _array(value: _C.Tensor) -> Any:
    # A copy: the tensor may be a variable's, which later runs write, or show memory that was fed.
    array = value.numpy()
    return array[()] if array.ndim == 0 else array.copy()
