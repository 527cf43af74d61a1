"""Autocast: which ops cast what, gradients, kept casts, compiled functions; GradScaler."""

import copy
import pickle
import threading
import weakref
from typing import ClassVar

import pytest

import minitensor as mt
from minitensor import nn
from minitensor.composite import COMPOSITES
from minitensor.ops import ROWS

F = nn.functional


def functions(lib):
    """By name, calls of either framework on tensors of a dtype."""
    f = lib.nn.functional

    def t(dtype, *shape):
        return lib.full(shape, 0.5, dtype=dtype)

    def eye(dtype):
        return lib.eye(3).to(dtype) * 2

    zeros = lib.zeros(3, dtype=lib.int64)
    return {
        "mm": lambda d: lib.mm(t(d, 3, 3), t(d, 3, 3)),
        "matmul": lambda d: t(d, 3, 3) @ t(d, 3),
        "bmm": lambda d: lib.bmm(t(d, 2, 3, 3), t(d, 2, 3, 3)),
        "addmm": lambda d: lib.addmm(t(d, 3), t(d, 3, 3), t(d, 3, 3)),
        "baddbmm": lambda d: lib.baddbmm(t(d, 3), t(d, 2, 3, 3), t(d, 2, 3, 3)),
        "linear": lambda d: f.linear(t(d, 2, 3), t(d, 4, 3), t(d, 4)),
        "conv1d": lambda d: f.conv1d(t(d, 1, 2, 5), t(d, 3, 2, 2), t(d, 3)),
        "conv2d": lambda d: f.conv2d(t(d, 1, 2, 5, 5), t(d, 3, 2, 2, 2)),
        "conv_transpose2d": lambda d: f.conv_transpose2d(t(d, 1, 2, 5, 5), t(d, 2, 3, 2, 2)),
        "attention": lambda d: f.scaled_dot_product_attention(t(d, 1, 2, 4, 8), t(d, 1, 2, 4, 8), t(d, 1, 2, 4, 8)),
        "einsum": lambda d: lib.einsum("ij,jk->ik", t(d, 3, 3), t(d, 3, 3)),
        "prelu": lambda d: f.prelu(t(d, 3), t(d, 1)),
        "vecdot": lambda d: lib.linalg.vecdot(t(d, 3), t(d, 3)),
        "lstm": lambda d: lib.nn.LSTM(3, 4)(t(d, 2, 1, 3))[0],
        "rnn": lambda d: lib.nn.RNN(3, 4)(t(d, 2, 1, 3))[0],
        "gru": lambda d: lib.nn.GRU(3, 4)(lib.full((2, 1, 3), 0.5))[0],
        "mv": lambda d: lib.mv(t(d, 3, 3), t(d, 3)),
        "dot": lambda d: lib.dot(t(d, 3), t(d, 3)),
        "exp": lambda d: t(d, 3).exp(),
        "sum": lambda d: t(d, 3).sum(),
        "prod": lambda d: t(d, 3).prod(),
        "softmax": lambda d: t(d, 3).softmax(0),
        "layer_norm": lambda d: f.layer_norm(t(d, 2, 3), (3,)),
        "mse_loss": lambda d: f.mse_loss(t(d, 3), t(d, 3)),
        "l1_loss": lambda d: f.l1_loss(t(d, 3), t(d, 3)),
        "huber_loss": lambda d: f.huber_loss(t(d, 3), t(d, 3)),
        "bce": lambda d: f.binary_cross_entropy(t(d, 3), t(d, 3)),
        "bce_logits": lambda d: f.binary_cross_entropy_with_logits(t(d, 3), t(d, 3)),
        "kl_div": lambda d: f.kl_div(t(d, 2, 3), t(d, 2, 3), reduction="batchmean"),
        "local_response_norm": lambda d: f.local_response_norm(t(d, 1, 2, 3, 3), 2),
        "cross_entropy": lambda d: f.cross_entropy(t(d, 3, 4), zeros),
        "nll_loss": lambda d: f.nll_loss(t(d, 3, 4), zeros),
        "margin_ranking": lambda d: f.margin_ranking_loss(t(d, 3), t(d, 3), t(d, 3)),
        "cdist": lambda d: lib.cdist(t(d, 2, 3), t(d, 2, 3)),
        "trace": lambda d: t(d, 3, 3).trace(),
        "quantile": lambda d: t(d, 3).quantile(0.5),
        "inv": lambda d: lib.linalg.inv(eye(d)),
        "svdvals": lambda d: lib.linalg.svdvals(eye(d)),
        "solve": lambda d: lib.linalg.solve(eye(d), t(d, 3)),
        "fft": lambda d: lib.fft.fft(t(d, 4)).real,
        "grid_sample": lambda d: f.grid_sample(t(d, 1, 2, 4, 4), t(d, 1, 3, 3, 2), align_corners=False),
        "avg_pool2d": lambda d: f.avg_pool2d(t(d, 1, 2, 4, 4), 2),
        "avg_pool3d": lambda d: f.avg_pool3d(t(d, 1, 2, 4, 4, 4), 2),
        "max_pool3d": lambda d: f.max_pool3d(t(d, 1, 2, 4, 4, 4), 2),
        "reflect": lambda d: f.pad(t(d, 1, 2, 4), (1, 1), "reflect"),
        "interpolate": lambda d: f.interpolate(t(d, 1, 2, 4), scale_factor=2),
        "index_copy": lambda d: lib.index_copy(t(lib.float32, 3), 0, zeros, t(d, 3)),
        "cat": lambda d: lib.cat([t(lib.float32, 3), t(d, 3)]),
    }


