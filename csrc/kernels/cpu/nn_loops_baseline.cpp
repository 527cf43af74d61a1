// The loops of convolution, pooling and normalisation for every CPU of the architecture.
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/nn_loops.h"
#include "kernels/cpu/reduce.h"

// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS baseline
#define MT_VEC 16
#include "kernels/cpu/reduce_vec.h"

#include "kernels/cpu/reduce_blocks.h"

#include "kernels/cpu/math.h"

#include "kernels/cpu/nn_loops_impl.h"
