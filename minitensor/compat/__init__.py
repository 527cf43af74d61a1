"""Other libraries' ways of writing programs: :mod:`minitensor.compat.v1` has TensorFlow's first one."""
