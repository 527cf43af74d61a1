// The pointwise functions for CPUs with AVX2 and FMA.
#include <immintrin.h>

#include <limits>

#include "kernels/cpu/pointwise.h"

// Up to the end of the file: templates are instantiated there.
#pragma GCC target("avx2,fma,f16c")
// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS avx2
#include "kernels/cpu/pointwise_impl.h"
