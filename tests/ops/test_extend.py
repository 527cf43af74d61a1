"""Ops of the user's: NumPy and C kernels, gradients, lowerings."""

import ctypes
import itertools
import shutil
import subprocess
import sysconfig

import numpy as np
import pytest

import minitensor as mt
from minitensor import extend

_numbers = itertools.count()


def fresh(name):
    """A name that no test has used."""
    return f"{name}_{next(_numbers)}"


def soft_clip_kernel(x, limit):
    """limit * tanh(x / limit)."""
    return (mt.tanh(mt.from_numpy(x) / limit) * limit).numpy()


def soft_clip(**more):
    rules = {
        "elementwise": True,
        "gradient": lambda g, out, _x, limit: g * (1 - (out / limit).square()),
        "lower": lambda b, x, limit: b.multiply(b.tanh(b.divide(x, b.full(x.shape, limit))), b.full(x.shape, limit)),
    }
    return extend.op(f"{fresh('soft_clip')}(Tensor input, float limit=1.0)", **{**rules, **more})(soft_clip_kernel)


def test_the_rules_agree():
    x = mt.tensor([-3.0, -0.5, 0.0, 0.25, 7.0])
    extend.check(soft_clip(), [(x, 2.0), (x.double(), 0.5), (x.double().reshape(5, 1),), (x[:0],)])


def test_it_fuses():
    op = soft_clip()
    x = mt.arange(6.0) - 3

    def program():
        with mt.jit_scope():
            return op(x * 1.5, 2.0) + 1

    report = mt.jit.explain(program)().to_json()
    assert report["ops"]["compiled"] == 3
    assert np.array_equal(program().numpy(), (op(x * 1.5, 2.0) + 1).numpy())


def test_without_a_lowering_it_stays_a_node_of_the_program():
    op = soft_clip(lower=None)
    x = mt.arange(6.0) - 3

    def program():
        with mt.jit_scope():
            return op(x * 1.5 + 1, 2.0) * 2 + 1

    report = mt.jit.explain(program)()
    counts = report.to_json()["ops"]
    assert (counts["compiled"], counts["eager"]) == (4, 1)
    assert "gives no lowering" in report.text()
    assert np.array_equal(program().numpy(), (op(x * 1.5 + 1, 2.0) * 2 + 1).numpy())


def test_without_a_shape_rule_it_runs_at_once():
    @extend.op(f"{fresh('positive')}(Tensor input)")
    def positive(x):
        return x[x > 0]

    with mt.jit_scope():
        got = positive(mt.tensor([-1.0, 2.0, 3.0]) * 2)
    assert got.tolist() == [4.0, 6.0]
    with pytest.raises(RuntimeError, match="depends on data"):
        positive(mt.empty(3, device="meta"))


def test_a_shape_rule_and_several_results():
    @extend.op(
        f"{fresh('extremes')}(Tensor input, int dim) -> (Tensor low, Tensor high)",
        shape=lambda x, dim: (mt.amin(x, dim), mt.amax(x, dim)),
    )
    def extremes(x, dim):
        return x.min(dim), x.max(dim)

    x = mt.arange(6.0).reshape(2, 3)
    low, high = extremes(x, 1)
    assert (low.tolist(), high.tolist()) == ([0.0, 3.0], [2.0, 5.0])
    with mt.jit_scope():
        low, high = extremes(x + 1, 0)
    assert (low.tolist(), high.tolist()) == ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert extremes(x.to(device="meta"), 1)[0].shape == (2,)
    extend.check(extremes, [(x, 0), (x.double(), 1)])


@pytest.mark.at_once
def test_what_a_kernel_gives_is_no_write_to_the_result():
    op = soft_clip(lower=None)
    x = mt.tensor([0.5, -1.5], requires_grad=True)

    def versions():
        y = op(x)
        before = y._version
        (y * y).sum().backward()
        return before, y._version, mt.zeros(2).copy_(y)._version

    assert versions() == (0, 0, 1)
    assert mt.function(versions)() == (0, 0, 1)
    with mt.jit_scope():
        assert versions() == (0, 0, 1)
    out = mt.empty(2)
    op(x.detach(), out=out)
    assert out._version == 1


