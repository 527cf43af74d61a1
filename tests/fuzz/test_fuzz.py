"""Random programs do the same, bit for bit, eager, recorded, in scopes and compiled. `scripts/fuzz` runs more."""

import pytest

import minitensor as mt
from fuzz.generator import Generator
from fuzz.programs import MODES, Step, check, execute, outcome, run_eager, shrink, text, threads

PROGRAMS = 50
EVERYWHERE = 12
# Programs do what nobody should.
pytestmark = pytest.mark.filterwarnings("ignore")


def fail_with(seed, program, mode, found):
    small = shrink(program, lambda p: check(p, mode, fresh=True) is not None)
    pytest.fail(f"seed {seed}, {mode}: {found}\n\n{text(small)}\n\n{check(small, mode, fresh=True)}")


@pytest.mark.parametrize(
    "seeds", [range(EVERYWHERE), pytest.param(range(EVERYWHERE, PROGRAMS), marks=pytest.mark.exhaustive)], ids=str
)
@pytest.mark.parametrize("mode", [*MODES, "compiled"])
def test_programs(mode, seeds):
    for seed in seeds:
        program = Generator(seed, 24, pure=mode == "compiled").make()
        if (found := check(program, mode, 1 + seed % 2)) is not None:
            fail_with(seed, program, mode, found)


def test_large_programs():
    for seed in range(6):
        program = Generator(1000 + seed, 20, large=True).make()
        if (found := check(program, "recorded", 1 + seed % 2)) is not None:
            fail_with(seed, program, "recorded", found)


def test_long_programs():
    for seed in range(4):
        program = Generator(2000 + seed, 60).make()
        if (found := check(program, "recorded", 1 + seed % 2)) is not None:
            fail_with(seed, program, "recorded", found)


def test_runs_repeated_op_by_op():
    modes = list(MODES)
    with mt.jit.verify() as verified:
        for seed in range(20):
            program, mode = Generator(4000 + seed, 20).make(), modes[seed % len(modes)]
            if (found := check(program, mode)) is not None:
                fail_with(seed, program, mode, found)
    assert verified.checked > 20


def test_threads():
    for seed in range(20):
        program = Generator(3000 + seed, 20, large=True).make()
        with threads(1):
            one = run_eager(program)
        with threads(2):
            two = run_eager(program)
        from fuzz.programs import difference

        assert difference(one, two) is None, text(program)


def test_a_program_is_what_its_seed_says():
    assert Generator(5, 24).make() == Generator(5, 24).make()


def test_shrinking():
    program = Generator(7, 24).make()
    wanted = program[10].kind
    small = shrink(program, lambda p: any(s.kind == wanted for s in p))
    assert [s.kind for s in small] == [wanted]


def test_steps_without_inputs_do_nothing():
    assert outcome(execute([Step("unary", 1, (0,), ("exp",))]))[0].keys() == {"generator"}


FOUND = {
    "a failure's flag lies over a parameter": [
        Step("tensor", 1, (), (816900032, (3, 3), "bool", False, False)),
        Step("unary", 5, (1,), ("sign",)),
        Step("method", 9, (5,), ("prod", None, True)),
        Step("index_tensor", 13, (), (985331832, (3,), -3, 3, "int64")),
        Step("setitem_tensor", 14, (1, 13), (0,)),
        Step("binary_number", 40, (9,), ("remainder", 7, False)),
    ],
    "the sum of a single -0": [
        Step("tensor", 0, (), (1071842095, (1,), "float32", False, True)),
        Step("unary", 15, (0,), ("floor",)),
        Step("method", 48, (15,), ("log_softmax", -1)),
        Step("second_order", 52, (48, 0)),
        Step("create", 53, (), ("full", ((2, 1), -0.0), "float32")),
        Step("method", 54, (53,), ("nansum", [1], False)),
    ],
    "complex numbers without a loop": [
        Step("tensor", 1, (), (5, (3,), "complex64", False, False)),
        Step("sample", 2, (1,), ("celu", 2, "complex64", "normal", 5, (0,))),
        Step("unary", 3, (1,), ("exp",)),
    ],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name, mode):
    assert check(FOUND[name], mode, fresh=True) is None
