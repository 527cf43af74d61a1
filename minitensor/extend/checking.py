"""`check`: whether an extension's rules agree with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import autograd
from minitensor._C import Tensor, float64
from minitensor.extend.definition import has_shape_rule

__all__ = ["check"]


def check(op: Any, samples: Sequence[tuple[Any, ...]], *, gradients: bool = True) -> None:
    """Raise AssertionError unless the op's rules agree on every sample, which is a tuple of arguments.

    The shape rule against the kernel's results; the recorded op, and the compiled one if it has a lowering, against the
    kernel bit for bit; the gradient against finite differences, for the samples whose floating-point tensors are
    float64 (with `gradients`).
    """
    from minitensor_jit import jit_scope

    for sample in samples:
        expected = _results(op(*sample))
        if has_shape_rule(op):
            _compare("the shape rule", _results(op(*map(_meta, sample))), expected, bits=False)
        with jit_scope():
            recorded = _results(op(*sample))
            # Something to compute with it, so that there is a cluster to be in.
            more = [t + t if t.is_floating_point() else t for t in recorded]
        _compare("the recorded op", recorded, expected, bits=True)
        del more
        _check_lowering(op, sample, expected)
        tensors = [a for a in sample if isinstance(a, Tensor) and a.dtype is float64]
        if gradients and tensors and op.row.vjp is not None:
            _check_gradient(op, sample)


def _check_lowering(op: Any, sample: tuple[Any, ...], expected: list[Any]) -> None:
    """What is recorded falls back to the kernel where it can't be compiled; this does not."""
    if op.row.lower is None:
        return
    from minitensor_jit import InvalidArgumentError, LoweringError, function

    try:
        compiled = function(lambda: op(*sample), jit_compile=True)()
    except LoweringError as error:
        raise AssertionError(str(error)) from error
    except InvalidArgumentError as error:
        if isinstance(error.__cause__, LoweringError):
            raise AssertionError(str(error.__cause__)) from error
        return  # `refuse` has a reason
    _compare("the compiled op", _results(compiled), expected, bits=True)


def _results(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]


def _meta(argument: Any) -> Any:
    return argument.to(device="meta") if isinstance(argument, Tensor) else argument


def _compare(what: str, got: list[Any], expected: list[Any], bits: bool) -> None:
    assert len(got) == len(expected), f"{what} gives {len(got)} results, the kernel {len(expected)}"
    for g, e in zip(got, expected, strict=True):
        assert (g.shape, g.dtype) == (e.shape, e.dtype), (
            f"{what} gives shape {tuple(g.shape)} and {g.dtype}, the kernel {tuple(e.shape)} and {e.dtype}"
        )
        if bits:
            same = g.detach().numpy().tobytes() == e.detach().numpy().tobytes()
            assert same, f"{what} differs from the kernel:\n{g}\n{e}"


def _check_gradient(op: Any, sample: tuple[Any, ...]) -> None:
    places = [i for i, a in enumerate(sample) if isinstance(a, Tensor) and a.dtype is float64]
    inputs = tuple(sample[i].detach().clone().requires_grad_() for i in places)

    def function(*tensors: Any) -> Any:
        arguments = list(sample)
        for i, t in zip(places, tensors, strict=True):
            arguments[i] = t
        return op(*arguments)

    autograd.gradcheck(function, inputs)
