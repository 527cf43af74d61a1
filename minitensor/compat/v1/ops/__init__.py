"""The functions that make nodes, under TensorFlow's names, and variables."""
