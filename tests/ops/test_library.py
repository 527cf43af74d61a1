"""Custom ops by `minitensor.library`."""

import sys
import types

import pytest

import minitensor as mt
from minitensor import Tensor, library


@pytest.fixture(scope="module")
def scale():
    @library.custom_op("testlib::scale", mutates_args=())
    def scale(x: Tensor, factor: float = 2.0) -> Tensor:
        """Times a factor."""
        return mt.from_numpy(x.numpy() * factor).to(x.dtype)

    @scale.register_fake
    def _(x, factor):
        return mt.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.factor = inputs[1]

    scale.register_autograd(lambda ctx, grad: (grad * ctx.factor, None), setup_context=setup)
    return scale


def test_calls(scale):
    x = mt.tensor([1.0, 2.0])
    assert scale(x).tolist() == [2.0, 4.0]
    assert scale(x, factor=3.0).tolist() == mt.ops.testlib.scale(x, 3.0).tolist() == [3.0, 6.0]
    assert mt.ops.testlib.scale.default(x).tolist() == [2.0, 4.0]
    assert repr(scale) == "<CustomOpDef(testlib::scale)>"
    assert str(mt.ops.testlib.scale._schema) == "scale(Tensor x, float factor=2.0) -> Tensor"
    assert scale(mt.empty(3, 4, device="meta")).shape == (3, 4)


def test_gradients(scale):
    x = mt.tensor([1.0, 2.0], requires_grad=True)
    scale(x, 5.0).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    double = mt.tensor([1.0, 2.0], dtype=mt.float64, requires_grad=True)
    assert mt.autograd.gradcheck(lambda x: scale(x, 5.0), (double,))


def test_opcheck(scale):
    x = mt.tensor([1.0, 2.0], requires_grad=True)
    found = library.opcheck(scale, (x, 3.0))
    assert set(found.values()) == {"SUCCESS"}
    assert len(found) == 4


def test_opcheck_of_what_also_gives_what_has_no_gradient():
    @library.custom_op("testlib::with_counts", mutates_args=())
    def with_counts(x: Tensor) -> tuple[Tensor, Tensor, int]:
        return x * 2, (x > 1).sum(), x.numel()

    with_counts.register_fake(lambda x: (mt.empty_like(x), mt.empty((), dtype=mt.int64, device=x.device), x.numel()))

    def setup(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])

    with_counts.register_autograd(lambda ctx, grad, *others: grad * 2, setup_context=setup)
    found = library.opcheck(with_counts, (mt.tensor([1.0, 2.0], requires_grad=True),))
    assert set(found.values()) == {"SUCCESS"}


def test_a_wrong_fake_is_found():
    @library.custom_op("testlib::wrong", mutates_args=())
    def wrong(x: Tensor) -> Tensor:
        return x + 1

    wrong.register_fake(lambda x: x.new_empty(7))
    with pytest.raises(library.checking.OpCheckError, match="fake impl gives"):
        library.opcheck(wrong, (mt.ones(2),), test_utils="test_faketensor")
    found = library.opcheck(wrong, (mt.ones(2),), raise_exception=False)
    assert found["test_schema"] == "SUCCESS"
    assert found["test_faketensor"].startswith("AssertionError")


def test_writes(scale):
    @library.custom_op("testlib::add_one_", mutates_args={"x"})
    def add_one_(x: Tensor) -> None:
        x += 1

    x = mt.zeros(2)
    assert add_one_(x) is None
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        add_one_.register_autograd(lambda ctx, grad: grad)

    @library.custom_op("testlib::sneaky", mutates_args=())
    def sneaky(x: Tensor) -> Tensor:
        return x.add_(1).clone()

    with pytest.raises(RuntimeError, match="wrote to the argument 'x', which mutates_args doesn't name"):
        sneaky(mt.zeros(2))


def test_vmap():
    @library.custom_op("testlib::rowsum", mutates_args=())
    def rowsum(x: Tensor) -> Tensor:
        return mt.tensor(float(x.numpy().sum()))

    seen = []

    @rowsum.register_vmap
    def _(info, in_dims, x):
        seen.append((info.batch_size, in_dims))
        return x.movedim(in_dims[0], 0).flatten(1).sum(1), 0

    assert mt.vmap(rowsum)(mt.ones(3, 4)).tolist() == [4.0, 4.0, 4.0]
    assert seen == [(3, (0,))]


