"""mt.function: a value that is read while a function is recorded as a whole is refused, whatever it is the value of."""

import array
import contextlib
import inspect
import io
import math
import operator
import pathlib
import pickle
import re
import struct
import threading

import numpy as np
import pytest
from recording import recorded

import minitensor as mt
from minitensor.nn import functional as F
from minitensor_jit.state.calls import changes_first

OUTSIDE = mt.arange(1.0, 4.0)
WHOLE = mt.tensor([2, 1, 3])
ONE = mt.tensor(2)
TRUE = mt.tensor(True)


def here():
    """Return the line this is called from."""
    return inspect.currentframe().f_back.f_lineno


# Each takes a vector of floats, one of integers with the same values, and a number.
READS = {
    "item": lambda a, n, s: a[0].item(),
    "float": lambda a, n, s: float(a[0]),
    "int": lambda a, n, s: int(a[0]),
    "bool": lambda a, n, s: bool(a[0] > 1),
    "complex": lambda a, n, s: complex(a[0]),
    "index": lambda a, n, s: operator.index(s),
    "tolist": lambda a, n, s: a.tolist(),
    "list": lambda a, n, s: [float(v) for v in a],
    "numpy": lambda a, n, s: a.numpy(),
    "asarray": lambda a, n, s: np.asarray(a),
    "array": lambda a, n, s: np.array(a),
    "array of a type": lambda a, n, s: np.asarray(a, dtype=np.float64),
    "numpy function": lambda a, n, s: np.tanh(np.asarray(a)),
    "from_dlpack": lambda a, n, s: np.from_dlpack(a),
    "dlpack": lambda a, n, s: a.__dlpack__(),
    "memoryview": lambda a, n, s: memoryview(a),
    "bytes": lambda a, n, s: bytes(memoryview(a)),
    "array.array": lambda a, n, s: array.array("f", a),
    "repr": lambda a, n, s: repr(a),
    "str": lambda a, n, s: str(a),
    "format": lambda a, n, s: f"{a}",
    "format of a number": lambda a, n, s: f"{a[0]:.3f}",
    "percent": lambda a, n, s: "%s" % a,  # noqa: UP031
    "print": lambda a, n, s: print(a),
    "math": lambda a, n, s: math.sin(a[0]),
    "math.isnan": lambda a, n, s: math.isnan(a[0]),
    "round": lambda a, n, s: round(float(a[0])),
    "full": lambda a, n, s: mt.full((3,), a[0].item()),
    "tensor of item": lambda a, n, s: mt.tensor(a[0].item()),
    "tensor of a list": lambda a, n, s: mt.tensor([a[0], a[1]]),
    "range": lambda a, n, s: range(s),
    "size": lambda a, n, s: mt.zeros(s),
    "sizes": lambda a, n, s: mt.zeros((s, s)),
    "reshape": lambda a, n, s: mt.ones(6).reshape(s, -1),
    "index of a list": lambda a, n, s: [1, 2, 3][s],
    "slice of a list": lambda a, n, s: [1, 2, 3][:s],
    "repeated text": lambda a, n, s: "ab" * s,
    "data_ptr": lambda a, n, s: a.data_ptr(),
    "if": lambda a, n, s: 1 if a[0] == 1 else 2,
    "if not": lambda a, n, s: 1 if not (a > 0).all() else 2,
    "and": lambda a, n, s: (a[0] > 0) and 2,
    "while": lambda a, n, s: next(k for k in range(9) if a[0] + k > 3),
    "conditional": lambda a, n, s: 1 if a.sum() else 2,
    "any": lambda a, n, s: any(a),
    "max of Python": lambda a, n, s: max(a),
    "sorted": lambda a, n, s: sorted(a),
    "in": lambda a, n, s: 2.0 in a,
    "in a list": lambda a, n, s: a[0] in [mt.tensor(1.0)],
    "equal": lambda a, n, s: mt.equal(a, a + 1),
    "allclose": lambda a, n, s: mt.allclose(a, a + 1),
    "is_nonzero": lambda a, n, s: mt.is_nonzero(a[0]),
    "nonzero": lambda a, n, s: mt.nonzero(a),
    "mask": lambda a, n, s: a[a > 1],
    "masked_select": lambda a, n, s: mt.masked_select(a, a > 1),
    "unique": lambda a, n, s: mt.unique(a),
    "bincount": lambda a, n, s: mt.bincount(n),
    "where of one": lambda a, n, s: mt.where(a > 1),
    "repeat_interleave": lambda a, n, s: mt.repeat_interleave(a, n),
    "pickle": lambda a, n, s: pickle.dumps(a),
    "save": lambda a, n, s: mt.save(a, io.BytesIO()),
    "match": lambda a, n, s: operator.eq(a[0], 1.0) or 3,
    "unpacked": lambda a, n, s: [x.item() for x in a.unbind()],
    "split": lambda a, n, s: a.split([int(s), len(a) - int(s)]),
    "chr": lambda a, n, s: chr(s),
    "divmod": lambda a, n, s: divmod(5, int(s)),
    "array function": lambda a, n, s: np.concatenate([a, a]),
    "fill from a tensor": lambda a, n, s: np.full(3, a[0]),
}
# Reads of what every tensor has, whatever its values.
ALLOWED = {
    "shape": lambda a, n, s: a.shape,
    "len": lambda a, n, s: len(a),
    "dtype": lambda a, n, s: a.dtype,
    "parts": lambda a, n, s: list(a),
    "stride": lambda a, n, s: a.stride(),
    "numel": lambda a, n, s: a.numel(),
    "is": lambda a, n, s: a is n,
    "requires_grad": lambda a, n, s: a.requires_grad,
    "compare": lambda a, n, s: a == 1,
}


