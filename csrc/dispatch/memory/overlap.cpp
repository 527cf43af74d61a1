#include "dispatch/memory/overlap.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"

namespace mt {

bool may_overlap(const Tensor& a, const Tensor& b) {
    if (!(a.storage == b.storage)) return false;
    // In bytes: views of one storage may have different dtypes.
    auto span = [](const Tensor& t) {
        auto [low, high] = element_span(t.sizes, t.strides, t.offset);
        auto size = static_cast<int64_t>(itemsize(t.dtype));
        return std::pair(wrapping_mul(low, size), wrapping_mul(high, size));
    };
    auto x = span(a), y = span(b);
    return x.first < y.second && y.first < x.second;
}

bool same_view(const Tensor& a, const Tensor& b) {
    return a.storage == b.storage && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides &&
           a.dtype == b.dtype;
}

bool has_internal_overlap(const Tensor& t) {
    if (t.numel < 2 || t.contiguous()) return false;
    std::vector<std::pair<int64_t, int64_t>> steps;  // (stride, size), inner first
    for (size_t i = 0; i < t.ndim(); ++i)
        if (t.sizes[i] > 1) steps.push_back({t.strides[i], t.sizes[i]});
    std::sort(steps.begin(), steps.end());
    int64_t reach = 0;
    bool nested = true;
    for (auto [stride, size] : steps) {
        if (stride == 0) return true;
        nested &= stride > reach;
        reach += stride * (size - 1);
    }
    if (nested) return false;
    // Strides that interleave: look at every place.
    std::vector<bool> seen(static_cast<size_t>(reach) + 1);
    std::vector<int64_t> at(steps.size(), 0);
    int64_t place = 0;
    for (int64_t i = 0; i < t.numel; ++i) {
        if (seen[static_cast<size_t>(place)]) return true;
        seen[static_cast<size_t>(place)] = true;
        for (size_t d = 0; d < steps.size(); ++d) {
            place += steps[d].first;
            if (++at[d] < steps[d].second) break;
            place -= steps[d].first * steps[d].second;
            at[d] = 0;
        }
    }
    return false;
}

void refuse_shared() {
    fail("unsupported operation: more than one element of the written-to tensor refers to a single memory "
         "location. Please clone() the tensor before performing the operation.");
}

void check_written_once(const Tensor& destination) {
    if (has_internal_overlap(destination)) refuse_shared();
}

}  // namespace mt
