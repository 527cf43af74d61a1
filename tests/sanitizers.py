"""Whether the tests run with an instrumented extension (`scripts/sanitize`): it is slower and takes more memory."""

import os

_VARIABLES = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "MT_ISA")

SANITIZED = "san.so" in os.environ.get("LD_PRELOAD", "")
TSAN = "libtsan" in os.environ.get("LD_PRELOAD", "")

#: What a process needs from the environment to load the extension as this one did.
ENVIRONMENT = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
