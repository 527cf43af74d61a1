"""XLA's module text, read and written; and modules as graphs in Graphviz's language."""
