// What the kernels of PyTorch's random numbers share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/process/parallel.h"
#include "core/twister.h"
#include "dispatch/generator.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

// What a call draws from: the generator itself, or a copy of what it was when the call was recorded.
class Drawing {
  public:
    explicit Drawing(const Call& call);
    Twister& operator*() { return *from_; }
    Twister* operator->() { return from_; }

  private:
    std::optional<Twister> own_;
    Twister* from_;
};

inline double unit_of(const uint32_t* words) {
    const uint64_t word = static_cast<uint64_t>(words[0]) << 32 | words[1];
    return static_cast<double>(static_cast<int64_t>(word & ((uint64_t{1} << 53) - 1))) * 0x1p-53;
}

// Calls f(i, words of element i) for n elements, in parallel; the words are drawn in order.
template <class F> void for_each_drawn(Twister& twister, int64_t n, int64_t width, F f) {
    constexpr int64_t kBlock = 16384, kGrain = 2048;
    Scratch memory(static_cast<size_t>(std::min(n, kBlock) * width) * sizeof(uint32_t));
    auto* words = static_cast<uint32_t*>(memory.data());
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t count = std::min(kBlock, n - first);
        twister.words(words, count * width);
        parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) f(first + i, words + i * width);
        });
    }
}

}  // namespace mt::cpu