LOWER = {
    *[
        "mm",
        "matmul",
        "bmm",
        "addmm",
        "baddbmm",
        "linear",
        "conv1d",
        "conv2d",
        "conv_transpose2d",
        "attention",
        "einsum",
        "prelu",
        "vecdot",
        "lstm",
        "rnn",
    ]
}
FLOAT32 = {
    *[
        "prod",
        "mse_loss",
        "l1_loss",
        "huber_loss",
        "bce",
        "bce_logits",
        "kl_div",
        "cross_entropy",
        "nll_loss",
        "margin_ranking",
        "cdist",
        "trace",
    ],
    *[
        "quantile",
        "inv",
        "svdvals",
        "solve",
        "fft",
        "grid_sample",
        "avg_pool3d",
        "max_pool3d",
        "reflect",
        "local_response_norm",
        "index_copy",
        "cat",
        "gru",
    ],
}


@pytest.mark.parametrize("name", functions(mt))
def test_results_have_the_dtypes_of_pytorchs_lists(name):
    call = functions(mt)[name]
    for low in (mt.bfloat16, mt.float16):
        with mt.autocast("cpu", low):
            single, lowered = call(mt.float32).dtype, call(low).dtype
        assert single == (low if name in LOWER else mt.float32)
        assert lowered == (mt.float32 if name in FLOAT32 else low)


@pytest.mark.parametrize("name", functions(mt))
def test_dtypes_against_torch(name):
    torch = pytest.importorskip("torch")
    if name == "lstm" and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("PyTorch's LSTM takes bfloat16 only on CPUs with AVX-512; the test before has what it gives there")
    found = []
    for lib in (mt, torch):
        with lib.autocast("cpu"):
            call = functions(lib)[name]
            found.append([str(call(d).dtype).split(".")[1] for d in (lib.float32, lib.bfloat16)])
    assert found[0] == found[1]


def test_solvers_made_of_products_stay_in_float32():
    x = mt.eye(3) * 2
    with mt.autocast("cpu"):
        solved = mt.linalg.lu_solve(*mt.linalg.lu_factor(x), x)
    assert solved.dtype is mt.float32
    assert mt.equal(solved, mt.eye(3))


def test_the_lists_of_gpus_are_there_too():
    gpus = {name: row.autocast[1] for name, row in ROWS.items() if row.autocast[1]}
    assert {gpus[n] for n in ("exp", "log", "pow", "sum", "softmax", "prod", "nll_loss", "tan", "acos")} == {"float32"}
    assert {gpus[n] for n in ("matmul", "convolution", "attention")} == {"lower"}
    assert "mean" not in gpus
    assert "sin" not in gpus
    of_functions = {name: getattr(c.call, "_autocast", ("", ""))[1] for name, c in COMPOSITES.items()}
    assert of_functions["layer_norm"] == of_functions["logsumexp"] == "float32"
    assert of_functions["dot"] == of_functions["scatter_add"] == "widest"


def test_what_is_not_cast():
    x = mt.ones(3, 3)
    with mt.autocast("cpu"):
        assert (x.double() @ x.double()).dtype == mt.float64
        assert (x.long() @ x.long()).dtype == mt.int64
        assert x.clone().add_(x).dtype == mt.float32
        out = mt.empty(3, 3)
        assert mt.mm(x, x, out=out) is out
        assert out.tolist() == [[3.0] * 3] * 3
        assert (x.to("meta") @ x.to("meta")).dtype == mt.float32
        with mt.autocast("cpu", enabled=False):
            assert (x @ x).dtype == mt.float32
        assert (x @ x).dtype == mt.bfloat16
    assert (x @ x).dtype == mt.float32


