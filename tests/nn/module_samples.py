"""One line for each module: how it is made, and of what shapes its arguments are. Shared by this folder's tests.

A sample is ``name: (constructor text, arguments text, options)``. The texts are evaluated with ``nn`` and the makers of
arguments below; the options say what does not hold: "random" where training draws numbers, "integral" where there are
no gradients, "first" where only the first argument has one, "lazy" where the first call makes the parameters.
"""

import numpy as np

SAMPLES = {
    # activations
    **{
        name: (f"nn.{name}()", "f(2, 3, 4)", "")
        for name in [
            "ELU",
            "CELU",
            "SELU",
            "GELU",
            "SiLU",
            "Mish",
            "ReLU",
            "ReLU6",
            "Sigmoid",
            "Tanh",
            "Hardsigmoid",
            "Hardswish",
            "Hardtanh",
            "Hardshrink",
            "LeakyReLU",
            "LogSigmoid",
            "Softplus",
            "Softshrink",
            "Softsign",
            "Tanhshrink",
        ]
    },
    "GELU_tanh": ("nn.GELU('tanh')", "f(2, 3)", ""),
    "ELU_alpha": ("nn.ELU(0.5, inplace=False)", "f(5)", ""),
    "Hardtanh_range": ("nn.Hardtanh(-0.5, 0.25)", "f(5)", ""),
    "Threshold": ("nn.Threshold(0.1, 20.0)", "f(6)", ""),
    "RReLU": ("nn.RReLU()", "f(2, 5)", "random"),
    "GLU": ("nn.GLU(1)", "f(2, 6, 3)", ""),
    "PReLU": ("nn.PReLU(3, 0.1)", "f(2, 3, 4)", ""),
    "Softmax": ("nn.Softmax(dim=1)", "f(2, 5)", ""),
    "Softmin": ("nn.Softmin(dim=-1)", "f(2, 5)", ""),
    "LogSoftmax": ("nn.LogSoftmax(dim=1)", "f(2, 5)", ""),
    "Softmax2d": ("nn.Softmax2d()", "f(2, 3, 2, 2)", ""),
    # linear
    "Identity": ("nn.Identity(3, a=2)", "f(2, 3)", ""),
    "Linear": ("nn.Linear(4, 3)", "f(2, 5, 4)", ""),
    "Linear_without_bias": ("nn.Linear(4, 3, bias=False)", "f(4)", ""),
    "Bilinear": ("nn.Bilinear(3, 4, 2)", "f(5, 3), f(5, 4)", ""),
    "LazyLinear": ("nn.LazyLinear(3)", "f(2, 4)", "lazy"),
    # convolutions
    "Conv1d": ("nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2)", "f(2, 4, 9)", ""),
    "Conv2d": ("nn.Conv2d(3, 4, (3, 2), padding=(1, 0), dilation=2, bias=False)", "f(2, 3, 8, 8)", ""),
    "Conv2d_same": ("nn.Conv2d(2, 3, 4, padding='same')", "f(2, 6, 7)", ""),
    "Conv2d_reflect": ("nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode='reflect')", "f(1, 2, 6, 7)", ""),
    "Conv2d_circular_same": ("nn.Conv2d(2, 3, 3, padding='same', padding_mode='circular')", "f(1, 2, 6, 7)", ""),
    "Conv3d": ("nn.Conv3d(2, 3, 2, padding=1)", "f(1, 2, 4, 4, 4)", ""),
    "ConvTranspose1d": ("nn.ConvTranspose1d(4, 6, 3, stride=2, groups=2)", "f(2, 4, 5)", ""),
    "ConvTranspose2d": ("nn.ConvTranspose2d(3, 2, 3, 2, 1, output_padding=1, dilation=2)", "f(2, 3, 4, 4)", ""),
    "ConvTranspose2d_size": ("nn.ConvTranspose2d(3, 2, 3, 2, 1)", "f(2, 3, 4, 4), [8, 8]", ""),
    "ConvTranspose3d": ("nn.ConvTranspose3d(2, 3, 2, stride=2, bias=False)", "f(1, 2, 3, 3, 3)", ""),
    "LazyConv1d": ("nn.LazyConv1d(4, 3)", "f(2, 2, 6)", "lazy"),
    "LazyConv2d": ("nn.LazyConv2d(4, 3, padding=1, groups=2)", "f(2, 2, 6, 6)", "lazy"),
    "LazyConv3d": ("nn.LazyConv3d(2, 2, bias=False)", "f(1, 2, 3, 3, 3)", "lazy"),
    "LazyConvTranspose1d": ("nn.LazyConvTranspose1d(4, 3)", "f(2, 2, 6)", "lazy"),
    "LazyConvTranspose2d": ("nn.LazyConvTranspose2d(4, 3, 2)", "f(2, 2, 4, 4)", "lazy"),
    "LazyConvTranspose3d": ("nn.LazyConvTranspose3d(2, 2)", "f(1, 2, 3, 3, 3)", "lazy"),
    # pools
    "MaxPool1d": ("nn.MaxPool1d(3, 2, padding=1)", "f(2, 3, 9)", ""),
    "MaxPool2d": ("nn.MaxPool2d(2, ceil_mode=True)", "f(2, 3, 7, 7)", ""),
    "MaxPool2d_indices": ("nn.MaxPool2d((2, 3), return_indices=True)", "f(2, 3, 7, 7)", ""),
    "MaxPool3d": ("nn.MaxPool3d(2)", "f(1, 2, 4, 4, 4)", ""),
    "MaxUnpool1d": ("nn.MaxUnpool1d(2)", "f(1, 2, 2), i(1, 2, 2, high=2) * 2 + i(1, 1, 1, high=1)", "integral"),
    "MaxUnpool2d": ("nn.MaxUnpool2d(2)", "f(1, 1, 1, 2), np.array([[[[1, 6]]]])", ""),
    "MaxUnpool3d": ("nn.MaxUnpool3d(2, 2)", "f(1, 1, 1, 1, 2), np.array([[[[[1, 6]]]]])", ""),
    "AvgPool1d": ("nn.AvgPool1d(3, 2, 1, count_include_pad=False)", "f(2, 3, 9)", ""),
    "AvgPool2d": ("nn.AvgPool2d(2, 1, divisor_override=3)", "f(2, 3, 5, 5)", ""),
    "AvgPool3d": ("nn.AvgPool3d((1, 2, 2), ceil_mode=True)", "f(1, 2, 3, 5, 5)", ""),
    "FractionalMaxPool2d": (
        "nn.FractionalMaxPool2d(2, output_size=(3, 2), _random_samples=p(2, 2, 2))",
        "f(2, 2, 7, 6)",
        "",
    ),
    "FractionalMaxPool3d": (
        "nn.FractionalMaxPool3d(2, output_ratio=0.5, _random_samples=p(1, 2, 3))",
        "f(1, 2, 6, 6, 6)",
        "",
    ),
    "LPPool1d": ("nn.LPPool1d(2, 3)", "p(2, 3, 9)", ""),
    "LPPool2d": ("nn.LPPool2d(1.5, 2, stride=1)", "p(2, 3, 5, 5)", ""),
    "LPPool3d": ("nn.LPPool3d(2, 2)", "p(1, 2, 4, 4, 4)", ""),
    "AdaptiveMaxPool1d": ("nn.AdaptiveMaxPool1d(3)", "f(2, 3, 8)", ""),
    "AdaptiveMaxPool2d": ("nn.AdaptiveMaxPool2d((3, None), return_indices=True)", "f(2, 3, 8, 4)", ""),
    "AdaptiveMaxPool3d": ("nn.AdaptiveMaxPool3d(2)", "f(1, 2, 4, 5, 6)", ""),
    "AdaptiveAvgPool1d": ("nn.AdaptiveAvgPool1d(3)", "f(2, 3, 8)", ""),
    "AdaptiveAvgPool2d": ("nn.AdaptiveAvgPool2d((None, 2))", "f(2, 3, 8, 5)", ""),
    "AdaptiveAvgPool3d": ("nn.AdaptiveAvgPool3d(2)", "f(1, 2, 4, 5, 6)", ""),
    # paddings
    **{
        f"{kind}Pad{rank}d": (f"nn.{kind}Pad{rank}d({tuple([1, 2, 0, 1, 1, 1][: 2 * rank])})", shape, "")
        for kind in ("Zero", "Reflection", "Replication", "Circular")
        for rank, shape in ((1, "f(2, 3, 4)"), (2, "f(2, 3, 4, 4)"), (3, "f(1, 2, 3, 4, 4)"))
    },
    **{
        f"ConstantPad{rank}d": (f"nn.ConstantPad{rank}d(1, 2.5)", shape, "")
        for rank, shape in ((1, "f(3, 4)"), (2, "f(3, 4, 4)"), (3, "f(2, 3, 4, 4)"))
    },
    # norms
    "BatchNorm1d": ("nn.BatchNorm1d(3)", "f(5, 3)", ""),
    "BatchNorm1d_sequence": ("nn.BatchNorm1d(3, momentum=None)", "f(5, 3, 4)", ""),
    "BatchNorm2d": ("nn.BatchNorm2d(3, eps=1e-3, momentum=0.3)", "f(4, 3, 2, 5)", ""),
    "BatchNorm2d_untracked": ("nn.BatchNorm2d(3, track_running_stats=False)", "f(4, 3, 2, 5)", ""),
    "BatchNorm2d_plain": ("nn.BatchNorm2d(3, affine=False)", "f(4, 3, 2, 5)", ""),
    "BatchNorm3d": ("nn.BatchNorm3d(2, bias=False)", "f(2, 2, 3, 2, 2)", ""),
    "SyncBatchNorm": ("nn.SyncBatchNorm(3)", "f(4, 3, 5)", ""),
    "LazyBatchNorm1d": ("nn.LazyBatchNorm1d()", "f(5, 3)", "lazy"),
    "LazyBatchNorm2d": ("nn.LazyBatchNorm2d(affine=False)", "f(4, 3, 2, 2)", "lazy"),
    "LazyBatchNorm3d": ("nn.LazyBatchNorm3d(momentum=0.5)", "f(2, 3, 2, 2, 2)", "lazy"),
    "InstanceNorm1d": ("nn.InstanceNorm1d(3, affine=True)", "f(2, 3, 6)", ""),
    "InstanceNorm2d": ("nn.InstanceNorm2d(3, track_running_stats=True)", "f(2, 3, 4, 4)", ""),
    "InstanceNorm2d_unbatched": ("nn.InstanceNorm2d(3)", "f(3, 4, 4)", ""),
    "InstanceNorm3d": ("nn.InstanceNorm3d(2, affine=True, bias=False)", "f(1, 2, 3, 3, 3)", ""),
    "LazyInstanceNorm1d": ("nn.LazyInstanceNorm1d(affine=True)", "f(2, 3, 6)", "lazy"),
    "LazyInstanceNorm2d": ("nn.LazyInstanceNorm2d(affine=True)", "f(2, 3, 4, 4)", "lazy"),
    "LazyInstanceNorm3d": ("nn.LazyInstanceNorm3d(track_running_stats=True)", "f(1, 2, 3, 3, 3)", "lazy"),
    "LayerNorm": ("nn.LayerNorm([3, 4])", "f(2, 3, 4)", ""),
    "LayerNorm_without_bias": ("nn.LayerNorm(4, bias=False)", "f(2, 3, 4)", ""),
    "GroupNorm": ("nn.GroupNorm(2, 4)", "f(2, 4, 3)", ""),
    "RMSNorm": ("nn.RMSNorm(4, eps=1e-4)", "f(2, 3, 4)", ""),
    "LocalResponseNorm": ("nn.LocalResponseNorm(3, alpha=0.1)", "f(2, 5, 3)", ""),
    "CrossMapLRN2d": ("nn.CrossMapLRN2d(3, alpha=0.5)", "f(2, 7, 2, 3)", "integral"),
    "CrossMapLRN2d_even": ("nn.CrossMapLRN2d(4, alpha=0.5, k=2)", "f(2, 7, 2, 3)", "integral"),
    # dropout
    "Dropout": ("nn.Dropout(0.3)", "f(4, 5)", "random"),
    "Dropout1d": ("nn.Dropout1d()", "f(4, 5, 3)", "random"),
    "Dropout2d": ("nn.Dropout2d()", "f(4, 5, 3, 3)", "random"),
    "Dropout3d": ("nn.Dropout3d()", "f(2, 3, 2, 2, 2)", "random"),
    "AlphaDropout": ("nn.AlphaDropout()", "f(4, 5)", "random"),
    "FeatureAlphaDropout": ("nn.FeatureAlphaDropout()", "f(4, 5, 3)", "random"),
    # tables
    "Embedding": ("nn.Embedding(7, 3, padding_idx=-1)", "i(2, 4, high=7)", ""),
    "Embedding_scaled": ("nn.Embedding(7, 3, scale_grad_by_freq=True)", "i(2, 4, high=7)", ""),
    "EmbeddingBag": ("nn.EmbeddingBag(7, 3, mode='sum')", "i(6, high=7), np.array([0, 2, 2])", ""),
    "EmbeddingBag_max": ("nn.EmbeddingBag(7, 3, mode='max', padding_idx=2)", "i(2, 4, high=7)", ""),
    # losses
    **{name: (f"nn.{name}()", "f(4, 3), f(4, 3)", "") for name in ["L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss"]},
    "MSELoss_sum": ("nn.MSELoss(reduction='sum')", "f(4, 3), f(4, 3)", ""),
    "NLLLoss": ("nn.NLLLoss(weight=p(3), ignore_index=1)", "f(5, 3), i(5, high=3)", ""),
    "NLLLoss2d": ("nn.NLLLoss2d()", "f(2, 3, 2, 2), i(2, 2, 2, high=3)", ""),
    "CrossEntropyLoss": ("nn.CrossEntropyLoss(label_smoothing=0.1)", "f(5, 3), i(5, high=3)", ""),
    "LinearCrossEntropyLoss": ("nn.LinearCrossEntropyLoss(4, 3, bias=True)", "f(5, 4), i(5, high=3)", ""),
    "PoissonNLLLoss": ("nn.PoissonNLLLoss(full=True)", "f(4), p(4) * 3", ""),
    "GaussianNLLLoss": ("nn.GaussianNLLLoss(full=True)", "f(4, 2), f(4, 2), p(4, 2)", ""),
    "KLDivLoss": ("nn.KLDivLoss(reduction='batchmean')", "f(4, 3), p(4, 3)", ""),
    "BCELoss": ("nn.BCELoss(weight=p(3))", "p(4, 3), p(4, 3)", ""),
    "BCEWithLogitsLoss": ("nn.BCEWithLogitsLoss(pos_weight=p(3))", "f(4, 3), p(4, 3)", ""),
    "HingeEmbeddingLoss": ("nn.HingeEmbeddingLoss(0.5)", "f(6), s(6)", ""),
    "MultiLabelMarginLoss": ("nn.MultiLabelMarginLoss()", "f(2, 4), np.array([[3, 0, -1, 1], [1, -1, 0, 2]])", ""),
    "SoftMarginLoss": ("nn.SoftMarginLoss()", "f(6), s(6)", "first"),
    "MultiLabelSoftMarginLoss": ("nn.MultiLabelSoftMarginLoss()", "f(2, 4), p(2, 4)", ""),
    "CosineEmbeddingLoss": ("nn.CosineEmbeddingLoss(0.1)", "f(6, 3), f(6, 3), s(6)", ""),
    "MarginRankingLoss": ("nn.MarginRankingLoss(0.2)", "f(6), f(6), s(6)", ""),
    "MultiMarginLoss": ("nn.MultiMarginLoss(p=2, margin=0.7)", "f(5, 3), i(5, high=3)", ""),
    "TripletMarginLoss": ("nn.TripletMarginLoss(swap=True)", "f(4, 3), f(4, 3), f(4, 3)", ""),
    "TripletMarginWithDistanceLoss": ("nn.TripletMarginWithDistanceLoss()", "f(4, 3), f(4, 3), f(4, 3)", ""),
    "CTCLoss": (
        "nn.CTCLoss()",
        "-p(6, 2, 4), i(2, 3, high=3) + 1, np.array([6, 5]), np.array([3, 2])",
        "",
    ),
    "AdaptiveLogSoftmaxWithLoss": ("nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], 2.0)", "f(6, 8), i(6, high=12)", ""),
    # the rest
    "CosineSimilarity": ("nn.CosineSimilarity(dim=0)", "f(4, 3), f(4, 3)", ""),
    "PairwiseDistance": ("nn.PairwiseDistance(p=1, keepdim=True)", "f(4, 3), f(4, 3)", ""),
    "PixelShuffle": ("nn.PixelShuffle(2)", "f(1, 8, 2, 3)", ""),
    "PixelUnshuffle": ("nn.PixelUnshuffle(2)", "f(1, 2, 4, 6)", ""),
    "ChannelShuffle": ("nn.ChannelShuffle(2)", "f(1, 4, 2, 2)", ""),
    "Upsample": ("nn.Upsample(scale_factor=2, mode='bilinear')", "f(1, 2, 3, 3)", ""),
    "Upsample_size": ("nn.Upsample(5)", "f(1, 2, 3)", ""),
    "UpsamplingNearest2d": ("nn.UpsamplingNearest2d(scale_factor=(2, 3))", "f(1, 2, 3, 3)", ""),
    "UpsamplingBilinear2d": ("nn.UpsamplingBilinear2d(size=(5, 4))", "f(1, 2, 3, 3)", ""),
    "Fold": ("nn.Fold((4, 5), (2, 2))", "f(1, 12, 12)", ""),
    "Unfold": ("nn.Unfold((2, 3), padding=1)", "f(1, 2, 4, 5)", ""),
    "Flatten": ("nn.Flatten()", "f(2, 3, 4)", ""),
    "Unflatten": ("nn.Unflatten(1, (2, 3))", "f(2, 6, 4)", ""),
    # containers
    "Sequential": ("nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))", "f(5, 3)", ""),
    # recurrent layers
    "RNN": ("nn.RNN(3, 4, 2, bidirectional=True)", "f(5, 2, 3)", ""),
    "RNN_relu": ("nn.RNN(3, 4, 1, 'relu', batch_first=True)", "f(2, 5, 3), f(1, 2, 4)", ""),
    "LSTM": ("nn.LSTM(3, 4, 2, bidirectional=True)", "f(5, 2, 3)", ""),
    "LSTM_projected": ("nn.LSTM(3, 5, 2, bias=False, proj_size=2)", "f(5, 2, 3)", ""),
    "LSTM_unbatched": ("nn.LSTM(3, 4, batch_first=True)", "f(5, 3)", ""),
    "LSTM_dropout": ("nn.LSTM(3, 4, 2, dropout=0.5)", "f(5, 2, 3)", "random"),
    "GRU": ("nn.GRU(3, 4, 2)", "f(5, 2, 3), f(2, 2, 4)", ""),
    "GRU_backward": ("nn.GRU(3, 4, bidirectional=True, batch_first=True)", "f(2, 5, 3)", ""),
    "RNNCell": ("nn.RNNCell(3, 4, nonlinearity='relu')", "f(2, 3), f(2, 4)", ""),
    "LSTMCell": ("nn.LSTMCell(3, 4)", "f(2, 3)", ""),
    "GRUCell": ("nn.GRUCell(3, 4, bias=False)", "f(3), f(4)", ""),
    # attention
    "MultiheadAttention": ("nn.MultiheadAttention(8, 2)", "f(4, 2, 8), f(3, 2, 8), f(3, 2, 8)", ""),
    "MultiheadAttention_dims": (
        "nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, kdim=4, vdim=6, batch_first=True)",
        "f(2, 4, 8), f(2, 3, 4), f(2, 3, 6)",
        "",
    ),
    "MultiheadAttention_masks": (
        "nn.MultiheadAttention(8, 4, bias=False)",
        "f(3, 2, 8), f(3, 2, 8), f(3, 2, 8), np.array([[0, 0, 1], [0, 0, 0]], bool), True, "
        "np.triu(np.ones((3, 3), bool), 1), False",
        "",
    ),
    "TransformerEncoderLayer": ("nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)", "f(4, 2, 8)", ""),
    "TransformerEncoderLayer_first": (
        "nn.TransformerEncoderLayer(8, 2, 16, 0.0, 'gelu', batch_first=True, norm_first=True)",
        "f(2, 4, 8), None, np.array([[0, 0, 0, 1], [0, 0, 0, 0]], bool)",
        "",
    ),
    "TransformerDecoderLayer": ("nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0)", "f(4, 2, 8), f(5, 2, 8)", ""),
    "TransformerEncoder": (
        "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2, nn.LayerNorm(8))",
        "f(2, 4, 8), None, np.array([[0, 0, 0, 1], [0, 0, 0, 0]], bool)",
        "",
    ),
    "TransformerDecoder": (
        "nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0, norm_first=True), 2)",
        "f(4, 2, 8), f(5, 2, 8)",
        "",
    ),
    "Transformer": (
        "nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)",
        "f(5, 2, 8), f(4, 2, 8), None, nn.Transformer.generate_square_subsequent_mask(4)",
        "",
    ),
}


