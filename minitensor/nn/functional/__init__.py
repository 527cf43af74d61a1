"""The functions behind the modules, without their state.

One file for each kind of function; names, arguments and errors are PyTorch's.
"""

from minitensor._functions.checked import checked
from minitensor.composite.padding import pad
from minitensor.nn.functional import native as _native
from minitensor.nn.functional import recurrent as _recurrent
from minitensor.nn.functional.activation import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
    threshold_,
)
from minitensor.nn.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)
from minitensor.nn.functional.attention import multi_head_attention_forward, scaled_dot_product_attention
from minitensor.nn.functional.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    convolution,
    fold,
    unfold,
)
from minitensor.nn.functional.ctc import ctc_loss
from minitensor.nn.functional.distance import cosine_similarity, pairwise_distance, pdist
from minitensor.nn.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from minitensor.nn.functional.grid import affine_grid, grid_sample
from minitensor.nn.functional.lookup import embedding, embedding_bag, one_hot
from minitensor.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from minitensor.nn.functional.loss_classes import (
    cross_entropy,
    linear_cross_entropy,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
)
from minitensor.nn.functional.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from minitensor.nn.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from minitensor.nn.functional.products import bilinear, grouped_mm, linear
from minitensor.nn.functional.resample import interpolate, upsample, upsample_bilinear, upsample_nearest
from minitensor.nn.functional.scaled import ScalingType, SwizzleType, scaled_mm
from minitensor.nn.functional.shuffle import channel_shuffle, native_channel_shuffle, pixel_shuffle, pixel_unshuffle