def test_values_are_those_of_casts_written_out():
    mt.manual_seed(0)
    x, w, b = mt.randn(5, 7), mt.randn(3, 7), mt.randn(3)
    with mt.autocast("cpu", mt.float16):
        y = F.linear(x, w, b)
        loss = F.mse_loss(y, mt.zeros(5, 3))
    expected = F.linear(x.half(), w.half(), b.half())
    assert mt.equal(y, expected)
    assert mt.equal(loss, F.mse_loss(expected.float(), mt.zeros(5, 3)))


def test_gradients_against_torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    x = torch.randn(6, 5)
    w = torch.randn(4, 5)
    gradients = []
    for lib in (torch, mt):
        a = lib.tensor(x.tolist())
        p = lib.tensor(w.tolist(), requires_grad=True)
        with lib.autocast("cpu"):
            h = lib.nn.functional.linear(a, p).relu()
            loss = lib.nn.functional.cross_entropy(h, lib.zeros(6, dtype=lib.int64)) + (h @ p).sum()
        loss.backward()
        assert p.grad.dtype == lib.float32
        gradients.append((loss.item(), p.grad.flatten().tolist()))
    assert gradients[1][0] == pytest.approx(gradients[0][0], rel=0.02)
    assert gradients[1][1] == pytest.approx(gradients[0][1], rel=0.05, abs=0.1)


def casts(function):
    """How many casts a call records."""
    _, graph = mt.ones(()), []
    node = function().grad_fn
    seen = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        graph.append(node.name())
        stack += [following for following, _ in node.next_functions]
    return sum("Cast" in name or "ToCopy" in name for name in graph)


def test_the_cast_of_a_weight_is_kept():
    w = mt.ones(3, 3, requires_grad=True)
    x = mt.ones(3, 3)

    def twice():
        return ((x @ w) @ w).sum()

    with mt.autocast("cpu"):
        assert casts(twice) == 1
    with mt.autocast("cpu", cache_enabled=False):
        assert casts(twice) == 2
    with mt.autocast("cpu"):
        first = x @ w
        with mt.no_grad():
            w.mul_(2)
        assert (x @ w).tolist() == (first * 2).tolist()  # another version of the weight
        with mt.no_grad():
            assert not (x @ w).requires_grad
        assert (x @ w).requires_grad


def test_kept_casts_go_with_the_outermost_context():
    w = mt.ones(3, 3, requires_grad=True)
    with mt.autocast("cpu"):
        with mt.autocast("cpu"):
            mt.ones(3, 3) @ w
        gone = weakref.ref(w)
        del w
        assert gone() is not None
        mt.clear_autocast_cache()
    assert gone() is None
    with pytest.raises(ZeroDivisionError), mt.autocast("cpu"):
        _ = 1 / 0
    assert not mt.is_autocast_enabled("cpu")


