// The elementwise loops for CPUs with AVX-512.
#include <immintrin.h>

#include <limits>

#include "kernels/cpu/elementwise.h"

// Up to the end of the file: templates are instantiated there.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c,prefer-vector-width=512")
// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS avx512
#define MT_VECTOR_BYTES 64
#include "kernels/cpu/elementwise_impl.h"
