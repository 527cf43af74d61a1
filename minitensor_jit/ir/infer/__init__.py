"""The shape of an instruction's result: a rule for each opcode, and `infer_shape` that calls them."""
