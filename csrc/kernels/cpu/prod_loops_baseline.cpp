// The loops of the gradient of prod for every CPU of the architecture.
#include <cstdint>

#include "kernels/cpu/prod_loops.h"

// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_ISA_NS baseline
#include "kernels/cpu/prod_loops_impl.h"
