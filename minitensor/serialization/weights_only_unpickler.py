"""A pickle machine that can't run code.

Python's own unpickler calls whatever a pickle names and sets attributes on it; restricting the names leaves the second
hole open. This one knows the opcodes that plain data and tensors need, calls nothing but the functions that it was
given, and sets no attribute except on instances of classes that the user has allowed. Opcodes: PEPs 307, 3154 and 574
and the standard library's `pickletools`.
"""

from __future__ import annotations

import pickletools
import struct
from collections import OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

__all__ = ["Allowed", "Unfinished", "unpickle"]

_MARK = object()
# Enough for any checkpoint; it stops a pickle that pushes for ever through a memo of huge strings.
_MAXIMUM_PROTOCOL = 5


class Allowed:
    """A callable that a pickle may call: a function of the format, or a class that the user has allowed."""

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        is_class: bool = False,
        rebuilds: bool = False,
        is_value: bool = False,
    ) -> None:
        """`is_class`: the pickle may make instances of it by NEWOBJ and set their state.

        `rebuilds`: it makes tensors, and may be an argument of a call. `is_value`: it may be part of the object, as
        the activation of a module is.
        """
        self.name, self.call, self.is_class, self.rebuilds, self.is_value = name, call, is_class, rebuilds, is_value

    def __call__(self, *arguments: Any) -> Any:
        """Call it, for an unpickler that calls what it finds."""
        return self.call(*arguments)


class _Arguments:
    """A tuple with a function in it, which may be the arguments of a call and nothing else."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items


class Unfinished:
    """An object whose state comes after it; the machine puts `finished()` in its place when it's used."""

    def set_state(self, state: Any) -> None:
        """Take the state."""
        raise NotImplementedError

    def finished(self) -> Any:
        """The object."""
        raise NotImplementedError


def unpickle(data: bytes, find: Callable[[str, str], Any], persistent_load: Callable[[Any], Any]) -> Any:
    """The object in a pickle.

    `find(module, name)` gives a value, or an `Allowed` that may be called, or raises UnpicklingError;
    `persistent_load(id)` gives what a persistent id stands for. UnpicklingError where the pickle is broken or asks for
    anything else.
    """
    machine = _Machine(data, find, persistent_load)
    try:
        return machine.run()
    except UnpicklingError as error:
        raise UnpicklingError(f"{error} (at byte {machine.start} of the pickle)") from None
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, struct.error, OverflowError) as error:
        raise UnpicklingError(f"the pickle is broken at byte {machine.start}: {error}") from error