def test_errors(scale):
    x = mt.ones(2, requires_grad=True)

    @library.custom_op("testlib::plain", mutates_args=(), device_types="cpu")
    def plain(x: Tensor) -> Tensor:
        return x * 2

    with pytest.raises(
        RuntimeError, match=r"Trying to backward through testlib\.plain\.default but no autograd formula"
    ):
        plain(x).sum().backward()
    with pytest.raises(RuntimeError, match="There was no fake impl registered for <CustomOpDef"):
        plain(mt.ones(2, device="meta"))
    with pytest.raises(RuntimeError, match="expected at most 2 argument"):
        scale(x, 2.0, 3)
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'x' but instead found"):
        scale("a")
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'f'"):
        scale(x, f=2.0)
    with pytest.raises(RuntimeError, match="is there already"):
        library.define("testlib::plain", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="'namespace::name'"):
        library.custom_op("plain", lambda x: x, mutates_args=())
    with pytest.raises(AttributeError, match="'testlib' object has no attribute 'nothing'"):
        getattr(mt.ops.testlib, "nothing")  # noqa: B009
    with pytest.raises(AttributeError, match="nor is it a namespace"):
        getattr(mt.ops, "no_such_namespace")  # noqa: B009

    @library.custom_op("testlib::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="must not also be an input"):
        same(mt.ones(2))


def test_libraries():
    lib = library.Library("testlib2", "DEF")
    assert lib.define('twice(Tensor x, int[] dims=[1, 2], *, str s="a") -> Tensor') == "twice"
    with pytest.raises(NotImplementedError, match="Could not run 'testlib2::twice'"):
        mt.ops.testlib2.twice(mt.ones(1))
    lib.impl("twice", lambda x, dims, s: x * len(dims), "CPU")
    assert mt.ops.testlib2.twice(mt.ones(1)).tolist() == [2.0]
    lib.impl("twice", lambda x, dims, s: x.new_empty(9), "Meta")
    assert mt.ops.testlib2.twice(mt.ones(1, device="meta")).shape == (9,)
    library.define("testlib2::thrice", "(Tensor x) -> Tensor")

    @library.impl("testlib2::thrice", "default")
    def _(x):
        return x * 3

    assert mt.ops.testlib2.thrice(mt.ones(1)).tolist() == [3.0]
    lib._destroy()
    with pytest.raises(AttributeError):
        getattr(mt.ops.testlib2, "twice")  # noqa: B009


def test_overriding_custom_ops(scale):
    class Log(mt.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    x = mt.ones(2)
    with Log():
        scale(x)
    assert seen == ["testlib.scale"]


def prototypes(T, dtype):  # noqa: N803
    from collections.abc import Sequence
    from typing import Optional, Union

    def a(x: T, y: int = 3, *, z: float = 1.0, s: str = "a", b: Optional[T] = None, d: Optional[dtype] = None, n: Union[int, float, bool] = 2, t: Sequence[T], q: bool = True, i: Optional[list[int]] = None) -> tuple[T, T]: ...  # fmt: skip  # noqa: E501, UP045, UP007

    def b(x: T, y: T) -> None: ...
    def c(x: T | None, y: list[T]) -> list[T]: ...
    def d(x: T) -> int: ...

    return [(a, ()), (b, {"x"}), (b, "unknown"), (c, ()), (d, ())]


SCHEMAS = [
    "(Tensor x, SymInt y=3, *, float z=1.0, str s=\"a\", Tensor? b=None, ScalarType? d=None, Scalar n=2, Tensor[] t, "
    "bool q=True, SymInt[]? i=None) -> (Tensor, Tensor)",
    "(Tensor(a0!) x, Tensor y) -> ()", "(Tensor(a0!) x, Tensor(a1!) y) -> ()", "(Tensor? x, Tensor[] y) -> Tensor[]",
    "(Tensor x) -> SymInt",
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(SCHEMAS)))
def test_schemas(i):
    function, mutates = prototypes(Tensor, mt.dtype)[i]
    text = library.infer_schema(function, mutates_args=mutates)
    assert text == SCHEMAS[i]
    read = library.schema.parse("name" + text)
    assert [p.name for p in read.parameters] == list(function.__annotations__)[:-1]


@pytest.mark.torch
@pytest.mark.parametrize("i", range(len(SCHEMAS)))
def test_schemas_as_torch(i):
    torch = pytest.importorskip("torch")
    function, mutates = prototypes(torch.Tensor, torch.dtype)[i]
    assert torch.library.infer_schema(function, mutates_args=mutates) == SCHEMAS[i]


def test_functions_without_a_schema():
    def nothing(x) -> Tensor: ...
    def star(x: Tensor, *more) -> Tensor: ...
    def strange(x: dict) -> Tensor: ...

    for function, message in (
        (nothing, "must have a type annotation"),
        (star, "varargs"),
        (strange, "unsupported type"),
    ):
        with pytest.raises(ValueError, match=message):
            library.infer_schema(function, mutates_args=())
    with pytest.raises(ValueError, match="in mutates_args were not found"):
        library.infer_schema(star, mutates_args={"z"})


def test_sizes_that_depend_on_data_are_refused_as_on_meta():
    with pytest.raises(RuntimeError, match="only be called inside of a fake impl"):
        library.get_ctx()

    @library.custom_op("tests_of_ctx::nonzero", mutates_args=())
    def nonzero(x: Tensor) -> Tensor:
        return x.nonzero()

    @nonzero.register_fake
    def _(x):
        return x.new_empty([library.get_ctx().new_dynamic_size(), x.dim()])

    assert nonzero(mt.tensor([0.0, 2.0])).tolist() == [[1]]
    with pytest.raises(RuntimeError, match=r"tests_of_ctx::nonzero.*data-dependent shape"):
        nonzero(mt.ones(2, device="meta"))


def test_triton_ops(monkeypatch):
    """Functions that launch Triton's kernels: what is launched is whatever the package `triton` made."""
    launched = []

    class Kernel:
        def __getitem__(self, grid):
            return lambda *args: launched.append((grid, len(args)))

    for name, member in (("autotuner", "Autotuner"), ("interpreter", "InterpretedFunction"), ("jit", "JITFunction")):
        module = types.ModuleType(f"triton.runtime.{name}")
        setattr(module, member, Kernel if member == "JITFunction" else type(member, (), {}))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("triton", "triton.runtime"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    kernel = Kernel()

    @mt.library.triton_op("tritons::doubled", mutates_args=())
    def doubled(x: mt.Tensor) -> mt.Tensor:
        out = mt.zeros_like(x)
        mt.library.wrap_triton(kernel)[(1,)](x, out)
        return out

    try:
        assert doubled(mt.ones(3)).tolist() == [0, 0, 0]
        assert launched == [((1,), 2)]
        assert doubled(mt.empty(3, device="meta")).shape == (3,)
        assert len(launched) == 1
        with pytest.raises(RuntimeError, match=r"only works on functions annotated with triton\.jit"):
            mt.library.wrap_triton(len)
    finally:
        mt.library.custom_ops.forget("tritons::doubled")
