"""`compile` and what goes with it, by PyTorch's names; the compiler is that of :func:`minitensor.function`."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

from minitensor import _C, nn
from minitensor._functions.offered import as_tensor
from minitensor.autograd.grad_mode import Decorating

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "list_backends",
    "load_cache_artifacts",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_COMPILES = ("inductor", "minitensor")
_RUNS = ("eager", "aot_eager", "eager_noexcept")


class OptimizedModule(nn.Module):
    """A module whose calls are compiled; `_orig_mod` is the module itself, whose attributes it has.

    `dynamo_ctx` is what compiles it, by PyTorch's name: the compiled function, or the module for an eager backend.
    """

    def __init__(
        self, module: nn.Module, fullgraph: bool, eager: bool = False, guard_filter: Any = None, backend: Any = None
    ) -> None:
        """`fullgraph`: whether all of the module has to be compiled; `eager`: whether it runs as it is.

        `guard_filter` and `backend` are those of :func:`compile`.
        """
        super().__init__()
        self._orig_mod = module
        self._fullgraph, self._eager, self._guard_filter, self._backend = fullgraph, eager, guard_filter, backend
        # Not as a child: its parameters are there once.
        self.__dict__["dynamo_ctx"] = module if eager else _compiled(module, fullgraph, guard_filter, backend)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, compiled; its hooks run with it."""
        return self.__dict__["dynamo_ctx"](*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module's own `forward`."""
        return self._orig_mod.forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return the module's attribute of that name."""
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._modules["_orig_mod"], name)

    def __reduce__(self) -> Any:
        """Code is no part of a file: what is loaded compiles anew."""
        return OptimizedModule, (
            self._modules["_orig_mod"],
            self._fullgraph,
            self._eager,
            self._guard_filter,
            self._backend,
        )


def _compiled(fn: Callable[..., Any], fullgraph: bool, guard_filter: Any, backend: Any) -> Callable[..., Any]:
    if callable(backend):
        from minitensor.fx.backends import by_backend

        return by_backend(fn, backend, fullgraph)
    from minitensor_jit.compiled_function import with_guards

    return with_guards(fn, True if fullgraph else None, guard_filter)  # type: ignore[no-any-return]


