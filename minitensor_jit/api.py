"""How the JIT is turned on, and what it says of itself."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import minitensor
from minitensor import _C, _forks
from minitensor._functions.public_names import PLACES
from minitensor._jit import programs
from minitensor.ops import ROWS
from minitensor_jit.cache.disk_cache import all_caches
from minitensor_jit.cache.lru_disk_folder import private_folder
from minitensor_jit.compiler.compiler import Compiler
from minitensor_jit.errors import CacheDirectoryError, InvalidArgumentError
from minitensor_jit.flags import FlagError, JitOptions, read_environment
from minitensor_jit.log import log

if TYPE_CHECKING:
    from minitensor_jit.clustering.graph import Source
    from minitensor_jit.inspect.profile import HloProfile
    from minitensor_jit.inspect.report import Explanation, Report

__all__ = [
    "cache_clear",
    "cache_info",
    "current_options",
    "explain",
    "hlo_profile",
    "options",
    "session_options",
    "session_scope",
    "start_from_environment",
    "verify",
]


_PACKAGE = os.path.dirname(os.path.abspath(minitensor.__file__))
_LIBRARIES = (
    _PACKAGE + os.sep,
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.dirname(os.__file__),
    "<frozen",
)

# Each set of options has a compiler, whose number is part of every signature; the core keeps, for each thread, the
# number of the one in force.
_lock = _forks.lock()
_numbers: dict[JitOptions, int] = {}
_compilers: dict[int, Compiler] = {}
# The numbers for sessions, by the one in force around them, their level and their flag.
_session_numbers: dict[tuple[int, int, bool], int] = {}
_default_options = JitOptions()
_report: Report | None = None


def _bits_of(options: JitOptions) -> int:
    """What the core reads from a compiler's number: what may not wait, what goes by the policy, and how careful it is.

    Who observes what is compiled, or wants other numbers than those of eager code, has everything compiled.
    """
    o = options
    looked_at = o.looks_inside
    looked_at |= bool(o.always_defer_compilation or o.hlo_profile or o.verify or o.clustering_debug)
    looked_at |= o.dump_to is not None or o.generate_hlo_graph is not None or o.clustering_fuel is not None
    by_policy = o.measure_clusters and not looked_at and not o.tolerance
    level = programs.CAREFUL if o.auto_jit == 1 else 0
    at_once = looked_at or not o.enable_lazy_compilation
    return at_once | (programs.BY_POLICY if by_policy else 0) | level


def _number_of(wanted: JitOptions) -> int:
    """The number of the compiler for these options."""
    with _lock:
        number = _numbers.get(wanted)
        if number is None:
            number = 8 * (len(_numbers) + 1) + _bits_of(wanted)
            _compilers[number] = Compiler(wanted, _report)
            _numbers[wanted] = number
        return number


def current_compiler() -> Compiler:
    """The compiler that is in force on this thread."""
    number = _C.options_id()
    if number == 0:  # the first on this thread
        number = _number_of(_default_options)
        _C.set_options_id(number)
    return _compilers[number]


def all_compilers() -> list[Compiler]:
    """Those of all options that were used, and that in force on this thread."""
    current_compiler()
    with _lock:
        return list(_compilers.values())


def current_options() -> JitOptions:
    """The options in force on this thread."""
    return current_compiler().options


def _source(place: tuple[str, int, str] | None) -> Source | None:
    from minitensor_jit.clustering.graph import Source  # takes a while

    return None if place is None else Source(*place)


def _plan(nodes: Any, inputs: Any, scalars: Any, number: int) -> Any:
    return current_compiler().plan(nodes, inputs, scalars, number)


def _recall(signature: bytes) -> Any:
    return current_compiler().recall(signature)


def _reason_of(op: str) -> str:
    """Why an op that can't be recorded can't be compiled: what its row says."""
    row = ROWS.get(op)
    if row is None:
        return "it is not an op with a lowering"
    if not row.compilable:
        return row.reason
    if row.kind == "random":
        return "how many numbers it draws depends on values"
    if _C.asks_for_float8():
        return "it reads or gives floats of eight bits, or writes to memory that is also seen as another dtype"
    return "it writes to memory that is also seen as another dtype, which is never recorded"


def _refuse(op: str, reason: str) -> None:
    where = _line_of_users() or _C.caller()
    frames = _frames_below_users()
    called = _function_called(frames)
    library = _library_call(frames) if reason else None
    reason = reason or _reason_of(op)
    if library is not None:  # what it looks for is what the library says
        op, reason = library, _reason_of(library)
    if called not in ("", op):
        op, reason = called, f"{reason} ({op}, which it is made of)"
    raise InvalidArgumentError(op, reason, _source(where))


def _line_of_users() -> tuple[str, int, str] | None:
    """Where the innermost frame is that is neither ours nor of a library such as NumPy, which reads values too."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_LIBRARIES) and f"{os.sep}site-packages{os.sep}" not in file:
            return file, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return None


