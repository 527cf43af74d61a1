"""Shapes at the bounds of their arguments: the last that is taken, the first that is refused, and what is empty.

What is expected is stored, from PyTorch 2.13.0 on a CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitensor as mt
import minitensor.nn.functional as F

VALUES: list[tuple[str, Any]] = [
    ("mt.diag(mt.tensor([1.,2.]),1)", [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]),
    ("mt.diag(mt.arange(6).reshape(2,3),1)", [1, 5]),
    ("mt.diag(mt.arange(6).reshape(2,3),2)", [2]),
    ("mt.diag(mt.arange(6).reshape(2,3),3)", []),
    ("mt.diag(mt.arange(6).reshape(2,3),-2)", []),
    ("mt.vander(mt.tensor([2,3]),N=0)", [[], []]),
    ("mt.vander(mt.tensor([2,3]),N=1)", [[1], [1]]),
    ("mt.vander(mt.tensor([2,3]),N=3,increasing=True)", [[1, 2, 4], [1, 3, 9]]),
    ("mt.combinations(mt.tensor([1,2,3]),r=0)", []),
    ("mt.combinations(mt.tensor([1,2,3]),r=1)", [[1], [2], [3]]),
    ("mt.combinations(mt.tensor([1,2,3]),r=3)", [[1, 2, 3]]),
    ("mt.combinations(mt.tensor([1,2,3]),r=4).shape", [0, 4]),
    ("mt.combinations(mt.tensor([1,2]),r=2,with_replacement=True)", [[1, 1], [1, 2], [2, 2]]),
    ("[list(x.shape) for x in mt.split(mt.arange(0),0)]", [[0]]),
    ("[x.tolist() for x in mt.split(mt.arange(5),2)]", [[0, 1], [2, 3], [4]]),
    ("[x.tolist() for x in mt.split(mt.arange(5),5)]", [[0, 1, 2, 3, 4]]),
    ("[x.tolist() for x in mt.split(mt.arange(5),6)]", [[0, 1, 2, 3, 4]]),
    ("[x.tolist() for x in mt.tensor_split(mt.arange(5),[0,2,7])]", [[], [0, 1], [2, 3, 4], []]),
    ("[x.tolist() for x in mt.tensor_split(mt.arange(5),[-1])]", [[0, 1, 2, 3], [4]]),
    ("[x.tolist() for x in mt.tensor_split(mt.arange(7),3)]", [[0, 1, 2], [3, 4], [5, 6]]),
    ("mt.movedim(mt.ones(2,3,4),(0,2),(1,0)).shape", [4, 2, 3]),
    ("mt.flatten(mt.ones(2,3,4),1,1).shape", [2, 3, 4]),
    ("mt.flatten(mt.ones(2,3,4),0,1).shape", [6, 4]),
    ("mt.flatten(mt.ones(2,3,4),-2,-1).shape", [2, 12]),
    ("mt.flatten(mt.tensor(1.)).shape", [1]),
    ("mt.unflatten(mt.ones(6),0,(-1,3)).shape", [2, 3]),
    ("mt.repeat_interleave(mt.tensor([1,2]),mt.tensor([0,2]))", [2, 2]),
    ("mt.repeat_interleave(mt.tensor([1,2]),0)", []),
    ("mt.repeat_interleave(mt.tensor([0,2]))", [1, 1]),
    ("mt.narrow(mt.arange(4),0,4,0)", []),
    ("mt.narrow(mt.arange(4),0,3,1)", [3]),
    ("mt.narrow(mt.arange(4),0,-1,1)", [3]),
    ("F.one_hot(mt.tensor([],dtype=mt.long),2).shape", [0, 2]),
    ("mt.linalg.cond(mt.diag(mt.tensor([1.,4.])),p=-2)", 0.25),
    ("mt.linalg.cond(mt.diag(mt.tensor([1.,4.])),p='fro')", 4.25),
    ("mt.linalg.vander(mt.tensor([2,3]),N=3)", [[1, 2, 4], [1, 3, 9]]),
    ("mt.linalg.matrix_rank(mt.diag(mt.tensor([1.,1e-3])),tol=1e-2)", 1),
    ("mt.linalg.matrix_rank(mt.diag(mt.tensor([1.,1e-2])),atol=1e-2)", 1),
    ("mt.tril(mt.ones(3,3),1)", [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
    ("mt.triu(mt.ones(2,3),-1)", [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
    ("mt.tril_indices(2,3,1)", [[0, 0, 1, 1, 1], [0, 1, 0, 1, 2]]),
    ("mt.tril_indices(0,3)", [[], []]),
    ("mt.triu_indices(2,3,1)", [[0, 0, 1], [1, 2, 2]]),
    ("mt.triu_indices(3,2,-1)", [[0, 0, 1, 1, 2], [0, 1, 0, 1, 1]]),
    ("mt.roll(mt.arange(4),5,0)", [3, 0, 1, 2]),
    ("mt.roll(mt.arange(4),-5)", [1, 2, 3, 0]),
    ("mt.as_strided(mt.arange(4),(2,),(3,))", [0, 3]),
    ("mt.as_strided(mt.arange(4),(1,),(9,),3)", [3]),
    ("mt.arange(4).unfold(0,4,1)", [[0, 1, 2, 3]]),
    ("mt.arange(4).unfold(0,0,1).shape", [5, 0]),
    ("mt.arange(4).unfold(0,2,3)", [[0, 1]]),
    ("mt.quantile(mt.tensor([1.,2.,4.]),1.)", 4.0),
    ("mt.quantile(mt.tensor([1.,2.,4.]),.25,interpolation='lower')", 1.0),
    ("mt.quantile(mt.tensor([1.,2.,4.]),.25,interpolation='higher')", 2.0),
    ("mt.quantile(mt.tensor([1.,2.,4.]),.25,interpolation='nearest')", 1.0),
    ("mt.quantile(mt.tensor([1.,2.,4.]),.25,interpolation='midpoint')", 1.5),
    ("mt.nanquantile(mt.tensor([1.,float('nan'),4.]),.5)", 2.5),
    ("mt.block_diag(mt.ones(1,2),mt.tensor(3.))", [[1.0, 1.0, 0.0], [0.0, 0.0, 3.0]]),
    ("mt.rot90(mt.arange(4).reshape(2,2),3)", [[2, 0], [3, 1]]),
    ("mt.rot90(mt.arange(4).reshape(2,2),-1,(1,0))", [[1, 3], [0, 2]]),
    ("mt.tile(mt.tensor([1,2]),(2,1))", [[1, 2], [1, 2]]),
    ("mt.arange(2).repeat(0)", []),
    ("mt.arange(2).repeat(2,1)", [[0, 1], [0, 1]]),
    ("mt.ones(1).expand(2,-1).shape", [2, 1]),
    ("mt.broadcast_to(mt.ones(2),(-1,))", [1.0, 1.0]),
    ("mt.broadcast_shapes((2,1),(1,3),())", [2, 3]),
    ("mt.squeeze(mt.ones(1,2,1),(0,2)).shape", [2]),
    ("mt.unsqueeze(mt.ones(2),-2).shape", [1, 2]),
    ("mt.cat([mt.ones(0),mt.ones(1,2)]).shape", [1, 2]),
    ("[x.tolist() for x in mt.chunk(mt.arange(5),4)]", [[0, 1], [2, 3], [4]]),
    ("[x.tolist() for x in mt.hsplit(mt.arange(4),2)]", [[0, 1], [2, 3]]),
    ("mt.diagonal(mt.arange(6).reshape(2,3),3).shape", [0]),
    ("mt.diagonal(mt.arange(6).reshape(2,3),1)", [1, 5]),
    ("mt.diagonal(mt.arange(6).reshape(2,3),-2).shape", [0]),
    ("mt.diag_embed(mt.tensor([1,2]),1)", [[0, 1, 0], [0, 0, 2], [0, 0, 0]]),
    ("mt.diag_embed(mt.tensor([1,2]),-1)", [[0, 0, 0], [1, 0, 0], [0, 2, 0]]),
    ("mt.diagflat(mt.tensor([1,2]),-1)", [[0, 0, 0], [1, 0, 0], [0, 2, 0]]),
]

REFUSED: list[tuple[str, type[Exception], str]] = [
    ("mt.diag(mt.ones(2,2,2))", RuntimeError, "diag(): Supports 1D or 2D tensors. Got 3D"),
    ("mt.vander(mt.ones(2,2))", RuntimeError, "x must be a one-dimensional tensor."),
    ("mt.vander(mt.tensor([2,3]),N=-1)", RuntimeError, "N must be non-negative."),
    ("mt.meshgrid(mt.ones(2,2),indexing='ij')", RuntimeError, "torch.meshgrid: Expected 0D or 1D tensor in the te"),
    ("mt.cartesian_prod(mt.ones(2,2))", RuntimeError, "Expect a 1D vector, but got shape [2, 2]"),
    ("mt.combinations(mt.tensor([1,2,3]),r=-1)", RuntimeError, "Expect a non-negative number, but got -1"),
    ("mt.combinations(mt.ones(2,2))", RuntimeError, "Expect a 1D vector, but got shape [2, 2]"),
    ("mt.split(mt.arange(5),-1)", RuntimeError, "split expects split_size be non-negative, but got "),
    ("mt.split(mt.arange(5),0)", RuntimeError, "split_size can only be 0 if dimension size is 0, b"),
    ("mt.tensor_split(mt.arange(5),0)", RuntimeError, "number of sections must be larger than 0, got 0"),
    (
        "mt.tensor_split(mt.arange(5),mt.ones(2,2,dtype=mt.long))",
        RuntimeError,
        "tensor_split expected tensor_indices_or_sections t",
    ),
    ("mt.movedim(mt.ones(2,3),(0,0),(0,1))", RuntimeError, "movedim: repeated dim in `source` ([0, 0])"),
    ("mt.movedim(mt.ones(2,3),(0,1),(0,0))", RuntimeError, "movedim: repeated dim in `destination` ([0, 0])"),
    ("mt.flatten(mt.ones(2,3),1,0)", RuntimeError, "flatten() has invalid args: start_dim cannot come "),
    ("mt.unflatten(mt.ones(6),0,())", RuntimeError, "unflatten: sizes must be non-empty"),
    ("mt.unflatten(mt.ones(6),0,(4,-1))", RuntimeError, "unflatten: Provided sizes [4, -1] don't multiply u"),
    (
        "mt.repeat_interleave(mt.tensor([1,2]),mt.ones(1,1,dtype=mt.long))",
        RuntimeError,
        "repeats must be 0-dim or 1-dim tensor",
    ),
    ("mt.repeat_interleave(mt.tensor([1,2]),mt.tensor([-1,2]))", RuntimeError, "repeats can not be negative"),
    ("mt.repeat_interleave(mt.tensor([1,2]),-1)", RuntimeError, "Repeats must be non-negative"),
    ("mt.narrow(mt.tensor(1.),0,0,1)", RuntimeError, "narrow() cannot be applied to a 0-dim tensor."),
    ("mt.narrow(mt.arange(4),0,1,-1)", RuntimeError, "narrow(): length must be non-negative."),
    ("mt.narrow(mt.arange(4),0,5,0)", IndexError, "start out of range (expected to be in range of [-4"),
    ("mt.narrow(mt.arange(4),0,3,2)", RuntimeError, "start (3) + length (2) exceeds dimension size (4)."),
    ("mt.narrow(mt.arange(4),0,-5,1)", IndexError, "start out of range (expected to be in range of [-4"),
    ("mt.linalg.vander(mt.tensor([True]))", RuntimeError, "linalg.vander supports floating point, complex, an"),
    ("mt.linalg.vander(mt.tensor([2,3]),N=1)", RuntimeError, "N must be greater than 1."),
    ("mt.tril_indices(-1,2)", RuntimeError, "row must be non-negative, got-1"),
    ("mt.tril_indices(2,-1)", RuntimeError, "col must be non-negative, got-1"),
    ("mt.roll(mt.arange(4),())", RuntimeError, "`shifts` required"),
    ("mt.roll(mt.arange(4),(1,2),(0,))", RuntimeError, "shifts and dimensions must align. shifts: 2, dims:"),
    ("mt.as_strided(mt.arange(4),(2,),(4,))", RuntimeError, "setStorage: sizes [2], strides [4], storage offset"),
    ("mt.as_strided(mt.arange(4),(2,),(1,),-1)", RuntimeError, "Tensor: invalid storage offset -1"),
    ("mt.as_strided(mt.arange(4),(1,),(9,),4)", RuntimeError, "setStorage: sizes [1], strides [9], storage offset"),
    ("mt.as_strided(mt.arange(4),(-1,),(1,))", RuntimeError, ""),
    ("mt.arange(4).unfold(0,5,1)", RuntimeError, "maximum size for tensor at dimension 0 is 4 but si"),
    ("mt.arange(4).unfold(0,2,0)", RuntimeError, "step is 0 but must be > 0"),
    ("mt.arange(4).unfold(0,-1,1)", RuntimeError, "size is -1 but must be >= 0"),
    ("mt.quantile(mt.tensor([1.,2.,4.]),1.1)", RuntimeError, "quantile() q must be in the range [0, 1] but got 1"),
    ("mt.quantile(mt.tensor([1.,2.,4.]),-.1)", RuntimeError, "quantile() q must be in the range [0, 1] but got -"),
    ("mt.block_diag(mt.ones(1,1,1))", RuntimeError, "torch.block_diag: Input tensors must have 2 or few"),
    ("mt.rot90(mt.arange(4).reshape(2,2),1,(0,0))", RuntimeError, "expected rotation dims to be different, but got di"),
    ("mt.rot90(mt.arange(4),1)", RuntimeError, "expected total dims >= 2, but got total dims = 1"),
    ("mt.flip(mt.arange(4).reshape(2,2),(0,0))", RuntimeError, "dim 0 appears multiple times in the list of dims"),
    ("mt.ones(2,2).repeat(2)", RuntimeError, "Number of dimensions of repeat dims can not be sma"),
    ("mt.ones(1).expand(-1,3)", RuntimeError, "The expanded size of the tensor (-1) isn't allowed"),
    ("mt.ones(2).expand(3)", RuntimeError, "The expanded size of the tensor (3) must match the"),
    ("mt.broadcast_shapes((2,),(3,))", RuntimeError, ""),
    ("mt.broadcast_shapes((-2,))", ValueError, "Attempting to broadcast a dimension with negative "),
    ("mt.squeeze(mt.ones(1,2,1),(0,0))", RuntimeError, "dim 0 appears multiple times in the list of dims"),
    ("mt.unsqueeze(mt.ones(2),2)", IndexError, "Dimension out of range (expected to be in range of"),
    ("mt.unsqueeze(mt.ones(2),-3)", IndexError, "Dimension out of range (expected to be in range of"),
    ("mt.stack([])", RuntimeError, "stack expects a non-empty TensorList"),
    ("mt.stack([mt.ones(1),mt.ones(2)])", RuntimeError, "stack expects each tensor to be equal size, but go"),
    ("mt.cat([])", ValueError, ""),
    ("mt.cat([mt.ones(1,2),mt.ones(2,1)])", RuntimeError, "Sizes of tensors must match except in dimension 0."),
    ("mt.chunk(mt.arange(5),0)", RuntimeError, "chunk expects `chunks` to be greater than 0, got: "),
    ("mt.hsplit(mt.arange(4),3)", RuntimeError, "torch.hsplit attempted to split along dimension 0,"),
    ("mt.vsplit(mt.arange(4),2)", RuntimeError, "torch.vsplit requires a tensor with at least 2 dim"),
    ("mt.dsplit(mt.ones(2,2),2)", RuntimeError, "torch.dsplit requires a tensor with at least 3 dim"),
    ("mt.swapdims(mt.ones(2,3),0,2)", IndexError, "Dimension out of range (expected to be in range of"),
    ("mt.diagonal(mt.arange(6).reshape(2,3),0,1,1)", RuntimeError, "diagonal dimensions cannot be identical 1, 1"),
]


def _plain(value: Any) -> Any:
    if isinstance(value, mt.Tensor):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _kinds(value: Any) -> Any:
    return [_kinds(one) for one in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize(("text", "expected"), VALUES, ids=[text for text, _ in VALUES])
def test_values(text: str, expected: Any) -> None:
    mt.manual_seed(0)
    found = _plain(eval(text, {"mt": mt, "F": F}))
    assert _kinds(found) == _kinds(expected)  # shapes, and integers apart from floats
    flat = [np.array(one) for one in (found, expected)] if not _ragged(expected) else None
    if flat is None:
        assert found == expected
    else:
        np.testing.assert_allclose(*flat, rtol=1e-6, atol=1e-7)


def _ragged(value: Any) -> bool:
    return isinstance(value, list) and len({len(one) for one in value if isinstance(one, list)}) > 1


@pytest.mark.parametrize(("text", "error", "says"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_refused(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as refused:
        eval(text, {"mt": mt, "F": F})
    assert type(refused.value) is error
    assert str(refused.value).startswith(says)
