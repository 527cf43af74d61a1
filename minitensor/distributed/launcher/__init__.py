"""Starts the processes of a job on this machine, watches them, and starts them again where that is wanted."""
