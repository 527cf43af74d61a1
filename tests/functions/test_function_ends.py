"""What runs where an object ends: finalizers, weak references, generators that are dropped before they are through."""

import collections
import contextlib
import functools
import weakref

import pytest

import minitensor as mt


class Noted:
    """Has an effect on a tensor where it goes."""

    def __init__(self, buffer):
        self.buffer = buffer

    def __del__(self):
        self.buffer.add_(7)

    def __iter__(self):
        return self

    def __next__(self):
        return 1


def counting(buffer):
    try:
        yield 1
        yield 2
    finally:
        buffer.add_(7)


@contextlib.contextmanager
def held(thing):
    yield thing


def first_of_a_loop(buffer):
    for number in counting(buffer):
        return number
    return None


def dropped(make, use=lambda thing: None):
    def run(buffer):
        thing = make(buffer)
        use(thing)
        del thing
        return 1

    return run


def emptied(container, take):
    def run(buffer):
        things = container([Noted(buffer)])
        take(things)
        return 1

    return run


def dies(buffer):
    thing = collections.UserList([1])
    there = weakref.ref(thing)
    before = there() is not None
    del thing
    return 1 if before and there() is None else 3


def proxied(buffer):
    thing = collections.UserList([1])
    there = weakref.proxy(thing)
    number = len(there)
    del thing
    try:
        return len(there) + 5
    except ReferenceError:
        return number


def told(buffer):
    thing = collections.UserList([1])
    weakref.finalize(thing, buffer.add_, 7)
    del thing
    return 1


def by_keywords(buffer):
    (lambda **given: len(given))(thing=Noted(buffer))
    return 1


def sent_to(buffer):
    items = counting(buffer)
    number = items.send(None)
    del items
    return number


def within(buffer):
    with held(Noted(buffer)):
        pass
    return 1


ENDS = {
    "generator": lambda buffer: next(counting(buffer)), "loop": first_of_a_loop, "send": sent_to,
    "generator variable": dropped(counting, next), "expression": dropped(lambda b: (n for n in [Noted(b)]), next),
    "object": dropped(Noted), "iterator": dropped(lambda b: iter(Noted(b)), next), "read": dropped(Noted, vars),
    "attribute": dropped(Noted, lambda n: setattr(n, "more", 1)), "compared": dropped(Noted, lambda n: n == 1),
    "partial": dropped(lambda b: functools.partial(int, Noted(b))),
    "zip": dropped(lambda b: zip([Noted(b)], [1], strict=False)),
    "map": dropped(lambda b: map(str, [Noted(b)]), next),
    "tensor": dropped(lambda b: setattr(mt.ones(1), "n", Noted(b))),
    "module": dropped(lambda b: setattr(mt.nn.Identity(), "n", Noted(b))),
    "list": emptied(list, list.clear), "deque": emptied(collections.deque, collections.deque.pop),
    "set": emptied(set, set.clear), "keys": emptied(dict.fromkeys, dict.clear), "keywords": by_keywords,
    "with": within, "weak reference": dies, "proxy": proxied, "finalize": told,
    "new": dropped(lambda b: Noted.__new__(Noted), lambda n: n.__init__(mt.ones(1))),
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["function", "jit_compile"])
@pytest.mark.parametrize("name", ENDS)
def test_what_is_dropped_goes_where_it_is_dropped(name, options):
    def run(wrap):
        buffer = mt.zeros(1)

        def step(x):
            number = ENDS[name](buffer)
            buffer.mul_(2)
            return x * number

        call = wrap(step)
        return [(call(mt.ones(1)).tolist(), buffer.tolist()) for _ in range(5)]

    assert run(lambda step: mt.function(step, **options)) == run(lambda step: step)


def test_generators_that_are_through_keep_programs():
    scale = mt.tensor([2.0])

    def parts(x):
        try:
            yield x * scale
            yield x + scale
        finally:
            x = None

    step = mt.function(lambda x: sum(parts(x)), jit_compile=True)
    for k in range(6):
        assert step(mt.tensor([float(k)])).tolist() == [3.0 * k + 2]
    assert step.hits > 0


def test_a_generator_from_before_has_the_step_recorded_at_every_call():
    items = iter(n for n in range(100))
    step = mt.function(lambda x: x * next(items))
    assert [step(mt.ones(1)).item() for _ in range(8)] == list(range(8))
    sends = (n for n in range(100))
    step = mt.function(lambda x: x * sends.send(None))
    assert [step(mt.ones(1)).item() for _ in range(8)] == list(range(8))


class Things:
    """What was there before, and has objects that have an effect where they go."""

    def __init__(self, buffer):
        self.buffer, self.list, self.nested, self.dict, self.by_name = buffer, [], [], {}, weakref.WeakValueDictionary()
        self.one = self.items = None

    def fill(self):
        self.list[:] = [Noted(self.buffer)]
        self.nested[:] = [[{"a": (Noted(self.buffer),)}]]
        self.dict["a"] = self.one = Noted(self.buffer)
        self.by_name["a"] = self.kept = collections.UserList([1])
        self.items = counting(self.buffer)
        next(self.items)


def swapped(things):
    thing = things.list[0]
    things.list[0] = None
    del thing


def looked_up(things):
    things.kept = None
    return 1 if things.by_name.get("a") is None else 3


LET_GO = {
    "pop": lambda t: t.list.pop() and None, "clear": lambda t: t.list.clear(), "nested": lambda t: t.nested.clear(),
    "del": lambda t: t.dict.pop("a") and None, "set": lambda t: t.dict.update(a=None), "swap": swapped,
    "attribute": lambda t: setattr(t, "one", None), "generator": lambda t: setattr(t, "items", None),
    "close": lambda t: t.items.close(), "weak": looked_up,
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["function", "jit_compile"])
@pytest.mark.parametrize("name", LET_GO)
def test_what_was_there_before_goes_where_it_is_let_go(name, options):
    def run(wrap):
        buffer = mt.zeros(1)
        things = Things(buffer)

        def step(x):
            number = LET_GO[name](things)
            buffer.mul_(2)
            return x * (number or 1)

        call, seen = wrap(step), []
        for _ in range(6):
            things.fill()
            seen.append((call(mt.ones(1)).tolist(), buffer.tolist()))
        return seen

    assert run(lambda step: mt.function(step, **options)) == run(lambda step: step)
