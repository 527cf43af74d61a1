"""Jacobians, Hessians and products with them, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor.autograd.grad_mode import enable_grad
from minitensor.autograd.gradients import grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensor = _C.Tensor


def _as_tuple(value: Any, what: str, function: str) -> tuple[tuple[Any, ...], bool]:
    """The value as a tuple, and whether it was one."""
    is_tuple = isinstance(value, tuple)
    values = value if is_tuple else (value,)
    for i, item in enumerate(values):
        if not isinstance(item, Tensor):
            if is_tuple:
                raise TypeError(
                    f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the value at "
                    f"index {i} has type {type(item)}."
                )
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the given {what} "
                f"has type {type(item)}."
            )
    return values, is_tuple


def _prepared(inputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    """The inputs as tensors of their own that require grad, with their history if a graph is wanted."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_(True) for x in inputs)


def _strict_outputs(outputs: tuple[Any, ...], what: str) -> None:
    for i, out in enumerate(outputs):
        if not out.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in "
                f"a differentiable manner from the input when running in strict mode ({what})."
            )


def _filled(gradients: Any, like: tuple[Any, ...], strict: bool, create_graph: bool, what: str) -> tuple[Any, ...]:
    filled = []
    for i, (gradient, x) in enumerate(zip(gradients, like, strict=True)):
        if gradient is None:
            if strict:
                raise RuntimeError(
                    f"The output of the user-provided function is independent of input {i}. This is not allowed in "
                    f"strict mode ({what})."
                )
            gradient = x.new_zeros(tuple(x.shape))
        if strict and create_graph and not gradient.requires_grad:
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. This is not allowed in strict "
                "mode when create_graph=True."
            )
        filled.append(gradient)
    return tuple(filled)


def _gradients(outputs: Any, inputs: Any, given: Any, create_graph: bool = False) -> tuple[Any, ...]:
    """The gradients, None where there are none; outputs without history have none at all."""
    pairs = [(o, g) for o, g in zip(outputs, given, strict=True) if o is not None and o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    outs, seeds = zip(*pairs, strict=True)
    return grad(outs, inputs, seeds, create_graph=create_graph, retain_graph=True, allow_unused=True)


def _finished(value: Any, create_graph: bool) -> Any:
    if isinstance(value, tuple):
        return tuple(_finished(v, create_graph) for v in value)
    return value if create_graph else value.detach()


def _vector(v: Any, like: tuple[Any, ...], is_tuple: bool, function: str, whose: str) -> tuple[Any, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if {whose} contains a single Tensor with a single element."
            )
        return (like[0].new_ones(tuple(like[0].shape)),)
    values, _ = _as_tuple(v, "v", function)
    if len(values) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(values)}.")
    for i, (given, x) in enumerate(zip(values, like, strict=True)):
        if given.shape != x.shape:
            place = f"Entry {i} in v" if is_tuple else "v"
            raise RuntimeError(f"{place} has invalid size: should be {x.shape} but got {given.shape}.")
    return values


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), the product of the vector `v` with its Jacobian).

    `v` has the shape of the output, and may be left out for a number. With `strict` an output that does not depend on
    an input is an error instead of zeros.
    """
    with enable_grad():
        given, one_in = _as_tuple(inputs, "inputs", "vjp")
        xs = _prepared(given, create_graph)
        outputs, one_out = _as_tuple(func(*xs), "outputs of the user-provided function", "vjp")
        if strict:
            _strict_outputs(outputs, "vjp")
        vector = _vector(v, outputs, one_out, "vjp", "the user-provided function's output")
        gradients = _gradients(outputs, xs, vector, create_graph)
        products = _filled(gradients, xs, strict, create_graph, "vjp")
    products = _finished(products, create_graph)
    outputs = _finished(outputs, create_graph)
    return outputs if one_out else outputs[0], products if one_in else products[0]


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), the product of its Jacobian with the vector `v`, of the inputs' shapes).

    It is the gradient of the gradient: the vjp is linear in its vector, and its own vjp is the jvp.
    """
    with enable_grad():
        given, one_in = _as_tuple(inputs, "inputs", "jvp")
        xs = _prepared(given, create_graph)
        vector = _vector(v, xs, one_in, "jvp", "the input to the user-provided function")
        outputs, one_out = _as_tuple(func(*xs), "outputs of the user-provided function", "jvp")
        if strict:
            _strict_outputs(outputs, "jvp")
        dummies = tuple(o.detach().new_zeros(tuple(o.shape)).requires_grad_(True) for o in outputs)
        first = _gradients(outputs, xs, dummies, create_graph=True)
        if strict:
            _filled(first, xs, True, False, "jvp")
        second = _gradients(first, dummies, vector, create_graph)
        products = _filled(second, outputs, strict, create_graph, "jvp")
    products = _finished(products, create_graph)
    outputs = _finished(outputs, create_graph)
    return outputs if one_out else outputs[0], products if one_out else products[0]


