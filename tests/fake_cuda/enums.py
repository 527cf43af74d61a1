"""The numbers that `pycuda.driver` has names for, as in `cuda.h`."""

from __future__ import annotations

from enum import IntEnum


def _enum(name: str, **values: int) -> type[IntEnum]:
    return IntEnum(name, values)


device_attribute = _enum(
    "device_attribute",
    MAX_THREADS_PER_BLOCK=1,
    MAX_BLOCK_DIM_X=2,
    MAX_BLOCK_DIM_Y=3,
    MAX_BLOCK_DIM_Z=4,
    MAX_GRID_DIM_X=5,
    MAX_GRID_DIM_Y=6,
    MAX_GRID_DIM_Z=7,
    MAX_SHARED_MEMORY_PER_BLOCK=8,
    TOTAL_CONSTANT_MEMORY=9,
    WARP_SIZE=10,
    MAX_REGISTERS_PER_BLOCK=12,
    CLOCK_RATE=13,
    MULTIPROCESSOR_COUNT=16,
    INTEGRATED=18,
    CONCURRENT_KERNELS=31,
    ECC_ENABLED=32,
    PCI_BUS_ID=33,
    PCI_DEVICE_ID=34,
    MEMORY_CLOCK_RATE=36,
    GLOBAL_MEMORY_BUS_WIDTH=37,
    L2_CACHE_SIZE=38,
    MAX_THREADS_PER_MULTIPROCESSOR=39,
    ASYNC_ENGINE_COUNT=40,
    UNIFIED_ADDRESSING=41,
    PCI_DOMAIN_ID=50,
    COMPUTE_CAPABILITY_MAJOR=75,
    COMPUTE_CAPABILITY_MINOR=76,
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR=81,
    MAX_REGISTERS_PER_MULTIPROCESSOR=82,
    MULTI_GPU_BOARD=84,
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97,
)
function_attribute = _enum(
    "function_attribute",
    MAX_THREADS_PER_BLOCK=0,
    SHARED_SIZE_BYTES=1,
    CONST_SIZE_BYTES=2,
    LOCAL_SIZE_BYTES=3,
    NUM_REGS=4,
    PTX_VERSION=5,
    BINARY_VERSION=6,
    CACHE_MODE_CA=7,
    MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
    PREFERRED_SHARED_MEMORY_CARVEOUT=9,
)
event_flags = _enum(
    "event_flags",
    DEFAULT=0,
    BLOCKING_SYNC=1,
    DISABLE_TIMING=2,
    INTERPROCESS=4,
)
ctx_flags = _enum(
    "ctx_flags",
    SCHED_AUTO=0,
    SCHED_SPIN=1,
    SCHED_YIELD=2,
    SCHED_BLOCKING_SYNC=4,
    MAP_HOST=8,
)
jit_option = _enum(
    "jit_option",
    MAX_REGISTERS=0,
    THREADS_PER_BLOCK=1,
    WALL_TIME=2,
    INFO_LOG_BUFFER=3,
    INFO_LOG_BUFFER_SIZE_BYTES=4,
    ERROR_LOG_BUFFER=5,
    ERROR_LOG_BUFFER_SIZE_BYTES=6,
    OPTIMIZATION_LEVEL=7,
    TARGET_FROM_CUCONTEXT=8,
    TARGET=9,
    FALLBACK_STRATEGY=10,
)
jit_input_type = _enum(
    "jit_input_type",
    CUBIN=0,
    PTX=1,
    FATBINARY=2,
    OBJECT=3,
    LIBRARY=4,
)
func_cache = _enum(
    "func_cache",
    PREFER_NONE=0,
    PREFER_SHARED=1,
    PREFER_L1=2,
    PREFER_EQUAL=3,
)


class host_alloc_flags:  # noqa: N801 - PyCUDA's name
    PORTABLE, DEVICEMAP, WRITECOMBINED = 1, 2, 4
