"""PyTorch's package around its launcher; of it, what programs import."""
