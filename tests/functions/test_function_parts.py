"""mt.function: what it reads of parts of parts: attributes by templates of texts, containers in containers."""

import dataclasses
import types

import pytest

import minitensor as mt
from minitensor.utils import _pytree as pytree

pytestmark = pytest.mark.at_once(reason="it compiles by itself")


class Thing:
    kept = 1

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    @property
    def asked(self):
        return self.kept


class Slots:
    __slots__ = ("b",)

    def __init__(self, b):
        self.b = b


class Module(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.b = 1


@dataclasses.dataclass
class Data:
    b: object


@dataclasses.dataclass(slots=True)
class Slim:
    b: object


for kind in (Data, Slim):
    pytree.register_dataclass(kind)


class Shift(mt.distributions.AffineTransform):
    pass


def function_with(b):
    def made():
        pass

    made.b = b
    return made


def nested(thing, depth):
    for _ in range(depth):
        thing = [thing]
    return thing


def innermost(thing, depth):
    for _ in range(depth):
        thing = thing[0]
    return thing


def sees(state, change, read, program=True):
    """Whether a compiled function reads what `change` has made of its state; and whether it has a program."""
    function = mt.function(lambda x: x * read(state), jit_compile=True)
    x = mt.ones(1)
    for _ in range(3):
        assert function(x).item() == read(state) == 1
    assert (function.hits > 0) is program
    change(state)
    for _ in range(3):
        assert function(x).item() == read(state) == 2
    return True


def sets(name="b"):
    return lambda thing: setattr(thing, name, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Thing(b=1),
        lambda: Slots(1),
        lambda: Module(),
        lambda: function_with(1),
        lambda: type("Kind", (), {"b": 1}),
        lambda: types.SimpleNamespace(b=1),
        lambda: types.ModuleType("made"),
    ],
    ids=["object", "slots", "module", "function", "class", "namespace", "python module"],
)
@pytest.mark.parametrize("template", ["{0.b}", "{.b}", "{thing.b}"])
def test_attributes_that_templates_read(make, template):
    state = make()
    state.b = 1

    assert sees(state, sets(), lambda thing: float(template.format(thing, thing=thing)))
    # In what says how another argument is shown.
    state.b = 1
    within = f"{{:{template}}}" if "{." in template else f"{{0:{template.replace('0', '1')}}}"
    assert sees(state, sets(), lambda thing: len(within.format(0, thing, thing=thing)))


def test_attributes_of_classes_and_properties_that_templates_read():
    kept, asked, of_map = "{0.kept}", "{0.asked}", "{k.b}"
    kind = type("Kind", (Thing,), {})
    assert sees(kind(), lambda _: sets("kept")(kind), lambda thing: float(kept.format(thing)))
    assert sees(Thing(), sets("kept"), lambda thing: float(asked.format(thing)))
    assert sees({"k": Thing(b=1)}, lambda d: sets()(d["k"]), lambda d: float(of_map.format_map(d)), program=False)


@pytest.mark.parametrize(
    ("state", "part", "template"),
    [
        (lambda: Thing(a=Thing(b=1)), lambda s: s.a, "{0.a.b}"),
        (lambda: Thing(a=[Thing(b=1)]), lambda s: s.a[0], "{0.a[0].b}"),
        (lambda: [Thing(b=1)], lambda s: s[0], "{0[0].b}"),
        (lambda: nested(Thing(b=1), 5), lambda s: innermost(s, 5), "{0[0][0][0][0][0].b}"),
        (lambda: {"k": Thing(b=1)}, lambda s: s["k"], "{0[k].b}"),
    ],
    ids=["attributes", "item", "list", "lists", "dict"],
)
def test_templates_that_read_parts_of_parts_have_no_program(state, part, template):
    for read in (template.format, lambda s: template.format(s), lambda s: str.format(template, s)):
        assert sees(state(), lambda s: sets()(part(s)), lambda s, read=read: float(read(s)), program=False)


@pytest.mark.parametrize(
    "read",
    [
        lambda s: float(next(iter(map(str.format, ["{0.b}"], [s])))),
        lambda s: float(next(iter(map("{0.b}".format, [s])))),
        lambda s: float(next(iter(map(str.format_map, ["{k.b}"], [{"k": s}])))),
    ],
    ids=["str", "template", "map"],
)
def test_formatting_that_is_handed_on_has_no_program(read):
    assert sees(Thing(b=1), sets(), read, program=False)


