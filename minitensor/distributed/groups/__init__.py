"""Groups of processes: who is in them, their calls, what a call returns, and how values are combined."""
