"""Names that older programs import, and settings of parts that are not there: each as in PyTorch."""

import contextlib
import functools
import warnings

import pytest

import minitensor as mt
from minitensor import compiler, func, library, nn
from minitensor.autograd import Variable
from minitensor.utils.checkpoint import GraphExecGroup, checkpoint


def outcome(call, lib):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call(lib)
        except Exception as error:
            return type(error).__name__
    return found


def listed(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [listed(v) for v in value]
    return {k: listed(v) for k, v in value.items()} if isinstance(value, dict) else value


def replicas(lib):
    net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2))
    with lib.no_grad():
        net[0].weight.fill_(0.5)
        net[0].bias.zero_()
    made = mt.nn.parallel.replicate(net, ["cpu", "cpu"]) if lib is mt else [net, net]
    parts = [lib.ones(2, 2), 2 * lib.ones(2, 2)]
    found = (
        mt.nn.parallel.parallel_apply(made, parts) if lib is mt else [m(x) for m, x in zip(made, parts, strict=True)]
    )
    lib.cat(found).sum().backward()
    return net[0].weight.grad.tolist(), [tuple(x.shape) for x in found]


CASES = {
    "variable": lambda lib: (lambda v: (v.requires_grad, v.tolist(), isinstance(v, lib.autograd.Variable)))(
        lib.autograd.Variable(lib.ones(2), requires_grad=True)
    ),
    "variable shares": lambda lib: (lambda t: (lib.autograd.Variable(t).fill_(3), t.tolist())[1])(lib.ones(2)),
    "variable empty": lambda lib: tuple(lib.autograd.Variable().shape),
    "variable without history": lambda lib: lib.autograd.Variable(lib.ones(1, requires_grad=True) * 2).requires_grad,
    "variable of a list": lambda lib: lib.autograd.Variable([1.0]),
    "variable()": lambda lib: lib.autograd.variable(1),
    "isinstance": lambda lib: (isinstance(lib.ones(1), lib.autograd.Variable), isinstance(3, lib.autograd.Variable)),
    "grad_mode": lambda lib: lib.autograd.grad_mode.no_grad is lib.no_grad,
    "budget": lambda lib: lib.autograd.graph.region_activation_memory_budget(2.0).__enter__(),
    "streams": lambda lib: (
        lib.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(True),
        lib.autograd.graph.set_override_stale_capture_stream(False),
    ),
    "generator": lambda lib: lib.random.thread_safe_generator(),
    "allclose": lambda lib: lib.testing.assert_allclose([1.0, 2.0], lib.tensor([1.00001, 2.0])),
    "allclose dtypes": lambda lib: lib.testing.assert_allclose(lib.ones(1), lib.ones(1).double()),
    "allclose not": lambda lib: lib.testing.assert_allclose(lib.ones(1), lib.ones(1) * 1.01),
    "allclose one tolerance": lambda lib: lib.testing.assert_allclose(1.0, 1.5, rtol=1.0),
    "attention": lambda lib: (
        lib.nn.attention.list_flash_attention_impls.__name__, lib.nn.attention.current_flash_attention_impl()
    ),
    "attention unknown": lambda lib: lib.nn.attention.activate_flash_attention_impl("nothing"),
    "functionalize": lambda lib: lib.func.functionalize(lambda x: x.add_(1) * 2)(lib.ones(2)).tolist(),
    "functionalize wrong": lambda lib: lib.func.functionalize(lambda x: x, remove="views"),
    "batch norm": lambda lib: [
        (m.running_mean, m.track_running_stats)
        for m in lib.func.replace_all_batch_norm_modules_(
            lib.nn.Sequential(lib.nn.BatchNorm1d(2), lib.nn.Sequential(lib.nn.BatchNorm2d(2)))
        ).modules()
        if hasattr(m, "running_mean")
    ],
    "backends": lambda lib: (
        lib.compiler.get_default_backend(), lib.compiler.set_default_backend("eager"),
        lib.compiler.get_default_backend(), lib.compiler.set_default_backend(None), lib.compiler.get_default_backend(),
    ),
    "region": lambda lib: lib.compiler.nested_compile_region(lambda x: x + 1)(lib.ones(1)).tolist(),
    "gather": lambda lib: lib.nn.parallel.gather([], "cpu"),
    "apply": lambda lib: lib.nn.parallel.parallel_apply([len], []),
    "replicas": replicas,
}  # fmt: skip
PATTERNS = (
    ("a b -> b a", {}), ("a (b c) -> a b c", {"c": 3}), ("a (b c) -> (a c) b", {"b": 4}), ("... b -> b ...", {}),
    ("a b -> a 1 b", {}), ("a b -> (a b)", {}), ("... -> ...", {}), ("a b -> a b ()", {}),
    ("... (b c) -> ... c b", {"b": 2}),
    ("a b -> a", {}), ("a b", {}), ("a (b c) -> a b c", {}), ("a b c -> a", {}), ("a a -> a", {}), ("a (b -> a b", {}),
    ("a (b c) -> a b c", {"c": 5}), ("a b -> b a", {"z": 1}), ("a % -> a", {}),
)  # fmt: skip
for _pattern, _sizes in PATTERNS:
    CASES[f"{_pattern} {_sizes}"] = functools.partial(
        lambda lib, p, s: lib.func.rearrange(lib.arange(24.0).reshape(2, 12), p, **s), p=_pattern, s=_sizes
    )