def _frames_below_users() -> list[tuple[str, str]]:
    """The module and name of each function of minitensor's that the user's code is in, from the user's on."""
    package = os.path.dirname(os.path.abspath(minitensor.__file__)) + os.sep
    frame: Any = sys._getframe(1)
    found: list[tuple[str, str]] = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(package):
            found.append((frame.f_globals.get("__name__", ""), code.co_name))
        elif found:
            break
        frame = frame.f_back
    return found[::-1]


def _function_called(frames: list[tuple[str, str]]) -> str:
    """The composed function that the user called, by its public name; empty if it was an op itself."""
    for module, name in frames:
        for place in PLACES:
            space = sys.modules.get(f"minitensor.{place}".rstrip("."))
            found = getattr(space, name.strip("_"), None)
            if callable(found) and getattr(found, "__module__", None) == module:
                return f"{place}.{name.strip('_')}".lstrip(".")
    name = frames[0][1].strip("_") if frames else ""
    return name if callable(getattr(minitensor, name, None)) else ""


def _library_call(frames: list[tuple[str, str]]) -> str | None:
    """The op of linear algebra, a library's, that one of these functions is named after."""
    for _, name in reversed(frames):
        op = f"_linalg_{name}"
        if op in ROWS and not ROWS[op].compilable:
            return op
    return None


_C.set_compile_callback(_plan, _recall)
_C.set_refuse_callback(_refuse)


def options(wanted: JitOptions | None = None, **changes: Any) -> AbstractContextManager[JitOptions]:
    """Options for what is recorded inside: a whole set, or changes to those in force.

    What was recorded before runs first, under the options that it was recorded with.
    """
    changed = (wanted or current_options()).replace(**changes)
    return _C.OptionsScope(_number_of(changed), None, changed)


class verify:  # noqa: N801  (called like a function)
    """Run a fraction of the calls of each cluster a second time, op by op: `MismatchError` where a bit differs.

    The first call of a cluster is always checked. The error names the first op that differs and its line. In force on
    this thread from the call on; as a context manager, until its end. `verify(0)` ends it too. `checked` says how many
    runs of clusters have been checked since.
    """

    def __init__(self, fraction: float = 1.0) -> None:
        self._switch = options(verify=fraction)
        self._switch.__enter__()
        self._before = _verify_counts()

    @property
    def checked(self) -> int:
        """How many runs of clusters were checked."""
        return _verify_counts()["checked"] - self._before["checked"]

    def __enter__(self) -> verify:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._switch.__exit__(*exception)

    def __repr__(self) -> str:
        return f"<minitensor.jit.verify: {self.checked:,} runs of clusters checked>"


def _verify_counts() -> dict[str, int]:
    # Imported here: it knows tensors and kernels.
    from minitensor_jit.inspect.numerics.verify import counts

    return counts()


def session_scope(level: int, cpu_global_jit: bool) -> AbstractContextManager[None]:
    """What a session's configuration asks for: OFF (-1), ON_1 or ON_2 for everything that runs inside."""
    number = _session_number(level, cpu_global_jit)
    return _C.OptionsScope(number, "the end of a session run" if level > 0 else None)


def session_options(level: int, cpu_global_jit: bool) -> AbstractContextManager[None]:
    """The options of a session's configuration, for what records by itself."""
    return _C.OptionsScope(_session_number(level, cpu_global_jit))