def arguments(fn):
    return lambda a, n, s: (fn(a, n, s), a + 1)[1], (mt.arange(1.0, 4.0), mt.tensor([1, 2, 3]), mt.tensor(2))


def captured(fn):
    return lambda x: (fn(OUTSIDE, WHOLE, ONE), x + 1)[1], (mt.ones(3),)


def made_inside(fn):
    def body(x):
        a = mt.tensor([1.0, 2.0, 3.0])
        return (fn(a, mt.tensor([1, 2, 3]), mt.tensor(2)), x + 1)[1]

    return body, (mt.ones(3),)


def computed(fn):
    return lambda x: (fn(x + 0.5, WHOLE * 1, ONE * 1), x + 1)[1], (mt.ones(3),)


def views(fn):
    return lambda a, n, s: (fn(a[::2], n[::2], s.view(())), a + 1)[1], (
        mt.arange(1.0, 4.0),
        mt.tensor([1, 2, 3]),
        mt.tensor(2),
    )


SUBJECTS = [arguments, captured, made_inside, computed, views]


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_value_that_is_read_is_refused(subject, name, capsys):
    fn = READS[name]
    body, given = subject(fn)
    try:
        body(*given)
    except Exception as error:  # a view of two elements isn't the right size for all of them
        if subject is not views:
            raise
        pytest.skip(f"not for this shape: {error}")
    f = mt.function(body, jit_compile=True)
    for _ in range(2):
        with pytest.raises(mt.InvalidArgumentError) as caught:
            f(*given)
        error = caught.value
        text = str(error)
        assert pathlib.Path(__file__).name in text, text
        assert str(fn.__code__.co_firstlineno) in text, text
    assert (f.programs, f.hits) == (0, 0)


@pytest.mark.parametrize("name", READS)
def test_best_effort_reads_values_at_every_call(name, capsys):
    fn = READS[name]
    f = mt.function(lambda a, n, s: (fn(a, n, s), a + 1)[1])
    for _ in range(3):
        assert f(mt.arange(1.0, 4.0), mt.tensor([1, 2, 3]), mt.tensor(2)).tolist() == [2, 3, 4]


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("subject", [arguments, captured, computed])
def test_what_is_no_value_may_be_read(subject, name):
    body, given = subject(ALLOWED[name])
    f = mt.function(body, jit_compile=True)
    for _ in range(3):
        assert f(*given).tolist() == body(*given).tolist()


def test_the_value_of_an_argument_is_not_baked():
    f = mt.function(lambda a: a + a.item(), jit_compile=True)
    for k in (1.0, -2.0, 3.0):
        with pytest.raises(mt.InvalidArgumentError, match=r"item\(\)"):
            f(mt.tensor(k))
    g = mt.function(lambda a: a + a.item())
    assert [g(mt.tensor(k)).item() for k in (1.0, -2.0, 3.0)] == [2, -4, 6]


def test_the_refusal_names_the_read_and_its_line():
    line = here() + 3

    def body(x):
        return x * OUTSIDE.tolist()[0]

    with pytest.raises(mt.InvalidArgumentError, match=rf"(?s)tolist\(\).*{re.escape(__file__)}.*{line}"):
        mt.function(body, jit_compile=True)(mt.ones(3))