class _Machine:
    def __init__(self, data: bytes, find: Callable[[str, str], Any], persistent_load: Callable[[Any], Any]) -> None:
        self.data, self.find, self.persistent_load = data, find, persistent_load
        self.position = self.start = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            self.start = self.position
            code = self.read(1)[0]
            if code == 0x2E:  # STOP
                value = self.value(self.pop())
                if self.stack:
                    raise UnpicklingError(f"{len(self.stack)} more objects are left at the end")
                return value
            step = _STEPS.get(code)
            if step is None:
                known = pickletools.code2op.get(chr(code))  # type: ignore[attr-defined]
                name = known.name if known else f"0x{code:02x}"
                raise UnpicklingError(f"the operation {name} is not one that data and tensors need; it is refused")
            step(self)

    # ---- reading

    def read(self, count: int) -> bytes:
        chunk = self.data[self.position : self.position + count]
        if len(chunk) < count:
            raise UnpicklingError("the pickle ends too early")
        self.position += count
        return chunk

    def unpack(self, form: str) -> int:
        (number,) = struct.unpack(form, self.read(struct.calcsize(form)))
        return int(number)

    def line(self) -> str:
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise UnpicklingError("the pickle ends too early")
        text = self.data[self.position : end]
        self.position = end + 1
        return text.decode("utf-8")

    # ---- the stack

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise UnpicklingError("unexpected mark")
        return value

    def value(self, thing: Any) -> Any:
        """What may become part of the result: data, and never a function."""
        if isinstance(thing, Allowed):
            if thing.is_class or thing.is_value:
                return thing.call
            raise UnpicklingError(f"the function {thing.name} stands where data should")
        if isinstance(thing, _Arguments):
            raise UnpicklingError("a tuple with a function in it stands where data should")
        return thing.finished() if isinstance(thing, Unfinished) else thing

    def to_mark(self) -> list[Any]:
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                values = self.stack[place + 1 :]
                del self.stack[place:]
                return values
        raise UnpicklingError("a mark is missing")

    def values_to_mark(self) -> list[Any]:
        return [self.value(v) for v in self.to_mark()]

    # ---- what opcodes do

    def protocol(self) -> None:
        number = self.read(1)[0]
        if number > _MAXIMUM_PROTOCOL:
            raise UnpicklingError(f"pickle protocol {number} is newer than {_MAXIMUM_PROTOCOL}")

    def tuple_of(self, items: list[Any]) -> None:
        functions = [isinstance(item, Allowed) and item.rebuilds for item in items]
        values = [item if function else self.value(item) for item, function in zip(items, functions, strict=True)]
        self.push(_Arguments(values) if any(functions) else tuple(values))

    def short_tuple(self, count: int) -> None:
        self.tuple_of([self.pop() for _ in range(count)][::-1])

    def set_items(self, pairs: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict) and not isinstance(target, dict):
            raise UnpicklingError(f"items are set on a {type(target).__name__}")
        if len(pairs) % 2:
            raise UnpicklingError("a key without a value")
        for key, item in zip(pairs[::2], pairs[1::2], strict=True):
            dict.__setitem__(target, key, item) if type(target) is dict else target.__setitem__(key, item)

    def set_item(self) -> None:
        item, key = self.value(self.pop()), self.value(self.pop())
        self.set_items([key, item])

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise UnpicklingError(f"elements are appended to a {type(target).__name__}")
        target.extend(items)

    def add_items(self) -> None:
        items = self.values_to_mark()
        if type(self.stack[-1]) is not set:
            raise UnpicklingError(f"elements are added to a {type(self.stack[-1]).__name__}")
        self.stack[-1].update(items)

    def get(self, place: int) -> None:
        if place not in self.memo:
            raise UnpicklingError(f"memo {place} was never put")
        self.push(self.memo[place])

    def put(self, place: int) -> None:
        if self.stack[-1] is _MARK:
            raise UnpicklingError("unexpected mark")
        self.memo[place] = self.stack[-1]

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise UnpicklingError("a global's name must be text")
        self.push(self.find(module, name))

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Allowed):
            raise UnpicklingError(f"a {type(function).__name__} is called")
        if isinstance(arguments, _Arguments):
            arguments = tuple(arguments.items)
        if not isinstance(arguments, tuple):
            raise UnpicklingError("arguments must be a tuple")
        self.push(function.call(*arguments))

    def new_object(self) -> None:
        arguments, cls = self.pop(), self.pop()
        if not isinstance(cls, Allowed) or not cls.is_class or not isinstance(arguments, tuple):
            raise UnpicklingError("an instance is made of what is not an allowed class")
        self.push(cls.call.__new__(cls.call, *arguments))  # type: ignore[call-overload, arg-type]

    def build(self) -> None:
        state, target = self.value(self.pop()), self.stack[-1]
        if isinstance(target, Unfinished):
            target.set_state(state)
            return
        if type(target) is OrderedDict:
            # The attributes of a state_dict, such as _metadata.
            if not isinstance(state, dict) or not all(isinstance(k, str) for k in state):
                raise UnpicklingError("the state of an OrderedDict must be a dict")
            target.__dict__.update(state)
            return
        if not self.is_allowed_instance(target):
            raise UnpicklingError(f"the state of a {type(target).__name__} is set")
        if hasattr(type(target), "__setstate__"):
            target.__setstate__(state)
        elif isinstance(state, dict):
            target.__dict__.update(state)
        else:
            raise UnpicklingError("the state of an object must be a dict")

    def is_allowed_instance(self, target: Any) -> bool:
        from minitensor.serialization.safe_globals import lookup

        cls = type(target)
        return lookup(f"{cls.__module__}.{cls.__qualname__}") is cls

    def text(self, count: int) -> None:
        self.push(self.read(count).decode("utf-8", "surrogatepass"))

    def long(self, count: int) -> None:
        self.push(int.from_bytes(self.read(count), "little", signed=True))

    def binary_string(self, count: int) -> None:
        self.push(self.read(count).decode("latin-1"))


