"""Matrix products in PyTorch's other forms: all of them one call of `matmul`, and what is added to it."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, composite, grad_fn, older_form
from minitensor.linalg.products import cross as linalg_cross
from minitensor.linalg.products import multi_dot
from minitensor.ops import ROWS

__all__: list[str] = []

Tensor = _C.Tensor
matmul = ROWS["matmul"].call
# A dtype in the messages of products.
_CPP = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int",
    "int64": "long int", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float",
    "float64": "double", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def _whole(x: Any) -> bool:
    return not x.dtype.is_floating_point and not x.dtype.is_complex


def expand_to(x: Any, shape: Sequence[int]) -> Any:
    """x as an operand that is added to something of that shape, refused in PyTorch's words."""
    shape = tuple(shape)
    own = tuple(x.shape)
    if own == shape:
        return x
    if len(own) > len(shape):
        raise RuntimeError(
            f"expand(torch.{_C.type_name(x.dtype)}Tensor{{{list(own)}}}, size={list(shape)}): the number of sizes "
            f"provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor ({len(own)})"
        )
    lead = len(shape) - len(own)
    for d, size in reversed(list(enumerate(own))):
        if size not in (1, shape[lead + d]):
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[lead + d]}) must match the existing size ({size}) at "
                f"non-singleton dimension {lead + d}.  Target sizes: {list(shape)}.  Tensor sizes: {list(own)}"
            )
    return x.expand(shape)


def _plus_product(input: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * (x @ y); what is stored in 16 or 8 bits is rounded once."""
    dtype = input.dtype
    if dtype is _C.float16 or dtype is _C.bfloat16 or (dtype in FLOAT8 and x.dtype is y.dtype is dtype):
        wide = _C.float32
        return _combined(input.to(wide), matmul(x.to(wide), y.to(wide)), beta, alpha).to(dtype)
    return _combined(input, matmul(x, y), beta, alpha)


FLOAT8 = (_C.float8_e4m3fn, _C.float8_e4m3fnuz, _C.float8_e5m2, _C.float8_e5m2fnuz)
"""The types of eight bits that there are products of."""

FUSED = (_C.float16, _C.bfloat16, _C.float32, _C.float64)
"""The types of which `fused_addmm` adds in one pass."""


def fused_addmm(input: Any, mat1: Any, mat2: Any, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """beta * input + alpha * (mat1 @ mat2) in one pass; see the row."""
    return ROWS["_addmm"].call(input, mat1, mat2, beta, alpha)


def _combined(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * product; an input that beta = 0 leaves out may hold NaN.

    The result lies in memory as the product does.
    """
    beta, alpha = number(beta, "addmm", "beta"), number(alpha, "addmm", "alpha")
    if _whole(product):
        beta, alpha = int(beta), int(alpha)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product + 0 if alpha == 1 else product
    input = input if beta == 1 else input * beta
    return product + input


@composite(out="exact")
@autocast("lower", "lower")
def mm(input: Any, mat2: Any) -> Tensor:
    """The product of two matrices."""
    if input.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    return matmul(input, mat2)


def _check_batches(batch1: Any, batch2: Any) -> None:
    for name, t in (("batch1", batch1), ("batch2", batch2)):
        if t.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    (b, _, k), (b2, k2, _) = batch1.shape, batch2.shape
    if b != b2 or k != k2:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{b}, {k}] but got: [{b2}, {k2}]."
        )


@composite(out="exact")
@autocast("lower", "lower")
def bmm(input: Any, mat2: Any) -> Tensor:
    """The products of two batches of matrices."""
    _check_batches(input, mat2)
    if input.dtype != mat2.dtype:
        raise RuntimeError(f"expected scalar type {_C.type_name(input.dtype)} but found {_C.type_name(mat2.dtype)}")
    return matmul(input, mat2)


