"""The cases, a file for each kind of work."""