def _session_number(level: int, cpu_global_jit: bool) -> int:
    number = _session_numbers.get((_C.options_id(), level, cpu_global_jit))
    if number is None:
        around = current_options()
        on_cpu = cpu_global_jit or around.cpu_global_jit
        number = _number_of(around.replace(auto_jit=max(level, 0), cpu_global_jit=on_cpu))
        _session_numbers[_C.options_id(), level, cpu_global_jit] = number
    return number


# ---- the account


_Place = tuple[str, int, str] | None


def _on_flush(reason: str, source: _Place, hit: bool, ops: int, record: Any, copies: list[tuple[int, _Place]]) -> None:
    assert _report is not None
    _report.record_flush(reason, _source(source))
    for nbytes, place in copies:
        _report.record_copy(nbytes, _source(place))
    if record is not None:
        _report.record_hit(record)


def _on_eager(op: str, source: _Place) -> None:
    assert _report is not None
    _report.record_eager(op, _reason_of(op), _source(source))


def _on_losses(record: Any, losses: list[tuple[str, int, int]]) -> Any:
    """Clusters of a plan run op by op from now on."""
    figures = {
        name: f"it took {launch_ns / 1e3:,.1f} us, and its ops {ops_ns / 1e3:,.1f} us"
        for name, launch_ns, ops_ns in losses
    }
    for name, text in figures.items():
        log(current_options(), "xla_compiler", 1, "%s runs op by op from now on: %s", name, text)
    return None if record is None or _report is None else _report.record_losses(record, figures)


def _on_lost(record: Any, source: _Place, recorded_ns: int, eager_ns: int) -> Any:
    """What runs from one read of a value to the next isn't recorded any more."""
    figures = f"it took {recorded_ns / 1e3:,.1f} us, and eagerly {eager_ns / 1e3:,.1f} us"
    where = "" if source is None else f" from {source[0]}:{source[1]} on"
    log(current_options(), "xla_compiler", 1, "what is recorded%s runs eagerly from now on: %s", where, figures)
    return None if record is None or _report is None else _report.record_lost(record, figures)


def _on_lost_run(record: Any) -> None:
    if _report is not None:
        _report.record_hit(record)


_C.set_demotion_callbacks(_on_losses, _on_lost, _on_lost_run)


def _keep_account(report: Report | None) -> None:
    """Make `report` the one that is written to."""
    global _report
    _report = report
    with _lock:
        for compiler in _compilers.values():
            compiler.report = report
    _C.set_flush_callback(None if report is None else _on_flush)
    _C.set_eager_callback(None if report is None else _on_eager)


def swap_account(report: Report | None) -> Report | None:
    """Make `report` the account that is written to; returns the one before."""
    before = _report
    _keep_account(report)
    return before


def recorded_scope(wanted: JitOptions, reason: str) -> AbstractContextManager[None]:
    """Records everything inside under these options, with nothing compiled before; `reason` is why it ends to."""
    number = _number_of(wanted)
    _compilers[number].clear()
    return _C.OptionsScope(number, reason)


_EXPLAINED = "the end of the explained call"


def explain(fn: Callable[..., Any]) -> Callable[..., Explanation]:
    """Make `explain(fn)(*args)` run `fn` compiled and give an account of it.

    It lists clusters, ops left eager with the reason, the line and the fix, what ran the recording and when,
    compilations and cache hits. Of a function that is compiled as a whole it also says whether every call is recorded,
    and why.
    """
    if not callable(fn):
        raise TypeError(f"explain takes a function, not {type(fn).__name__}")
    from minitensor_jit.inspect.report import Explanation

    @functools.wraps(fn)
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        report = Explanation()
        _C.flush("the start of an explained call")
        # Plans know the account they were made for: those of this call must be new.
        _C.clear_plan_cache()
        previous = _report
        try:
            _keep_account(report)
            current = current_compiler().options
            on = current if current.auto_jit else current.replace(auto_jit=2, cpu_global_jit=True)
            # One that is compiled as a whole ends its own recording; those programs that it has would record nothing.
            whole = fn.__dict__["_recorder"].without_programs() if isinstance(fn, _C.CompiledFunction) else None
            with options(on):
                if whole is not None:
                    report.result = whole(*args, **kwargs)
                else:
                    report.result = _C.call_recorded(fn, args, kwargs, _EXPLAINED, None, 0, False)
        finally:
            try:
                _keep_account(previous)
                _C.clear_plan_cache()
            except BaseException:  # a handler's exception: once more, as nothing may be left half done
                _keep_account(previous)
                _C.clear_plan_cache()
                raise
        return report

    return explained


