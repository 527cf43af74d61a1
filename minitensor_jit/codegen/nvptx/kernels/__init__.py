"""The kernels of GPUs: one skeleton a file, and what they share."""
