"""What graphs are made of: nodes, shapes, constants, operators, and the program that a session runs."""
