"""Launches compared with their ops one by one: nothing differs, unless a kernel is wrong."""

import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from processes import run
from recording import recorded

import minitensor as mt
from minitensor_jit.codegen.emitter import elementwise
from minitensor_jit.codegen.emitter.types import constant_like
from minitensor_jit.errors import MismatchError
from minitensor_jit.inspect.numerics.verify import Verifier, counts, difference


@pytest.fixture
def wrong_addition(monkeypatch):
    """Code for the sum of two float32 that is wrong in the last bits."""
    right = elementwise.ELEMENTWISE["add"]

    def wrong(b, i, x):
        return b.fmul(right(b, i, x), constant_like(x[0], 1.0000001)) if i.dtype == "f32" else right(b, i, x)

    monkeypatch.setitem(elementwise.ELEMENTWISE, "add", wrong)
    mt.jit.cache_clear()
    yield
    mt.jit.cache_clear()


def chain(x, y):
    a = x * 2.5
    b = a.tanh()
    c = b + y  # the wrong one
    d = c * y
    return d.exp().sum(), b


def arguments():
    mt.manual_seed(0)
    return mt.randn(17, 5), mt.randn(17, 5).t().contiguous().t()


def test_nothing_differs():
    want = chain(*arguments())
    with mt.jit.verify(1.0) as verified:
        fn = mt.function(chain, jit_compile=True)
        for _ in range(3):
            got = fn(*arguments())
    assert verified.checked == 3
    assert repr(verified) == "<minitensor.jit.verify: 3 runs of clusters checked>"
    assert [g.tolist() for g in got] == [w.tolist() for w in want]


def test_the_first_wrong_op_is_named_with_its_line(wrong_addition):
    fn = mt.function(chain, jit_compile=True)
    with mt.jit.verify(), pytest.raises(MismatchError, match="gave other results than its ops one by one") as info:
        fn(*arguments())
    lines = Path(__file__).read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.endswith("# the wrong one"))
    assert (info.value.op, info.value.source.file, info.value.source.line) == ("add", __file__, line)
    assert "the first op that differs is add: [" in str(info.value)
    assert "elements differ)" in str(info.value)
    assert "MT_JIT_FLAGS=--dump_to=DIR" in info.value.__notes__[0]
    assert str(pickle.loads(pickle.dumps(info.value))) == str(info.value)
    # Without looking, nobody notices.
    fn(*arguments())


def test_with_dumps_the_report_names_their_files(wrong_addition, tmp_path):
    with mt.jit.options(dump_to=str(tmp_path)), mt.jit.verify(), pytest.raises(MismatchError) as info:
        mt.function(chain, jit_compile=True)(*arguments())
    assert f"please report it, with the files {tmp_path}/module_0000.*" in info.value.__notes__[0]
    (failure,) = tmp_path.glob("module_0000.*.failure.txt")
    assert "the first op that differs is add" in failure.read_text()
    assert list(tmp_path.glob("module_0000.*.inputs.npz"))


def test_what_is_wrong_only_among_others_is_said_so(wrong_addition, monkeypatch, caplog):
    monkeypatch.setattr(Verifier, "_compare", lambda *_: None)
    fn = mt.function(chain, jit_compile=True)
    with mt.jit.options(vmodule="verify=1"), mt.jit.verify(), pytest.raises(MismatchError) as info:
        fn(*arguments())
    assert "; sum differs, and no op before it when it is compiled with fewer others: it is " in str(info.value)
    assert [r.getMessage() for r in caplog.records if r.name == "minitensor_jit.verify"] == [info.value.message]


def test_fractions_take_the_first_call_and_then_one_in_so_many():
    fn = mt.function(lambda x: (x + 1).exp() * 3, jit_compile=True)
    for fraction, calls, checked in [(0.25, 9, 3), (0.5, 4, 2), (0, 5, 0), (0.1, 20, 2)]:
        with mt.jit.verify(fraction) as verified:
            mt.jit.cache_clear()
            fresh = mt.function(lambda x: (x + 1).exp() * 3, jit_compile=True)
            for _ in range(calls):
                fresh(mt.ones(3))
        assert verified.checked == checked, fraction
    with mt.jit.verify(1) as verified:
        for size in (2, 3, 4):
            fn(mt.ones(size))
    assert verified.checked == 3
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        mt.jit.verify(1.5)


def test_it_stays_in_force_without_a_with_block():
    program = """
import minitensor as mt
on = mt.jit.verify(1)
fn = mt.function(lambda x: x * 2 + 1, jit_compile=True)
fn(mt.ones(2))
print(on.checked)
mt.jit.verify(0)
fn(mt.ones(2))
print(on.checked)
"""
    assert run(program).stdout.split() == ["1", "1"]


def test_it_is_a_flag():
    program = """
import minitensor as mt
from minitensor_jit.codegen.emitter import elementwise
{}
print(((mt.tensor([1.0] * 3) * 3 + 1.5).exp() - 4).tolist())
"""
    flags = "--auto_jit=2 --cpu_global_jit --verify=0.5"
    assert run(program.format(""), flags).stderr == ""
    wrong = "elementwise.ELEMENTWISE['multiply'] = elementwise.ELEMENTWISE['add']"
    said = run(program.format(wrong), flags, status=1).stderr
    assert "the first op that differs is mul: [0] is 4.0, and 3.0 eagerly (3 of 3 elements differ)" in said
    assert 'mul (File "<string>", line 5)' in said


