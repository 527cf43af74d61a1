"""The kernels of the CPU: one skeleton of loops a file, and what they share."""
