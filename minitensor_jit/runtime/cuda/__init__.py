"""What drives the GPUs: memory, streams, modules and launches, through PyCUDA. Imported by the first use of a GPU."""
