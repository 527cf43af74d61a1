"""Comparison of gradients with finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._warning import warn
from minitensor.autograd.grad_mode import enable_grad, no_grad
from minitensor.autograd.gradients import grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Tensor = _C.Tensor


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck when a gradient is wrong."""


def _differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _outputs(func: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    outs = _tuple(func(*inputs))
    return tuple(o for o in outs if _differentiable(o))


def _as_real(values: Any) -> Any:
    """A flat float64 array; complex numbers as pairs."""
    import numpy as np

    array = np.ascontiguousarray(values.detach().numpy()).reshape(-1)
    return array.view(array.real.dtype).astype(np.float64) if np.iscomplexobj(array) else array.astype(np.float64)


def _moved(x: Any, array: Any) -> Any:
    return _C.tensor_from_data(array.reshape(tuple(x.shape)), x.dtype, None, True)


def _numerical(func: Callable[..., Any], inputs: tuple[Any, ...], place: int, eps: float) -> list[Any]:
    """For each output the matrix of derivatives: a row for each real component of the input."""
    import numpy as np

    x = inputs[place]
    base = np.array(x.detach().numpy(), copy=True).reshape(-1)
    parts: tuple[complex, ...] = (1, 1j) if np.iscomplexobj(base) else (1,)
    rows: list[list[Any]] = []
    for k in range(base.size):
        for part in parts:
            sides = []
            for sign in (1, -1):
                there = base.copy()
                there[k] += sign * eps * part
                given = list(inputs)
                given[place] = _moved(x, there)
                with no_grad():
                    sides.append([_as_real(o) for o in _outputs(func, tuple(given))])
            rows.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
    count = len(_outputs(func, inputs))
    return [np.array([row[i] for row in rows]) for i in range(count)]


def _analytical(output: Any, inputs: tuple[Any, ...], places: list[int], check_undefined: bool) -> list[Any]:
    """For each input the same matrix, from one backward pass for each real component of the output."""
    import numpy as np

    wanted = [inputs[i] for i in places]
    is_complex = output.is_complex()
    columns: list[list[Any]] = [[] for _ in wanted]
    n = output.numel()
    for k in range(n):
        for part in (1, 1j) if is_complex else (1,):
            unit = np.zeros(n, dtype=output.detach().numpy().dtype)
            unit[k] = part
            seed = _moved(output, unit)
            found: tuple[Any, ...] = (None,) * len(wanted)
            if output.requires_grad:
                found = grad(output, wanted, seed, retain_graph=True, allow_unused=True)
            for column, g, x in zip(columns, found, wanted, strict=True):
                if g is not None and g.dtype is not x.dtype:
                    raise GradcheckError(f"Backward's gradient has dtype {g.dtype}, the input {x.dtype}")
                if g is not None and tuple(g.shape) != tuple(x.shape):
                    raise GradcheckError("Analytical gradient has incorrect size")
                column.append(_as_real(x.new_zeros(tuple(x.shape)) if g is None else g))
    empty = [x.numel() * (2 if x.is_complex() else 1) for x in wanted]
    return [np.array(c).T if c else np.zeros((e, 0)) for c, e in zip(columns, empty, strict=True)]


def _check_inputs(inputs: tuple[Any, ...]) -> list[int]:

    places = [i for i, x in enumerate(inputs) if _differentiable(x) and x.requires_grad]
    if not places:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    for i in places:
        x = inputs[i]
        if x.dtype not in (_C.float64, _C.complex128):
            warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. "
            )
        if any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
    return places


def _compare(func: Any, inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet_tol: float,
             check_undefined: bool, check_batched: bool) -> None:  # fmt: skip
    import numpy as np

    places = _check_inputs(inputs)
    with enable_grad():
        outputs = _outputs(func, inputs)
    if not outputs:
        return
    numerical = {i: _numerical(func, inputs, i, eps) for i in places}
    for j, output in enumerate(outputs):
        first = _analytical(output, inputs, places, check_undefined)
        again = _analytical(output, inputs, places, check_undefined)
        for i, a, b in zip(places, first, again, strict=True):
            if a.size and np.abs(a - b).max() > nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    "gives different values, although analytical gradient matches numerical gradient. The tolerance "
                    f"for nondeterminism was {nondet_tol}."
                )
            n = numerical[i][j]
            if not np.allclose(a, n.reshape(a.shape), rtol=rtol, atol=atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {i},\nnumerical:{n}\nanalytical:{a}\n"
                )
        if check_batched and output.requires_grad:
            _check_batched(output, inputs, places, atol, rtol)
    if check_undefined:
        _check_undefined(func, inputs, places)


