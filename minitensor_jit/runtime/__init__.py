"""What holds compiled code: executables and their buffers."""