@pytest.mark.torch
@pytest.mark.parametrize("name", CASES)
def test_as_torch(name):
    torch = pytest.importorskip("torch")
    ours, theirs = outcome(CASES[name], mt), outcome(CASES[name], torch)
    if isinstance(ours, str) and isinstance(theirs, str):  # both are errors
        assert ours.endswith("Error")
        assert theirs.endswith(("Error", "Exception"))
    else:
        assert listed(ours) == listed(theirs)


def test_variables():
    assert Variable(mt.ones(2), True).requires_grad
    with pytest.warns(UserWarning, match="volatile was removed"):
        Variable(mt.ones(1), volatile=True)
    with pytest.raises(TypeError, match="has to be a tensor"):
        Variable([1.0])
    with pytest.raises(RuntimeError, match="deprecated"):
        mt.autograd.variable(1)


def test_threads_of_backward():
    with mt.autograd.set_multithreading_enabled(False):
        x = mt.ones(1, requires_grad=True)
        (x * 2).backward()
    assert x.grad.item() == 2
    assert mt.autograd.set_multithreading_enabled(True)(lambda: 3)() == 3


@pytest.mark.parametrize(("pattern", "sizes"), PATTERNS[:9])
def test_rearranged(pattern, sizes):
    einops = pytest.importorskip("einops")
    x = mt.arange(24.0).reshape(2, 12)
    assert func.rearrange(x, pattern, **sizes).tolist() == einops.rearrange(x.numpy(), pattern, **sizes).tolist()


def test_rearranged_rest_in_parentheses():
    x = mt.arange(24.0).reshape(2, 3, 4)
    assert func.rearrange(x, "a ... -> (... a)").tolist() == x.numpy().transpose(1, 2, 0).reshape(-1).tolist()
    assert func.rearrange(x, "... a -> (a ...)").tolist() == x.numpy().transpose(2, 0, 1).reshape(-1).tolist()


def test_rearranged_gradients():
    x = mt.arange(6.0).reshape(2, 3).requires_grad_()
    y = func.rearrange(x, "a b -> (b a)")
    assert y.tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    (y * mt.arange(6.0)).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    assert func.rearrange([mt.ones(2), mt.zeros(2)], "a b -> b a").tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_what_is_behind_a_mapped_tensor():
    seen = []

    def look(x):
        seen.append(func.debug_unwrap(x))
        return x * 2

    x = mt.arange(6.0).reshape(2, 3)
    mt.vmap(mt.vmap(look))(x)
    assert seen[0].tolist() == x.tolist()
    assert func.debug_unwrap(x) is x


