"""What a compiled function reads of Python's state: observed while it is recorded, compared before later calls."""