def _check_vector_product(added: int, mat: Any, vec: Any) -> None:
    if mat.ndim != 2 or vec.ndim != 1 or added > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {added}, {mat.ndim}, {vec.ndim}")
    if mat.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({mat.shape[0]}), mat ({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})"
        )


@composite(out="exact")
@autocast("same", "lower")
def mv(input: Any, vec: Any) -> Tensor:
    """The product of a matrix and a vector."""
    _check_vector_product(1, input, vec)
    if input.dtype != vec.dtype:
        kind = _C.type_name(vec.dtype)
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {kind}, {_C.type_name(input.dtype)}, and {kind}"
        )
    return matmul(input, vec)


def _check_dot(input: Any, other: Any) -> None:
    if input.ndim != 1 or other.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {other.ndim}D tensors")
    if input.dtype != other.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {_C.type_name(input.dtype)} and "
            f"{_C.type_name(other.dtype)}"
        )
    if input.dtype == _C.bool:
        raise NotImplementedError("\"dot\" not implemented for 'Bool'")


@composite(out="exact")
@autocast("same", "widest")
def dot(input: Any, tensor: Any) -> Tensor:
    """The sum of the products of two vectors' elements."""
    _check_dot(input, tensor)
    return matmul(input, tensor)


@composite(out="exact")
@autocast("same", "widest")
@grad_fn("VdotBackward0")
def vdot(input: Any, other: Any) -> Tensor:
    """The sum of the products of two vectors' elements, those of the first conjugated."""
    _check_dot(input, other)
    return matmul(input.conj() if input.is_complex() else input, other)


@composite(out="exact")
def inner(input: Any, other: Any) -> Tensor:
    """The dot products of the vectors along the last dimensions."""
    if input.dtype != other.dtype:
        raise RuntimeError("both inputs should have same dtype")
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    return tensordot(input, other, ((-1,), (-1,)))


@composite(aliases=("ger",), out="castable")
def outer(input: Any, vec2: Any) -> Tensor:
    """The products of every element of one vector with every one of another."""
    for name, t in (("self", input), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {t.ndim}-D")
    return input.unsqueeze(1) * vec2


@composite(out="castable")
def kron(input: Any, other: Any) -> Tensor:
    """The Kronecker product."""
    rank = builtins.max(input.ndim, other.ndim)
    a = input.reshape((*(1,) * (rank - input.ndim), *input.shape))
    b = other.reshape((*(1,) * (rank - other.ndim), *other.shape))
    for d in range(rank):
        a, b = a.unsqueeze(2 * d + 1), b.unsqueeze(2 * d)
    product = a * b
    shape = [product.shape[2 * d] * product.shape[2 * d + 1] for d in range(rank)]
    return _C.forget_base(product.reshape(shape))


# ---- a product added to something


@composite(inplace=True, out="exact")
@autocast("lower", "lower")
@older_form(("beta", "alpha"))
@grad_fn("AddmmBackward0")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    for name, t in (("mat1", mat1), ("mat2", mat2)):
        if t.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {t.ndim}-D tensor")
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({mat1.shape[0]}x{mat1.shape[1]} and "
            f"{mat2.shape[0]}x{mat2.shape[1]})"
        )
    if input.dtype != mat2.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {_C.type_name(input.dtype)} and "
            f"{_C.type_name(mat2.dtype)}"
        )
    input = expand_to(input, (mat1.shape[0], mat2.shape[1]))
    if input.dtype in FUSED and beta != 0:
        return fused_addmm(input, mat1, mat2, beta, alpha)
    return _plus_product(input, mat1, mat2, beta, alpha)