def test_reads_below_other_functions_and_scopes():
    def inner(x):
        return x * float(x[0])

    def within(x):
        with mt.jit.attr_scope({"_MtCompile": False}):
            return x * float(OUTSIDE[0])

    mapped = mt.func.vmap(lambda x: x * ONE.item())
    for body in (mt.function(inner), mt.function(inner, jit_compile=True), within, mapped):
        with pytest.raises(mt.InvalidArgumentError):
            mt.function(lambda x, body=body: body(x) + 1, jit_compile=True)(mt.ones(3))
    with mt.jit_scope(), pytest.raises(mt.InvalidArgumentError):
        mt.function(inner, jit_compile=True)(mt.ones(3))


def test_values_may_be_read_before_and_after():
    x = mt.ones(3)
    f = mt.function(lambda x: x * 2, jit_compile=True)
    assert float(f(x)[0]) == 2
    with pytest.raises(mt.InvalidArgumentError):
        mt.function(lambda x: x * float(x[0]), jit_compile=True)(x)
    assert float(x[0]) == 1
    assert OUTSIDE.tolist() == [1, 2, 3]


def test_every_look_in_the_bindings_is_asked_for():
    """Each file of the bindings that takes a tensor's address asks whether it may; kernels are no bindings."""
    folder = pathlib.Path(__file__).parents[2] / "csrc" / "bindings"
    for path in folder.rglob("*.cpp"):
        text = path.read_text()
        looks = re.search(r"\b(held|here|t|tensor)(\.|->)(data|place)\(\)|#include \"kernels/cpu/(?!loop)", text)
        assert not looks or "check_open(" in text, path.name


def suppressed(a):
    with contextlib.suppress(Exception):
        return a * a[0].item()
    return a * 7


def caught(a):
    try:
        k = float(a[0])
    except BaseException:
        k = 7.0
    return a * k


def finally_returned(a):
    try:
        return a * a[0].item()
    finally:
        return a * 7  # noqa: B012, SIM107


def turned_into_another(a):
    return a * struct.unpack("f", struct.pack("f", a[0]))[0]


def with_a_default(a):
    class Reads:
        def __getattr__(self, name):
            try:
                return float(a[0])
            except Exception:
                raise AttributeError(name) from None

    return a * getattr(Reads(), "missing", 7)


def an_op_in_a_try(a):
    try:
        return a * mt.unique(a).numel()
    except Exception:
        return a * 7


