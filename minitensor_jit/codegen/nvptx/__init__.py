"""Code for NVIDIA GPUs: LLVM text, PTX, and the list of launches."""