@overload
def compile(
    model: _F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] | None = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> _F: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] | None = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> Callable[[_F], _F]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function, or a module's calls, as :func:`minitensor.function` does; a decorator without `model`.

    With `fullgraph=True` all of it has to be compiled (`jit_compile=True`), and what can't be raises
    `InvalidArgumentError`. Sizes that vary are followed by themselves, whatever `dynamic` says. Of `options` there is
    `"guard_filter_fn"`: a function that gets a list with an entry for each guard on what was read of Python's state,
    and returns a list of bools, whether it is compared at later calls; `skip_guard_on_globals_unsafe` and its like are
    such. (The arguments' shapes, dtypes and layouts, and settings such as the default dtype, are always compared.)
    Other options, and `mode`, choose among another compiler's settings and change nothing here. Of backends there are
    `"inductor"`, which is this compiler, `"eager"`, which runs the function as it is, and callables: one gets a
    :class:`fx.GraphModule` that gives a tuple of results, and the list of tensors of the first call, and returns what
    is called with such tensors in its place (see :func:`fx.backends.by_backend`). Other names raise
    :class:`InvalidBackend`. Without a backend it is that of :func:`set_default_backend`.
    """
    if mode is not None and options is not None:
        raise RuntimeError("compile: expected mode or options, got both")
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    if not callable(model):
        raise RuntimeError(f"compile: expected something callable, got {type(model).__name__}")
    backend = _known(get_default_backend() if backend is None else backend)
    guard_filter = (options or {}).get("guard_filter_fn")
    if guard_filter is not None and not callable(guard_filter):
        raise RuntimeError(f"compile: guard_filter_fn is to be callable, got {type(guard_filter).__name__}")
    if isinstance(model, nn.Module) and not disable:
        return OptimizedModule(model, fullgraph, backend in _RUNS, guard_filter, backend)
    return model if disable or backend in _RUNS else _compiled(model, fullgraph, guard_filter, backend)


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names of backends that compile."""
    return list(_COMPILES)


def is_compiling() -> bool:
    """Return whether the call runs inside a compiled function, which is recording it."""
    return _C.in_recorded_call()


is_dynamo_compiling = is_compiling


_exports: list[None] = []


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """A program is being exported, as long as it lasts."""
    _exports.append(None)
    try:
        yield
    finally:
        _exports.pop()


def is_exporting() -> bool:
    """Return whether a program is being exported, by :func:`minitensor.export.export`."""
    return bool(_exports)


@overload
def disable(fn: _F, recursive: bool = True, *, reason: str | None = None) -> _F: ...
@overload
def disable(fn: None = None, recursive: bool = True, *, reason: str | None = None) -> Callable[[_F], _F]: ...
def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark what isn't to be compiled. Nothing has to be left out here: the function runs as it is, recorded or not."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Return the function: whatever calls ops may be recorded."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return the function: what it returns is watched, as all that is read is."""
    return fn


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: what it gives is `original_fn` in eager code, and the decorated function in a compiled one.

    The decorated function is to do what `original_fn` does, by calling ops. A compiled function that calls
    `original_fn` by its own name runs it as it is: here Python isn't compiled, and what it calls isn't looked for.
    `can_constant_fold_through` changes nothing: what is read is guarded, and what is constant is computed once.
    TypeError for what isn't callable, and for parameters of other names, kinds or defaults, unless
    `skip_signature_check`.
    """
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a callable, got {type(original_fn).__name__}")

    def substitute(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(traceable_fn):
            raise TypeError(f"substitute_in_graph: expected a function to decorate, got {type(traceable_fn).__name__}")
        if not skip_signature_check:
            _same_signature(original_fn, traceable_fn)

        @functools.wraps(traceable_fn)
        def substituted(*args: Any, **kwargs: Any) -> Any:
            return (traceable_fn if is_compiling() else original_fn)(*args, **kwargs)

        substituted.__dict__["__wrapped__"] = original_fn
        return substituted

    return substitute


def _same_signature(original: Callable[..., Any], other: Callable[..., Any]) -> None:
    try:
        wanted, found = inspect.signature(original), inspect.signature(other)
    except ValueError:  # a function in C that doesn't say
        return
    ours, theirs = _parameters(wanted), _parameters(found)
    if ours != theirs and ours and theirs:  # with none named it may be (*args, **kwargs)
        raise TypeError(f"Signature mismatch between {original} and {other}: {wanted} != {found}")


def _parameters(signature: inspect.Signature) -> list[tuple[str, bool, Any]]:
    """The named parameters: whether they go by name only, and their defaults."""
    return [
        (p.name, p.kind is p.KEYWORD_ONLY, p.default)
        for p in signature.parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def save_cache_artifacts() -> tuple[bytes, Any] | None:
    """Return the compiled code that is alive as bytes, with a list of it; None if there is none.

    Another process on an equal machine takes it over with :func:`load_cache_artifacts`, and compiles only what is not
    among it. Left out is code for GPUs, and for all sizes of a dimension.
    """
    from minitensor_jit.functions.artifacts import save

    return save()


def load_cache_artifacts(serialized_artifacts: bytes) -> Any:
    """Take over compiled code that :func:`save_cache_artifacts` gave; return a list of it, None for damaged bytes.

    What is for another machine, version or set of options is passed by, and compiled when it is needed. The code is
    run as it is: load only bytes that you trust.
    """
    from minitensor_jit.functions.artifacts import load

    return load(serialized_artifacts)


def reset() -> None:
    """Forget compiled plans and code."""
    from minitensor_jit import cache_clear

    cache_clear()


def cudagraph_mark_step_begin() -> None:
    """Do nothing: no recorded graph of a device has memory that a new step would take."""


_default: list[Any] = ["inductor"]


class InvalidBackend(RuntimeError):  # noqa: N818  (PyTorch's name)
    """There is no backend of that name."""


def _known(backend: Any) -> Any:
    if not callable(backend) and backend not in _COMPILES and backend not in _RUNS:
        home = "minitensor.compiler" if _C.shown_package() == "minitensor" else "torch._dynamo"
        raise InvalidBackend(f"Invalid backend: {backend!r}, see `{home}.list_backends()` for available backends.")
    return backend


def get_default_backend() -> str | Callable[..., Any]:
    """Return the backend of :func:`compile` where none is said: "inductor" at first."""
    return _default[0]  # type: ignore[no-any-return]


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Set it; None for the first one again. InvalidBackend for one that is not there."""
    _default[0] = "inductor" if backend is None else _known(backend)


class set_stance(Decorating):  # noqa: N801  (PyTorch's name)
    """Set what compiled functions do: at once, until the end of a `with` statement, or in a function's calls.

    - `"default"`: a call that has no program is compiled.
    - `"force_eager"`: calls run the Python function as it is.
    - `"eager_on_recompile"`: a call that has a kept program runs it; others run the Python function as it is.
    - `"fail_on_recompile"`: those others raise `RuntimeError`, the first one of a function too.
    - `"eager_then_compile"`, `"aot_eager_then_compile"`: the first call without a program runs the Python function as
      it is, later ones are compiled.

    A function whose programs can't be kept, as it reads values for one, has none in any call (docs/functions.md). The
    stance holds for all threads, and for what :func:`compile` and :func:`minitensor.function` made, not for scopes,
    sessions and flags. What a call does within what is being recorded belongs to that.

    With the stance `"default"`, `force_backend` is the backend of all that is compiled: `"eager"` and its like are as
    `"force_eager"`. What :func:`compile` made for an eager backend is the function itself, and stays so.
    `skip_guard_eval_unsafe` allows that comparisons are left out; none is. RuntimeError for a stance or backend that is
    not there, `force_backend` with another stance, and in a compiled function.
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError(f"set_stance: force_backend goes with the stance 'default', not with {stance!r}")
        self._stance = "force_eager" if force_backend is not None and _known(force_backend) in _RUNS else stance
        self._before = _C.stance()
        self.__enter__()

    def __enter__(self) -> None:
        if _C.in_recorded_call():
            raise RuntimeError("set_stance: the stance can't be set in a compiled function")
        _C.set_stance(self._stance)

    def __exit__(self, *exception: object) -> None:
        _C.set_stance(self._before)

    def __call__(self, function: _F) -> _F:
        """Return the function with the stance in its calls; as a decorator it is not set at once."""
        _C.set_stance(self._before)
        return super().__call__(function)

    def _again(self) -> set_stance:
        return set_stance(self._stance)


def keep_portable_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Compare only what tensors from outside are that no global variable leads to (a guard filter of `compile`)."""
    return [entry.guard_type == "TENSOR_MATCH" and not entry.is_global for entry in guard_entries]


def keep_tensor_guards_unsafe(guard_entries: Sequence[Any], keep_parameters: bool = False) -> list[bool]:
    """Compare only what tensors from outside are; parameters if `keep_parameters` (a guard filter of `compile`)."""
    return [
        entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(entry.value, nn.Parameter))
        for entry in guard_entries
    ]


