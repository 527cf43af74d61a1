// Broadcasting: the shape that two operands have together, and the strides that make one look like it.
#include <string>

#include "core/error.h"
#include "core/tensor.h"

namespace mt {

Dims broadcast_shapes(const Dims& a, const Dims& b) {
    if (a == b) return a;
    const Dims& longer = a.size() >= b.size() ? a : b;
    const Dims& shorter = a.size() >= b.size() ? b : a;
    Dims result = longer;
    size_t lead = longer.size() - shorter.size();
    for (size_t i = shorter.size(); i-- > 0;) {
        int64_t x = longer[lead + i], y = shorter[i];
        if (x == y || y == 1) continue;
        if (x != 1) {
            size_t dim = lead + i;
            int64_t size_a = a.size() >= b.size() ? x : y, size_b = a.size() >= b.size() ? y : x;
            fail("The size of tensor a (" + std::to_string(size_a) + ") must match the size of tensor b (" +
                 std::to_string(size_b) + ") at non-singleton dimension " + std::to_string(dim) +
                 detail("; shapes " + to_string(a) + " and " + to_string(b)));
        }
        result[lead + i] = y;
    }
    return result;
}

Dims broadcast_strides(const Dims& sizes, const Dims& strides, const Dims& target) {
    Dims result;
    result.resize(target.size());
    size_t lead = target.size() - sizes.size();
    for (size_t i = 0; i < sizes.size(); ++i)
        result[lead + i] = sizes[i] == 1 && target[lead + i] != 1 ? 0 : strides[i];
    return result;
}

}  // namespace mt