@composite(inplace=True, out="exact")
@autocast("same", "lower")
@older_form(("beta", "alpha"))
@grad_fn("AddmvBackward0")
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    _check_vector_product(input.ndim, mat, vec)
    if not input.dtype == mat.dtype == vec.dtype:
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {_C.type_name(input.dtype)}, "
            f"{_C.type_name(mat.dtype)}, and {_C.type_name(vec.dtype)}"
        )
    if input.ndim and input.shape[0] not in (1, mat.shape[0]):
        raise RuntimeError(
            f"size mismatch, got input ({input.shape[0]}), mat ({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})"
        )
    return _plus_product(expand_to(input, (mat.shape[0],)), mat, vec, beta, alpha)


@composite(inplace=True, out="castable")
@autocast("", "lower")
@older_form(("beta", "alpha"))
@grad_fn("AddrBackward0")
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
    for name, t in (("vec1", vec1), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {t.ndim}-D")
    if all(_whole(t) for t in (input, vec1, vec2)):
        for name, value in (("beta", beta), ("alpha", alpha)):
            if isinstance(value, float):
                raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    input = expand_to(input, (vec1.shape[0], vec2.shape[0]))
    dtype = _C.promote_types(input.dtype, _C.promote_types(vec1.dtype, vec2.dtype))
    if dtype == _C.bool:
        product = vec1.unsqueeze(1) * vec2
        product = product if alpha else product & False
        return input | product if beta else product
    beta, alpha = number(beta, "addr", "beta"), number(alpha, "addr", "alpha")
    if not dtype.is_floating_point and not dtype.is_complex:
        beta, alpha = int(beta), int(alpha)
    input, vec1, vec2 = (t if t.dtype == dtype else t.to(dtype) for t in (input, vec1, vec2))
    # The numbers are first factors: as in PyTorch they are of the dtype here, also if it's float16.
    vec1 = vec1 if alpha == 1 else ROWS["mul"].call(alpha, vec1)
    product = vec1.unsqueeze(1) * vec2
    if beta == 0:
        return product
    return (input if beta == 1 else ROWS["mul"].call(beta, input)) + product


@composite(inplace=True, out="exact")
@autocast("lower", "lower")
@older_form(("beta", "alpha"))
@grad_fn("BaddbmmBackward0")
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2)."""
    _check_batches(batch1, batch2)
    if not input.dtype == batch1.dtype == batch2.dtype:
        named = [_CPP.get(t.dtype.name, t.dtype.name) for t in (input, batch1, batch2)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {named[0]}, batch1: {named[1]}, batch2: {named[2]}"
        )
    input = expand_to(input, (batch1.shape[0], batch1.shape[1], batch2.shape[2]))
    return _plus_product(input, batch1, batch2, beta, alpha)


@composite(inplace=True, out="exact")
@autocast("lower", "lower")
@older_form(("beta", "alpha"))
@grad_fn("AddbmmBackward0")
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * the sum of bmm(batch1, batch2) over the batch."""
    for name, t in (("batch1", batch1), ("batch2", batch2)):
        if t.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {batch1.shape[0]} and {batch2.shape[0]}"
        )
    _check_batches(batch1, batch2)
    m, n = batch1.shape[1], batch2.shape[2]
    input = expand_to(input, (m, n))
    # One product over all batches instead of a sum of many.
    k = batch1.shape[0] * batch1.shape[2]
    rows, columns = batch1.permute((1, 0, 2)).reshape((m, k)), batch2.reshape((k, n))
    return _plus_product(input, rows, columns, beta, alpha)


# ---- tensors


def _pairs(a: Any, b: Any, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, (tuple, list)) and len(dims) == 2:
        found = [[d] if isinstance(d, int) else list(d) for d in dims]
        return found[0], found[1]
    if isinstance(dims, bool) or not isinstance(dims, int):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    if dims < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
    if dims > builtins.min(a.ndim, b.ndim):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
    return list(range(-dims, 0)), list(range(dims))


def _check_dim(d: int, rank: int) -> None:
    if not -rank <= d < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")


