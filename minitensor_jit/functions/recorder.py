"""What a compiled function does for arguments that it has no program for: the Python function is run, recorded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from minitensor import _C
from minitensor_jit.api import current_compiler
from minitensor_jit.compiler.compiler import noting_executables
from minitensor_jit.functions.arguments import Structure, flatten
from minitensor_jit.runtime.executable import AnyExecutable
from minitensor_jit.state.filters import GuardFilter
from minitensor_jit.state.observer import Observer

if TYPE_CHECKING:
    from minitensor_jit.functions.lowered_function import Lowered

__all__ = ["Recorder", "made", "weak_function"]

_MAX_STRUCTURES = 64
_MAX_KINDS = 64  # of inputs, for each of which it is known when what is compiled is settled
_MAX_UNUSED = 32  # programs kept in a row without one that was used
_UNUSED = "its arguments, or what it read, were of another kind at each call before"
_END = "the end of a function"
_EVERY_CALL = "the end of a function that is recorded at every call: {}"
_SIMPLE = (_C.Tensor, int, float, str, type(None))


class Recorder:
    """Runs the Python function, recorded, where a compiled function has no program for its arguments."""

    def __init__(
        self,
        get: Callable[[], Callable[..., Any]],
        jit_compile: bool | None,
        asks: bool = True,
        guard_filter: GuardFilter | None = None,
    ) -> None:
        """`get` gives the function; `asks` is whether its ops are to be compiled whatever the options say.

        `guard_filter` says which guards its programs have.
        """
        self._get = get
        self.jit_compile = jit_compile
        self._asks = asks
        self.guard_filter = guard_filter
        self.compiled: Any = None  # a weak reference
        self._ran = False  # eagerly, before it was compiled
        # Programs for arguments that aren't just tensors and numbers, by their structure.
        self._variants: OrderedDict[Structure, Any] = OrderedDict()
        self._watches: dict[int, _Watch] = {}  # by the id of what has the programs
        # What the function's plans launch, by the id of its module, to be pickled with it.
        self.used: dict[str, Any] = {}
        # Code that it was unpickled with.
        self.held: list[AnyExecutable] = []

    @property
    def directed(self) -> bool:
        """Whether it is compiled since someone asked for it, who may say otherwise."""
        return self._asks

    @property
    def fn(self) -> Callable[..., Any]:
        """The Python function."""
        return self._get()

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call that has no program."""
        if self.jit_compile is False or (self._asks and _C.stance() == "force_eager"):
            return self.fn(*args, **kwargs)
        if not kwargs and all(issubclass(type(arg), _SIMPLE) for arg in args):
            return self.record(self.compiled(), args, args, kwargs)
        tensors, structure = flatten((args, kwargs))
        if structure is None:
            return self.record(None, (), args, kwargs)
        variant = self._variants.get(structure)
        if variant is None:
            variant = self._variants[structure] = _C.CompiledFunction(_Variant(self))
            if len(self._variants) > _MAX_STRUCTURES:
                self._watches.pop(id(self._variants.popitem(last=False)[1]), None)
        else:
            self._variants.move_to_end(structure)
        # The next call is probably alike.
        self.compiled().remember(structure, variant)
        result = variant.run(tuple(tensors))
        return self.record(variant, tuple(tensors), args, kwargs) if result is NotImplemented else result

    def record(self, compiled: Any, inputs: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function, recorded; its program is kept in `compiled` if there is one, for `inputs`."""
        nested = _C.is_recording()
        if self._asks and not nested and self._stays_eager(compiled):
            return self.fn(*args, **kwargs)
        current_compiler()
        if nested or compiled is None:
            watch = _Watch()
        else:
            watch = self._watches.setdefault(id(compiled), _Watch(contest=self._asks and not self.jit_compile))
            watch.begin(inputs)
        owner = 0 if nested else self.compiled().owner
        whole = bool(self.jit_compile)
        tag = (1, 1, 0) if whole else (1, 0, _C.next_scope()) if self._asks else None
        with noting_executables() as used:
            result = _C.call_recorded(
                self._run, (compiled, inputs, args, kwargs, watch, nested), {}, _END, tag, owner, whole
            )
        self.used.update((module, ref(executable)) for module, executable in used.items())
        return result

    def _stays_eager(self, compiled: Any) -> bool:
        """Whether a call without a program is not to be compiled, as `compiler.set_stance` says."""
        stance = _C.stance()
        if stance == "default":
            return False
        if stance == "fail_on_recompile" and not _C.program_busy():
            watch = self._watches.get(id(compiled))
            why = (watch and watch.why) or "no program that is kept is for its arguments and what it reads"
            name = getattr(self.fn, "__qualname__", type(self.fn).__name__)
            raise RuntimeError(f"{name} would be compiled, and the stance is 'fail_on_recompile': {why}")
        if stance.endswith("eager_then_compile"):
            first, self._ran = not self._ran, True
            return first
        return True

    def _run(
        self,
        compiled: Any,
        inputs: tuple[Any, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        watch: _Watch,
        nested: bool,
    ) -> Any:
        guards: Any = None if nested or compiled is None else watch.resting()
        rests = nested or compiled is None or guards is not None
        if rests:
            result = self.fn(*args, **kwargs)
        else:
            result, guards = _C.observed(Observer((args, kwargs), self.guard_filter), self.fn, args, kwargs)
        if self.jit_compile:
            _C.raise_refusal()
        if not nested:
            why = self._finish(compiled, inputs, result, guards)
            if compiled is not None:
                watch.done(why, compiled.hits, observed=not rests)
        return result

    def _finish(self, compiled: Any, args: tuple[Any, ...], result: Any, guards: Any) -> str | int | None:
        """Run what was recorded; why no program is kept, None if one is, or after how many more runs one can be."""
        why = "its arguments have things whose contents can't be compared"
        if compiled is None:
            _C.flush(_EVERY_CALL.format(why))
            return why
        plain = issubclass(type(result), _C.Tensor) or (
            type(result) in (tuple, list) and all(issubclass(type(item), _C.Tensor) for item in result)
        )
        if plain:
            return compiled.finish(args, result, None, guards)
        tensors, structure = flatten(result)
        if structure is None:
            why = why.replace("arguments have", "result has")
            _C.flush(_EVERY_CALL.format(why))
            return why
        return compiled.finish(args, tuple(tensors), structure, guards)

    # ---- what the object in the core asks for

    def without_programs(self) -> Any:
        """Another object for the same function, to see how it is compiled; None if it isn't as a whole."""
        return None

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Compile for these arguments up to HLO, without running anything."""
        from minitensor_jit.functions.lowered_function import lower

        return lower(self.compiled(), self.fn, args, kwargs)

    def more(self, what: str) -> int:
        """The sum of a count over the programs for structured arguments."""
        return sum(getattr(variant, what) for variant in self._variants.values())

    def forget(self) -> None:
        """Drop the programs for structured arguments, and code that came with a pickle."""
        self._variants.clear()
        self._watches.clear()
        self.held.clear()
        self.used.clear()


class _Watch:
    """When a function is observed whose calls are recorded. To observe a step of a library takes a tenth of a second.

    So it isn't while launches are timed against their ops, of which no program is kept; and seldom, if it turned out
    that no program can be kept.
    """

    def __init__(self, *, contest: bool = False) -> None:
        """`contest`: whether compiled clusters are likely to be timed against their ops in the first calls."""
        self.why: str | None = None
        self._contest = contest
        self._kind: tuple[Any, ...] = ()
        self._to_come: dict[tuple[Any, ...], int] = {}  # by kinds of inputs: runs until it is settled what is compiled
        self._failures = self._left = 0
        self._hits = self._unused = 0

    def begin(self, inputs: tuple[Any, ...]) -> None:
        """A call with these inputs is recorded."""
        with _C.DisableTorchFunction():  # (it is nothing that the program asks for)
            self._kind = tuple(each.shape if issubclass(type(each), _C.Tensor) else type(each) for each in inputs)

    def resting(self) -> str | None:
        """Why this call needn't be observed, None if it is to be."""
        if self._to_come.get(self._kind, int(self._contest)):
            return _C.UNSETTLED
        self._left -= 1
        return self.why if self._left >= 0 else None

    def done(self, why: str | int | None, hits: int, *, observed: bool) -> None:
        """What came of the call: None if a program was kept, after so many hits of others; or as `finish` says."""
        if isinstance(why, int):
            if len(self._to_come) >= _MAX_KINDS:
                self._to_come.clear()
            self._to_come[self._kind] = why
            self.why = _C.UNSETTLED
        if not why:
            self._contest = False
        if not observed:
            return
        if why is None:
            self.why = None
            # Where arguments are of another kind at every call, programs are kept in vain.
            self._unused = self._unused + 1 if hits == self._hits else 0
            self._hits, self._failures = hits, 0
            if self._unused > _MAX_UNUSED:
                self.why, self._left = _UNUSED, 2 ** min(self._unused - _MAX_UNUSED, 10) - 1
        elif isinstance(why, str):
            self.why = why
            self._failures = min(self._failures + 1, 10)
            self._left = 2**self._failures - 1 if self._failures > 2 else 0


class _Variant:
    """The programs for one structure of arguments: they get the tensors only."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = ref(recorder)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise AssertionError("the function itself records")

    def more(self, what: str) -> int:
        """There are no programs below these."""
        return 0

    def forget(self) -> None:
        """There is nothing else to forget."""


def weak_function(get: Callable[[], Callable[..., Any]]) -> Any:
    """Programs of a function that others keep, and which `get` gives; its ops are compiled as the options say."""
    return made(Recorder(get, None, asks=False))


def made(recorder: Recorder) -> Any:
    """What has the programs that a recorder makes, and asks it for more."""
    compiled = _C.CompiledFunction(recorder, recorder.directed)
    recorder.compiled = ref(compiled)
    compiled.__dict__["_recorder"] = recorder
    return compiled
