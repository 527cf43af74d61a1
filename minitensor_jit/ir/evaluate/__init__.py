"""The meaning of HLO in NumPy: a rule for each opcode, and `evaluator` that calls them."""
