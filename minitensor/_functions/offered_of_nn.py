"""Functions of nn.functional that the package offers too. Written by scripts/generate_functions."""

import minitensor.nn.functional  # noqa: F401  (which enters them)
from minitensor._functions.checked import checked
from minitensor.composite import COMPOSITES

alpha_dropout = checked(COMPOSITES["alpha_dropout"].call)
alpha_dropout_ = checked(COMPOSITES["alpha_dropout_"].call)
cosine_embedding_loss = checked(COMPOSITES["cosine_embedding_loss"].call)
dropout_ = checked(COMPOSITES["dropout_"].call)
feature_alpha_dropout = checked(COMPOSITES["feature_alpha_dropout"].call)
feature_alpha_dropout_ = checked(COMPOSITES["feature_alpha_dropout_"].call)
feature_dropout = checked(COMPOSITES["feature_dropout"].call)
feature_dropout_ = checked(COMPOSITES["feature_dropout_"].call)
gru = checked(COMPOSITES["gru"].call)
gru_cell = checked(COMPOSITES["gru_cell"].call)
margin_ranking_loss = checked(COMPOSITES["margin_ranking_loss"].call)
max_pool1d = checked(COMPOSITES["max_pool1d"].call)
max_pool2d = checked(COMPOSITES["max_pool2d"].call)
max_pool3d = checked(COMPOSITES["max_pool3d"].call)
rnn_relu = checked(COMPOSITES["rnn_relu"].call)
rnn_relu_cell = checked(COMPOSITES["rnn_relu_cell"].call)
rnn_tanh = checked(COMPOSITES["rnn_tanh"].call)
rnn_tanh_cell = checked(COMPOSITES["rnn_tanh_cell"].call)

# nn.functional.activation
rrelu = checked(COMPOSITES["rrelu"].call)
rrelu_ = checked(COMPOSITES["rrelu_"].call)

# nn.functional.adaptive_pooling
adaptive_avg_pool1d = checked(COMPOSITES["adaptive_avg_pool1d"].call)
adaptive_max_pool1d = checked(COMPOSITES["adaptive_max_pool1d"].call)

# nn.functional.convolution
conv1d = checked(COMPOSITES["conv1d"].call)
conv2d = checked(COMPOSITES["conv2d"].call)
conv3d = checked(COMPOSITES["conv3d"].call)
conv_tbc = checked(COMPOSITES["conv_tbc"].call)
conv_transpose1d = checked(COMPOSITES["conv_transpose1d"].call)
conv_transpose2d = checked(COMPOSITES["conv_transpose2d"].call)
conv_transpose3d = checked(COMPOSITES["conv_transpose3d"].call)
convolution = checked(COMPOSITES["convolution"].call)

# nn.functional.ctc
ctc_loss = checked(COMPOSITES["ctc_loss"].call)

# nn.functional.distance
cosine_similarity = checked(COMPOSITES["cosine_similarity"].call)
pairwise_distance = checked(COMPOSITES["pairwise_distance"].call)

# nn.functional.dropout
dropout = checked(COMPOSITES["dropout"].call)

# nn.functional.grid
affine_grid_generator = checked(COMPOSITES["affine_grid_generator"].call)
grid_sampler = checked(COMPOSITES["grid_sampler"].call)
grid_sampler_2d = checked(COMPOSITES["grid_sampler_2d"].call)
grid_sampler_3d = checked(COMPOSITES["grid_sampler_3d"].call)

# nn.functional.lookup
embedding = checked(COMPOSITES["embedding"].call)
embedding_bag = checked(COMPOSITES["embedding_bag"].call)
embedding_renorm_ = checked(COMPOSITES["embedding_renorm_"].call)

# nn.functional.loss
binary_cross_entropy_with_logits = checked(COMPOSITES["binary_cross_entropy_with_logits"].call)
hinge_embedding_loss = checked(COMPOSITES["hinge_embedding_loss"].call)
kl_div = checked(COMPOSITES["kl_div"].call)
poisson_nll_loss = checked(COMPOSITES["poisson_nll_loss"].call)
triplet_margin_loss = checked(COMPOSITES["triplet_margin_loss"].call)

# nn.functional.native
batch_norm_update_stats = checked(COMPOSITES["batch_norm_update_stats"].call)
native_batch_norm = COMPOSITES["native_batch_norm"].call
native_dropout = checked(COMPOSITES["native_dropout"].call)
native_group_norm = checked(COMPOSITES["native_group_norm"].call)
native_layer_norm = checked(COMPOSITES["native_layer_norm"].call)

# nn.functional.normalization
batch_norm = checked(COMPOSITES["batch_norm"].call)
group_norm = checked(COMPOSITES["group_norm"].call)
instance_norm = checked(COMPOSITES["instance_norm"].call)
layer_norm = checked(COMPOSITES["layer_norm"].call)
rms_norm = checked(COMPOSITES["rms_norm"].call)

# nn.functional.pooling
avg_pool1d = checked(COMPOSITES["avg_pool1d"].call)
max_pool1d_with_indices = checked(COMPOSITES["max_pool1d_with_indices"].call)

# nn.functional.recurrent
lstm = checked(COMPOSITES["lstm"].call)
lstm_cell = checked(COMPOSITES["lstm_cell"].call)

# nn.functional.shuffle
channel_shuffle = checked(COMPOSITES["channel_shuffle"].call)
native_channel_shuffle = checked(COMPOSITES["native_channel_shuffle"].call)
pixel_shuffle = checked(COMPOSITES["pixel_shuffle"].call)
pixel_unshuffle = checked(COMPOSITES["pixel_unshuffle"].call)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "affine_grid_generator",
    "alpha_dropout",
    "alpha_dropout_",
    "avg_pool1d",
    "batch_norm",
    "batch_norm_update_stats",
    "binary_cross_entropy_with_logits",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "dropout",
    "dropout_",
    "embedding",
    "embedding_bag",
    "embedding_renorm_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "group_norm",
    "gru",
    "gru_cell",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "layer_norm",
    "lstm",
    "lstm_cell",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool3d",
    "native_batch_norm",
    "native_channel_shuffle",
    "native_dropout",
    "native_group_norm",
    "native_layer_norm",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "rms_norm",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    "rrelu",
    "rrelu_",
    "triplet_margin_loss",
]
