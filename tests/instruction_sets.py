"""The instruction sets that tests can ask for with MT_ISA."""

from minitensor import _C

_config = _C.build_config()
_levels = ("baseline", "avx2", "avx512")

# Those that this machine has, of those that were built.
USABLE = [isa for isa in _levels[: _levels.index(_config["detected_isa"]) + 1] if isa in _config["built_isas"]]
