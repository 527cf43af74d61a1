"""What was compiled, kept: executables in memory, code and plans on disk."""