def hlo_profile(*, clear: bool = False) -> HloProfile:
    """What code compiled under `hlo_profile=True` has measured so far: `text()`, `to_json()`; `clear` begins anew."""
    from minitensor_jit.inspect import profile

    found = profile.HloProfile()
    if clear:
        profile.clear()
    return found


def cache_info() -> dict[str, int]:
    """What the caches have.

    Of launch plans: `hits`, `misses`, `size` (how many), `bytes`, their `limit`, and how many were `evicted`. Of
    compiled clusters, those that functions own included: `executables`, `executable_bytes`, `executables_evicted`.

    `disk_...`: what the folders of `persistent_cache_directory` gave this process (`hits`, `misses`, `rebuilt` for
    entries that were damaged, `written`, `evicted`), and what they hold now (`entries`, `bytes`).
    """
    with _lock:
        caches = [compiler.executables for compiler in _compilers.values()]
    compiled = {
        "executables": sum(len(cache) for cache in caches),
        "executable_bytes": sum(cache.nbytes for cache in caches),
        "executables_evicted": sum(cache.evicted for cache in caches),
    }
    disk = Counter(dict.fromkeys(("hits", "misses", "rebuilt", "written", "evicted", "entries", "bytes"), 0))
    for cache in all_caches():
        entries, nbytes = cache.usage()
        disk.update({**asdict(cache.counts), "entries": entries, "bytes": nbytes})
    return {**_C.plan_cache_info(), **compiled, **{f"disk_{name}": n for name, n in disk.items()}}


def cache_clear(*, disk: bool = False) -> None:
    """Forget all plans and compiled clusters; with `disk`, also those in the folders that this process uses."""
    _C.clear_plan_cache()
    for cache in all_caches() if disk else ():
        cache.clear()
    with _lock:
        for compiler in _compilers.values():
            compiler.clear()


def start_from_environment() -> None:
    """Do what MT_JIT_FLAGS says: with --auto_jit, everything on this thread is recorded from here on."""
    global _default_options
    try:
        _default_options = read_environment()
    except FlagError as error:
        raise FlagError(f"MT_JIT_FLAGS: {error}") if not str(error).count("MT_JIT_FLAGS") else error from None
    asked = _default_options.text()
    _keep_programs()
    _C.set_options_id(0)
    if _default_options.explain:
        from minitensor_jit.inspect.report import Report

        _keep_account(Report())
        atexit.register(_print_account)
    if _default_options.hlo_profile:
        atexit.register(_print_profile)
    if _default_options.report is not None:
        from minitensor_jit.inspect.program_report import write_at_exit

        if (record := write_at_exit(_default_options.report, asked)) is not None:
            _keep_account(record.account)
            # Nothing of it is kept on disk, and all of it is compiled.
            _default_options = _default_options.replace(hlo_profile=True)
    current_compiler()
    if _default_options.auto_jit:
        # What is observed is compiled here.
        kept = _C.options_id() & 7 in (programs.BY_POLICY, programs.BY_POLICY | programs.CAREFUL)
        programs.begin(_C.options_id(), _default_options.persistent_cache_directory if kept else None)


def _keep_programs() -> None:
    """Have programs keep what is compiled for them, where nobody says where, if there is a folder to be trusted."""
    global _default_options
    o = _default_options
    if not o.auto_jit or not o.program_cache or o.persistent_cache_directory is not None:
        return
    folder = programs.default_folder()
    if folder is None:
        return
    try:
        private_folder(folder)
    except CacheDirectoryError:
        return
    _default_options = o.replace(persistent_cache_directory=folder)


def _join_program() -> None:
    """Take over the options of a program that began before this module was imported."""
    global _default_options
    program = programs.begun
    if program is None:
        return
    _default_options = read_environment()
    _keep_programs()
    number = _number_of(_default_options)
    assert number == program.number, "the first options have the first number"


def _print_profile() -> None:
    sys.stdout.flush()
    print(hlo_profile().text(), file=sys.stderr)


def _print_account() -> None:
    if _report is not None:
        sys.stdout.flush()
        print(_report.text(), file=sys.stderr)


_join_program()