def arguments(seed=0):
    """The makers of arrays: fractions, positive ones below 1, integers and signs."""
    rng = np.random.default_rng(seed)
    return {
        "np": np,
        "f": lambda *shape: rng.standard_normal(shape).astype(np.float32),
        "p": lambda *shape: rng.uniform(0.05, 0.95, shape).astype(np.float32),
        "i": lambda *shape, high: rng.integers(0, high, shape),
        "s": lambda *shape: rng.choice(np.array([-1.0, 1.0], np.float32), shape),
    }


def made(lib, name):
    """The module of a sample, its arguments as tensors, and its options."""
    constructor, inputs, options = SAMPLES[name]
    makers = arguments()
    tensors = {
        **makers,
        **{key: lambda *a, make=makers[key], **k: lib.tensor(make(*a, **k)) for key in "fpis"},
        "nn": lib.nn,
    }
    module = eval(constructor, tensors)
    given = eval(f"({inputs},)", {**makers, "nn": lib.nn})
    given = [lib.tensor(x) if isinstance(x, np.ndarray) else x for x in given]
    return module, given, options


def wanting_gradients(lib, given, options):
    """The arguments, those that have gradients as leaves that want them; masks have none."""
    wanted = [isinstance(x, lib.Tensor) and x.is_floating_point() and bool(x.isfinite().all()) for x in given]
    if "integral" in options or "first" in options:
        wanted[1:] = [False] * (len(given) - 1)
    if "integral" in options:
        wanted[0] = False
    return [x.clone().requires_grad_() if w else x for x, w in zip(given, wanted, strict=True)]


