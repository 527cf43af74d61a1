// The random loops for CPUs with AVX2 and FMA.
#include <immintrin.h>

#include <limits>

#include "kernels/cpu/random.h"

// Up to the end of the file: templates are instantiated there.
#pragma GCC target("avx2,fma")
// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS avx2
#define MT_VECTOR_BYTES 32
#include "kernels/cpu/random_impl.h"