def test_gradients_through_it_are_differentiable():
    op = soft_clip()
    x = mt.tensor([0.5, -1.5], dtype=mt.float64, requires_grad=True)
    (first,) = mt.autograd.grad(op(x, 2.0).sum(), x, create_graph=True)
    (second,) = mt.autograd.grad(first.sum(), x)
    t = np.tanh(np.array([0.5, -1.5]) / 2)
    assert np.allclose(first.detach().numpy(), 1 - t**2)
    assert np.allclose(second.numpy(), -t * (1 - t**2))


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("wrong", [3.0, "text", [1.0, 1.0]])
def test_a_gradient_that_is_no_tensor_is_refused(wrong, lazily):
    """By the name of the op and the operand's place, also where a function gives it once it is asked for."""
    given = (lambda: wrong) if lazily else wrong
    name = fresh("product")
    op = extend.op(f"{name}(Tensor x, Tensor y)", elementwise=True, gradient=lambda g, _out, x, _y: (given, g * x))(
        lambda x, y: x * y
    )
    x, y = mt.tensor([2.0, 3.0]).requires_grad_(), mt.ones(2)
    message = f"the gradient of operand 0 of '{name}' must be a Tensor or None, got {type(wrong).__name__}$"
    with pytest.raises(TypeError, match=message):
        op(x, y).sum().backward()
    assert x.grad is None
    if lazily:  # nobody asks for that of x
        op(x.detach(), y.requires_grad_()).sum().backward()
        assert y.grad.tolist() == [2.0, 3.0]


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_check_finds_a_wrong_gradient_and_a_wrong_lowering():
    x = mt.tensor([0.5, -1.5], dtype=mt.float64)
    wrong = soft_clip(gradient=lambda g, _out, _x, limit: g * limit)
    with pytest.raises(Exception, match=r"[Jj]acobian"):
        extend.check(wrong, [(x, 2.0)])
    wrong = soft_clip(lower=lambda b, x, limit: b.tanh(x))
    with pytest.raises(AssertionError, match="recorded op differs"):
        extend.check(wrong, [(x, 2.0)], gradients=False)


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_a_kernel_that_contradicts_its_shape_rule():
    @extend.op(f"{fresh('wrong')}(Tensor input)", shape=lambda x: x)
    def wrong(x):
        return x[:1]

    with pytest.raises(RuntimeError, match=r"returned a tensor of shape \[1\].*its shape rule says \[3\]"):
        wrong(mt.ones(3))


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_what_a_kernel_raises_reaches_the_caller():
    @extend.op(f"{fresh('broken')}(Tensor input)", shape=lambda x: x)
    def broken(x):
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        broken(mt.ones(3))

    def recorded():
        with mt.jit_scope():
            return broken(mt.ones(3) + 1).tolist()

    with pytest.raises(LookupError, match="no such thing"):
        recorded()


def test_kernels_results_are_taken_as_they_are_unless_they_are_read_only():
    made = []

    @extend.op(f"{fresh('twice')}(Tensor input)")
    def twice(x):
        made.append(x * 2)
        return made[-1]

    @extend.op(f"{fresh('spread')}(Tensor input)")
    def spread(x):
        made.append(np.broadcast_to(x, (2, *x.shape)))
        return made[-1]

    x = mt.tensor([1.0, 2.0])
    assert np.shares_memory(twice(x).numpy(), made[-1])
    wide = spread(x)
    wide[0, 0] = 5.0
    assert wide.tolist() == [[5, 2], [1, 2]]
    assert x.tolist() == [1, 2]


def test_errors_of_definitions():
    with pytest.raises(ValueError, match="already"):
        extend.op("exp(Tensor input)")(soft_clip_kernel)
    with pytest.raises(ValueError, match="needs a shape rule"):
        extend.op(f"{fresh('x')}(Tensor input)", lower=lambda b, x: x)(soft_clip_kernel)
    with pytest.raises(ValueError, match="leave `shape` out"):
        extend.op(f"{fresh('x')}(Tensor input)", elementwise=True, shape=lambda x: x)(soft_clip_kernel)

    @extend.op(f"{fresh('text')}(Tensor input)")
    def text(x):
        return "no array"

    with pytest.raises(TypeError, match="must return NumPy arrays, got str"):
        text(mt.ones(1))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("c")
    (folder / "axpy.c").write_text(
        """#include <stdint.h>
        void axpy(int64_t n, const float *x, const float *y, float *out, double a) {
            for (int64_t i = 0; i < n; ++i) out[i] = (float)a * x[i] + y[i];
        }
        """
    )
    compiler = shutil.which("cc") or shutil.which("gcc") or sysconfig.get_config_var("CC").split()[0]
    path = folder / "axpy.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-ffp-contract=off", "-o", path, folder / "axpy.c"], check=True
    )
    return ctypes.CDLL(str(path))