@composite(method=False, out="exact")
@autocast("", "widest")
def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """The sum of products over pairs of dimensions: the last `dims` of a with the first of b, or two lists of them."""
    of_a, of_b = _pairs(a, b, dims)
    if len(of_a) != len(of_b):
        raise RuntimeError("both dimension lists should have same length")
    if a.dtype != b.dtype:
        raise RuntimeError("both inputs should have same dtype")
    for i, j in zip(of_a, of_b, strict=True):
        _check_dim(i, a.ndim)
        _check_dim(j, b.ndim)
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size "
                f"{b.shape[j]} in dim {j}"
            )
    of_a, of_b = [i % a.ndim for i in of_a], [j % b.ndim for j in of_b]
    if len(set(of_a)) < len(of_a) or len(set(of_b)) < len(of_b):
        raise RuntimeError("dim appears multiple times in the list of dims")
    for i, j in zip(of_a, of_b, strict=True):
        # What is broadcast against one element is summed first.
        if a.shape[i] != b.shape[j]:
            if b.shape[j] == 1:
                a = a.sum(i, keepdim=True, dtype=a.dtype)
            else:
                b = b.sum(j, keepdim=True, dtype=b.dtype)
    kept_a = [d for d in range(a.ndim) if d not in of_a]
    kept_b = [d for d in range(b.ndim) if d not in of_b]
    shape = [*(a.shape[d] for d in kept_a), *(b.shape[d] for d in kept_b)]
    k = math.prod(a.shape[d] for d in of_a)
    m, n = math.prod(a.shape[d] for d in kept_a), math.prod(b.shape[d] for d in kept_b)
    left = a.permute((*kept_a, *of_a)).reshape((m, k))
    right = b.permute((*of_b, *kept_b)).reshape((k, n))
    return matmul(left, right).reshape(shape)


@composite(method=False, out="exact")
@autocast("lower", "lower")
def chain_matmul(*matrices: Any) -> Tensor:
    """The product of several matrices in the order that costs least."""
    if not matrices:
        raise TypeError("chain_matmul(): Expected one or more matrices")
    for _i, t in enumerate(matrices):
        if t.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {t.ndim}, expected 2 instead.")
    if len(matrices) == 1:
        return matrices[0]
    return multi_dot(list(matrices))


@composite(method=False, namespaces=("nn.functional",))
@autocast("same", "widest")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """x1^T W_k x2 + b_k for each output k, over the last dimensions."""
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for d in range(input1.ndim - 1):
        if input1.shape[d] != input2.shape[d]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {d}: got {input1.shape[d]} and "
                f"{input2.shape[d]}"
            )
    for name, t, at in (("input1", input1, 1), ("input2", input2, 2)):
        if t.shape[-1] != weight.shape[at]:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {t.shape[-1]} but expected {weight.shape[at]}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {weight.shape[0]}"
        )
    lead = tuple(input1.shape[:-1])
    outputs, m, n = weight.shape
    x1, x2 = input1.reshape((-1, m)), input2.reshape((-1, n))
    # (batch, m) @ (m, outputs * n): the larger of the two products, once.
    half = matmul(x1, weight.permute((1, 0, 2)).reshape((m, outputs * n))).reshape((-1, outputs, n))
    result = matmul(half, x2.unsqueeze(-1)).squeeze(-1).reshape((*lead, outputs))
    return result if bias is None else result + bias


@composite(method=True)
@autocast("float32", "")
@grad_fn("TraceBackward0")
def trace(input: Any) -> Tensor:
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype == _C.bool:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return input.diagonal(0, 0, 1).sum()


@composite(out="exact")
@autocast("", "widest")
def cross(input: Any, other: Any, dim: int | None = None) -> Tensor:
    """The cross product of vectors of three elements along dim, or along the first dimension of that size."""
    if dim is None:
        for d, size in enumerate(input.shape):
            if size == 3:
                return linalg_cross(input, other, dim=d)
        raise RuntimeError("no dimension of size 3 in input")
    return linalg_cross(input, other, dim=dim)
