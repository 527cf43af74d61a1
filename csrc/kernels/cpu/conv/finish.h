// What follows a convolution, done part by part while its result is in the cache.
#pragma once

#include "runtime/kernel_call.h"

namespace mt::cpu {

// Told of each finished part of the result: filters [filter, filter + filters) of image n, and output positions.
struct Finish {
    const Epilogue* epilogue = nullptr;

    void operator()(int64_t n, int64_t filter, int64_t filters, int64_t position, int64_t positions) const {
        if (epilogue) (*epilogue)(n, filter, filters, position, positions);
    }
};

}  // namespace mt::cpu