def test_state_is_the_threads_own():
    with mt.autocast("cpu"):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(mt.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
        assert seen == [False]
        assert mt.is_autocast_enabled("cpu")
        assert not mt.is_autocast_enabled()


def test_settings():
    assert mt.get_autocast_dtype("cpu") == mt.bfloat16
    assert mt.get_autocast_dtype("cuda") == mt.float16
    mt.set_autocast_dtype("cpu", mt.float16)
    try:
        with mt.autocast("cpu"):
            assert (mt.ones(2, 2) @ mt.ones(2, 2)).dtype == mt.float16
    finally:
        mt.set_autocast_dtype("cpu", mt.bfloat16)
    mt.set_autocast_enabled("cpu", True)
    try:
        assert (mt.ones(2, 2) @ mt.ones(2, 2)).dtype == mt.bfloat16
    finally:
        mt.set_autocast_enabled("cpu", False)
    assert mt.is_autocast_cache_enabled()
    assert mt.amp.is_autocast_available("cpu")
    assert not mt.amp.is_autocast_available("meta")
    with pytest.raises(RuntimeError, match="meta"):
        mt.autocast("meta")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        mt.autocast(mt.device("cpu"))
    with pytest.raises(TypeError, match="must be bool, not str"):
        mt.set_autocast_enabled("cpu")
    with pytest.raises(TypeError, match=r"must be minitensor\.dtype, not int"):
        mt.set_autocast_dtype("cpu", 3)
    with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not supported"):
        context = mt.autocast("cpu", mt.float32)
    with context:
        assert not mt.is_autocast_enabled("cpu")
    with pytest.warns(DeprecationWarning, match="is_autocast_enabled"):
        assert not mt.is_autocast_cpu_enabled()
    with pytest.warns(FutureWarning, match=r"autocast\('cpu', args\.\.\.\)"), mt.cpu.amp.autocast():
        assert mt.is_autocast_enabled("cpu")


def test_as_a_decorator():
    @mt.autocast("cpu")
    def product(x):
        return x @ x

    assert product(mt.ones(2, 2)).dtype == mt.bfloat16
    assert product.__name__ == "product"


@pytest.mark.at_once(reason="it counts programs")
def test_recorded_and_compiled_calls_are_cast_alike():
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4))
    optimizer = mt.optim.SGD(model.parameters(), lr=0.1)
    x, target = mt.rand(5, 8), mt.tensor([0, 1, 2, 3, 0])

    def train(x):
        optimizer.zero_grad()
        with mt.autocast("cpu"):
            loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    start = copy.deepcopy(model.state_dict())
    runs = []
    compiled = mt.function(train, jit_compile=True)
    for function in (train, compiled):
        model.load_state_dict(start)
        losses = [function(x).item() for _ in range(3)]
        runs.append((losses, [p.tolist() for p in model.parameters()]))
    assert runs[0] == runs[1]
    assert compiled.programs == 1
    with mt.autocast("cpu"):
        eager = model(x)
        with mt.jit_scope():
            recorded = model(x)
    assert mt.equal(eager, recorded)


@pytest.mark.at_once(reason="it counts programs")
def test_programs_of_functions_are_of_one_autocast():
    w = mt.rand(3, 3, requires_grad=True)
    compiled = mt.function(lambda x: (x @ w) @ w, jit_compile=True)
    x = mt.rand(3, 3)
    for _ in range(2):
        with mt.autocast("cpu"):
            assert compiled(x).dtype == mt.bfloat16
            assert compiled(x).dtype == mt.bfloat16
        with mt.autocast("cpu", mt.float16):
            assert mt.equal(compiled(x), (x @ w) @ w)
        assert compiled(x).dtype == mt.float32
    assert compiled.programs == 3


def test_mapped_calls():
    with mt.autocast("cpu"):
        assert mt.vmap(lambda a: a @ a)(mt.ones(2, 3, 3)).dtype == mt.bfloat16


class Product(mt.autograd.Function):
    seen: ClassVar[list] = []

    @staticmethod
    @mt.amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    @mt.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        Product.seen.append(mt.is_autocast_enabled("cpu"))
        return g.mm(b.t()), a.t().mm(g)


class InFloat32(mt.autograd.Function):
    @staticmethod
    @mt.amp.custom_fwd(device_type="cpu", cast_inputs=mt.float32)
    def forward(ctx, a):
        assert not mt.is_autocast_enabled("cpu")
        return a * 1

    @staticmethod
    @mt.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        return g


def test_functions_of_the_users_own():
    a = mt.ones(2, 2, requires_grad=True)
    with mt.autocast("cpu"):
        result = Product.apply(a, a)
    assert result.dtype == mt.bfloat16
    Product.seen.clear()
    result.float().sum().backward()
    assert Product.seen == [True]
    assert a.grad.dtype == mt.float32
    with mt.autocast("cpu"):
        assert InFloat32.apply(mt.ones(2, dtype=mt.bfloat16)).dtype == mt.float32
    assert InFloat32.apply(mt.ones(2, dtype=mt.bfloat16)).dtype == mt.bfloat16


# ---- GradScaler


def scaled_steps(lib, scaler, optimizer_class, infinite_at):
    p = lib.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optimizer_class([p], lr=0.1)
    found = []
    for i in range(6):
        optimizer.zero_grad()
        scaler.scale((p * p).sum()).backward()
        if i == infinite_at:
            p.grad[0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        found.append((scaler.get_scale(), p.detach().tolist()))
    return found, scaler.state_dict()


def test_steps_with_infinite_gradients_are_skipped():
    scaler = mt.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    steps, state = scaled_steps(mt, scaler, mt.optim.SGD, 2)
    assert [scale for scale, _ in steps] == [8.0, 16.0, 8.0, 8.0, 16.0, 16.0]
    assert steps[1][1] == steps[2][1] != steps[3][1]
    assert state == {
        "scale": 16.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2,
        "_growth_tracker": 1,
    }


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_scaled_steps_against_torch(name):
    torch = pytest.importorskip("torch")
    ours, our_state = scaled_steps(
        mt, mt.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3), getattr(mt.optim, name), 1
    )
    theirs, their_state = scaled_steps(
        torch, torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3), getattr(torch.optim, name), 1
    )
    assert our_state == their_state
    for (scale, values), (expected_scale, expected) in zip(ours, theirs, strict=True):
        assert scale == expected_scale
        assert values == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("framework", ["minitensor", "torch"])
