"""PyTorch's place of what is made of modules without wrapping them."""
