"""What a compiled function reads of Python's state while it is recorded, and what it changes.

The core tells of each instruction of the program's own frames before it runs, with its operands. What is read of
objects that were there before the function began becomes guards; a call for which they hold would do the same again.
What can't be watched, and every change of what was there before, is named: such a function is recorded at every call.
docs/functions.md has the table.

The framework's own frames are trusted to depend on their arguments, on settings that a program knows, and on those
that their code has the names of (minitensor_jit/state/settings.py).
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import minitensor
from minitensor import _C
from minitensor_jit.errors import InvalidArgumentError
from minitensor_jit.state.callees import Callees
from minitensor_jit.state.calls import CONTAINERS, is_framework
from minitensor_jit.state.instructions import CALLABLE_FIRST, HANDLED, steps
from minitensor_jit.state.notes import ABSENT, Guard, has_python, in_python, is_plain, lookup
from minitensor_jit.state.settings import NAMES

if TYPE_CHECKING:
    from minitensor_jit.state.filters import GuardFilter

__all__ = ["Observer"]

_MOST = 10_000
# The core tells, beside instructions, of functions that begin (-1), of modules that the framework gets (-2), of the
# framework's warnings, and of its code that begins and touches its settings.
_WARNS, _TOUCHES = -3, -4
_REMAINDER = 6  # of BINARY_OP, and 13 more in place
# Arguments of CALL_INTRINSIC_1.
_IMPORT_STAR, _UNARY_POSITIVE = 2, 5
_PACKAGE = os.path.dirname(os.path.abspath(minitensor.__file__))
_OURS = (_PACKAGE + os.sep, os.path.join(os.path.dirname(_PACKAGE), "minitensor_jit") + os.sep)
# Where Python's own library is: its sources, and what was compiled for the platform. (`sysconfig` knows, and takes a
# millisecond to read how Python was built.)
_FOLDERS = (
    os.path.dirname(os.__file__),
    os.path.join(sys.exec_prefix, sys.platlibdir, os.path.basename(os.path.dirname(os.__file__))),
)
_LIBRARY = tuple(dict.fromkeys([*(folder + os.sep for folder in _FOLDERS), "<frozen ", "<__array_function"]))


class Observer(Callees):
    """Watches one run of a function: `begin`, the run, `end`."""

    def __init__(self, arguments: Any, guard_filter: GuardFilter | None = None) -> None:
        """`guard_filter` says which guards are compared; all of them without it."""
        super().__init__(arguments)
        self._filter = guard_filter
        self._touching: set[types.CodeType] = set()

    # ---- the run

    def begin(self, fn: Any) -> None:
        """Watch what this thread runs from here on."""
        nn = sys.modules.get("minitensor.nn.modules.module")
        self._module_type = None if nn is None else nn.Module
        for hooks in () if nn is None else sys.modules["minitensor.nn.modules.calls"].GLOBAL_HOOKS:
            self._note(Guard.DICT_ITEMS, hooks, tuple(hooks.items()))
        # What is young now is kept, so that what is young and not among them at the end was made meanwhile.
        self._young = _C.young_objects()
        self._grad = _C.is_grad_enabled()
        if not in_python(fn):
            self._guarded(self._call, fn, ())
        if not _C.begin_observing(self._told, steps, self._module_type, self._made, _LIBRARY, _OURS, NAMES):
            self.reason = "this version of Python doesn't show what a function reads"

    def end(self, result: Any) -> Any:
        """Stop; what was read as guards, None if that is nothing, or a text that says why it can't be kept."""
        if not _C.end_observing() and self.reason is None:
            self.reason = "what it reads could not be followed"
        if self.reason is None and self._grad != _C.is_grad_enabled():
            self.reason = "it changes a setting"
        if self.reason is None:
            self._guarded(self._judge, result)
        try:
            if self.reason is None and self._filter is not None:
                from minitensor_jit.state.filters import chosen  # hardly any function has a filter

                self._guards = chosen(self._guards, self._filter, self._owners)
            return self._as_guards() if self.reason is None else self.reason
        finally:
            self.__dict__.clear()

    def _guarded(self, function: Callable[..., Any], *args: Any) -> None:
        try:
            function(*args)
        except Exception as error:
            self._not_followed(error)

    def _not_followed(self, error: Exception) -> None:
        self._unwatched(f"what it reads could not be followed ({type(error).__name__}: {error})")

    def _refused(self) -> Exception:
        from minitensor_jit.clustering.graph import Source  # most functions are recorded without it

        place = None
        if self._place is not None:
            code, at = self._place
            line = next(line for i, (line, *_) in enumerate(code.co_positions()) if i == at)
            place = Source(code.co_filename, line or code.co_firstlineno, code.co_name)
        reason = (
            "it reads memory that a tensor shares, and that the function writes before; a program writes at its end"
        )
        return InvalidArgumentError("a view of memory", reason, place)

    # ---- what the core tells

    def _told(self, op: int, argument: int, code: types.CodeType, at: int, operands: tuple[Any, ...]) -> Any:
        if self.reason is not None:
            return None
        if op == _WARNS:
            self._guarded(self._warns)
            return None
        if op == _TOUCHES:
            if code not in self._touching:
                self._touching.add(code)
                self._guarded(self._settings_of, code, operands[0])
            return None
        self._place = code, at
        try:
            if op >= 0:
                getattr(self, HANDLED[op])(argument, code, operands)
            elif op == -1:
                self._enters(*operands)
            else:
                self._module(operands[0])
        except Exception as error:
            self._not_followed(error)
        return self._refusal

    def _enters(self, function: types.FunctionType, first: Any) -> None:
        what = (function.__code__, function.__defaults__, function.__kwdefaults__)
        self._note(Guard.FUNCTION, function, what)
        if function.__kwdefaults__:
            self._contents(function.__kwdefaults__)
        if first is None:
            return
        if self._is_module(first):
            self._module(first)
        if function.__name__ in ("__init__", "__new__"):
            kind = first if isinstance(first, type) else type(first)
            if self._notices_ends(kind):
                return
        # How a method was found that C calls isn't seen.
        kind = first if isinstance(first, type) else type(first)
        found = lookup(kind, function.__name__)
        if found is not ABSENT:
            self._type_entry(kind, function.__name__, found)

    def _name(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        name = code.co_names[argument]
        space, builtin, *_ = operands
        if name in space:
            self._entry(space, name, space[name])
            return
        self._entry(space, name, ABSENT)
        self._entry(builtin, name, builtin.get(name, ABSENT))

    def _builds_class(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        builtin = operands[1]
        self._entry(builtin, "__build_class__", builtin.get("__build_class__", ABSENT))

    def _local_name(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        # Of a class's body; of a function in it that has its names, such as one for type parameters, on the stack.
        space, _, *locals_ = operands
        for local in locals_:
            if local is not space and isinstance(local, dict) and code.co_names[argument] in local:
                self._entry(local, code.co_names[argument], local[code.co_names[argument]])
                return
        self._name(argument, code, operands)

    def _sets_global(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        space, name = operands[0], code.co_names[argument]
        self._entry(space, name, space.get(name, ABSENT))
        self._changes(space, f"sets the global variable {name}")

    def _cell(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        cell = operands[0]
        if isinstance(cell, types.CellType):
            try:
                contents = cell.cell_contents
            except ValueError:
                contents = ABSENT
            self._note(Guard.CELL, cell, (contents,))

    def _sets_cell(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._cell(argument, code, operands)
        self._changes(operands[0], f"sets the variable {code._varname_from_oparg(argument)} of an outer function")  # type: ignore[attr-defined]

    def _loads_attribute(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._attribute(operands[0], code.co_names[argument])

    def _loads_super(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        function, start, thing = operands
        self._call(function, (start, thing) if function is not super else ())
        if function is super and isinstance(start, type):
            self._attribute(super(start, thing), code.co_names[argument])

    def _sets_attribute(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._changes_attribute(operands[0], code.co_names[argument])

    def _item(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        container, key = operands
        if isinstance(container, dict):
            self._dict_item(container, key)
        elif isinstance(container, list) and isinstance(key, int):
            self._kind(container)
            self._note(Guard.ITEMS, container, tuple(container)) if len(container) <= _MOST else self._handed_on(
                container
            )
        else:
            self._operand(container)
            self._operand(key)

    def _slice(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        for thing in operands:
            self._operand(thing)

    def _sets_item(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        container, key = operands
        if isinstance(container, _C.Tensor):
            return
        if isinstance(container, (dict, list)) or not has_python(type(container), "__setitem__", "__delitem__"):
            self._changes_contents(container)
        self._contents(key)

    def _sets_slice(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        container, *ends = operands
        self._sets_item(argument, code, (container, tuple(ends)))
        for end in ends:
            self._known(end)

    def _iterated(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        if type(operands[0]) in (list, tuple):
            self._handed_on(operands[0])
        else:
            self._contents(operands[0])
        self._known(operands[0])

    def _has(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        item, container = operands
        if type(container) is dict and is_plain(item):
            self._entry(container, item, container.get(item, ABSENT))
        else:
            self._operand(container)
            self._contents(item)
        if not isinstance(container, _C.Tensor):
            self._key(item)

    def _is(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._identity(*operands)

    def _caught(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._is_a(*operands)

    def _unary(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._operand(operands[0])

    def _intrinsic(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        if argument == _IMPORT_STAR:
            self._unwatched("it imports all names of a module")
        elif argument == _UNARY_POSITIVE:
            self._operand(operands[0])

    def _compared(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        for thing in operands:
            self._operand(thing)

    def _formatted(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        for thing in operands:
            self._operand(thing)
        self._by_format(operands[0], operands[1] if len(operands) > 1 else "")

    def _hashed(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        # Things that are equal are one in a set, or as keys.
        for thing in operands:
            self._contents(thing)
            if id(thing) in self._tensors:
                self._key(thing)

    def _keys(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._hashed(argument, code, operands[::2])

    def _named_in_class(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._kind(operands[0])

    def _binary(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        for thing in operands:
            self._operand(thing)
        first = operands[0]
        if argument % 13 == _REMAINDER and isinstance(first, (str, bytes, bytearray)):
            self._text(operands[1])
        if argument >= 13 and (isinstance(first, CONTAINERS) or type(first).__name__ == "ndarray"):
            self._changes_contents(first)

    def _truth(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        if type(operands[0]) is not bool:
            self._length(operands[0])

    def _imports(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        level, names = operands
        name = code.co_names[argument]
        self._entry(vars(builtins), "__import__", builtins.__import__)
        if level:
            self._unwatched("it imports by a relative name")
        elif name in sys.modules:
            self._imported.append(name)
            if "." in name and not names:
                self._imported.append(name.partition(".")[0])
        else:
            self._unwatched(f"it imports {name} for the first time")

    def _matches(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        subject, kind, names = operands
        positional = getattr(kind, "__match_args__", ()) if isinstance(kind, type) else ()
        self._attribute(kind, "__match_args__")
        for name in (*positional[:argument], *names):
            self._attribute(subject, name)

    def _enters_scope(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._known(operands[0])
        if is_framework(type(operands[0]).__module__):  # what it does is seen, but not which of its attributes say so
            self._contents(operands[0])

    def _calls(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        function, first, *rest = operands
        if not CALLABLE_FIRST:  # then what stands below it is the method, if it is one
            function, first = (first, None) if function is None else (function, first)
        self._call(function, tuple(rest) if first is None else (first, *rest))

    def _calls_named(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        self._calls(argument, code, operands[:-1])  # without the names

    def _calls_with(self, argument: int, code: types.CodeType, operands: tuple[Any, ...]) -> None:
        function, args = operands[0 if CALLABLE_FIRST else 1], operands[2]
        named = operands[3] if len(operands) > 3 else {}
        for part in (args, named):
            self._contents(part)
        given = tuple(args) if isinstance(args, (tuple, list)) else ()
        self._call(function, given + (tuple(named.values()) if isinstance(named, dict) else ()))
