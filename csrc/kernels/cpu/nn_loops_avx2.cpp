// The loops of convolution, pooling and normalisation for CPUs with AVX2 and FMA.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/nn_loops.h"
#include "kernels/cpu/reduce.h"

// Up to the end of the file: templates are instantiated there.
#pragma GCC target("avx2,fma")
// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS avx2
#define MT_VEC 32
#include "kernels/cpu/reduce_vec.h"

#include "kernels/cpu/reduce_blocks.h"

#include "kernels/cpu/math.h"

#include "kernels/cpu/nn_loops_impl.h"
