"""What runs on a GPU: loops that its memory bounds, products, launches, and training steps.

``copy`` is the driver's own copy of as many bytes as the case has to read and write: what the GPU's memory gives in
the same run. Every contender queues its work, and a round ends when the device has done all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import steps
from benchmarks.case import OURS, Goal, Queued, at_least, at_most, case, within

FLOAT = 4
LONG = 100_000_000
ROWS, COLUMNS = 8192, 4096
SQUARE = 8192


def _ours(make: Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]], compiled: bool = True) -> Queued:
    import minitensor as mt

    mt.manual_seed(0)
    f, arguments = make(mt)
    f = mt.function(f, jit_compile=True) if compiled else f
    return Queued("f(*arguments)", mt.cuda.synchronize, f=f, arguments=arguments)


def _torch(make: Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]], compiled: bool = False) -> Queued:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    f, arguments = make(torch)
    f = torch.compile(f) if compiled else f
    return Queued("f(*arguments)", torch.cuda.synchronize, f=f, arguments=arguments)


def _copy(nbytes: int) -> Queued:
    import minitensor as mt

    drv = mt.cuda.driver()
    source, destination = (mt.empty(nbytes // 2, dtype=mt.uint8, device="cuda") for _ in range(2))
    return Queued(
        "copy(to, source, size)", mt.cuda.synchronize,
        copy=drv.memcpy_dtod, to=destination.data_ptr(), source=source.data_ptr(), size=nbytes // 2,
        keep=(source, destination),
    )  # fmt: skip


def _enter(
    name: str,
    title: str,
    make: Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]],
    *goals: Goal,
    nbytes: int = 0,
    eager: bool = False,
) -> None:
    """Enters a case whose contenders all do what ``make(library)`` says: a function and its arguments."""
    contenders: dict[str, Any] = {OURS: staticmethod(partial(_ours, make))}
    if eager:
        contenders["eager"] = staticmethod(partial(_ours, make, compiled=False))
    if nbytes:
        contenders["copy"] = staticmethod(partial(_copy, nbytes))
    contenders["torch"] = staticmethod(partial(_torch, make))
    contenders["torch_compile"] = staticmethod(partial(_torch, make, compiled=True))
    case(title, *goals, device="cuda")(type(name, (), contenders))


# ---- bound by memory


def _sum(xp: Any) -> Any:
    arguments = tuple(xp.rand(LONG, device="cuda") for _ in range(3))
    return (lambda x, y, z: (x + y * z).sum()), arguments


def _chain(xp: Any) -> Any:
    def chain(x: Any) -> Any:
        for _ in range(5):
            x = x * 0.9 + 0.1
        return x

    return chain, (xp.rand(LONG, device="cuda"),)


def _matrix(xp: Any) -> Any:
    return xp.randn(ROWS, COLUMNS, device="cuda")


def _softmax(xp: Any) -> Any:
    return (lambda x: xp.softmax(x, -1)), (_matrix(xp),)


def _layer_norm(xp: Any) -> Any:
    weight, bias = xp.ones(COLUMNS, device="cuda"), xp.zeros(COLUMNS, device="cuda")
    return (lambda x: xp.nn.functional.layer_norm(x, (COLUMNS,), weight, bias)), (_matrix(xp),)


def _backward(forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The gradient with respect to the first argument, of the forward pass's result kept from before."""

    def make(xp: Any) -> Any:
        f, (x,) = forward(xp)
        x.requires_grad_()
        out, seed = f(x), _matrix(xp)
        return (lambda g: xp.autograd.grad(out, x, g, retain_graph=True)[0]), (seed,)

    return make


def _transpose(xp: Any) -> Any:
    return (lambda x: x.t().contiguous()), (xp.rand(SQUARE, SQUARE, device="cuda"),)


_ARRAY, _SQUARE = ROWS * COLUMNS * FLOAT, SQUARE**2 * FLOAT
_enter("CudaSum", "sum(x + y * z) at 1e8", _sum, at_least(0.9, "copy"), nbytes=3 * LONG * FLOAT, eager=True)
_enter("CudaChain", "chain of ten ops at 1e8", _chain, at_least(0.9, "copy"), nbytes=2 * LONG * FLOAT, eager=True)
_enter("CudaSoftmax", f"softmax {ROWS} x {COLUMNS}", _softmax, at_least(0.8, "copy"), nbytes=2 * _ARRAY)
_enter("CudaLayerNorm", f"layer_norm {ROWS} x {COLUMNS}", _layer_norm, at_least(0.8, "copy"), nbytes=2 * _ARRAY)
_enter("CudaTranspose", f"transpose {SQUARE} x {SQUARE}", _transpose, at_least(0.8, "copy"), nbytes=2 * _SQUARE)


