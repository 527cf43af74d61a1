"""Wrong calls raise what PyTorch raises, at the caller's line, eagerly and recorded; nothing is changed by them."""

import traceback
from contextlib import nullcontext

import numpy as np
import pytest

import minitensor as mt

F = mt.nn.functional
INT, BOOL, F64 = mt.int64, mt.bool, mt.float64


def ones(*size, dtype=mt.float32):
    return mt.ones(*size, dtype=dtype)


# (what is called, the exception, how its message begins or what is in it)
CASES = [
    (lambda: (1, 2) in mt.ones(2), RuntimeError, "only supports Tensor or scalar, but you passed in a <class 'tuple'>"),
    (lambda: () in mt.ones(2), RuntimeError, "only supports Tensor or scalar, but you passed in a <class 'tuple'>"),
    # shapes
    (
        lambda: ones(2, 3) + ones(4),
        RuntimeError,
        "size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    ),
    (
        lambda: ones(2, 3) + ones(3, 2),  # the last dimension is compared first
        RuntimeError,
        "size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1",
    ),
    (lambda: ones(2, 3) @ ones(2, 3), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
    (
        lambda: ones(3) @ ones(2),
        RuntimeError,
        "inconsistent tensor size, expected tensor [3] and src [2] to have the same number of elements",
    ),
    (
        lambda: ones(()) @ ones(2),
        RuntimeError,
        "both arguments to matmul need to be at least 1D, but they are 0D and 1D",
    ),
    (lambda: ones(2, 3, 4) @ ones(3, 4, 5), RuntimeError, "size of tensor a (2) must match the size of tensor b (3)"),
    (lambda: ones(2, 3).cumprod_(1, dtype=mt.uint8), RuntimeError, "Bad in-place call: input tensor dtype float and"),
    (lambda: mt.is_complex(0.5), TypeError, "is_complex(): argument 'input' (position 1) must be Tensor, not float"),
    (
        lambda: mt.linalg.ldl_solve(ones(3, 3), 1, ones(3, 2)),
        TypeError,
        "'pivots' (position 2) must be Tensor",
    ),
    (lambda: mt.linalg.matrix_norm(ones(3, 3), dtype=ones(1)), TypeError, "argument 'dtype' must be torch.dtype"),
    (lambda: mt.randn(2, out=np.float32(2)), TypeError, "argument 'out' must be Tensor"),
    (lambda: mt.combinations(ones(3), 2**62, True), mt.OutOfMemoryError, "combinations: "),
    (lambda: mt.linalg.lu(ones(2**25, 1)), mt.OutOfMemoryError, "allocate"),
    (lambda: mt.nn.functional.avg_pool1d(ones(1, 3), 2**63 - 1), RuntimeError, "to type int without overflow"),
    (lambda: mt.nn.functional.max_pool2d(ones(1, 3, 3), 2, 2**31), RuntimeError, "to type int without overflow"),
    (lambda: mt.einsum("i,i", [ones(2), 1]), TypeError, "expected Tensor as element 1 in argument 0, but got int"),
    (lambda: mt.atleast_2d([2, 0]), TypeError, "expected Tensor as element 0 in argument 0, but got int"),
    (lambda: mt.combinations(mt.ones(70_000), 3), mt.OutOfMemoryError, "combinations: "),
    (lambda: mt.put(ones(3), mt.tensor([0]), np.ones(1)), TypeError, "'source' (position 3) must be Tensor"),
    (lambda: mt.Tensor.__complex__(4), TypeError, "__complex__(): argument 'self'"),
    (lambda: mt.linalg.vander(ones(2), N=2**50), mt.OutOfMemoryError, "cannot allocate"),
    (lambda: ones(6).view(4, 2), RuntimeError, "shape '[4, 2]' is invalid for input of size 6"),
    (lambda: ones(2, 3).t().view(6), RuntimeError, "Use .reshape(...) instead"),
    (lambda: ones(6).reshape(-1, 4), RuntimeError, "shape '[-1, 4]' is invalid for input of size 6"),
    (lambda: ones(6).reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
    (
        lambda: ones(2, 3).expand(4, 3),
        RuntimeError,
        "The expanded size of the tensor (4) must match the existing size (2) at non-singleton dimension 0",
    ),
    (
        lambda: mt.broadcast_tensors(ones(2, 3), ones(1), ones(4)),
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    ),
    (lambda: ones(2, 3).permute(0, 0), RuntimeError, "permute"),
    (
        lambda: ones(2, 3).transpose(0, 2),
        IndexError,
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    ),
    (lambda: ones(2, 3).sum(2), IndexError, "Dimension out of range"),
    (lambda: ones(2, 3).sum((0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda: mt.cat([]), ValueError, "expected a non-empty list of Tensors"),
    (
        lambda: mt.cat([ones(2, 3), ones(2, 4)]),
        RuntimeError,
        "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4",
    ),
    (
        lambda: mt.stack([ones(2), ones(3)]),
        RuntimeError,
        "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
    ),
    (lambda: ones(2, 2, 2).t(), RuntimeError, "t() expects a tensor with <= 2 dimensions, but self is 3D"),
    (lambda: ones(2).as_strided((5,), (1,)), RuntimeError, "are out of bounds for storage of size 8"),
    (lambda: ones(3).unfold(0, 5, 1), RuntimeError, "maximum size for tensor at dimension 0 is 3 but size is 5"),
    (lambda: ones(3).narrow(0, 2, 3), RuntimeError, "start (2) + length (3) exceeds dimension size (3)."),
    (lambda: ones(3).split([1, 1]), RuntimeError, "split_with_sizes expects split_sizes to sum exactly to 3"),
    (lambda: mt.nn.Linear(3, 2)(ones(2, 4)), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x4 and 3x2)"),
    (
        lambda: F.cross_entropy(ones(3, 4), mt.tensor([0, 1])),
        ValueError,
        "Expected input batch_size (3) to match target batch_size (2).",
    ),
    (lambda: mt.zeros(-2), RuntimeError, "negative dimension"),
    # dtypes
    (
        lambda: ones(2, 2) @ ones(2, 2, dtype=F64),
        RuntimeError,
        "expected m1 and m2 to have the same dtype, but got: float != double",
    ),
    (lambda: -mt.tensor([True]), RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported"),
    (
        lambda: mt.tensor([True]) - mt.tensor([True]),
        RuntimeError,
        "Subtraction, the `-` operator, with two bool tensors is not supported",
    ),
    (lambda: ones(2) & ones(2), NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'"),
    (lambda: mt.tensor([2]) ** -1, RuntimeError, "Integers to negative integer powers are not allowed."),
    (lambda: mt.tensor([1, 2]).mean(), RuntimeError, "mean(): could not infer output dtype"),
    (lambda: mt.where(ones(2) > 0, ones(2)), TypeError, "where() takes a condition alone, or a condition, input"),
    (lambda: mt.where(ones(2), ones(2), ones(2)), RuntimeError, "where expected condition to be a boolean tensor"),
    (lambda: mt.tensor([1, 2]).softmax(0), NotImplementedError, "not implemented for 'Long'"),
    (lambda: ones(2, 3).gather(1, mt.tensor([[0.5]])), RuntimeError, "gather(): Expected dtype int32/int64 for index"),
    (
        lambda: ones(3).scatter_add(0, mt.tensor([0]), ones(1, dtype=F64)),
        RuntimeError,
        "Expected self.dtype to be equal to src.dtype",
    ),
    (
        lambda: ones(2, dtype=INT).requires_grad_(),
        RuntimeError,
        "only Tensors of floating point and complex dtype can require gradients",
    ),
    (
        lambda: ones(3).masked_fill(ones(3), 1),
        RuntimeError,
        "only supports boolean masks, but got mask with dtype float32",
    ),
    # indices
    (lambda: ones(3)[5], IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    (lambda: ones(())[0], IndexError, "invalid index of a 0-dim tensor"),
    (lambda: ones(3)[0, 0], IndexError, "too many indices for tensor of dimension 1"),
    (lambda: ones(3)[mt.tensor([0.5])], IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    (
        lambda: ones(3)[mt.tensor([True, False])],
        IndexError,
        "The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [3]",
    ),
    (lambda: ones(3)[::-1], ValueError, "step must be greater than zero"),
    (lambda: ones(3).select(0, 3), IndexError, "select(): index 3 out of range for tensor of size [3] at dimension 0"),
    (
        lambda: ones(2, 3).gather(1, mt.tensor([0])),
        RuntimeError,
        "Index tensor must have the same number of dimensions as input tensor",
    ),
    # arguments
    (lambda: ones(2) + "a", TypeError, "unsupported operand type(s) for +"),
    (lambda: ones(2) + None, TypeError, "unsupported operand type(s) for +"),
    (lambda: mt.exp("a"), TypeError, "exp(): argument 'input' (position 1) must be Tensor, not str"),
    (lambda: mt.exp(), TypeError, 'exp() missing 1 required positional arguments: "input"'),
    (lambda: mt.exp(ones(2), ones(2)), TypeError, "exp() takes 1 positional argument but 2 were given"),
    (lambda: ones(2).sum(dims=0), TypeError, "got an unexpected keyword argument 'dims'"),
    (lambda: ones(2).sum(0.5), TypeError, "sum(): argument 'dim' (position 2) must be tuple of ints, not float"),
    (lambda: ones(2).clamp(ones(()) * 1j), NotImplementedError, "clamp is not supported for complex types"),
    (
        lambda: ones(2).clamp_min(ones(()) * 1j),
        NotImplementedError,
        "\"maximum_cpu\" not implemented for 'ComplexFloat'",
    ),
    (lambda: mt.clamp_max(ones(()) * 1j, ones(())), NotImplementedError, '"minimum_cpu" not implemented for'),
    (lambda: mt.Tensor.__format__(-1, "d"), TypeError, "needs a Tensor, but got int"),
    (lambda: mt.nn.functional.hinge_embedding_loss(2, ones(2)), TypeError, "(position 1) must be Tensor, not int"),
    (lambda: mt.testing.make_tensor(2, dtype=None), TypeError, "'dtype' must be minitensor.dtype, not NoneType"),
    (lambda: ones(2).clamp(), RuntimeError, "At least one of 'min' or 'max' must not be None"),
    (lambda: ones(3).chunk(0), RuntimeError, "chunk expects `chunks` to be greater than 0, got: 0"),
    (lambda: ones(2).to("nowhere"), RuntimeError, "device type at start of device string: nowhere"),
    (lambda: mt.full((2,), "a"), TypeError, "full(): argument 'fill_value' (position 2) must be Number, not str"),
    (
        lambda: mt.tensor([1], dtype=mt.int32).fill_(2**40),
        RuntimeError,
        "cannot be converted to type int without overflow",
    ),
    # data
    (lambda: mt.tensor([[1, 2], [3]]), ValueError, "expected sequence of length 2 at dim 1 (got 1)"),
    (lambda: mt.tensor("a"), TypeError, "new(): invalid data type 'str'"),
    (lambda: mt.tensor(None), RuntimeError, "Could not infer dtype of NoneType"),
    (lambda: mt.tensor([object()]), RuntimeError, "Could not infer dtype of object"),
    (lambda: mt.from_numpy([1]), TypeError, "expected np.ndarray (got list)"),
    (
        lambda: mt.from_numpy(np.arange(4.0)[::-1]),
        ValueError,
        "At least one stride in the given numpy array is negative",
    ),
    # values
    (lambda: ones(3).item(), RuntimeError, "a Tensor with 3 elements cannot be converted to Scalar"),
    (lambda: float(ones(3)), ValueError, "only one element tensors can be converted to Python scalars"),
    (lambda: int(ones(0)), ValueError, "only one element tensors can be converted to Python scalars"),
    (lambda: bool(ones(3)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda: bool(ones(0)), RuntimeError, "Boolean value of Tensor with no values is ambiguous"),
    (lambda: len(ones(())), TypeError, "len() of a 0-d tensor"),
    (lambda: list(ones(())), TypeError, "iteration over a 0-d tensor"),
    (lambda: ones(0).argmax(), IndexError, "argmax(): Expected reduction dim to be specified for input.numel() == 0"),
    (lambda: ones(0, 2).amax(0), IndexError, "amax(): Expected reduction dim 0 to have non-zero size."),
    (lambda: mt.arange(0, 5, 0), RuntimeError, "step must be nonzero"),
    (lambda: mt.arange(5, 0, 1), RuntimeError, "upper bound and lower bound inconsistent with step sign"),
    (lambda: mt.linspace(0, 1, -1), RuntimeError, "number of steps must be non-negative"),
    (
        lambda: mt.randint(5, 5, (2,)),
        RuntimeError,
        "random_ expects 'from' to be less than 'to', but got from=5 >= to=5",
    ),
    (lambda: mt.optim.SGD([ones(1)], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda: mt.optim.SGD([], lr=1), ValueError, "optimizer got an empty parameter list"),
    (lambda: mt.set_num_threads(0), RuntimeError, "set_num_threads expects a positive integer"),
    (
        lambda: mt.stack(mt.ones(3)),
        TypeError,
        "stack(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor",
    ),
    (
        lambda: mt.hstack(mt.ones(3)),
        TypeError,
        "hstack(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor",
    ),
]

# Found when the kernel runs: at the call eagerly, where the value is needed if it was recorded.
LATE = [
    (lambda: mt.tensor([1]) // mt.tensor([0]), ZeroDivisionError, "integer division or modulo by zero"),
    (lambda: mt.tensor([1]) % 0, ZeroDivisionError, "integer division or modulo by zero"),
    (
        lambda: ones(2, 3).gather(-1, mt.tensor([[7]])),
        RuntimeError,
        "index 7 is out of bounds for dimension 1 with size 3",
    ),
    (
        lambda: ones(2).scatter_add(0, mt.tensor([2]), ones(1)),
        RuntimeError,
        "index 2 is out of bounds for dimension 0 with size 2",
    ),
    (
        lambda: ones(3).index_select(0, mt.tensor([4])),
        IndexError,
        "index 4 is out of bounds for dimension 0 with size 3",
    ),
    (lambda: ones(3)[mt.tensor([-4])], IndexError, "index -4 is out of bounds for dimension 0 with size 3"),
    (lambda: F.cross_entropy(ones(2, 4), mt.tensor([0, 9])), IndexError, "Target 9 is out of bounds."),
]

IN_PLACE = [
    (lambda x: x.add_(ones(3, 2)), RuntimeError, "output with shape [2] doesn't match the broadcast shape [3, 2]"),
    (lambda x: x.copy_(ones(3)), RuntimeError, "size of tensor a (2) must match the size of tensor b (3)"),
    (lambda x: x.long().add_(1.5), RuntimeError, "can't be cast to the desired output type"),
    (
        lambda x: x[:1].expand(3).add_(1),
        RuntimeError,
        "more than one element of the written-to tensor refers to a single memory location",
    ),
    (lambda x: x.__setitem__(5, 1), IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
    (lambda x: x.__setitem__(slice(None), ones(3)), RuntimeError, "must match"),
    (lambda x: x.as_strided((2, 2), (1, 0)).mul_(2), RuntimeError, "more than one element"),
    (
        lambda x: x.requires_grad_().add_(1),
        RuntimeError,
        "a leaf Variable that requires grad is being used in an in-place operation",
    ),
]


def modes():
    return pytest.mark.parametrize("mode", [nullcontext, mt.jit_scope], ids=["eager", "recorded"])


@pytest.mark.sampled(2)
@modes()
@pytest.mark.parametrize(("call", "error", "message"), CASES)
def test_wrong_calls(call, error, message, mode):
    with mode(), pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert message in str(caught.value)
    # A C function leaves no frame; what is composed in Python leaves its own after the caller's.
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files[:2] == [__file__, __file__]
    assert all("minitensor" in file for file in files[2:])


@pytest.mark.parametrize(("call", "error", "message"), LATE)
@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_wrong_values(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
    with pytest.raises(error) as caught, mt.jit_scope():
        kept = call()
    assert message in str(caught.value)
    if getattr(caught.value, "__notes__", None):
        assert __file__ in caught.value.__notes__[0]
        with pytest.raises(RuntimeError, match="never computed"):
            kept.tolist()


@modes()
@pytest.mark.parametrize(("call", "error", "message"), IN_PLACE)
def test_writes_that_fail_change_nothing(call, error, message, mode):
    x = ones(2) * 3
    with mode():
        with pytest.raises(error) as caught:
            call(x)
        assert message in str(caught.value)
        assert x._version == 0
    assert x.tolist() == [3, 3]


def test_read_only_memory():
    array = np.arange(3, dtype=np.float32)
    array.flags.writeable = False
    x = mt.from_numpy(array)
    for mode in (nullcontext, mt.jit_scope):
        with mode(), pytest.raises(ValueError, match="the memory of this tensor is read-only"):
            x.add_(1)
    assert (x + 1).tolist() == [1, 2, 3]
    assert array.tolist() == [0, 1, 2]


def test_meta_tensors():
    x = mt.empty(2, 3, device="meta")
    assert (x @ x.t()).shape == (2, 2)
    for read in (lambda: x.numpy(), lambda: x.tolist(), lambda: x.sum().item(), lambda: bool(x.sum())):
        with pytest.raises((RuntimeError, TypeError), match="meta"):
            read()
    with pytest.raises(RuntimeError, match="at least two devices, meta and cpu"):
        x + mt.ones(2, 3)


def test_integers_wrap_as_in_pytorch():
    assert (mt.tensor([255], dtype=mt.uint8) + 1).item() == 0
    assert (mt.tensor([2**31 - 1], dtype=mt.int32) * 2).item() == -2
    assert (mt.tensor([2**63 - 1]) + 1).item() == -(2**63)
    assert mt.tensor([-(2**63)]).abs().item() == -(2**63)
    assert (mt.tensor([-7]) // 2).item() == -4
    assert (mt.tensor([-7]) % 3).item() == 2


def test_fractions_divide_by_zero():
    x = mt.tensor([1.0, -1.0, 0.0])
    assert repr((x / 0).tolist()) == "[inf, -inf, nan]"
    assert repr((x // 0).tolist()) == "[inf, -inf, nan]"
    assert repr((mt.tensor([1, 0]) / 0).tolist()) == "[inf, nan]"


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_no_elements(shape):
    x = mt.ones(shape)
    for mode in (nullcontext, mt.jit_scope):
        with mode():
            results = [
                (x + 1).exp(),
                x.sum(),
                x.reshape(-1),
                x.t() if x.ndim < 3 else x,
                mt.cat([x, x]),
                (x > 0).any(),
                x.prod(),
            ]
            x.mul_(2)
        assert [r.numel() for r in results] == [0, 1, 0, 0, 0, 1, 1]
        assert [results[i].item() for i in (1, 5, 6)] == [0, False, 1]


def test_a_class_of_nn_that_is_missing():
    with pytest.raises(AttributeError, match=r"no attribute 'Nothing'; docs/names\.md says what there is$"):
        mt.nn.Nothing  # noqa: B018


def test_the_compilers_names_are_its_own():
    assert {name for name in dir(mt.jit) if not name.startswith("__")} == set(mt.jit.__all__)
