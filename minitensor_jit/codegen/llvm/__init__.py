"""LLVM IR: the text that is written, and the way from it to code, where LLVM can't end the process."""