def _enter_backward(name: str, title: str, forward: Callable[[Any], Any]) -> None:
    make = _backward(forward)
    contenders = {
        OURS: staticmethod(partial(_ours, make, compiled=False)),  # an eager gradient is one compiled kernel
        "copy": staticmethod(partial(_copy, 3 * _ARRAY)),
        "torch": staticmethod(partial(_torch, make)),
    }
    case(f"{title} {ROWS} x {COLUMNS}, backward", at_least(0.8, "copy"), device="cuda")(type(name, (), contenders))


_enter_backward("CudaSoftmaxBackward", "softmax", _softmax)
_enter_backward("CudaLayerNormBackward", "layer_norm", _layer_norm)


# ---- products


def _product(dtype: str) -> Callable[[Any], Any]:
    def make(xp: Any) -> Any:
        a, b = (xp.randn(SQUARE, SQUARE, device="cuda").to(getattr(xp, dtype)) for _ in range(2))
        return (lambda a, b: a @ b), (a, b)

    return make


def _linear_gelu(xp: Any) -> Any:
    a, w = (xp.randn(SQUARE, SQUARE, device="cuda").to(xp.bfloat16) for _ in range(2))
    bias = xp.randn(SQUARE, device="cuda").to(xp.bfloat16)
    f = xp.nn.functional
    return (lambda a, w, bias: f.gelu(f.linear(a, w, bias), approximate="tanh")), (a, w, bias)


_enter("CudaMatmulBf16", f"bf16 product {SQUARE}^3", _product("bfloat16"), at_least(0.75, "torch"))
_enter("CudaLinearGelu", f"bf16 product {SQUARE}^3 + bias, gelu", _linear_gelu, at_least(0.85, "torch"))
_enter("CudaMatmulF32", f"f32 product {SQUARE}^3, without tf32", _product("float32"), at_least(0.8, "torch"))


# ---- launches and training steps


@case("launch of one cluster on 8 elements", within(8e-6), device="cuda")
class CudaLaunch:
    @staticmethod
    def minitensor() -> Any:
        return _ours(lambda mt: ((lambda x: mt.tanh(x * 2.0 + 1.0)), (mt.ones(8, device="cuda"),)))

    @staticmethod
    def torch() -> Any:
        return _torch(lambda torch: ((lambda x: torch.tanh(x * 2.0 + 1.0)), (torch.ones(8, device="cuda"),)))

    @staticmethod
    def jax() -> Any:
        import jax

        f = jax.jit(lambda x: jax.numpy.tanh(x * 2.0 + 1.0))
        x = jax.numpy.ones(8, jax.numpy.float32)
        return Queued("f(x)", lambda: f(x).block_until_ready(), f=f, x=x)


def _step(name: str) -> Queued:
    import minitensor as mt

    run, batch = steps.step(mt, name, device="cuda")
    return Queued("step(x, y)", mt.cuda.synchronize, step=mt.function(run, jit_compile=True), x=batch[0], y=batch[1])


def _step_torch(name: str, compiled: bool = False) -> Queued:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    run, batch = steps.step(torch, name, torch.compile if compiled else lambda part: part, "cuda")
    return Queued("step(x, y)", torch.cuda.synchronize, step=run, x=batch[0], y=batch[1])


def _step_jax(name: str) -> Queued:
    import jax

    from benchmarks import steps_jax

    jax.config.update("jax_default_matmul_precision", "highest")  # no tf32, as the others
    return Queued("step()", lambda: None, step=steps_jax.step(name))


for _name, _title in (("softmax", "softmax regression"), ("mlp", "MLP"), ("gpt", "small GPT")):
    case(f"{_title} training step", at_most(1.0, "torch_compile"), at_most(1.0, "jax"), device="cuda")(
        type(
            f"CudaStep{_name.title()}",
            (),
            {
                OURS: staticmethod(partial(_step, _name)),
                "torch": staticmethod(partial(_step_torch, _name)),
                "torch_compile": staticmethod(partial(_step_torch, _name, compiled=True)),
                "jax": staticmethod(partial(_step_jax, _name)),
            },
        )
    )
