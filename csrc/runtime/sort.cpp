#include "runtime/sort.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/process/faults.h"
#include "core/process/parallel.h"

namespace mt {

namespace {

// Comparisons that are worth a thread.
constexpr int64_t kGrain = 4096;

// Writes the first elements of a lane in the given order.
void permute(const char* in, char* out, int64_t size, int64_t stride, const int64_t* order, int64_t count) {
    for (int64_t k = 0; k < count; ++k)
        std::memcpy(out + k * stride, in + order[k] * stride, static_cast<size_t>(size));
}

}  // namespace

void sort_lanes(const int64_t* words, void** pointers, uint8_t (*less)(void** lane, int64_t i, int64_t j)) {
    int64_t outer = words[0], length = words[1], inner = words[2], count = words[3], kept = words[4];
    const int64_t* sizes = words + 6;
    auto* numbers = words[5] ? static_cast<int32_t*>(pointers[2 * count]) : nullptr;
    int64_t rounds = 1;
    while (rounds < 40 && (int64_t{1} << rounds) < length) ++rounds;
    int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, length * rounds));
    parallel_for(outer * inner, grain, [&](int64_t begin, int64_t end) {
        fault_point(FaultPlace::Allocation);
        std::vector<int64_t> order(static_cast<size_t>(length));
        std::vector<void*> lane(static_cast<size_t>(count));
        for (int64_t at = begin; at < end; ++at) {
            int64_t first = at / inner * length * inner + at % inner, target = at / inner * kept * inner + at % inner;
            for (int64_t k = 0; k < count; ++k) lane[k] = static_cast<char*>(pointers[k]) + first * sizes[k];
            std::iota(order.begin(), order.end(), int64_t{0});
            // Stable whether or not the instruction asks for it: one result for any number of threads.
            auto before = [&](int64_t i, int64_t j) { return less(lane.data(), i, j) != 0; };
            if (kept < length)
                std::partial_sort(order.begin(), order.begin() + kept, order.end(),
                                  [&](int64_t i, int64_t j) { return before(i, j) || (i < j && !before(j, i)); });
            else std::stable_sort(order.begin(), order.end(), before);
            for (int64_t k = 0; k < count; ++k)
                permute(static_cast<const char*>(lane[k]), static_cast<char*>(pointers[count + k]) + target * sizes[k],
                        sizes[k], inner * sizes[k], order.data(), kept);
            for (int64_t k = 0; numbers && k < kept; ++k) numbers[target + k * inner] = static_cast<int32_t>(order[k]);
        }
    });
}

}  // namespace mt
