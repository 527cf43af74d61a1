"""How the package is imported: lazily, and without its extension."""
