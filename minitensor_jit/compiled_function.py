"""`function`: a Python function as one compiled program."""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from minitensor import _C
from minitensor_jit.api import current_compiler
from minitensor_jit.function_arguments import Structure, flatten
from minitensor_jit.runtime.compiler import noting_executables
from minitensor_jit.runtime.disk_cache import key_of
from minitensor_jit.runtime.disk_entry import decode, encode
from minitensor_jit.runtime.executable import AnyExecutable
from minitensor_jit.state.observer import Observer

if TYPE_CHECKING:
    from minitensor_jit.lowered_function import Lowered

__all__ = ["function", "weak_function"]

_MAX_STRUCTURES = 64
_MAX_UNUSED = 32  # programs kept in a row without one that was used
_UNUSED = "its arguments, or what it read, were of another kind at each call before"
_END = "the end of a function"
_EVERY_CALL = "the end of a function that is recorded at every call: {}"
_SIMPLE = (_C.Tensor, int, float, str, type(None))


class _Recorder:
    """What a compiled function does when it has no program for its arguments: run the Python function, recorded."""

    def __init__(self, get: Callable[[], Callable[..., Any]], jit_compile: bool | None, asks: bool = True) -> None:
        """`get` gives the function; `asks` is whether its ops are to be compiled whatever the options say."""
        self._get = get
        self._jit_compile = jit_compile
        self._asks = asks
        self.compiled: Any = None  # a weak reference
        self._ran = False  # eagerly, before it was compiled
        # Programs for arguments that aren't just tensors and numbers, by their structure.
        self._variants: OrderedDict[Structure, Any] = OrderedDict()
        self._watches: dict[int, _Watch] = {}  # by the id of what has the programs
        # What the function's plans launch, by the id of its module, to be pickled with it.
        self._used: dict[str, Any] = {}
        # Code that it was unpickled with.
        self._held: list[AnyExecutable] = []

    @property
    def directed(self) -> bool:
        """Whether it is compiled since someone asked for it, who may say otherwise."""
        return self._asks

    @property
    def _fn(self) -> Callable[..., Any]:
        return self._get()

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._jit_compile is False or (self._asks and _C.stance() == "force_eager"):
            return self._fn(*args, **kwargs)
        if not kwargs and all(isinstance(arg, _SIMPLE) for arg in args):
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
            return self._fn(*args, **kwargs)
        current_compiler()
        watch = _Watch() if nested or compiled is None else self._watches.setdefault(id(compiled), _Watch())
        owner = 0 if nested else self.compiled().owner
        whole = bool(self._jit_compile)
        tag = (1, 1, 0) if whole else (1, 0, _C.next_scope()) if self._asks else None
        with noting_executables() as used:
            result = _C.call_recorded(
                self._run, (compiled, inputs, args, kwargs, watch, nested), {}, _END, tag, owner, whole
            )
        self._used.update((module, ref(executable)) for module, executable in used.items())
        return result

    def _stays_eager(self, compiled: Any) -> bool:
        """Whether a call without a program is not to be compiled, as `compiler.set_stance` says."""
        stance = _C.stance()
        if stance == "default":
            return False
        if stance == "fail_on_recompile" and not _C.program_busy():
            watch = self._watches.get(id(compiled))
            why = (watch and watch.why) or "no program that is kept is for its arguments and what it reads"
            name = getattr(self._fn, "__qualname__", type(self._fn).__name__)
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
        rests = nested or compiled is None or watch.rests()
        if rests:
            guards: Any = watch.why
            result = self._fn(*args, **kwargs)
        else:
            result, guards = _C.observed(Observer((args, kwargs)), self._fn, args, kwargs)
        if self._jit_compile:
            _C.raise_refusal()
        if not nested:
            why = self._finish(compiled, inputs, result, guards)
            if not rests:
                watch.done(why, 0 if compiled is None else compiled.hits)
        return result

    def _finish(self, compiled: Any, args: tuple[Any, ...], result: Any, guards: Any) -> str | None:
        """Run what was recorded; why no program is kept, None if one is."""
        why = "its arguments have things whose contents can't be compared"
        if compiled is None:
            _C.flush(_EVERY_CALL.format(why))
            return why
        plain = isinstance(result, _C.Tensor) or (
            type(result) in (tuple, list) and all(isinstance(item, _C.Tensor) for item in result)
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
        return function(self._fn, jit_compile=True) if self._jit_compile else None

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Compile for these arguments up to HLO, without running anything."""
        from minitensor_jit.lowered_function import lower

        return lower(self.compiled(), self._fn, args, kwargs)

    def more(self, what: str) -> int:
        """The sum of a count over the programs for structured arguments."""
        return sum(getattr(variant, what) for variant in self._variants.values())

    def forget(self) -> None:
        """Drop the programs for structured arguments, and code that came with a pickle."""
        self._variants.clear()
        self._watches.clear()
        self._held.clear()
        self._used.clear()

    def reduce(self, compiled: Any) -> tuple[Any, ...]:
        """How it is pickled: the function by its name, and the code that it launches."""
        fn: Any = self._fn
        if _named(fn.__module__, fn.__qualname__) is compiled:
            fn = _Name(fn.__module__, fn.__qualname__)
        options = current_compiler().options
        alive = ((module, executable()) for module, executable in self._used.items())
        code = [
            (module, encode(key_of(module, options), executable))
            for module, executable in alive
            if executable is not None
        ]
        return _unpickle, (fn, self._jit_compile, code)

    def hold(self, code: Sequence[tuple[str, bytes]]) -> None:
        """Take over compiled code of a pickle, as far as this machine can run it."""
        compiler = current_compiler()
        for module, data in code:
            if compiler.executables.find(module) is not None:
                continue
            try:
                executable = decode(data, key_of(module, compiler.options), "unpickled")
            except ValueError:  # another machine, other options, another version: it is compiled anew
                continue
            compiler.executables.insert(module, executable, keep=False)
            self._held.append(executable)
            self._used[module] = ref(executable)


class _Watch:
    """When a function is observed whose calls are recorded: seldom, if it turned out that no program can be kept."""

    def __init__(self) -> None:
        self.why: str | None = None
        self._failures = self._left = 0
        self._hits = self._unused = 0

    def rests(self) -> bool:
        """Whether this call needn't be observed."""
        self._left -= 1
        return self._left >= 0

    def done(self, why: str | None, hits: int) -> None:
        """No program was kept of a call that was observed, because of `why`; or one was, after so many hits."""
        self.why = why
        if why is None:
            # Where arguments are of another kind at every call, programs are kept in vain.
            self._unused = self._unused + 1 if hits == self._hits else 0
            self._hits, self._failures = hits, 0
            if self._unused > _MAX_UNUSED:
                self.why, self._left = _UNUSED, 2 ** min(self._unused - _MAX_UNUSED, 10) - 1
        elif why == _C.UNSETTLED:
            self._failures, self._left = 0, 3
        else:
            self._failures = min(self._failures + 1, 10)
            self._left = 2**self._failures - 1 if self._failures > 2 else 0


class _Variant:
    """The programs for one structure of arguments: they get the tensors only."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = ref(recorder)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise AssertionError("the function itself records")

    def more(self, what: str) -> int:
        """There are no programs below these."""
        return 0

    def forget(self) -> None:
        """There is nothing else to forget."""


class _Name:
    """A function that is found by its name."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name


def _named(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _unpickle(fn: Any, jit_compile: bool | None, code: Sequence[tuple[str, bytes]]) -> Any:
    if isinstance(fn, _Name):
        __import__(fn.module)
        compiled = _named(fn.module, fn.name)
        if not isinstance(compiled, _C.CompiledFunction):
            raise AttributeError(f"{fn.module}.{fn.name} is no compiled function any more")
    else:
        compiled = function(fn, jit_compile=jit_compile)
    compiled.__dict__["_recorder"].hold(code)
    return compiled


def function(fn: Callable[..., Any] | None = None, *, jit_compile: bool | None = None) -> Any:
    """Compile a function's ops; also a decorator.

    With `jit_compile=True` all of it: `InvalidArgumentError` names an op that can't be compiled, or a read of a value,
    with the reason and the line. With None, what can be, and values may be read; with False, nothing. A program
    is kept for each combination of shapes, dtypes and layouts of the tensors among the arguments, which may be in
    nested tuples, lists and dicts, and of the values of the others. A call that has one does not run `fn`, and gives
    what `fn` would: what `fn` read of Python's state is compared first, and if it reads values, changes Python's
    state, or reads what can't be compared, such as the clock, it is recorded at every call; docs/functions.md has the
    list. What it prints appears only when it is recorded. Random numbers are new in every call, as the default
    generator gives them. Results may require grad, or be views of arguments: the gradient graph behind them is made in
    every call. Gradients that it stores are stored by every call: a whole training step, with its optimizer, can be one
    program. A function that keeps other tensors that it does not return, or has hooks or an `autograd.Function` in the
    graph of its results is recorded at every call, too; its compiled code is kept all the same, and `explain` says why.

    The result has `lower(*args)`, which compiles for arguments without running and shows every stage, `programs` and
    `hits`, which count, and `clear()`. It can be pickled if `fn` can be found by its name; its code goes along.
    """
    if fn is None:
        return functools.partial(function, jit_compile=jit_compile)
    if not callable(fn):
        raise TypeError(f"function takes a callable, not {type(fn).__name__}")
    compiled = _made(_Recorder(lambda: fn, jit_compile))
    functools.update_wrapper(compiled, fn)
    return compiled


def weak_function(get: Callable[[], Callable[..., Any]]) -> Any:
    """Programs of a function that others keep, and which `get` gives; its ops are compiled as the options say."""
    return _made(_Recorder(get, None, asks=False))


def _made(recorder: _Recorder) -> Any:
    compiled = _C.CompiledFunction(recorder, recorder.directed)
    recorder.compiled = ref(compiled)
    compiled.__dict__["_recorder"] = recorder
    return compiled
