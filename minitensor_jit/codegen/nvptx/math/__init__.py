"""Functions of scalars that GPUs have no instructions for, operation by operation as the CPU computes them."""
