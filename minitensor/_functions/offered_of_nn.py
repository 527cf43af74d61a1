"""Names of functions of nn.functional that the package offers too. Written by scripts/generate_functions."""

# By the module that defines them; it is imported when one of them is asked for.
OF_NN = {
    # nn.functional
    "alpha_dropout",
    "alpha_dropout_",
    "cosine_embedding_loss",
    "dropout_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "gru",
    "gru_cell",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    # nn.functional.activation
    "rrelu",
    "rrelu_",
    # nn.functional.adaptive_pooling
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    # nn.functional.convolution
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    # nn.functional.ctc
    "ctc_loss",
    # nn.functional.distance
    "cosine_similarity",
    "pairwise_distance",
    # nn.functional.dropout
    "dropout",
    # nn.functional.grid
    "affine_grid_generator",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    # nn.functional.lookup
    "embedding",
    "embedding_bag",
    "embedding_renorm_",
    # nn.functional.loss
    "binary_cross_entropy_with_logits",
    "hinge_embedding_loss",
    "kl_div",
    "poisson_nll_loss",
    "triplet_margin_loss",
    # nn.functional.native
    "batch_norm_update_stats",
    "native_batch_norm",
    "native_dropout",
    "native_group_norm",
    "native_layer_norm",
    # nn.functional.normalization
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "rms_norm",
    # nn.functional.pooling
    "avg_pool1d",
    "max_pool1d_with_indices",
    # nn.functional.recurrent
    "lstm",
    "lstm_cell",
    # nn.functional.shuffle
    "channel_shuffle",
    "native_channel_shuffle",
    "pixel_shuffle",
    "pixel_unshuffle",
}