def test_a_kernel_in_c(library):
    axpy = extend.op(
        f"{fresh('axpy')}(Tensor x, Tensor y, float a)",
        elementwise=True,
        gradient=lambda g, _out, _x, _y, a: (g * a, g),
    )(extend.c_kernel(library.axpy))
    x, y = mt.arange(6.0).reshape(2, 3), mt.tensor([10.0, 20.0, 30.0])
    assert axpy(x, y, 2.0).tolist() == [[10.0, 22.0, 34.0], [16.0, 28.0, 40.0]]
    assert axpy(x.T, mt.ones(2), 1.0).tolist() == (x.T + 1).tolist()
    x.requires_grad_()
    axpy(x, y, 2.0).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2
    address = ctypes.cast(library.axpy, ctypes.c_void_p).value
    again = extend.op(f"{fresh('axpy')}(Tensor x, Tensor y, float a)", elementwise=True)(extend.c_kernel(address))
    assert again(x.detach(), y, 2.0).tolist() == axpy(x.detach(), y, 2.0).tolist()
    with pytest.raises(TypeError, match="foreign function"):
        extend.c_kernel("axpy")


def wrong_lowering(b, x, limit):
    return b.no_such_opcode(x)


def narrow_lowering(b, x, limit):
    return b.reshape(x, (1, *x.dims))


def other_lowering(b, x, limit):
    return b.add(x, x)


@pytest.mark.compiler_fails(reason="by the user's lowering")
@pytest.mark.parametrize(
    ("lower", "what"),
    [
        (wrong_lowering, r"raises AttributeError: .*no_such_opcode.*test_extend\.py"),
        (narrow_lowering, r"gives f32\[1, 3\] as result 0, the op f32\[3\].*test_extend\.py"),
        (lambda b, x, limit: [x, x], "gives 2 results, the op has 1"),
        (lambda b, x, limit: 7, "gives int as result 0"),
    ],
)
@pytest.mark.at_once
def test_a_wrong_lowering_is_the_users_not_the_compilers(lower, what, caplog):
    op = soft_clip(lower=lower)
    x = mt.tensor([1.0, 2.0, 3.0])
    with pytest.raises(AssertionError, match=what):
        extend.check(op, [(x, 2.0)])
    with mt.jit_scope():
        y = op(x * 2, 2.0) + 1
    assert np.array_equal(y.numpy(), (op(x * 2, 2.0) + 1).numpy())
    assert "the lowering of" in caplog.text
    assert "defect of the compiler" not in caplog.text
    with pytest.raises(mt.jit.InvalidArgumentError, match=what) as info:
        mt.function(lambda x: op(x, 2.0), jit_compile=True)(x)
    error = info.value.__cause__
    assert isinstance(error, mt.jit.LoweringError)
    assert error.source.file == __file__
    if lower is wrong_lowering:
        assert error.source.line == wrong_lowering.__code__.co_firstlineno + 1


@pytest.mark.at_once
def test_verify_names_the_lowering_that_has_other_bits():
    op = soft_clip(lower=other_lowering)
    x = mt.tensor([1.0, 2.0, 3.0])
    with pytest.raises(AssertionError, match="differs from the kernel"):
        extend.check(op, [(x, 2.0)])
    with mt.jit.options(verify=1.0), pytest.raises(mt.jit.MismatchError) as info:
        mt.function(lambda x: op(x * 3, 2.0), jit_compile=True)(x)
    (note,) = info.value.__notes__
    assert note.startswith("The lowering of soft_clip")
    assert f"{__file__}:{other_lowering.__code__.co_firstlineno}," in note
