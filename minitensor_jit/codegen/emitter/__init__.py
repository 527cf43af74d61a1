"""Elemental emission: the value of an instruction at an index, for every target."""
