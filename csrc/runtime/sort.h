// Sorting by a comparator that is compiled code.
#pragma once

#include <cstdint>

namespace mt {

// The layout of `words` and `pointers`, and what `less` is: abi.h.
void sort_lanes(const int64_t* words, void** pointers, uint8_t (*less)(void** lane, int64_t i, int64_t j));

}  // namespace mt
