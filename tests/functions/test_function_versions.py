"""What versions of CPython do in their own way: instructions, stacks, events and attributes' memory."""

import contextlib
import importlib.util
import io
import sys
import threading
import types

import pytest

import minitensor as mt
from minitensor_jit.state import instructions

SCALE = 2.0
LIST = [1.0, 2.0, 3.0]
TABLE = {"a": 2.0, "b": 3.0}


def codes(code):
    """All code objects below one."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from codes(inner)


@pytest.mark.parametrize("name", ["contextlib", "enum", "asyncio.streams", "dataclasses", "traceback"])
def test_depths_are_those_of_the_compiler(name):
    module = importlib.util.find_spec(name).loader.get_code(name)
    for code in codes(module):
        depths = instructions.depths(code)
        assert min((depth for depth in depths if depth != -1), default=0) >= 0
        # The compiler's bound may be a little higher: it counts what is not there any more when a call begins.
        assert 0 <= code.co_stacksize - max(depths) <= 3, code.co_qualname


def test_depths_of_a_generator_and_of_handlers():
    def generator(x):
        yield x

    def handler(x):
        try:
            return x()
        except ValueError:
            return 1

    effects = instructions.depths(generator.__code__)
    assert max(effects) == generator.__code__.co_stacksize
    assert max(instructions.depths(handler.__code__)) <= handler.__code__.co_stacksize


def recordings(function, *changes, argument=None):
    """How often Python runs for calls before and after each change; each is made twice. Results are compared."""
    runs = []

    def observed(x):
        print("runs")
        return function(x)

    compiled = mt.function(observed, jit_compile=True)
    x = mt.arange(3.0) + 1 if argument is None else argument
    with contextlib.redirect_stdout(io.StringIO()):
        compiled(x)  # a program is kept now
    for change in (lambda: None, *changes):
        change()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for _ in range(3):
                result = compiled(x)
                assert result.tolist() == function(x).tolist()
        runs.append(out.getvalue().count("runs"))
    return runs


class Base:
    factor = 2.0

    def scaled(self, x):
        return x * self.factor


class Derived(Base):
    offset = 1.0

    def scaled(self, x):
        return super().scaled(x) + self.offset

    def twice(self, x):
        return super().factor * x


def named(x, *, by=1.0, **more):
    return x * by + sum(more.values())


def setting(space, name, value):
    """What changes a dict."""
    return lambda: space.__setitem__(name, value)


@pytest.fixture(autouse=True)
def as_before():
    yield
    globals()["SCALE"] = 2.0
    LIST[:] = [1.0, 2.0, 3.0]
    TABLE.clear()
    TABLE.update(a=2.0, b=3.0)
    Base.factor, Derived.offset = 2.0, 1.0


def sliced(x):
    return x * sum(LIST[1:3]) + len(LIST[:1])


def comprehended(x):
    doubled = {k: v * SCALE for k, v in TABLE.items()}
    return x * sum(v for v in doubled.values()) + sum([i * SCALE for i in LIST])


def positive(x):
    return +x * +SCALE


def formatted(x):
    return x * len(f"{SCALE:>{len(LIST)}}{SCALE!r}")


def keywords(x):
    return named(x, by=SCALE, more=LIST[0])


def spread(x):
    return named(x, **{"by": SCALE, **TABLE})


def truth(x):
    return x * 2 if LIST and SCALE > 1 else x * 3 if not TABLE else x * 4


def assigned(x):
    local = [0.0, 0.0, 0.0]
    local[1:3] = LIST[:2]
    (first, *rest), d = local, TABLE
    match d:
        case {"a": a, **others}:
            return x * (first + sum(rest) + a + len(others))
        case _:
            return x


def in_a_class(x):
    class Inner:
        factor = SCALE
        values = [v * 2 for v in LIST]  # noqa: RUF012

    return x * Inner.factor + Inner.values[0]


def generated(x):
    def items():
        for value in LIST:
            got = yield value * SCALE
            assert got is None

    def all_items():
        yield from items()

    return x * sum(all_items())


def handled(x):
    try:
        return x * TABLE["c"]
    except KeyError:
        return x * SCALE


OBJECT = Derived()
CHANGES = {
    "super": (
        lambda x: OBJECT.scaled(x),
        lambda: setattr(Base, "factor", 5.0),
        lambda: setattr(Derived, "offset", 3.0),
    ),
    "super's attribute": (lambda x: OBJECT.twice(x), lambda: setattr(Base, "factor", 5.0)),
    "slice": (sliced, lambda: LIST.__setitem__(2, 9.0), lambda: LIST.clear()),
    "comprehension": (comprehended, setting(globals(), "SCALE", 7.0), setting(TABLE, "a", 8.0)),
    "positive": (positive, setting(globals(), "SCALE", 7.0)),
    "formatted": (formatted, setting(globals(), "SCALE", 7.25), lambda: LIST.extend([1.0] * 9)),
    "keywords": (keywords, setting(globals(), "SCALE", 7.0), lambda: LIST.__setitem__(0, 9.0)),
    "spread": (spread, setting(globals(), "SCALE", 7.0), setting(TABLE, "c", 9.0)),
    "truth": (truth, setting(globals(), "SCALE", 0.5), lambda: TABLE.clear()),
    "slices assigned": (assigned, lambda: LIST.__setitem__(0, 4.0), setting(TABLE, "c", 9.0)),
    "class": (in_a_class, setting(globals(), "SCALE", 7.0), lambda: LIST.__setitem__(0, 9.0)),
    "generator": (generated, setting(globals(), "SCALE", 7.0), lambda: LIST.append(9.0)),
    "handler": (handled, setting(globals(), "SCALE", 7.0), setting(TABLE, "c", 9.0)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_programs_are_kept_until_what_they_read_changes(name):
    function, *changes = CHANGES[name]
    assert recordings(function, *changes) == [0] + [1] * len(changes)


def test_names_whose_numbers_need_prefixes():
    lines = "\n".join(f"    x = x * GIVEN.a{i} + N{i}" for i in range(300))
    given = types.SimpleNamespace(**{f"a{i}": 1.0 for i in range(300)})
    space = {"GIVEN": given, **{f"N{i}": 0.0 for i in range(300)}}
    exec(f"def many(x):\n{lines}\n    return x", space)
    changes = (lambda: setattr(given, "a299", 2.0), lambda: space.update(N298=1.0))
    assert recordings(space["many"], *changes) == [0, 1, 1]


def test_attributes_in_an_objects_own_memory():
    """Where a dict's version says nothing of them."""

    class Many:
        pass

    thing = Many()
    thing.factor, thing.other = 1.0, 2.0

    def body(x):
        return x * thing.factor + getattr(thing, "absent", 0.0)

    compiled = mt.function(body)
    x = mt.ones(1)
    for i in range(40):
        thing.factor = float(i % 7)
        if i > 30:
            thing.absent = 1.0
        thing.other = i
        assert compiled(x).item() == i % 7 + (i > 30)
    assert vars(thing) == {"factor": 4.0, "other": 39, "absent": 1.0}
    del thing.absent
    assert compiled(x).item() == 4.0
    thing.__dict__ = {"factor": 11.0}
    assert compiled(x).item() == 11.0