def _push(value: Any) -> Callable[[_Machine], None]:
    return lambda m: m.push(value)


_STEPS: dict[int, Callable[[_Machine], Any]] = {
    ord(code): step
    for code, step in {
        "\x80": _Machine.protocol,
        "\x95": lambda m: m.read(8),  # FRAME
        "(": _push(_MARK),
        "0": lambda m: m.stack.pop(),
        "1": _Machine.to_mark,  # POP_MARK
        "N": _push(None),
        "\x88": _push(True),
        "\x89": _push(False),
        "J": lambda m: m.push(m.unpack("<i")),
        "K": lambda m: m.push(m.unpack("<B")),
        "M": lambda m: m.push(m.unpack("<H")),
        "\x8a": lambda m: m.long(m.unpack("<B")),
        "\x8b": lambda m: m.long(m.unpack("<I")),
        "G": lambda m: m.push(struct.unpack(">d", m.read(8))[0]),
        "X": lambda m: m.text(m.unpack("<I")),
        "\x8c": lambda m: m.text(m.unpack("<B")),
        "\x8d": lambda m: m.text(m.unpack("<Q")),
        "B": lambda m: m.push(m.read(m.unpack("<I"))),
        "C": lambda m: m.push(m.read(m.unpack("<B"))),
        "\x8e": lambda m: m.push(m.read(m.unpack("<Q"))),
        "\x96": lambda m: m.push(bytearray(m.read(m.unpack("<Q")))),
        "T": lambda m: m.binary_string(m.unpack("<I")),
        "U": lambda m: m.binary_string(m.unpack("<B")),
        "]": lambda m: m.push([]),
        "}": lambda m: m.push({}),
        ")": _push(()),
        "\x8f": lambda m: m.push(set()),
        "a": lambda m: m.append([m.value(m.pop())]),
        "e": lambda m: m.append(m.values_to_mark()),
        "t": lambda m: m.tuple_of(m.to_mark()),
        "l": lambda m: m.push(m.values_to_mark()),
        "d": lambda m: (lambda pairs: (m.push({}), m.set_items(pairs)))(m.values_to_mark()),
        "\x85": lambda m: m.short_tuple(1),
        "\x86": lambda m: m.short_tuple(2),
        "\x87": lambda m: m.short_tuple(3),
        "s": _Machine.set_item,
        "u": lambda m: m.set_items(m.values_to_mark()),
        "\x90": _Machine.add_items,
        "\x91": lambda m: m.push(frozenset(m.values_to_mark())),
        "h": lambda m: m.get(m.unpack("<B")),
        "j": lambda m: m.get(m.unpack("<I")),
        "q": lambda m: m.put(m.unpack("<B")),
        "r": lambda m: m.put(m.unpack("<I")),
        "\x94": lambda m: m.put(len(m.memo)),
        "c": lambda m: m.push(m.find(m.line(), m.line())),
        "\x93": _Machine.stack_global,
        "R": _Machine.reduce,
        "\x81": _Machine.new_object,
        "b": _Machine.build,
        "Q": lambda m: m.push(m.persistent_load(m.value(m.pop()))),
    }.items()
}
