"""What single opcodes mean, for evaluator, passes and code generation alike: windows, sums, matrices, collectives."""