def test_parts_of_batches():
    parallel = nn.parallel
    given = ({"x": mt.arange(6.0)}, [mt.ones(4, 2), "same"], None)
    parts = parallel.scatter(given, ["cpu", "cpu"])
    assert len(parts) == 2
    assert parts[1][0]["x"].tolist() == [3.0, 4.0, 5.0]
    assert [part[1][1] for part in parts] == ["same", "same"]
    joined = parallel.gather([(p[0], p[1][0]) for p in parts], "cpu")
    assert joined[0]["x"].tolist() == mt.arange(6.0).tolist()
    assert joined[1].shape == (4, 2)
    with pytest.warns(UserWarning, match="unsqueeze"):
        assert parallel.gather([mt.tensor(1.0), mt.tensor(2.0)], "cpu").tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="same number of keys"):
        parallel.gather([{"a": mt.ones(1)}, {}], "cpu")
    with pytest.raises(AssertionError, match="is not equal to the number of inputs"):
        parallel.parallel_apply([len], [])
    shared = nn.Linear(2, 2)
    first, second = parallel.replicate(nn.Sequential(shared, shared), ["cpu", "cpu"], detach=True)
    assert first[0] is first[1]
    assert first[0] is not second[0]
    assert list(first.parameters()) == []
    assert not first[0].weight.requires_grad


def test_registered_attention(monkeypatch):
    events = []

    class Handle:
        def remove(self):
            events.append("removed")

    attention = nn.attention
    monkeypatch.setattr(attention, "_IMPLS", {})
    attention.register_flash_attention_impl("mine", register_fn=lambda: events.append("called") or Handle())
    attention.activate_flash_attention_impl("mine")
    assert (attention.current_flash_attention_impl(), attention.list_flash_attention_impls()) == ("mine", ["mine"])
    attention.restore_flash_attention_impl()
    assert (attention.current_flash_attention_impl(), events) == (None, ["called", "removed"])
    with pytest.raises(ValueError, match="Unknown flash attention impl 'other'"):
        attention.activate_flash_attention_impl("other")


def test_checkpoints_in_a_group():
    count = []

    def part(x):
        count.append(None)
        return x.sin().exp(), x.cos().tanh()

    x = mt.tensor([0.3, 0.7], requires_grad=True)

    def gradients(context):
        x.grad = None
        count.clear()
        a, b = checkpoint(part, x, use_reentrant=False, early_stop=False)
        with context:
            a.sum().backward()
            b.sum().backward()
        return x.grad.tolist(), len(count)

    plain, runs = gradients(contextlib.nullcontext())
    assert runs == 3
    assert gradients(GraphExecGroup()) == (plain, 2)
    with GraphExecGroup(), pytest.raises(RuntimeError, match="cannot be nested"):
        GraphExecGroup().__enter__()


def test_autocast_of_an_op():
    seen = []

    @library.custom_op("older_names::twice", mutates_args=())
    def twice(x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        seen.append((x.dtype, y.dtype, mt.is_autocast_enabled("cpu")))
        return x * 2

    library.register_autocast("older_names::twice", "cpu", mt.bfloat16)
    x, n = mt.ones(2), mt.ones(2, dtype=mt.int64)
    assert twice(x, n).dtype == mt.float32
    with mt.autocast("cpu"):
        assert twice(x, n).dtype == mt.bfloat16
        twice(x, mt.ones(2, device="meta"))
    assert seen == [(mt.float32, mt.int64, False), (mt.bfloat16, mt.int64, False), (mt.bfloat16, mt.float32, False)]
    with pytest.raises(ValueError, match="Unknown device type"):
        library.register_autocast("older_names::twice", "tpu", mt.float16)
    with pytest.raises(AssertionError, match="must be a dtype"):
        library.register_autocast("older_names::twice", "cpu", "half")


def test_compilers_names():
    calls = []
    compiler.set_default_backend("eager")
    try:
        function = lambda x: x  # noqa: E731
        assert mt.compile(function) is function
        assert mt.compile(function, backend="inductor") is not function
    finally:
        compiler.set_default_backend(None)
    with pytest.raises(RuntimeError, match="Invalid backend"):
        compiler.set_default_backend("nothing")

    @compiler.wrap_numpy
    def total(a, scale):
        calls.append(type(a).__name__)
        return (a * scale).sum(0)

    assert total(mt.ones(2, 3), scale=2).tolist() == [4.0, 4.0, 4.0]
    assert calls == ["ndarray"]
    assert compiler.nested_compile_region()(total) is total


def test_a_deprecated_comparison():
    with pytest.warns(FutureWarning, match="deprecated"):
        mt.testing.assert_allclose(mt.ones(2), [1.0, 1.00001])
    with pytest.warns(FutureWarning, match="deprecated"), pytest.raises(AssertionError, match="not close"):
        mt.testing.assert_allclose(mt.ones(2), [1.0, 1.01])