def test_optimizers_that_unscale_by_themselves(framework):
    lib, seen = pytest.importorskip(framework), []

    class Fused(lib.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            given = self.param_groups[0]["params"][0].grad
            seen.append((self.grad_scale and self.grad_scale.item(), self.found_inf.item(), given.tolist()))
            return "stepped"

    class Older(lib.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None, grad_scaler=None):
            seen.append(grad_scaler.get_scale())

    p = lib.ones(2, requires_grad=True)
    optimizer = Fused([p], lr=0.1)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0)
    for unscale, factor in ((False, 1.0), (True, 1.0), (False, float("inf"))):
        p.grad = None
        scaler.scale((p * lib.tensor([1.0, factor])).sum()).backward()
        if unscale:
            scaler.unscale_(optimizer)
        assert scaler.step(optimizer) == "stepped"
        assert not hasattr(optimizer, "grad_scale")
        assert not hasattr(optimizer, "found_inf")
        with pytest.raises(RuntimeError, match="step\\(\\) has already been called"):
            scaler.step(optimizer)
        scaler.update()
    inf = float("inf")
    assert seen == [(4.0, 0.0, [4.0, 4.0]), (None, 0.0, [1.0, 1.0]), (4.0, 1.0, [4.0, inf])]
    assert scaler.get_scale() == 2.0
    with pytest.warns(FutureWarning, match="stop passing itself"):
        scaler.step(Older([p], lr=0.1))
    assert seen[-1] == 2.0


def test_a_scaler_says_what_is_out_of_order():
    p = mt.ones(2, requires_grad=True)
    optimizer = mt.optim.SGD([p], lr=0.1)
    scaler = mt.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
        scaler.step(optimizer)
    assert scaler.scale([p.sum()])[0].item() == 2 * 65536
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    scaler = mt.amp.GradScaler("cpu")
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled"):
        pickle.dumps(scaler)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="being called after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="Closure use"):
        scaler.step(optimizer, closure=None)
    scaler.update()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    scaler.update(4.0)
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable"):
        scaler.scale(3)
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        scaler.load_state_dict({})
    half = mt.ones(2, dtype=mt.float16, requires_grad=True)
    scaler.scale(half.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(mt.optim.SGD([half], lr=0.1))


def test_a_scaler_that_is_off():
    scaler = mt.amp.GradScaler("cpu", enabled=False)
    p = mt.ones(2, requires_grad=True)
    scaler.scale(p.sum()).backward()
    scaler.step(mt.optim.SGD([p], lr=0.5))
    scaler.update()
    assert p.tolist() == [0.5, 0.5]
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)
    other = mt.amp.GradScaler("cpu")
    other.load_state_dict(mt.amp.GradScaler("cpu", init_scale=2.0, growth_interval=7).state_dict())
    assert (other.get_scale(), other.get_growth_interval()) == (2.0, 7)


def test_a_scaler_for_a_gpu_is_off_without_one(monkeypatch):
    monkeypatch.setattr(mt.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        scaler = mt.amp.GradScaler()
    assert not scaler.is_enabled()
    assert scaler.scale(mt.ones(1)).item() == 1


def test_a_skip_within_a_compiled_function():
    p = mt.ones(2, requires_grad=True)
    optimizer = mt.optim.SGD([p], lr=0.5)
    scaler = mt.amp.GradScaler("cpu", init_scale=4.0, growth_interval=100)

    def train(x):
        optimizer.zero_grad()
        scaler.scale((p * x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    compiled = mt.function(train, jit_compile=True)
    compiled(mt.ones(2))
    assert p.tolist() == [0.5, 0.5]
    compiled(mt.tensor([1.0, float("inf")]))
    assert (p.tolist(), scaler.get_scale()) == ([0.5, 0.5], 2.0)
    compiled(mt.ones(2))
    assert p.tolist() == [0.0, 0.0]
    optimizer = mt.optim.Adam([p])
    with pytest.raises(RuntimeError, match=r"call scaler\.step"):
        mt.function(train, jit_compile=True)(mt.ones(2))
