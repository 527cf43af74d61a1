// The loops of the gradient of prod for CPUs with AVX-512.
#include <cstdint>

#include "kernels/cpu/prod_loops.h"

// Up to the end of the file: templates are instantiated there.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,prefer-vector-width=512")
// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS avx512
#include "kernels/cpu/prod_loops_impl.h"