def _check_batched(output: Any, inputs: tuple[Any, ...], places: list[int], atol: float, rtol: float) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    wanted = [inputs[i] for i in places]
    seeds = [_moved(output, rng.normal(size=output.numel()).astype(output.detach().numpy().dtype)) for _ in range(2)]
    from minitensor.composite.joining import stack

    single = [grad(output, wanted, s, retain_graph=True, allow_unused=True) for s in seeds]
    batched = grad(output, wanted, stack(seeds, 0), retain_graph=True, allow_unused=True, is_grads_batched=True)
    for i, whole, parts in zip(places, batched, zip(*single, strict=True), strict=True):
        if whole is None or parts[0] is None:
            continue
        expected = np.stack([p.detach().numpy() for p in parts])
        if not np.allclose(whole.detach().numpy(), expected, rtol=rtol, atol=atol):
            raise GradcheckError(f"Batched gradients of input {i} differ from those computed one after the other")


def _check_undefined(func: Any, inputs: tuple[Any, ...], places: list[int]) -> None:
    """A result whose gradient nobody sends must not break the formulas of the others."""
    outputs = [o for o in _outputs(func, inputs) if o.requires_grad]
    if len(outputs) < 2:
        return
    for output in outputs:
        seed = output.new_zeros(tuple(output.shape))
        found = grad(output, [inputs[i] for i in places], seed, retain_graph=True, allow_unused=True)
        if any(g is not None and bool((g != 0).any()) for g in found):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. Please "
                "check if you need to materialize gradients."
            )


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func` at `inputs` with central differences; raises GradcheckError or gives False.

    Inputs that require grad should be float64 or complex128. Real and imaginary parts are varied apart. The whole
    Jacobian is compared, also with `fast_mode`, which is accepted. `check_forward_ad` compares jvp as well.
    """
    given = _tuple(inputs)
    try:
        if check_backward_ad:
            _compare(func, given, eps, atol, rtol, nondet_tol, check_undefined_grad, check_batched_grad)
        if check_forward_ad:
            _check_forward(func, given, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_forward(func: Any, inputs: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
    import numpy as np

    from minitensor.func import jvp

    rng = np.random.default_rng(0)
    places = _check_inputs(inputs)
    for i in places:
        x = inputs[i].detach()
        direction = rng.normal(size=x.numel()).astype(x.numpy().dtype)

        def of(value: Any, i: int = i) -> Any:
            return _outputs(func, (*inputs[:i], value, *inputs[i + 1 :]))

        _, tangents = jvp(of, (x,), (_moved(x, direction),))
        sides = []
        for sign in (1, -1):
            there = x.numpy().reshape(-1) + sign * eps * direction
            with no_grad():
                sides.append([_as_real(o) for o in of(_moved(x, there))])
        for a, b, t in zip(*sides, tangents, strict=True):
            if not np.allclose(_as_real(t), (a - b) / (2 * eps), rtol=rtol, atol=atol):
                raise GradcheckError(f"Jacobian computed with forward mode mismatch for input {i}")


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the gradients of the gradients of `func` with central differences; as `gradcheck`.

    `grad_outputs` are what the gradients start from, random numbers if they are not given.
    """
    import numpy as np

    given = _tuple(inputs)
    outputs = _outputs(func, given)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = []
        for o in outputs:
            numbers = rng.normal(size=(o.numel(), 2)) @ np.array([1, 1j] if o.is_complex() else [1, 0])
            seed = _moved(o, numbers.astype(o.detach().numpy().dtype))
            if gen_non_contig_grad_outputs and o.ndim:
                seed = seed.transpose(0, -1).contiguous().transpose(0, -1)
            seeds.append(seed.requires_grad_(True))
    else:
        seeds = list(_tuple(grad_outputs))
    count = len(given)

    def gradients(*args: Any) -> tuple[Any, ...]:
        xs = tuple(
            x if not _differentiable(x) or x.requires_grad or not given[i].requires_grad else x.requires_grad_(True)
            for i, x in enumerate(args[:count])
        )
        with enable_grad():
            outs = _outputs(func, xs)
            wanted = [x for x in xs if _differentiable(x) and x.requires_grad]
            return grad(outs, wanted, list(args[count:]), create_graph=True, allow_unused=True, materialize_grads=True)

    return gradcheck(
        gradients, (*given, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=False, check_batched_grad=check_batched_grad, fast_mode=fast_mode,
    )  # fmt: skip
