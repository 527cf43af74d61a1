"""The backward graph of a function that PyTorch has one node for shows one node, under PyTorch's name."""

import warnings
from itertools import islice

import pytest

import minitensor as mt
from minitensor.nn import functional as F


def names(result):
    return [one.grad_fn.name() for one in (result if isinstance(result, tuple) else (result,))]


def leaf(*shape):
    return mt.ones(shape).requires_grad_()


x, w, b, t = leaf(4, 3), leaf(3, 3), leaf(3), mt.zeros(4, 3)
image = leaf(1, 1, 4, 4)
LEAF = "torch::autograd::AccumulateGrad"

# A call, the name of its results' nodes, and what gradients go on to.
CALLS = {
    "mse_loss": (lambda: F.mse_loss(x, t), "MseLossBackward0", [LEAF, None]),
    "smooth_l1_loss": (lambda: F.smooth_l1_loss(x, t), "SmoothL1LossBackward0", [LEAF, None]),
    "huber_loss": (lambda: F.huber_loss(x, t), "HuberLossBackward0", [LEAF, None]),
    "module": (lambda: mt.nn.MSELoss()(x, t), "MseLossBackward0", [LEAF, None]),
    "stack": (lambda: mt.stack([x, x]), "StackBackward0", [LEAF, LEAF]),
    "split": (lambda: x.split(2), "SplitBackward0", [LEAF]),
    "split by name": (lambda: mt.split(x, split_size=3), "SplitBackward0", [LEAF]),
    "split in sizes": (lambda: x.split([1, 3]), "SplitWithSizesBackward0", [LEAF]),
    "chunk": (lambda: x.chunk(2), "SplitBackward0", [LEAF]),
    "unbind": (lambda: x.unbind(), "UnbindBackward0", [LEAF]),
    "max": (lambda: x.max(), "MaxBackward1", [LEAF]),
    "max of two": (lambda: mt.max(x, x), "MaximumBackward0", [LEAF, LEAF]),
    "norm": (lambda: x.norm(), "LinalgVectorNormBackward0", [LEAF]),
    "linear": (lambda: F.linear(x, w, b), "AddmmBackward0", [LEAF, LEAF, "TBackward0"]),
    "layer_norm": (lambda: F.layer_norm(x, (3,)), "NativeLayerNormBackward0", [LEAF, None, None]),
    "max_pool2d": (lambda: F.max_pool2d(image, 2), "MaxPool2DWithIndicesBackward0", [LEAF]),
    "avg_pool2d": (lambda: F.avg_pool2d(image, 2), "AvgPool2DBackward0", [LEAF]),
    "interpolate": (lambda: F.interpolate(image, scale_factor=2), "UpsampleNearest2DBackward0", [LEAF]),
    "pad": (lambda: F.pad(image, (1, 1, 1, 1), "reflect"), "ReflectionPad2DBackward0", [LEAF]),
    "glu": (lambda: F.glu(leaf(4, 4)), "GluBackward0", [LEAF]),
    "baddbmm": (lambda: mt.baddbmm(leaf(1, 4, 3), leaf(1, 4, 2), leaf(1, 2, 3)), "BaddbmmBackward0", [LEAF] * 3),
    "mT": (lambda: x.mT, "TransposeBackward0", [LEAF]),
    "t": (lambda: x.t(), "TBackward0", [LEAF]),
    "log1p": (lambda: x.log1p(), "Log1PBackward0", [LEAF]),
    "mask": (lambda: x[x > 0], "IndexBackward0", [LEAF]),
    "trace": (lambda: w.trace(), "TraceBackward0", [LEAF]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_function_is_one_node(call):
    function, name, following = CALLS[call]
    result = function()
    assert set(names(result)) == {name}
    first = result[0] if isinstance(result, tuple) else result
    assert type(first.grad_fn).__name__ == name
    if call == "baddbmm":
        # Two nodes inside go to operands: the order is theirs.
        assert {node.name() for node, _ in first.grad_fn.next_functions} == set(following)
    else:
        found = [None if node is None else node.name() for node, _ in first.grad_fn.next_functions]
        assert found == following


def test_a_compiled_function_gives_the_same_graph():
    def loss(x, w, b):
        return F.mse_loss(F.layer_norm(F.linear(x, w, b), (3,)), t)

    def graph(node):
        return None if node is None else (node.name(), [graph(following) for following, _ in node.next_functions])

    compiled = mt.function(loss, jit_compile=True)
    expected = graph(loss(x, w, b).grad_fn)
    assert [graph(compiled(x, w, b).grad_fn) for _ in range(3)] == [expected] * 3
    assert expected[0] == "MseLossBackward0"
    assert expected[1][0][0] == "NativeLayerNormBackward0"


def test_only_what_the_call_made_is_named():
    made = x * 2
    assert names(made.split_with_sizes([4])) == ["SplitWithSizesBackward0"]
    assert made.grad_fn.name() == "MulBackward0"
    # A function that gives back its argument.
    assert names(F.dropout(made, training=False)) == ["MulBackward0"]
    with mt.no_grad():
        assert F.mse_loss(x, t).grad_fn is None


def test_gradients_and_hooks_go_by_the_nodes_inside():
    y = leaf(4, 3)
    seen = []
    loss = F.huber_loss(y * 2, t)
    loss.grad_fn.register_hook(lambda *gradients: seen.append(len(gradients)))
    loss.backward()
    assert seen == [2]
    assert mt.allclose(y.grad, mt.full((4, 3), 2 / 12))


def test_the_names_without_their_namespace():
    assert type((x * 2).grad_fn.next_functions[0][0]).__name__ == "AccumulateGrad"
    made = x * 2
    made[0].mul_(2)
    assert (made.grad_fn.name(), type(made.grad_fn).__name__) == ("torch::autograd::CopySlices", "CopySlices")
    assert repr(made).endswith("grad_fn=<CopySlices>)")


# Where PyTorch's composition of several ops is another one than ours: the last one of them gives the name.
OTHER_OPS = {
    "atleast_3d",
    "bfloat16",
    "cdouble",
    "cfloat",
    "clamp",
    "combinations",
    "cumulative_trapezoid",
    "diag",
    "diagflat",
    "diff",
    "div",
    "double",
    "einsum",
    "fft.fft",
    "fft.ifft",
    "float",
    "half",
    "index_fill",
    "kron",
    "linalg.cond",
    "linalg.matrix_norm",
    "linalg.matrix_power",
    "linalg.multi_dot",
    "linalg.tensorinv",
    "linalg.vecdot",
    "masked.median",
    "matmul",
    "nanquantile",
    "nn.functional.adaptive_avg_pool1d",
    "nn.functional.adaptive_avg_pool2d",
    "nn.functional.adaptive_avg_pool3d",
    "nn.functional.adaptive_max_pool1d",
    "nn.functional.avg_pool1d",
    "nn.functional.batch_norm",
    "nn.functional.conv_transpose1d",
    "nn.functional.conv_transpose2d",
    "nn.functional.conv_transpose3d",
    "nn.functional.cross_entropy",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.grid_sample",
    "nn.functional.interpolate",
    "nn.functional.linear",
    "nn.functional.linear_cross_entropy",
    "nn.functional.margin_ranking_loss",
    "nn.functional.max_pool1d",
    "nn.functional.max_unpool1d",
    "nn.functional.pad",
    "nn.functional.rms_norm",
    "nn.functional.scaled_dot_product_attention",
    "nn.functional.smooth_l1_loss",
    "nn.functional.triplet_margin_loss",
    "normal",
    "pca_lowrank",
    "quantile",
    "round",
    "rsub",
    "sort",
    "special.ndtr",
    "squeeze",
    "squeeze_copy",
    "stft",
    "sum_to_size",
    "svd_lowrank",
    "to",
    "to_sparse",
    "trapezoid",
    "trapz",
    "zero_",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(4))
def test_nodes_have_pytorchs_names(part):
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

        from tests.against_torch.convert import NotConvertible, to_ours
        from tests.against_torch.forms import MissingError, ours_for

        def name(result):
            parts = result if isinstance(result, (tuple, list)) else (result,)
            found = [part.grad_fn for part in parts if getattr(part, "grad_fn", None) is not None]
            return type(found[0]).__name__ if found else None

        different, compared = {}, 0
        for op in op_db[part::4]:
            if op.name in OTHER_OPS or not op.supports_autograd or torch.float32 not in op.supported_dtypes("cpu"):
                continue
            for sample in islice(op.sample_inputs("cpu", torch.float32, requires_grad=True), 4):
                seen = {}
                try:
                    theirs = name(op.op(sample.input, *sample.args, **sample.kwargs))
                    arguments = to_ours(sample.input, seen), *to_ours(sample.args, seen)
                    ours = name(ours_for(op)(*arguments, **to_ours(sample.kwargs, seen)))
                except (
                    MissingError,
                    NotConvertible,
                    AttributeError,
                    NotImplementedError,
                    RuntimeError,
                    TypeError,
                    ValueError,
                ):
                    continue  # values and errors are compared elsewhere
                if theirs is not None:
                    compared += 1
                    if ours != theirs:
                        different.setdefault(op.name, set()).add((theirs, ours))
    assert compared > 250
    assert different == {}
