"""Sizes that are symbols: arithmetic that holds for every size, and guards for what doesn't."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.size import (
    LEAST,
    NotSymbolic,
    Size,
    SizeContext,
    active,
    hint,
    is_one,
    judging_speed,
    value_of,
)

SMALL = st.integers(1, 40)


def symbol(at=48):
    return SizeContext((at,)).symbol()


def test_polynomials_are_in_one_form():
    n = symbol()
    assert n * 2 == n + n
    assert hash(n * 2 + 1) == hash(1 + n + n)
    assert (n * 64) // 64 == n
    assert (n * 64) // n == 64
    assert (n * 64) % 64 == 0
    assert n - n == 0
    assert isinstance(n - n + 3, int)
    assert (n * n * 3) // n == n * 3
    assert 1 // n == 0
    assert 1 % n == 1
    assert n % (n * n) == n
    m = n - 40  # not plainly positive: that is a guard, and the rest a number
    assert (0 // m, 0 % m) == (0, 0)
    assert list(n.context.guards) == [(m, True)]
    assert n + 2.0 == n + 2
    assert str(n * 3 + 1) == "(3*s+1)"


def test_what_a_divisor_divides_is_taken_out():
    context = SizeContext((48, 7))
    s, t = context.symbol(0), context.symbol(1)
    assert (s * 64 + 3) // 64 == s
    assert (s * 64 + 3) % 64 == 3
    assert (s * -48 + 8) % 48 == 8
    assert (s * -48 + 8) // 48 == -s
    assert (8 - s * 16) % (s * 8) == 8
    assert (8 - s * 16) // (s * 8) == -2
    assert (s * t * 5 + s * 3 + 1) % s == 1
    assert (s * t * 5 + s * 3 + 1) // s == t * 5 + 3
    assert str((s * 64 + t) // 64) == "(div(s1,64)+s)"
    assert not context.guards


@given(st.integers(-200, 200), SMALL, st.integers(LEAST, 90), st.integers(LEAST, 90))
def test_negative_numbers_are_divided_as_numbers_are(number, factor, at, hint):
    n = SizeContext((hint,)).symbol()
    assert value_of(number // (n * factor), (at,)) == number // (at * factor)
    assert value_of(number % (n * factor), (at,)) == number % (at * factor)
    quotient, rest = (number - n * factor) // 7, (number - n * factor) % 7
    if n.context.holds((at,)):
        assert value_of(quotient, (at,)) == (number - at * factor) // 7
        assert value_of(rest, (at,)) == (number - at * factor) % 7


def test_symbols_are_apart():
    context = SizeContext((48, 7))
    s, t = context.symbol(0), context.symbol(1)
    assert s != t
    assert str(s * t + t) == "(s*s1+s1)"
    assert value_of(s * t + t * 2 + 1, (5, 11)) == 5 * 11 + 22 + 1
    assert (s * t) // t == s
    assert (s * t) % s == 0
    assert s * t > s
    assert not context.guards
    assert s > t  # decided for the sizes at hand
    assert context.holds((9, 8))
    assert not context.holds((8, 8))
    assert not context.holds((9, 1))


def test_equality_is_for_all_sizes():
    n = symbol(48)
    assert n != 48
    assert (n, 3) == (n, 3)
    assert (n, 3) != (48, 3)
    assert Shape("f32", (n, 3)) == Shape("f32", (n, 3))
    assert not n.context.guards


def test_inequalities_that_always_hold_need_no_guard():
    n = symbol()
    assert n > 1
    assert n >= LEAST
    assert not n <= 1
    assert n * 64 - 1 >= 64
    assert max(n, 2) is n
    assert abs(n) == n
    assert not n.context.guards


@given(SMALL, SMALL)
def test_others_are_decided_at_the_hint_and_guarded(size, bound):
    context = SizeContext((size + LEAST,))
    answer = context.symbol() * 3 > bound
    assert answer is (3 * (size + LEAST) > bound)
    for other in range(LEAST, 60):
        if context.holds((other,)):
            assert (3 * other > bound) is answer


@given(st.data())
def test_arithmetic_is_that_of_numbers(data):
    """Random expressions: the value of the polynomial is the number that ints would have given."""
    n = symbol()
    at = data.draw(st.integers(LEAST, 1000))
    general, special = n, at
    for _ in range(data.draw(st.integers(1, 6))):
        k = data.draw(SMALL)
        operation = data.draw(st.sampled_from(["+", "*", "//", "%", "ceil", "- +"]))
        if isinstance(general, int):
            break
        if operation == "+":
            general, special = general + k, special + k
        elif operation == "*":
            general, special = general * k, special * k
        elif operation == "//":
            general, special = general // k, special // k
        elif operation == "%":
            general, special = general % k, special % k
        elif operation == "ceil":
            general, special = -(-general // k), -(-special // k)
        else:
            general, special = general * k - n + n * n, special * k - at + at * at
    assert value_of(general, (at,)) == special


@pytest.mark.parametrize("use", [int, float, range, lambda n: [0] * n, lambda n: [1, 2][n], bytes])
def test_numbers_are_refused(use):
    with pytest.raises((NotSymbolic, TypeError)):
        use(symbol())


def test_hints_are_for_speed():
    n = symbol(10)
    assert hint(n * 3 + 1) == 31
    assert hint(7) == 7
    assert not n.context.guards
    assert isinstance(n, Size)


def test_zero_and_one_are_never_the_symbol():
    context = SizeContext((5,))
    assert not context.holds((0,))
    assert not context.holds((1,))
    assert context.holds((2,))


def test_what_may_be_one_by_chance_is_guarded():
    n = symbol(48)
    assert not is_one(n)
    assert not is_one(n * 2)
    assert not n.context.guards  # never
    assert is_one(1)
    assert not is_one(0)
    assert not is_one(n - 1)
    assert n.context.holds((3,))
    assert not n.context.holds((2,))


def test_what_is_one_now_is_code_for_that():
    n = symbol(2)
    token = active.set(n.context)
    try:
        with judging_speed():
            assert is_one(n - 1)
    finally:
        active.reset(token)
    assert n.context.holds((2,))
    assert not n.context.holds((3,))
    n = symbol(2)
    assert not is_one(n - 2)
    assert not n.context.holds((3,))
