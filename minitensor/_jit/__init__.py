"""The eager half's side of the compiler: where it hooks in, and programs that run under its flags."""