def test_in_place_writes_views_and_random_numbers():
    def step(state, base):
        state.mul_(0.5).add_(base[:, ::2])
        base[1:, 1] = 7
        return state * mt.rand(4, 3) + mt.nn.functional.dropout(state, 0.5)

    def twice():
        mt.manual_seed(7)
        state, base = mt.ones(4, 3), mt.arange(24.0).reshape(4, 6)
        with recorded():
            result = step(state, base)
        return [t.tolist() for t in (state, base, result)]

    want = twice()
    with mt.jit.verify() as verified:
        assert twice() == want
    assert verified.checked >= 1


def test_narrow_types_numbers_and_ops_of_the_users_own():
    from minitensor import extend

    @extend.op(
        "scaled_to_verify(Tensor input, float scale)",
        elementwise=True,
        lower=lambda b, x, scale: b.multiply(x, b.filled(scale)),
    )
    def scaled(x, scale):
        return x * x.dtype.type(scale)

    def program(x, z):
        y = (x + 0.1) * 3 - x.to(mt.float16).to(mt.bfloat16)
        return scaled(y.float(), 1.5) + y, (z * 2.5).abs(), y > 0.3, y.to(mt.int16) // 2

    x, z = mt.randn(33).to(mt.bfloat16), mt.randn(4, dtype=mt.complex64)
    want = [t.tolist() for t in program(x, z)]
    with mt.jit.verify() as verified:
        with recorded():
            got = program(x, z)
        assert [t.tolist() for t in got] == want
    assert verified.checked >= 1


def test_numbers_that_are_assigned():
    def program():
        y = mt.arange(4.0) * 2
        y[1:3] = 7.5
        return (mt.zeros(4, dtype=mt.bfloat16).fill_(0.1) + y).tolist()

    want = program()
    with mt.jit.verify() as verified, recorded():
        assert program() == want
    assert verified.checked >= 1


def test_code_for_all_sizes_is_verified_too(monkeypatch):
    mt.jit.cache_clear()

    def program(n):
        x = mt.rand(n, 6)[:, ::2]
        with mt.jit_scope():
            return (x * 3).softmax(1) * x.sum(0)

    with mt.jit.verify() as verified:
        before = mt.jit.cache_info()["executables"]
        for n in range(10, 40):
            program(n).tolist()
        assert verified.checked == 30
        assert mt.jit.cache_info()["executables"] <= before + 3, "it is compiled for all sizes"

        def wrong(n):
            with mt.jit_scope():
                return (mt.rand(n, 6) * 3).exp() + 1.5

        wrong(20).tolist()
        # The second size is compiled for all others, and that code is wrong.
        multiply = elementwise.ELEMENTWISE["multiply"]
        monkeypatch.setitem(elementwise.ELEMENTWISE, "add", multiply)
        with pytest.raises(MismatchError, match="the first op that differs is add"):
            wrong(21).tolist()
    mt.jit.cache_clear()


def test_threads_verify_at_once():
    fn = mt.function(lambda x, y: (x * 1.75 + y).tanh() @ y, jit_compile=True)
    errors = []

    def work(seed):
        try:
            with mt.jit.verify():
                for k in range(10):
                    fn(mt.full((40, 40), 0.1 * seed + k), mt.ones(40, 40))
        except Exception as error:
            errors.append(error)

    before = counts()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert counts() == {"checked": before["checked"] + 40, "differing": before["differing"]}


def test_a_training_step_agrees():
    mt.manual_seed(1)
    model = mt.nn.Sequential(mt.nn.Linear(6, 8), mt.nn.Tanh(), mt.nn.Linear(8, 3))
    optimizer = mt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with mt.jit.verify() as verified:
        for _ in range(2):
            with recorded():
                loss = mt.nn.functional.cross_entropy(model(mt.randn(5, 6)), mt.arange(5) % 3)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    assert verified.checked >= 2


@pytest.mark.parametrize(
    ("got", "want", "text"),
    [
        ([1.0, 2.0], [1.0, 2.0], None),
        ([np.nan, 2.0], [-np.nan, 2.0], None),
        ([0.0, 2.0], [-0.0, 2.0], "[0] is 0.0, and -0.0 eagerly (1 of 2 elements differ)"),
        ([1 + 2j], [1 + 3j], "[0] is (1+2j), and (1+3j) eagerly (1 of 1 elements differ)"),
        ([[1], [5]], [[1], [4]], "[1, 0] is 5, and 4 eagerly (1 of 2 elements differ)"),
        (True, False, "is True, and False eagerly (1 of 1 elements differ)"),
        (1.5, 1.5, None),
        (1 + 2j, 1 + 2j, None),
        (np.empty((0, 2)), np.empty((0, 2)), None),
    ],
)
def test_differences(got, want, text):
    found = difference(np.array(got), np.array(want))
    assert (None if found is None else str(found)) == text
    assert difference(np.array(got), np.array(got)) is None


def test_fast_math_may_round_otherwise():
    a = np.array([1.0, 2.0], np.float32)
    assert difference(a, a * np.float32(1 + 1e-6)) is not None
    assert difference(a, a * np.float32(1 + 1e-6), tolerance=1e-3) is None
    assert difference(a, a * 2, tolerance=1e-3) is not None


def test_reduced_precision_is_no_mismatch(wrong_addition, monkeypatch):
    def program(x, y):
        return (x @ y) * 2

    x, y = mt.randn(16, 16), mt.randn(16, 16)
    with mt.jit.options(reduce_precision="bf16"), mt.jit.verify() as verified:
        got = mt.function(program, jit_compile=True)(x, y)
        assert verified.checked == 1
        # The tolerance is not so wide that nothing would be found.
        monkeypatch.setitem(elementwise.ELEMENTWISE, "add", elementwise.ELEMENTWISE["multiply"])
        with pytest.raises(MismatchError, match="the first op that differs is add"):
            mt.function(lambda x, y: (x @ y) + y, jit_compile=True)(x, y)
    assert got.tolist() != program(x, y).tolist()