# With PyTorch's TypeError for an argument that is no tensor, which ops and functions with `out=` have already.
adaptive_avg_pool1d = checked(adaptive_avg_pool1d)
adaptive_avg_pool2d = checked(adaptive_avg_pool2d)
adaptive_avg_pool3d = checked(adaptive_avg_pool3d)
adaptive_max_pool1d = checked(adaptive_max_pool1d)
adaptive_max_pool1d_with_indices = checked(adaptive_max_pool1d_with_indices)
adaptive_max_pool2d = checked(adaptive_max_pool2d)
adaptive_max_pool2d_with_indices = checked(adaptive_max_pool2d_with_indices)
adaptive_max_pool3d = checked(adaptive_max_pool3d)
adaptive_max_pool3d_with_indices = checked(adaptive_max_pool3d_with_indices)
affine_grid = checked(affine_grid)
alpha_dropout = checked(alpha_dropout)
avg_pool1d = checked(avg_pool1d)
batch_norm = checked(batch_norm)
bilinear = checked(bilinear)
binary_cross_entropy = checked(binary_cross_entropy)
binary_cross_entropy_with_logits = checked(binary_cross_entropy_with_logits)
celu = checked(celu)
celu_ = checked(celu_)
channel_shuffle = checked(channel_shuffle)
conv1d = checked(conv1d)
conv2d = checked(conv2d)
conv3d = checked(conv3d)
conv_tbc = checked(conv_tbc)
conv_transpose1d = checked(conv_transpose1d)
conv_transpose2d = checked(conv_transpose2d)
conv_transpose3d = checked(conv_transpose3d)
convolution = checked(convolution)
cosine_embedding_loss = checked(cosine_embedding_loss)
cosine_similarity = checked(cosine_similarity)
cross_entropy = checked(cross_entropy)
ctc_loss = checked(ctc_loss)
dropout = checked(dropout)
dropout1d = checked(dropout1d)
dropout2d = checked(dropout2d)
dropout3d = checked(dropout3d)
elu = checked(elu)
elu_ = checked(elu_)
embedding = checked(embedding)
embedding_bag = checked(embedding_bag)
feature_alpha_dropout = checked(feature_alpha_dropout)
fold = checked(fold)
fractional_max_pool2d = checked(fractional_max_pool2d)
fractional_max_pool2d_with_indices = checked(fractional_max_pool2d_with_indices)
fractional_max_pool3d = checked(fractional_max_pool3d)
fractional_max_pool3d_with_indices = checked(fractional_max_pool3d_with_indices)
gaussian_nll_loss = checked(gaussian_nll_loss)
glu = checked(glu)
grid_sample = checked(grid_sample)
group_norm = checked(group_norm)
grouped_mm = checked(grouped_mm)
gumbel_softmax = checked(gumbel_softmax)
hardsigmoid = checked(hardsigmoid)
hardswish = checked(hardswish)
hardtanh = checked(hardtanh)
hardtanh_ = checked(hardtanh_)
hinge_embedding_loss = checked(hinge_embedding_loss)
huber_loss = checked(huber_loss)
instance_norm = checked(instance_norm)
interpolate = checked(interpolate)
kl_div = checked(kl_div)
l1_loss = checked(l1_loss)
layer_norm = checked(layer_norm)
leaky_relu = checked(leaky_relu)
leaky_relu_ = checked(leaky_relu_)
linear_cross_entropy = checked(linear_cross_entropy)
local_response_norm = checked(local_response_norm)
log_softmax = checked(log_softmax)
lp_pool1d = checked(lp_pool1d)
lp_pool2d = checked(lp_pool2d)
lp_pool3d = checked(lp_pool3d)
margin_ranking_loss = checked(margin_ranking_loss)
max_pool1d = checked(max_pool1d)
max_pool1d_with_indices = checked(max_pool1d_with_indices)
max_pool2d = checked(max_pool2d)
max_pool2d_with_indices = checked(max_pool2d_with_indices)
max_pool3d = checked(max_pool3d)
max_pool3d_with_indices = checked(max_pool3d_with_indices)
max_unpool1d = checked(max_unpool1d)
max_unpool2d = checked(max_unpool2d)
max_unpool3d = checked(max_unpool3d)
mish = checked(mish)
mse_loss = checked(mse_loss)
multi_head_attention_forward = checked(multi_head_attention_forward)
multi_margin_loss = checked(multi_margin_loss)
multilabel_margin_loss = checked(multilabel_margin_loss)
multilabel_soft_margin_loss = checked(multilabel_soft_margin_loss)
native_channel_shuffle = checked(native_channel_shuffle)
nll_loss = checked(nll_loss)
normalize = checked(normalize)
one_hot = checked(one_hot)
pad = checked(pad)
pairwise_distance = checked(pairwise_distance)
pdist = checked(pdist)
pixel_shuffle = checked(pixel_shuffle)
pixel_unshuffle = checked(pixel_unshuffle)
poisson_nll_loss = checked(poisson_nll_loss)
prelu = checked(prelu)
relu = checked(relu)
relu6 = checked(relu6)
relu_ = checked(relu_)
rms_norm = checked(rms_norm)
rrelu = checked(rrelu)
rrelu_ = checked(rrelu_)
scaled_dot_product_attention = checked(scaled_dot_product_attention)
selu = checked(selu)
selu_ = checked(selu_)
sigmoid = checked(sigmoid)
scaled_mm = checked(scaled_mm)
silu = checked(silu)
smooth_l1_loss = checked(smooth_l1_loss)
soft_margin_loss = checked(soft_margin_loss)
softmax = checked(softmax)
softmin = checked(softmin)
softsign = checked(softsign)
tanh = checked(tanh)
tanhshrink = checked(tanhshrink)
threshold = checked(threshold)
threshold_ = checked(threshold_)
triplet_margin_loss = checked(triplet_margin_loss)
triplet_margin_with_distance_loss = checked(triplet_margin_with_distance_loss)
unfold = checked(unfold)
upsample = checked(upsample)
upsample_bilinear = checked(upsample_bilinear)
upsample_nearest = checked(upsample_nearest)

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "affine_grid", "alpha_dropout", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d",
    "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu",
    "elu_", "embedding", "embedding_bag", "feature_alpha_dropout", "fold", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d", "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss", "gelu", "glu", "grid_sample", "group_norm", "grouped_mm", "gumbel_softmax", "hardshrink",
    "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "hinge_embedding_loss", "huber_loss", "instance_norm",
    "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "leaky_relu_", "linear", "linear_cross_entropy",
    "local_response_norm", "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "margin_ranking_loss", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices",
    "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss",
    "multi_head_attention_forward", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "native_channel_shuffle", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance", "pdist",
    "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "prelu", "relu", "relu6", "relu_", "rms_norm", "rrelu",
    "rrelu_", "scaled_dot_product_attention", "scaled_mm", "selu", "selu_", "sigmoid", "silu", "smooth_l1_loss",
    "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold", "threshold_", "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample",
    "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