def test_templates_without_parts_have_programs():
    state = [1]

    def change(numbers):
        numbers[0] = 2

    item, automatic, broken = "{0[0]}{1}{{", "{}{:>{}}", "}"
    assert sees(state, change, lambda numbers: float(item.format(numbers, "")[:1]))
    assert sees([1], change, lambda numbers: float(automatic.format("", numbers[0], 1)))
    with pytest.raises(ValueError, match="Single '}'"):
        mt.function(lambda x: x * float(broken.format(state)), jit_compile=True)(mt.ones(1))


@pytest.mark.parametrize("depth", [0, 1, 3, 6, 7, 8, 9, 20])
@pytest.mark.parametrize("kind", [Data, Slim])
def test_objects_in_containers_that_the_framework_reads(kind, depth):
    """They are watched down to where it says that it doesn't."""
    state = nested(kind(1.0), depth)
    assert sees(state, lambda s: sets()(innermost(s, depth)), lambda s: sum(pytree.tree_leaves(s)), program=depth < 8)


def test_data_classes_in_data_classes_that_the_framework_reads():
    for make, part in (
        (lambda: Data(Data(1.0)), lambda s: s.b),
        (lambda: Slim(Data(Slim(Slim(1.0)))), lambda s: s.b.b.b),
        (lambda: Data([{"k": Slim(1.0)}]), lambda s: s.b[0]["k"]),
    ):
        assert sees(make(), lambda s, part=part: sets()(part(s)), lambda s: sum(pytree.tree_leaves(s)))


@pytest.mark.parametrize("depth", range(1, 12))
def test_containers_are_compared_to_a_depth(depth):
    """Where they are nested more deeply, the function is recorded at each call."""
    state = nested(1, depth)

    def change(state):
        innermost(state, depth - 1)[0] = 2

    assert sees(state, change, lambda s: float(str(s).strip("[]")), program=depth <= 9)


def test_objects_of_classes_that_are_derived_of_the_frameworks(monkeypatch):
    """Its methods read them, which are not seen to run."""
    monkeypatch.setattr(mt.distributions.Distribution, "_validate_args", False)
    normal = mt.distributions.Normal(mt.zeros(1), mt.ones(1))
    made = mt.distributions.TransformedDistribution(normal, [Shift(0.0, 1.0)])
    function = mt.function(lambda x: made.log_prob(x), jit_compile=True)
    x = mt.ones(1)
    before = [function(x).item() for _ in range(3)]
    assert before == [made.log_prob(x).item()] * 3
    made.transforms[0].loc = 3.0
    after = function(x).item()
    assert after == made.log_prob(x).item() != before[0]
    made.transforms[0].itself = made.transforms[0]  # what is part of itself ends
    assert [function(x).item() for _ in range(3)] == [after] * 3


@pytest.mark.parametrize("depth", [1, 18, 19, 20, 21, 50])
def test_containers_of_results_at_any_depth(depth):
    kept = [1]
    outside = mt.function(lambda x: (nested(kept, depth), x + 1), jit_compile=True)
    made = mt.function(lambda x: nested([x + 1], depth), jit_compile=True)
    x = mt.ones(2)
    for _ in range(3):
        assert innermost(outside(x)[0], depth) is kept
    first, second = made(x), made(x)
    assert innermost(first, depth) is not innermost(second, depth)
    assert innermost(second, depth)[0].tolist() == [2, 2]
    assert made.hits > 0


def test_containers_that_are_in_themselves():
    """As results and as arguments they have no program, and are what they are eagerly."""

    def circle(x):
        made = [x + 1]
        made.append(made)
        return made

    function = mt.function(circle, jit_compile=True)
    for _ in range(3):
        result = function(mt.ones(2))
        assert result[1] is result
        assert result[0].tolist() == [2, 2]
    function = mt.function(lambda x, made: (x * len(made), made), jit_compile=True)
    for _ in range(3):
        twice, given = function(mt.ones(2), result)
        assert twice.tolist() == [2, 2]
        assert given is result
    assert function.hits == 0
