"""Random numbers: new tensors and samples, tensors filled in place, and PyTorch's numbers."""
