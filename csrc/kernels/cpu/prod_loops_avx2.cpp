// The loops of the gradient of prod for CPUs with AVX2 and FMA.
#include <cstdint>

#include "kernels/cpu/prod_loops.h"

// Up to the end of the file: templates are instantiated there.
#pragma GCC target("avx2,fma")
// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS avx2
#include "kernels/cpu/prod_loops_impl.h"
