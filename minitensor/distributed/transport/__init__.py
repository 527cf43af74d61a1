"""What carries the bytes between processes: shared memory, sockets or MPI, and the backends' names for these."""
