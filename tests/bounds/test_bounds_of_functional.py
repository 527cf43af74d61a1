"""Layers' functions at the bounds of their arguments: sizes, paddings, margins, modes, classes.

What is expected is stored, from PyTorch 2.13.0 on a CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitensor as mt
import minitensor.nn.functional as F

inf, nan = float("inf"), float("nan")

VALUES: list[tuple[str, Any]] = [
    ("F.pad(mt.arange(3.).reshape(1,1,3),(3,0),mode='circular')", [[[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]]]),
    ("F.pad(mt.arange(3.).reshape(1,1,3),(0,-2),mode='circular')", [[[0.0]]]),
    ("F.pad(mt.arange(3.).reshape(1,1,3),(0,-3),mode='circular')", [[[]]]),
    ("F.pad(mt.arange(3.).reshape(1,1,3),(2,0),mode='reflect')", [[[2.0, 1.0, 0.0, 1.0, 2.0]]]),
    ("F.pad(mt.arange(3.).reshape(1,1,3),(-1,-1),mode='replicate')", [[[1.0]]]),
    ("F.pad(mt.arange(3.),(1,-1),value=2.)", [2.0, 0.0, 1.0]),
    ("F.pad(mt.arange(3.),(-1,-2))", []),
    ("F.one_hot(mt.tensor([0,2]),3)", [[1, 0, 0], [0, 0, 1]]),
    ("F.one_hot(mt.tensor([0,2]),-1)", [[1, 0, 0], [0, 0, 1]]),
    ("F.glu(mt.tensor([2.,4.,0.,0.]))", [1.0, 2.0]),
    ("F.embedding(mt.tensor([2]),mt.arange(6.).reshape(3,2),padding_idx=-3)", [[4.0, 5.0]]),
    (
        "F.embedding_bag(mt.tensor([0,2,1]),mt.arange(6.).reshape(3,2),mt.tensor([0,2]),mode='sum')",
        [[4.0, 6.0], [2.0, 3.0]],
    ),
    (
        "F.embedding_bag(mt.tensor([0,2,1]),mt.arange(6.).reshape(3,2),mt.tensor([0,0,3]),mode='mean')",
        [[0.0, 0.0], [2.0, 3.0], [0.0, 0.0]],
    ),
    (
        "F.embedding_bag(mt.tensor([0,2,1]),mt.arange(6.).reshape(3,2),mt.tensor([0,2]),mode='max',padding_idx=2)",
        [[0.0, 1.0], [2.0, 3.0]],
    ),
    (
        "F.embedding_bag(mt.tensor([0,2,1]),mt.arange(6.).reshape(3,2),mt.tensor([0,2,3]),mode='mean',include_last_offset=True)",
        [[2.0, 3.0], [2.0, 3.0]],
    ),
    ("F.gaussian_nll_loss(mt.ones(2),mt.ones(2),mt.tensor([1.,0.]))", -3.4538777),
    ("F.gaussian_nll_loss(mt.ones(2,2),mt.zeros(2,2),mt.ones(2),reduction='none')", [[0.5, 0.5], [0.5, 0.5]]),
    ("F.gaussian_nll_loss(mt.ones(2),mt.zeros(2),mt.ones(1),full=True)", 1.4189385),
    ("F.cross_entropy(mt.tensor([[0.,1.]]),mt.tensor([0]),label_smoothing=1.)", 0.8132616),
    ("F.cross_entropy(mt.tensor([[0.,1.]]),mt.tensor([0]),label_smoothing=0.)", 1.3132616),
    ("F.cross_entropy(mt.zeros(1,2),mt.tensor([-100]),reduction='sum')", 0.0),
    ("F.cross_entropy(mt.zeros(1,2),mt.tensor([-1]),ignore_index=-1,reduction='none')", [0.0]),
    ("F.multi_margin_loss(mt.tensor([[.5,1.,2.]]),mt.tensor([0]),p=2)", 2.8333333),
    ("F.multi_margin_loss(mt.tensor([[.5,1.,2.]]),mt.tensor([0]),p=1,margin=.25)", 0.8333333),
    ("F.multilabel_margin_loss(mt.tensor([[.1,.2,.4,.8]]),mt.tensor([[3,0,-1,1]]))", 0.85),
    ("F.multilabel_margin_loss(mt.tensor([.5,.25]),mt.tensor([-1,0]))", 0.0),
    ("F.conv1d(mt.ones(1,1,3),mt.ones(1,1,4),padding=1)", [[[3.0, 3.0]]]),
    ("F.conv1d(mt.ones(1,1,3),mt.ones(1,1,2),padding='same')", [[[2.0, 2.0, 1.0]]]),
    ("F.conv1d(mt.ones(1,1,3),mt.ones(1,1,2),dilation=2)", [[[2.0]]]),
    ("F.conv_transpose1d(mt.ones(1,1,2),mt.ones(1,1,2),output_padding=1,stride=2)", [[[1.0, 1.0, 1.0, 1.0, 0.0]]]),
    ("F.conv_transpose1d(mt.ones(1,1,2),mt.ones(1,1,2),output_padding=1,dilation=2)", [[[1.0, 1.0, 1.0, 1.0, 0.0]]]),
    ("F.fold(mt.arange(4.).reshape(1,1,4),(2,2),(1,1))", [[[[0.0, 1.0], [2.0, 3.0]]]]),
    ("F.fold(mt.arange(4.).reshape(1,2,2),(2,2),(2,1))", [[[[0.0, 1.0], [2.0, 3.0]]]]),
    (
        "F.unfold(mt.arange(4.).reshape(1,1,2,2),(2,1),padding=(1,0))",
        [[[0.0, 0.0, 0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0, 0.0, 0.0]]],
    ),
    ("F.affine_grid(mt.eye(2,3)[None],(1,1,1,2),align_corners=False)", [[[[-0.5, 0.0], [0.5, 0.0]]]]),
    (
        "F.affine_grid(mt.eye(2,3)[None],(1,1,2,2),align_corners=True)",
        [[[[-1.0, -1.0], [1.0, -1.0]], [[-1.0, 1.0], [1.0, 1.0]]]],
    ),
    (
        "F.grid_sample(mt.arange(4.).reshape(1,1,2,2),mt.tensor([[[[-1.,-1.],[1.,1.],[0.,0.]]]]),align_corners=True)",
        [[[[0.0, 3.0, 1.5]]]],
    ),
    (
        "F.grid_sample(mt.arange(4.).reshape(1,1,2,2),mt.tensor([[[[-1.,-1.],[1.,1.],[0.,0.]]]]),align_corners=False)",
        [[[[0.0, 0.75, 1.5]]]],
    ),
    (
        "F.grid_sample(mt.arange(4.).reshape(1,1,2,2),mt.tensor([[[[-2.,0.],[3.,1.]]]]),align_corners=False,padding_mode='reflection')",
        [[[[1.5, 2.0]]]],
    ),
    (
        "F.interpolate(mt.arange(3.).reshape(1,1,3),size=5,mode='linear',align_corners=True)",
        [[[0.0, 0.5, 1.0, 1.5, 2.0]]],
    ),
    ("F.interpolate(mt.arange(3.).reshape(1,1,3),size=1,mode='linear',align_corners=True)", [[[0.0]]]),
    ("F.interpolate(mt.arange(3.).reshape(1,1,3),size=5,mode='nearest-exact')", [[[0.0, 0.0, 1.0, 2.0, 2.0]]]),
    (
        "F.interpolate(mt.arange(3.).reshape(1,1,3),scale_factor=1.7,recompute_scale_factor=True)",
        [[[0.0, 0.0, 1.0, 1.0, 2.0]]],
    ),
    ("F.max_pool1d(mt.arange(3.).reshape(1,1,3),3,padding=1)", [[[1.0]]]),
    ("F.max_pool1d(mt.arange(5.).reshape(1,1,5),2,ceil_mode=True)", [[[1.0, 3.0, 4.0]]]),
    ("F.max_pool1d(mt.arange(5.).reshape(1,1,5),2,dilation=2,return_indices=True)[1]", [[[2, 4]]]),
    ("F.avg_pool1d(mt.arange(5.).reshape(1,1,5),2,ceil_mode=True)", [[[0.5, 2.5, 4.0]]]),
    ("F.avg_pool1d(mt.arange(5.).reshape(1,1,5),3,padding=1,count_include_pad=False)", [[[0.5, 3.0]]]),
    ("F.avg_pool2d(mt.ones(1,1,2,2),2,divisor_override=1)", [[[[4.0]]]]),
    ("F.max_unpool1d(mt.ones(1,1,2),mt.tensor([[[0,2]]]),2,output_size=(5,))", [[[1.0, 0.0, 1.0, 0.0, 0.0]]]),
    ("F.lp_pool1d(mt.tensor([[[3.,4.,0.]]]),2,2)", [[[5.0]]]),
    ("F.lp_pool1d(mt.tensor([[[3.,4.,0.]]]),2,2,ceil_mode=True)", [[[5.0, 0.0]]]),
    ("F.adaptive_avg_pool1d(mt.arange(5.).reshape(1,1,5),3)", [[[0.5, 2.0, 3.5]]]),
    ("F.adaptive_max_pool1d(mt.arange(5.).reshape(1,1,5),2,return_indices=True)[1]", [[[2, 4]]]),
    ("F.channel_shuffle(mt.arange(4.).reshape(1,4,1,1),2)", [[[[0.0]], [[2.0]], [[1.0]], [[3.0]]]]),
    ("F.pixel_shuffle(mt.arange(4.).reshape(1,4,1,1),2)", [[[[0.0, 1.0], [2.0, 3.0]]]]),
    ("F.pixel_unshuffle(mt.arange(4.).reshape(1,1,2,2),2)", [[[[0.0]], [[1.0]], [[2.0]], [[3.0]]]]),
    ("F.layer_norm(mt.tensor([[1.,3.]]),(2,),eps=0.)", [[-1.0, 1.0]]),
    ("F.group_norm(mt.tensor([[1.,3.,5.,9.]]),2,eps=0.)", [[-1.0, 1.0, -1.0, 1.0]]),
    ("F.local_response_norm(mt.ones(1,3,1),2,alpha=1.,beta=1.,k=1.)", [[[0.6666667], [0.5], [0.5]]]),
    ("F.dropout(mt.ones(2),p=1.)", [0.0, 0.0]),
    ("F.dropout(mt.ones(2),p=0.)", [1.0, 1.0]),
    ("F.gumbel_softmax(mt.tensor([0.,1000.]),hard=True)", [0.0, 1.0]),
    ("F.hinge_embedding_loss(mt.tensor([.5,2.]),mt.tensor([-1.,-1.]),reduction='none')", [0.5, 0.0]),
    ("F.huber_loss(mt.tensor([1.,3.]),mt.zeros(2),delta=1.,reduction='none')", [0.5, 2.5]),
    ("F.smooth_l1_loss(mt.tensor([.5,1.,3.]),mt.zeros(3),beta=1.,reduction='none')", [0.125, 0.5, 2.5]),
    ("F.smooth_l1_loss(mt.tensor([.5,1.,3.]),mt.zeros(3),beta=0.,reduction='none')", [0.5, 1.0, 3.0]),
    ("F.softplus(mt.tensor([20.,21.,0.]),1,20)", [20.0, 21.0, 0.6931472]),
    ("F.threshold(mt.tensor([.5,1.,2.]),1.,-7.)", [-7.0, -7.0, 2.0]),
    ("F.hardshrink(mt.tensor([-.5,.5,.6]),.5)", [0.0, 0.0, 0.6]),
    ("F.softshrink(mt.tensor([-.5,.5,1.5]),.5)", [-0.0, 0.0, 1.0]),
    ("F.hardtanh(mt.tensor([-2.,0.,2.]),-1.,1.)", [-1.0, 0.0, 1.0]),
    ("F.rrelu(mt.tensor([-4.,4.]),.25,.5)", [-1.5, 4.0]),
    ("F.cosine_similarity(mt.zeros(2),mt.ones(2),dim=0)", 0.0),
    ("F.cosine_similarity(mt.tensor([3.,4.]),mt.tensor([4.,3.]),dim=0)", 0.96000004),
    ("F.pairwise_distance(mt.tensor([[1.,2.]]),mt.tensor([[1.,2.]]),eps=.5)", [0.70710677]),
    ("F.kl_div(mt.zeros(2),mt.tensor([0.,1.]),reduction='none')", [0.0, 0.0]),
    ("F.kl_div(mt.zeros(2),mt.tensor([0.,1.]),reduction='none',log_target=True)", [0.0, 2.7182817]),
    ("F.poisson_nll_loss(mt.tensor([0.,1.]),mt.tensor([1.,2.]),full=True,reduction='none')", [1.0, 1.3700882]),
    (
        "F.poisson_nll_loss(mt.tensor([0.,1.]),mt.tensor([1.,2.]),log_input=False,eps=1.,reduction='none')",
        [0.0, -0.38629436],
    ),
    ("F.nll_loss(mt.tensor([[1.,2.]]),mt.tensor([1]),weight=mt.tensor([1.,3.]))", -2.0),
    ("F.nll_loss(mt.tensor([[1.,2.],[4.,8.]]),mt.tensor([1,0]),weight=mt.tensor([1.,3.]))", -2.5),
    ("F.nll_loss(mt.tensor([[1.,2.]]),mt.tensor([-100]))", nan),
    ("mt.nn.functional.pdist(mt.tensor([[0.,0.],[3.,4.]]),p=1.)", [7.0]),
]

REFUSED: list[tuple[str, type[Exception], str]] = [
    (
        "F.pad(mt.arange(3.).reshape(1,1,3),(4,0),mode='circular')",
        RuntimeError,
        "Padding value causes wrapping around more than onc",
    ),
    (
        "F.pad(mt.arange(3.).reshape(1,1,3),(3,0),mode='reflect')",
        RuntimeError,
        "Argument #4: Padding size should be less than the ",
    ),
    ("F.pad(mt.arange(3.).reshape(1,1,3),(0,1),mode='wrong')", NotImplementedError, "Unrecognised padding mode wrong"),
    ("F.pad(mt.arange(3.),(1,),value=2.)", RuntimeError, "Padding length must be divisible by 2"),
    ("F.pad(mt.arange(3.),(-2,-2))", RuntimeError, ""),
    ("F.one_hot(mt.tensor([0,2]),2)", RuntimeError, "Class values must be smaller than num_classes."),
    ("F.one_hot(mt.tensor([0,1]),0)", RuntimeError, ""),
    ("F.one_hot(mt.tensor([-1,1]))", RuntimeError, "Class values must be non-negative."),
    ("F.one_hot(mt.tensor([],dtype=mt.long))", RuntimeError, "Can not infer total number of classes from empty t"),
    ("F.glu(mt.ones(3))", RuntimeError, "Halving dimension must be even, but dimension 0 is"),
    (
        "F.embedding(mt.tensor([0]),mt.ones(3,2),padding_idx=3)",
        AssertionError,
        "Padding_idx must be within num_embeddings",
    ),
    (
        "F.embedding(mt.tensor([0]),mt.ones(3,2),padding_idx=-4)",
        AssertionError,
        "Padding_idx must be within num_embeddings",
    ),
    ("F.embedding(mt.tensor([0]),mt.ones(3))", RuntimeError, "'weight' must be 2-D"),
    (
        "F.embedding_bag(mt.tensor([0]),mt.ones(3,2),mt.tensor([0]),mode='min')",
        ValueError,
        "mode has to be one of sum, mean or max",
    ),
    (
        "F.embedding_bag(mt.tensor([[0]]),mt.ones(3,2),mt.tensor([0]))",
        ValueError,
        "if input is 2D, then offsets has to be None, as in",
    ),
    ("F.embedding_bag(mt.tensor([0]),mt.ones(3,2),mt.tensor([[0]]))", ValueError, "offsets has to be a 1D Tensor"),
    ("F.gaussian_nll_loss(mt.ones(2),mt.ones(2),mt.tensor([1.,-1.]))", ValueError, "var has negative entry/entries"),
    ("F.gaussian_nll_loss(mt.ones(2),mt.ones(2),mt.ones(3))", ValueError, "var is of incorrect size"),
    (
        "F.cross_entropy(mt.zeros(1,2),mt.tensor([0]),label_smoothing=1.5)",
        RuntimeError,
        "label_smoothing must be between 0.0 and 1.0. Got: ",
    ),
    ("F.cross_entropy(mt.zeros(1,2),mt.tensor([2]))", IndexError, "Target 2 is out of bounds."),
    ("F.multi_margin_loss(mt.zeros(1,2),mt.tensor([0]),p=3)", ValueError, "only p == 1 and p == 2 supported"),
    ("F.multi_margin_loss(mt.tensor([[.5,1.,2.]]),mt.tensor([0,1]))", RuntimeError, ""),
    ("F.conv1d(mt.ones(1,1,3),mt.ones(1,1,2),padding='both')", RuntimeError, "Invalid padding string: 'both'"),
    ("F.conv1d(mt.ones(1,1,3),mt.ones(1,1,4))", RuntimeError, "Calculated padded input size per channel: (3). Ker"),
    (
        "F.conv1d(mt.ones(1,1,3),mt.ones(1,1,2),padding='same',stride=2)",
        RuntimeError,
        "padding='same' is not supported for strided convol",
    ),
    ("F.conv1d(mt.ones(1,1,3),mt.ones(1,1,2),stride=0)", RuntimeError, "non-positive stride is not supported"),
    (
        "F.conv_transpose1d(mt.ones(1,1,2),mt.ones(1,1,2),output_padding=1)",
        RuntimeError,
        "output padding must be smaller than either stride ",
    ),
    ("F.conv_transpose1d(mt.ones(1,1,1),mt.ones(1,1,1),padding=1)", RuntimeError, "Given input size per channel: "),
    ("F.unfold(mt.ones(1,1,2,2),(3,1))", RuntimeError, "Given input with spatial size (2, 2), kernel_size="),
    (
        "F.affine_grid(mt.ones(1,2,3),(1,1,0,1),align_corners=False)",
        ValueError,
        "Expected non-zero, positive output size. Got (1, 1",
    ),
    (
        "F.grid_sample(mt.ones(1,1,1,1),mt.zeros(1,1,1,2),mode='cubic')",
        ValueError,
        "nn.functional.grid_sample(): expected mode to be '",
    ),
    (
        "F.grid_sample(mt.ones(1,1,1,1),mt.zeros(1,1,1,2),padding_mode='wrap')",
        ValueError,
        "nn.functional.grid_sample(): expected padding_mode",
    ),
    (
        "F.interpolate(mt.ones(1,1,2),scale_factor=2,mode='nearest',align_corners=True)",
        ValueError,
        "align_corners option can only be set with the inte",
    ),
    (
        "F.interpolate(mt.arange(3.).reshape(1,1,3),size=0,mode='nearest')",
        RuntimeError,
        "Input and output sizes should be greater than 0, b",
    ),
    (
        "F.interpolate(mt.ones(1,1,2),size=2,recompute_scale_factor=True)",
        ValueError,
        "recompute_scale_factor is not meaningful with an e",
    ),
    ("F.interpolate(mt.ones(2,2),size=2)", NotImplementedError, "Input Error: Only 3D, 4D and 5D input Tensors supp"),
    ("F.max_pool1d(mt.ones(1,1,2),3)", RuntimeError, ""),
    ("F.max_pool1d(mt.arange(3.).reshape(1,1,3),3,padding=2)", RuntimeError, ""),
    (
        "F.avg_pool1d(mt.arange(5.).reshape(1,1,5),3,padding=2)",
        RuntimeError,
        "pad should be at most half of effective kernel siz",
    ),
    ("F.avg_pool2d(mt.ones(1,1,2,2),2,divisor_override=0)", RuntimeError, "divisor must be not zero"),
    ("F.max_unpool1d(mt.ones(1,1,2),mt.tensor([[[0,2]]]),2,output_size=(6,))", ValueError, "invalid output_size "),
    ("F.max_unpool1d(mt.ones(1,1,2),mt.tensor([[[0,2]]]),2,output_size=(2,))", ValueError, "invalid output_size "),
    (
        "F.max_unpool1d(mt.ones(1,1,2),mt.tensor([[[0.,2.]]]),2)",
        RuntimeError,
        "elements in indices should be type int64 but got: ",
    ),
    (
        "F.channel_shuffle(mt.arange(4.).reshape(1,4,1,1),0)",
        RuntimeError,
        "Number of groups to divide channels in must be pos",
    ),
    (
        "F.channel_shuffle(mt.arange(4.).reshape(1,4,1,1),3)",
        RuntimeError,
        "Number of channels must be divisible by groups. Go",
    ),
    (
        "F.pixel_shuffle(mt.arange(3.).reshape(1,3,1,1),2)",
        RuntimeError,
        "pixel_shuffle expects its input's 'channel' dimens",
    ),
    (
        "F.pixel_unshuffle(mt.arange(4.).reshape(1,1,2,2),3)",
        RuntimeError,
        "pixel_unshuffle expects height to be divisible by ",
    ),
    ("F.instance_norm(mt.ones(1,2))", ValueError, "Expected more than 1 spatial element when training"),
    ("F.instance_norm(mt.ones(1,2,1))", ValueError, "Expected more than 1 spatial element when training"),
    ("F.batch_norm(mt.ones(1,2),None,None)", RuntimeError, ""),
    (
        "F.batch_norm(mt.ones(1,2),mt.zeros(2),mt.ones(2),training=True)",
        ValueError,
        "Expected more than 1 value per channel when traini",
    ),
    ("F.batch_norm(mt.ones(2,2),mt.zeros(3),mt.ones(2))", RuntimeError, "running_mean should contain 2 elements not 3"),
    (
        "F.layer_norm(mt.ones(2,2),(2,),weight=mt.ones(3))",
        RuntimeError,
        "Expected weight to be of same shape as normalized_",
    ),
    ("F.layer_norm(mt.ones(2,2),(3,))", RuntimeError, "Given normalized_shape=[3], expected input with sh"),
    ("F.group_norm(mt.ones(1,3,1),2)", ValueError, "Expected more than 1 value per channel when traini"),
    ("F.local_response_norm(mt.ones(1,2),1)", ValueError, "Expected 3D or higher dimensionality "),
    ("F.dropout(mt.ones(1),p=1.5)", ValueError, "dropout probability has to be between 0 and 1, but"),
    ("F.dropout(mt.ones(1),p=-.5)", ValueError, "dropout probability has to be between 0 and 1, but"),
    (
        "F.huber_loss(mt.tensor([1.,3.]),mt.zeros(2),delta=0.,reduction='none')",
        RuntimeError,
        "huber_loss does not support non-positive values fo",
    ),
    (
        "F.smooth_l1_loss(mt.tensor([.5,1.,3.]),mt.zeros(3),beta=-1.)",
        RuntimeError,
        "smooth_l1_loss does not support negative values fo",
    ),
    ("F.softshrink(mt.tensor([1.]),-.5)", RuntimeError, "lambda must be "),
    ("F.hardtanh(mt.tensor([2.]),1.,-1.)", ValueError, "min_val cannot be greater than max_val"),
    (
        "F.triplet_margin_loss(mt.zeros(1,2),mt.zeros(1,2),mt.ones(1,2),margin=0.)",
        ValueError,
        "margin must be greater than 0, got 0.0",
    ),
    (
        "F.nll_loss(mt.tensor([[1.,2.]]),mt.tensor([[1]]))",
        RuntimeError,
        "0D or 1D target tensor expected, multi-target not ",
    ),
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
