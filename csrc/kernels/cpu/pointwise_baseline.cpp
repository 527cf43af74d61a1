// The pointwise functions for every CPU of the architecture.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <limits>

#include "kernels/cpu/pointwise.h"

// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS baseline
#include "kernels/cpu/pointwise_impl.h"