@pytest.mark.parametrize(
    "function", [suppressed, caught, finally_returned, turned_into_another, with_a_default, an_op_in_a_try]
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_refusal_that_the_function_catches_is_raised(function, nested):
    """What it goes on with would be what every call gives."""
    compiled = mt.function(function, jit_compile=True)
    w = mt.zeros(2)

    def fallback(a):
        w.add_(1)
        try:
            return compiled(a)
        except ValueError:
            return a * 3

    for values in ([1.0, 2.0], [4.0, 5.0]):
        with pytest.raises(ValueError, match=r"value in the middle|can't be compiled|depends on"):
            compiled(mt.tensor(values))
        if nested:
            # A function that is refused as a whole may be caught by others.
            whole = mt.function(fallback)
            assert whole(mt.tensor(values)).tolist() == [3 * v for v in values]
    assert w.tolist() == [2.0 * nested] * 2
    assert mt.function(lambda a: a * 2, jit_compile=True)(mt.ones(2)).tolist() == [2, 2]


def test_the_refusal_of_a_write_to_memory_of_two_dtypes():
    w = mt.ones(3)
    w.view(mt.uint8)
    with pytest.raises(
        mt.InvalidArgumentError, match=r"^add can.t be compiled: it .*writes to memory that is also seen as"
    ):
        mt.function(lambda x: x.add_(1), jit_compile=True)(w)
    assert "also seen as another dtype" in str(mt.jit.explain(lambda: w.add_(1))())
    assert w.tolist() == [2, 2, 2]


A_VALUE = "it needs a value in the middle of a function that is compiled as a whole"
# Of what reads values inside: the function that the user called, and why it can't be compiled.
TRIANGULAR = "each row of a triangular system needs those before it"
NAMED = {
    "linalg.inv": (lambda a: mt.linalg.inv(a), "it runs in a library (LAPACK) (_linalg_inv,"),
    "linalg.solve": (lambda a: mt.linalg.solve(a, a), "it runs in a library (LAPACK) (_linalg_solve,"),
    "linalg.cholesky": (lambda a: mt.linalg.cholesky(a), "it runs in a library (LAPACK) (_linalg_cholesky,"),
    "linalg.lu_factor": (lambda a: mt.linalg.lu_factor(a), "it runs in a library (LAPACK) (_linalg_lu_factor,"),
    "linalg.ldl_factor": (lambda a: mt.linalg.ldl_factor(a), "it runs in a library (LAPACK) (_linalg_ldl_factor,"),
    "linalg.matrix_power": (lambda a: mt.linalg.matrix_power(a, -2), "it runs in a library (LAPACK) (_linalg_inv,"),
    "linalg.tensorsolve": (lambda a: mt.linalg.tensorsolve(a, a[0]), "it runs in a library (LAPACK) (_linalg_solve,"),
    "linalg.tensorinv": (lambda a: mt.linalg.tensorinv(a, ind=1), f"{A_VALUE} (tolist(),"),
    "inverse": (lambda a: a.inverse(), f"{A_VALUE} (tolist(),"),
    "nn.functional.one_hot": (lambda a: F.one_hot(a.long()), f"{A_VALUE} (item(),"),
    "cov": (lambda a: mt.cov(a, fweights=a[0].long()), f"{A_VALUE} (float(),"),
    "histc": (lambda a: mt.histc(a), f"{A_VALUE} (float(),"),
    "masked.median": (lambda a: mt.masked.median(a, 0, mask=a > 1), f"{A_VALUE} (bool(),"),
    "bincount": (lambda a: mt.bincount(a[0].long()), f"{A_VALUE} (int(),"),
    # Of these no values are read, so that they are recorded and refused later.
    "cholesky_solve": (lambda a: mt.cholesky_solve(a, a), f"{TRIANGULAR} (_cholesky_solve,"),
    "fft.fft": (lambda a: mt.fft.fft(a), "it runs in a library (pocketfft) (_fft_c2c,"),
    "fft.irfft": (lambda a: mt.fft.irfft(a), "it runs in a library (pocketfft) (_fft_c2r,"),
    "fft.rfft": (lambda a: mt.fft.rfft(a), "it runs in a library (pocketfft) (_fft_r2c,"),
    "geqrf": (lambda a: mt.geqrf(a), "it runs in a library (LAPACK) (_geqrf,"),
    "linalg.det": (lambda a: a.det(), "it runs in a library (LAPACK) (_linalg_det,"),
    "linalg.eigh": (lambda a: mt.linalg.eigvalsh(a), "it runs in a library (LAPACK) (_linalg_eigh,"),
    "linalg.svd": (lambda a: mt.linalg.svdvals(a), "it runs in a library (LAPACK) (_linalg_svd,"),
    "lu_unpack": (lambda a: mt.lu_unpack(a, a[0].int()), "it runs in a library (LAPACK) (_lu_permutation,"),
    "unique": (lambda a: a.unique(), "the shape of its result depends on the data ("),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_refusal_names_what_the_user_called(name):
    """And not what reads a value inside of it."""
    function, why = NAMED[name]
    with pytest.raises(mt.InvalidArgumentError) as refused:
        mt.function(function, jit_compile=True)(mt.eye(2) * 3 + 1)
    assert str(refused.value).startswith(f"{name} can't be compiled: {why}")
    line = function.__code__.co_firstlineno
    assert str(refused.value).endswith(f'which it is made of) (File "{__file__}", line {line})')


@pytest.mark.parametrize("recording", [False, True])
def test_what_another_thread_has_recorded_is_no_value_on_the_way(recording):
    """Whether it is an argument or captured: it is computed first, and the function has a program."""
    results = []

    def work():
        with recorded() if recording else contextlib.nullcontext():
            for _ in range(3):
                results.append(f(x))

    with recorded():
        x, captured = mt.arange(3.0) * 2, mt.ones(3) + 1

        def body(x):
            made = []
            made.append(x * captured)  # computes the other recording, which is compiled first
            made.append(captured)
            return made[0] + made[1]

        mt.jit.cache_clear()
        f = mt.function(body, jit_compile=True)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert [result.tolist() for result in results] == [[2, 6, 10]] * 3
    assert f.hits == (0 if recording else 2)


def test_which_operators_change_their_first_operand():
    names = [name for name in operator.__all__ if callable(getattr(operator, name))]
    found = {name for name in names if changes_first(getattr(operator, name))}
    arithmetic = {"add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"}
    arithmetic |= {"and", "or", "xor", "concat"}
    assert found >= {f"i{name}" for name in arithmetic} | {"setitem", "delitem"}
    assert found.isdisjoint(arithmetic | {"index", "inv", "invert", "is_", "is_not", "indexOf", "getitem", "contains"})

    def iadd(a, b):
        return a + b

    assert not changes_first(iadd)