def fill(lib, module):
    """Give every parameter and floating-point buffer values that are the same in every library."""
    with lib.no_grad():
        for place, (key, tensor) in enumerate(module.state_dict().items()):
            if tensor.is_floating_point() and not key.endswith("_random_samples"):
                numbers = 0.5 * np.sin(np.arange(1, tensor.numel() + 1, dtype=np.float32) * 0.7 + place)
                numbers = np.abs(numbers) + 0.1 if "running_var" in key else numbers
                tensor.copy_(lib.tensor(numbers.astype(np.float32)).reshape(tuple(tensor.shape)))


def tensors_in(lib, result):
    """The tensors of a module's result, in order."""
    if isinstance(result, lib.Tensor):
        return [result]
    return [t for part in result for t in tensors_in(lib, part)] if isinstance(result, (tuple, list)) else []


def outcome(lib, name, training):
    """Results, gradients of arguments and parameters, and the state after a call, by name, as arrays."""
    module, given, options = made(lib, name)
    if "lazy" in options:
        module(*given)
    fill(lib, module)
    module.train(training)
    differentiable = "integral" not in options
    given = wanting_gradients(lib, given, options)
    results = tensors_in(lib, module(*given))
    found = {f"result {i}": r.detach().numpy() for i, r in enumerate(results)}
    floats = [r for r in results if r.requires_grad]
    if differentiable and floats:
        total = 0
        for r in floats:
            total = (
                total + (r * lib.tensor(np.cos(np.arange(r.numel(), dtype=np.float32))).reshape(tuple(r.shape))).sum()
            )
        total.backward()
        for i, x in enumerate(given):
            if isinstance(x, lib.Tensor) and x.grad is not None:
                found[f"argument {i}"] = x.grad.numpy()
        for key, parameter in module.named_parameters():
            if parameter.grad is not None:
                found[f"gradient of {key}"] = parameter.grad.numpy()
    for key, buffer in module.named_buffers():
        found[f"buffer {key}"] = buffer.detach().numpy()
    return found
