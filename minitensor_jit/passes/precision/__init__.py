"""Passes that choose the types in which products and narrow values are computed."""
