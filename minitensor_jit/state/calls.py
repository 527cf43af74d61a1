"""What calls of functions that are not in Python do with Python's state.

Those that are known here read their arguments, and nothing else. Of all others nothing is known.
"""

from __future__ import annotations

import array
import builtins
import collections
import datetime
import decimal
import fractions
import functools
import operator
import re
import types
from typing import Any

from minitensor import _C

__all__ = [
    "BINDING_ONLY",
    "CONTAINERS",
    "IMMUTABLE",
    "MUTATORS",
    "PURE_TYPES",
    "changes_first",
    "is_framework",
    "is_numpy",
    "is_pure",
]

IMMUTABLE = frozenset(
    {
        int, float, bool, str, bytes, complex, type(None), type(Ellipsis), type(NotImplemented), range, slice,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction,
        re.Pattern, re.Match, types.CodeType, operator.attrgetter, operator.itemgetter, operator.methodcaller,
    }
)  # fmt: skip
CONTAINERS = (list, dict, set, collections.deque, bytearray, array.array)
"""What has contents that change."""

MUTATORS = frozenset(
    {
        "append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse", "update", "add",
        "discard", "setdefault", "difference_update", "intersection_update", "symmetric_difference_update",
        "appendleft", "popleft", "extendleft", "rotate", "move_to_end", "frombytes", "fromlist", "fromfile",
        "__setitem__", "__delitem__", "__setattr__", "__delattr__", "__iadd__", "__ior__", "__iand__", "__isub__",
        "__ixor__", "__imul__", "__setstate__", "__set__", "__delete__", "subtract",
        "fill", "put", "resize", "itemset", "partition", "setflags", "setfield",
    }
)  # fmt: skip
"""Methods that change the container that they belong to."""

PURE_TYPES = frozenset(
    {
        int, float, bool, str, bytes, bytearray, complex, range, slice, object, type, super, property, staticmethod,
        classmethod, memoryview, tuple, list, dict, set, frozenset, enumerate, zip, map, filter, reversed,
        collections.deque, collections.OrderedDict, collections.defaultdict, array.array, functools.partial,
        operator.attrgetter, operator.itemgetter, operator.methodcaller, types.SimpleNamespace, types.MethodType,
        types.MappingProxyType, types.GenericAlias, datetime.date, datetime.datetime, datetime.time,
        datetime.timedelta, decimal.Decimal, fractions.Fraction,
    }
)  # fmt: skip
"""Types that may be called: the result depends on the arguments alone."""

_PURE_BUILTINS = frozenset(
    getattr(builtins, name)
    for name in (
        "abs", "all", "any", "ascii", "bin", "callable", "chr", "divmod", "format", "hex", "isinstance", "issubclass",
        "iter", "len", "max", "min", "oct", "ord", "pow", "print", "repr", "round", "sorted", "sum", "__build_class__",
    )
)  # fmt: skip
BINDING_ONLY = frozenset({isinstance, issubclass, callable, print})
"""Of their arguments they read no contents; what is printed is none of the function's results."""

_PURE_MODULES = frozenset(
    {
        "math", "cmath", "_operator", "operator", "_bisect", "_struct", "_statistics", "_functools", "itertools",
        "_string", "unicodedata", "zlib", "binascii", "_typing", "_sre", "_warnings", "_collections", "_json",
    }
)  # fmt: skip
_CHANGES_FIRST = frozenset(
    {
        "setitem", "delitem", "heappush", "heappop", "heapify", "copyto", "place", "putmask", "insort", "insort_left",
        "insort_right", "_count_elements",
    }
)  # fmt: skip


def is_pure(function: Any) -> bool:
    """Whether a builtin function of a module depends on its arguments alone, and does nothing else."""
    if isinstance(function.__self__, types.ModuleType) or function.__self__ is None:
        try:
            if function in _PURE_BUILTINS:
                return True
        except TypeError:
            return False
        return function.__module__ in _PURE_MODULES
    return False


def changes_first(function: Any) -> bool:
    """Whether such a function changes its first argument."""
    name: str = function.__name__
    return name in _CHANGES_FIRST or (
        function.__module__ == "_operator" and name.startswith("i") and hasattr(operator, f"__{name}__")
        and name not in ("index", "inv", "invert", "is_", "is_not", "indexOf")
    )  # fmt: skip


def is_framework(module: object) -> bool:
    """Whether a module of that name is one of ours."""
    return isinstance(module, str) and module.partition(".")[0] in ("minitensor", "minitensor_jit", _C.shown_package())


def is_numpy(thing: Any) -> bool:
    """Whether it is NumPy's, and has nothing to do with its random numbers."""
    names = (getattr(thing, "__module__", None), type(thing).__module__)
    return any(
        isinstance(name, str) and name.partition(".")[0] == "numpy" and "random" not in name for name in names
    ) and not any(isinstance(name, str) and "random" in name for name in names)