def _rows(output: Any, xs: tuple[Any, ...], create_graph: bool, strict: bool, vectorize: bool, i: int) -> list[Any]:
    """The Jacobian of one output with respect to each input."""
    n, shape = output.numel(), tuple(output.shape)
    if n == 0:
        return [x.new_zeros((*shape, *x.shape)) for x in xs]
    if vectorize:
        units = _eye(n, output.dtype).reshape((n, *shape))
        found = (None,) * len(xs)
        if output.requires_grad:
            found = grad(
                output,
                xs,
                units,
                create_graph=create_graph,
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
        rows = [x.new_zeros((n, *x.shape)) if g is None else g for g, x in zip(found, xs, strict=True)]
        return [r.reshape((*shape, *x.shape)) for r, x in zip(rows, xs, strict=True)]
    from minitensor.composite.joining import stack

    columns: list[list[Any]] = [[] for _ in xs]
    for element in output.reshape(-1).unbind(0):
        found = _gradients((element,), xs, (None,), create_graph)
        for j, (g, x) in enumerate(zip(found, xs, strict=True)):
            if g is None and strict:
                raise RuntimeError(
                    f"Output {i} of the user-provided function is independent of input {j}. This is not allowed in "
                    "strict mode."
                )
            if g is not None and strict and create_graph and not g.requires_grad:
                raise RuntimeError(
                    "The jacobian of the user-provided function is independent of input "
                    f"{j}. This is not allowed in strict mode when create_graph=True."
                )
            columns[j].append(x.new_zeros(tuple(x.shape)) if g is None else g)
    return [stack(column, 0).reshape((*shape, *x.shape)) for column, x in zip(columns, xs, strict=True)]


def _eye(n: int, dtype: Any) -> Any:
    from minitensor.ops import ROWS

    return ROWS["eye"].call(n, dtype=dtype)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func` at `inputs`: for each output and each input a tensor of both shapes joined.

    With `vectorize` all rows go through the graph at once. The strategy "forward-mode" computes columns with jvp.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not '
                'supported together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
            )
        return _forward_jacobian(func, inputs)
    if strict and vectorize:
        raise RuntimeError("torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported "
                           "together. Please either set `strict=False` or `vectorize=False`.")  # fmt: skip
    with enable_grad():
        given, one_in = _as_tuple(inputs, "inputs", "jacobian")
        xs = _prepared(given, create_graph)
        outputs, one_out = _as_tuple(func(*xs), "outputs of the user-provided function", "jacobian")
        if strict:
            _strict_outputs(outputs, "jacobian")
        table = tuple(tuple(_rows(o, xs, create_graph, strict, vectorize, i)) for i, o in enumerate(outputs))
    table = _finished(table, create_graph)
    rows = tuple(row if one_in else row[0] for row in table)
    return rows if one_out else rows[0]


def _forward_jacobian(func: Callable[..., Any], inputs: Any) -> Any:
    from minitensor.composite.joining import stack

    given, one_in = _as_tuple(inputs, "inputs", "jacobian")
    blocks: list[list[Any]] = []
    one_out = False
    for j, x in enumerate(given):
        columns: list[tuple[Any, ...]] = []
        for k in range(x.numel()):
            unit = x.new_zeros((x.numel(),))
            unit[k] = 1
            vector = tuple(unit.reshape(tuple(x.shape)) if i == j else y.new_zeros(tuple(y.shape))
                           for i, y in enumerate(given))  # fmt: skip
            _, product = jvp(func, given, vector)
            one_out = isinstance(product, tuple)
            columns.append(product if one_out else (product,))
        blocks.append([
            stack(list(column), -1).reshape((*column[0].shape, *x.shape)) for column in zip(*columns, strict=True)
        ])  # fmt: skip
    table = tuple(tuple(block[i] for block in blocks) for i in range(len(blocks[0])))
    rows = tuple(row if one_in else row[0] for row in table)
    return rows if one_out else rows[0]


def _number(func: Callable[..., Any], what: str) -> Callable[..., Any]:
    def checked(*xs: Any) -> Any:
        out = func(*xs)
        values, is_tuple = _as_tuple(out, "outputs of the user-provided function", what)
        if is_tuple or not isinstance(out, Tensor):
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if values[0].numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return out.reshape(())

    return checked


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function that gives a number: for each pair of inputs a tensor of both shapes joined."""
    given, one_in = _as_tuple(inputs, "inputs", "hessian")
    scalar = _number(func, "hessian")

    def gradient(*xs: Any) -> tuple[Any, ...]:
        result = jacobian(scalar, xs, create_graph=True, strict=strict)
        return result if isinstance(result, tuple) else (result,)

    table = jacobian(
        gradient, given, create_graph=create_graph, strict=strict, vectorize=vectorize, strategy=outer_jacobian_strategy
    )
    return table if one_in else table[0][0]


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), the product of the vector `v` with the Hessian), for a function that gives a number."""
    return _hessian_product(func, inputs, v, create_graph, strict, "vhp")


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), the product of the Hessian with `v`); the same as `vhp` where the Hessian is continuous."""
    return _hessian_product(func, inputs, v, create_graph, strict, "hvp")


def _hessian_product(
    func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool, what: str
) -> tuple[Any, Any]:
    with enable_grad():
        given, one_in = _as_tuple(inputs, "inputs", what)
        xs = _prepared(given, create_graph)
        vector = _vector(v, xs, one_in, what, "the input to the user-provided function")
        out = func(*xs)
        _as_tuple(out, "outputs of the user-provided function", what)
        if isinstance(out, tuple):
            raise RuntimeError(f"The function given to {what} should return a single Tensor")
        if out.numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {what} should contain a single element")
        if strict:
            _strict_outputs((out,), what)
        first = _filled(_gradients((out,), xs, (None,), True), xs, strict, True, "jacobian")
        products = _filled(_gradients(first, xs, vector, create_graph), xs, strict, create_graph, "hessian")
    products = _finished(products, create_graph)
    return _finished(out, create_graph), products if one_in else products[0]
