// Index operands: as int64, contiguous and checked before anything is written.
#pragma once

#include <string>

#include "core/error.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

// The position of the first of n indices outside [low, high), or n.
inline int64_t first_out_of_bounds(const int64_t* index, int64_t n, int64_t low, int64_t high) {
    constexpr int64_t chunk = 256;
    for (int64_t i = 0; i < n; i += chunk) {
        int64_t end = n - i < chunk ? n : i + chunk;
        // The sign of either difference says that one is outside: differences that overflow are of indices that are.
        // Vectors of 64-bit integers can be subtracted everywhere, but not compared.
        uint64_t signs = 0;
        auto least = static_cast<uint64_t>(low), most = static_cast<uint64_t>(high) - 1;
        for (int64_t k = i; k < end; ++k) {
            auto at = static_cast<uint64_t>(index[k]);
            signs |= (at - least) | (most - at);
        }
        if (!(signs >> 63)) continue;
        for (; i < end; ++i)
            if (index[i] < low || index[i] >= high) return i;
    }
    return n;
}

inline void check_bounds(const int64_t* index, int64_t n, int64_t low, int64_t high, int64_t dim, ErrorKind kind) {
    int64_t bad = first_out_of_bounds(index, n, low, high);
    if (bad < n)
        throw Error(kind, "index " + std::to_string(index[bad]) + " is out of bounds for dimension " +
                              std::to_string(dim) + " with size " + std::to_string(high));
}

inline bool shares_memory(const Tensor& a, const Tensor& b) { return a.storage.get() == b.storage.get(); }

}  // namespace mt::cpu