def skip_all_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Compare nothing that was read of Python's state (a guard filter of `compile`)."""
    return [False] * len(guard_entries)


def skip_guard_on_all_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Don't compare modules, their parameters, modes and other attributes (a guard filter of `compile`)."""
    return [not entry.orig_guard.source.is_unspecialized_nn_module() for entry in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Don't compare modules of the framework's classes, such as `nn.Linear` (a guard filter of `compile`)."""
    return [not entry.orig_guard.source.is_unspecialized_builtin_nn_module() for entry in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Don't compare global variables, nor what was read through them (a guard filter of `compile`)."""
    return [not entry.is_global for entry in guard_entries]


def nested_compile_region(
    fn: Any = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None
) -> Any:
    """Return the function: equal parts of a program are compiled once wherever they are; a decorator without `fn`."""
    return (lambda function: function) if fn is None else fn


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors for one of NumPy's arrays. It runs in NumPy, without gradients."""
    from minitensor.utils import _pytree

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        def array(x: Any) -> Any:
            return x.numpy() if isinstance(x, _C.Tensor) else x

        def tensor(x: Any) -> Any:
            import numpy as np

            return as_tensor(x) if isinstance(x, (np.ndarray, np.generic)) else x

        given = _pytree.tree_map(array, (args, kwargs))
        return _pytree.tree_map(tensor, fn(*given[0], **given[1]))

    return wrapped
