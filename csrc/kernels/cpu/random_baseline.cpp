// The random loops for every CPU of the architecture.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <limits>

#include "kernels/cpu/random.h"

// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS baseline
#define MT_VECTOR_BYTES 16
#include "kernels/cpu/random_impl.h"
