"""Linear algebra: products, sums in Einstein's notation, approximations, and functions that `linalg` has too."""
