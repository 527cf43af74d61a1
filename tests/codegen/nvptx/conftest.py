"""The emulator is in tests/ptx, what the tests of code generation share is one folder up.

Kernels are slow in the emulator. Of a test with many parameters a few run, others from test to test; with
`MT_TEST_CUDA=all` all do.
"""

import os
import sys
import zlib
from pathlib import Path

HERE = Path(__file__).parent
ALL = os.environ.get("MT_TEST_CUDA") == "all"
SAMPLED = {
    "test_cases_of_the_cpu.py": 12, "test_gpu_functions.py": 4, "test_gpu_assembly.py": 8,
    "test_implicit_gemm.py": 1, "test_tensor_core_product.py": 1, "test_tensor_float.py": 1,
}  # fmt: skip
"""By file: of so many neighbouring cases of a test, one runs. Of other files, one of three."""

for _folder in (HERE.parents[1], HERE.parent):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))


def pytest_collection_modifyitems(config, items):
    """Leaves out what isn't in the sample; a test that is named on the command line runs whole."""
    if ALL or any("::" in argument for argument in config.args):
        return
    kept, left_out, seen = [], [], {}
    for item in items:
        if item.path.parent != HERE or not hasattr(item, "callspec"):
            kept.append(item)
            continue
        name = f"{item.path.name}::{item.originalname}"
        number = seen[name] = seen.get(name, zlib.crc32(name.encode())) + 1
        (left_out if number % SAMPLED.get(item.path.name, 3) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
