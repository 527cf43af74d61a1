"""Code generation: elemental emission shared by the targets, and one package for each target."""