def test_a_module_of_many_attributes_is_read_as_it_is():
    class Net(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mt.nn.Linear(1, 1, bias=False)
            self.factor = 1.0

        def forward(self, x):
            return self.inner(x) * self.factor

    net = Net()
    compiled = mt.function(lambda x: net(x))
    x = mt.ones(1, 1)
    with mt.no_grad():
        net.inner.weight.fill_(1.0)
        for i in range(20):
            net.factor = float(i)
            assert compiled(x).item() == i
        net.forward = lambda x: x * 100
        assert compiled(x).item() == 100
        del net.forward
        assert compiled(x).item() == 19
        net.inner = mt.nn.Identity()
        assert compiled(x).item() == 19
        net.register_forward_hook(lambda *_: mt.full((1, 1), 5.0))
        assert compiled(x).item() == 5


def test_a_debugger_sees_the_program_as_ever():
    events = []

    def trace(frame, event, argument):
        if frame.f_code.co_name == "body":
            events.append(event)
        return trace

    def body(x):
        return x * SCALE

    before = sys.gettrace()
    compiled = mt.function(body)
    sys.settrace(trace)
    try:
        assert compiled(mt.ones(1)).item() == 2
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    assert events[0] == "call"
    assert events[-1] == "return"
    globals()["SCALE"] = 3.0
    assert compiled(mt.ones(1)).item() == 3


def test_in_a_debuggers_function_nothing_is_observed():
    """It gives no events of what it runs."""
    compiled = mt.function(lambda x: x * SCALE)
    seen = []

    def trace(frame, event, argument):
        seen.append(compiled(mt.ones(1)).item())

    before = sys.gettrace()
    for scale in (2.0, 3.0, 4.0):
        globals()["SCALE"] = scale
        sys.settrace(trace)
        try:
            (lambda: None)()
        finally:
            sys.settrace(before)
        assert seen[0] == scale
        seen.clear()


def test_other_threads_run_what_is_observed():
    """Their calls of the same functions are none of the observation's."""
    go, done = threading.Event(), threading.Event()
    results = []

    def shared(x):
        return x * SCALE

    def other():
        go.wait(10)
        while not done.is_set():
            results.append(shared(3.0))

    thread = threading.Thread(target=other)
    thread.start()
    try:
        go.set()
        for scale in (2.0, 3.0, 4.0, 5.0):
            globals()["SCALE"] = scale
            assert mt.function(shared)(mt.ones(1)).item() == scale
    finally:
        done.set()
        thread.join()
    assert set(results) <= {6.0, 9.0, 12.0, 15.0}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
class TestMonitoring:
    def tools(self):
        return [sys.monitoring.get_tool(tool) for tool in range(6)]

    def test_nothing_stays(self):
        def body(x):
            return x * SCALE

        before = self.tools()
        compiled = mt.function(body)
        compiled(mt.ones(1))
        with pytest.raises(ZeroDivisionError):
            mt.function(lambda x: x * (1 / 0))(mt.ones(1))
        assert self.tools() == before
        sys.monitoring.use_tool_id(4, "test")
        try:
            assert sys.monitoring.get_events(4) == 0
            assert sys.monitoring.get_local_events(4, body.__code__) == 0
        finally:
            sys.monitoring.free_tool_id(4)

    def test_without_a_free_tool_every_call_is_recorded(self):
        taken = [tool for tool in range(6) if sys.monitoring.get_tool(tool) is None]
        for tool in taken:
            sys.monitoring.use_tool_id(tool, "test")
        try:
            compiled = mt.function(lambda x: x * SCALE)
            for scale in (2.0, 3.0, 4.0):
                globals()["SCALE"] = scale
                assert compiled(mt.ones(1)).item() == scale
        finally:
            for tool in taken:
                sys.monitoring.free_tool_id(tool)

    def test_other_tools_are_left_alone(self):
        seen = []
        events = sys.monitoring.events
        sys.monitoring.use_tool_id(4, "test")
        try:
            sys.monitoring.register_callback(4, events.PY_START, lambda code, at: seen.append(code.co_name))
            sys.monitoring.set_events(4, events.PY_START)

            def body(x):
                return x * SCALE

            compiled = mt.function(body)
            compiled(mt.ones(1))
            assert seen.count("body") == 1
            assert sys.monitoring.get_events(4) == events.PY_START
        finally:
            sys.monitoring.set_events(4, 0)
            sys.monitoring.free_tool_id(4)
