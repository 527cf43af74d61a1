// How compiled code runs the kernel of an op that has no code of its own.
#pragma once

#include <cstdint>

#include "runtime/abi.h"

namespace mt {

struct Call;

// What compiled code does with finished parts of a result while they are in the cache.
struct Epilogue {
    MtEpilogue run;
    void* ctx;

    void operator()(int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols) const {
        run(ctx, batch, row0, rows, col0, cols);
    }
};

// Runs what `words` describe on the memory at `pointers`: the operands that are there, then, for an op that draws
// random numbers, two words with the seed and the offset, then the results. All arrays are row-major. Installed by
// trace/; abi.h has the layout of the words. With an epilogue it is an op that takes one (epilogue_kernel.h).
extern void (*kernel_call_callback)(const int64_t* words, void** pointers, const Epilogue* epilogue);

}  // namespace mt
