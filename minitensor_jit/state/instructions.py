"""CPython's instructions: which read or write state, where their operands are, and how deep the stack is before each.

What differs between versions of CPython is here, and in csrc/bindings/jit/state/frames.h. The core looks at a frame's
stack while the interpreter has its height in a register, so that is computed: it depends on the instruction alone, and
the compiler computes it in the same way, to know `co_stacksize`.
"""

from __future__ import annotations

import array
import opcode
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["CALLABLE_FIRST", "HANDLED", "depths", "steps"]

CALLABLE_FIRST = sys.version_info >= (3, 13)
"""Whether a call has what is called below `self`, and not above it."""

# Where operands are that are not so many on top of the stack, and flags: see csrc/bindings/jit/state/observation.h.
_A_CELL, _NAMES = -1, -2
_SEEN, _MAKES, _PREFIX = 1, 2, 4

_Count = int | Callable[[int], int]
_CALL = "CALL" if sys.version_info >= (3, 12) else "PRECALL"

# The observer's method, how many operands it gets, and the instructions.
_TABLE: tuple[tuple[str, _Count, str], ...] = (
    ("_name", _NAMES, "LOAD_GLOBAL"),
    ("_local_name", _NAMES, "LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS"),
    ("_sets_global", _NAMES, "STORE_GLOBAL DELETE_GLOBAL"),
    ("_cell", _A_CELL, "LOAD_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF"),
    ("_sets_cell", _A_CELL, "STORE_DEREF DELETE_DEREF"),
    ("_loads_attribute", 1, "LOAD_ATTR LOAD_METHOD IMPORT_FROM"),
    ("_loads_super", 3, "LOAD_SUPER_ATTR"),
    ("_sets_attribute", 1, "STORE_ATTR DELETE_ATTR"),
    ("_item", 2, "BINARY_SUBSCR"),
    ("_slice", 3, "BINARY_SLICE"),
    ("_sets_item", 2, "STORE_SUBSCR DELETE_SUBSCR"),
    ("_sets_slice", 3, "STORE_SLICE"),
    ("_iterated", 1, "GET_ITER GET_YIELD_FROM_ITER LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE UNPACK_SEQUENCE "
     "UNPACK_EX"),
    ("_has", 2, "CONTAINS_OP"),
    ("_compared", 2, "COMPARE_OP MATCH_KEYS"),
    ("_formatted", 2, "FORMAT_WITH_SPEC"),
    ("_formatted", lambda argument: 1 + (argument >> 2 & 1), "FORMAT_VALUE"),
    ("_formatted", 1, "FORMAT_SIMPLE CONVERT_VALUE"),
    ("_hashed", lambda argument: argument, "BUILD_SET"),
    ("_hashed", 1, "SET_ADD"),
    ("_keys", lambda argument: 2 * argument, "BUILD_MAP"),
    ("_keys", 2, "MAP_ADD"),
    ("_named_in_class", 1, "STORE_NAME"),
    ("_binary", 2, "BINARY_OP"),
    ("_unary", 1, "UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT"),
    ("_intrinsic", 1, "CALL_INTRINSIC_1"),
    ("_is", 2, "IS_OP"),
    ("_caught", 2, "CHECK_EXC_MATCH CHECK_EG_MATCH"),
    ("_truth", 1, "UNARY_NOT TO_BOOL GET_LEN POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_FORWARD_IF_FALSE "
     "POP_JUMP_FORWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE JUMP_IF_FALSE_OR_POP "
     "JUMP_IF_TRUE_OR_POP"),
    ("_matches", 3, "MATCH_CLASS"),
    ("_calls", lambda argument: argument + 2, _CALL),
    ("_calls_named", lambda argument: argument + 3, "CALL_KW"),
    ("_calls_with", lambda argument: 3 + (argument & 1), "CALL_FUNCTION_EX"),
    ("_imports", 2, "IMPORT_NAME"),
    ("_builds_class", _NAMES, "LOAD_BUILD_CLASS"),
    ("_enters_scope", 1, "BEFORE_WITH"),
)  # fmt: skip

HANDLED: dict[int, str] = {}
"""The name of the observer's method for each instruction that it is told of."""
_COUNTS: dict[int, _Count] = {}
for _method, _count, _names in _TABLE:
    for _name in _names.split():
        if _name in opcode.opmap:
            HANDLED[opcode.opmap[_name]] = _method
            _COUNTS[opcode.opmap[_name]] = _count


def _numbers(*names: str) -> frozenset[int]:
    return frozenset(opcode.opmap[name] for name in names if name in opcode.opmap)


# After which there may be a new dict on top of the stack.
_MAKERS = _numbers(
    "BUILD_MAP", "BUILD_CONST_KEY_MAP", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "DICT_UPDATE", "DICT_MERGE"
)
_ENDS = _numbers(
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT", "INTERPRETER_EXIT",
)  # fmt: skip
_BACKWARD = frozenset(number for name, number in opcode.opmap.items() if "BACKWARD" in name)
_JUMPS = frozenset(opcode.hasjrel)
_CACHE, _EXTENDED, _GENERATOR = opcode.opmap["CACHE"], opcode.opmap["EXTENDED_ARG"], opcode.opmap["RETURN_GENERATOR"]
# How far the number of a name is shifted, for the bits below it.
_SHIFTS = {opcode.opmap["LOAD_GLOBAL"]: 1}
if sys.version_info >= (3, 12):
    _SHIFTS |= {opcode.opmap["LOAD_ATTR"]: 1, opcode.opmap["LOAD_SUPER_ATTR"]: 2}


def _instructions(code: types.CodeType) -> Iterator[tuple[int, int, int, int, int]]:
    """Of each instruction: its first code unit, its own, the next instruction's, its number and its argument."""
    text = code.co_code
    first, argument = 0, 0
    at = 0
    while at < len(text) // 2:
        number = text[2 * at]
        argument = argument << 8 | text[2 * at + 1]
        end = at + 1
        if number != _EXTENDED:
            while end < len(text) // 2 and text[2 * end] == _CACHE:
                end += 1
            yield first, at, end, number, argument
            first, argument = end, 0
        at = end


def _handlers(code: types.CodeType) -> Iterator[tuple[int, int, int, int]]:
    """Of each part of the code that an exception leaves for a handler: from where to where, the handler, its depth."""
    text = iter(code.co_exceptiontable)

    def number() -> int:
        byte = next(text)
        value = byte & 63
        while byte & 64:
            byte = next(text)
            value = value << 6 | byte & 63
        return value

    while True:
        try:
            start = number()
        except StopIteration:
            return
        length, target, depth = number(), number(), number()
        # The exception is on the stack, and before it, where the last bit says so, the instruction that raised.
        yield start, start + length, target, (depth >> 1) + 1 + (depth & 1)


def depths(code: types.CodeType) -> list[int]:
    """How much is on the stack before each code unit that an instruction begins; -1 where nothing comes by."""
    effect: Any = sys.modules["_opcode"].stack_effect
    known = {at: (end, number, argument) for _, at, end, number, argument in _instructions(code)}
    firsts = {first: at for first, at, _, _, _ in _instructions(code)}
    found = [-1] * (len(code.co_code) // 2)
    waiting = [(0, 0), *((target, depth) for _, _, target, depth in _handlers(code))]
    while waiting:
        first, depth = waiting.pop()
        while first in firsts:
            at = firsts[first]
            if found[at] >= 0:
                break
            found[first : at + 1] = [depth] * (at + 1 - first)
            end, number, argument = known[at]
            given = argument if number >= opcode.HAVE_ARGUMENT else None
            if number in _JUMPS:
                target = end - argument if number in _BACKWARD else end + argument
                waiting.append((target, depth + effect(number, given, jump=True)))
            if number in _ENDS:
                break
            # What is sent to a generator that begins is on its stack.
            depth = 1 if number == _GENERATOR else depth + effect(number, given, jump=False)
            first = end
    return found


def steps(code: types.CodeType) -> bytes:
    """Five numbers a code unit: opcode, argument, operands, depth, flags: csrc/bindings/jit/state/observation.h."""
    found = depths(code)
    table = array.array("i", [0, 0, 0, -1, 0] * len(found))
    for first, at, _, number, argument in _instructions(code):
        count = _COUNTS.get(number, 0)
        operands = count if isinstance(count, int) else count(argument)
        flags = (_SEEN if number in HANDLED else 0) | (_MAKES if number in _MAKERS else 0)
        row = (number, argument >> _SHIFTS.get(number, 0), operands, found[at], flags)
        table[5 * at : 5 * at + 5] = array.array("i", row)
        for prefix in range(first, at):
            table[5 * prefix : 5 * prefix + 5] = array.array("i", (_EXTENDED, 0, 0, found[at], _PREFIX))
    return table.tobytes()
