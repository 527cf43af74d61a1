#include <cstring>

#include "core/error.h"
#include "kernels/cpu/index_strided.h"
#include "kernels/cpu/select.h"

namespace mt {

namespace {

int64_t count_true(const uint8_t* mask, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) count += mask[i];
    return count;
}

}  // namespace

Ref<Tensor> nonzero(const Tensor& t) {
    cpu::Packed mask(t, DType::Bool);
    const auto* flags = mask.as<uint8_t>();
    auto rank = static_cast<int64_t>(t.ndim());
    Dims sizes;
    sizes.push_back(count_true(flags, t.numel));
    sizes.push_back(rank);
    Ref<Tensor> out = Tensor::empty(sizes, DType::I64, t.device());
    auto* p = out->ptr<int64_t>();
    if (sizes[0] == 0 || rank == 0) return out;
    int64_t length = t.sizes.back(), found = 0;
    for (int64_t row = 0; row * length < t.numel; ++row) {
        for (int64_t k = 0; k < length; ++k) {
            if (!flags[row * length + k]) continue;
            if (found == sizes[0]) return out;  // another thread has changed the mask since it was counted
            int64_t* place = p + found++ * rank;
            place[rank - 1] = k;
            int64_t rest = row;
            for (int64_t d = rank - 1; d-- > 0;) {
                place[d] = rest % t.sizes[static_cast<size_t>(d)];
                rest /= t.sizes[static_cast<size_t>(d)];
            }
        }
    }
    return out;
}

Ref<Tensor> masked_select(const Tensor& t, const Tensor& mask) {
    if (mask.dtype != DType::Bool) fail("masked_select: expected BoolTensor for mask");
    Dims sizes = broadcast_shapes(t.sizes, mask.sizes);
    int64_t numel = product(sizes);
    Dims mask_strides = broadcast_strides(mask.sizes, mask.strides, sizes);
    Dims strides = broadcast_strides(t.sizes, t.strides, sizes);
    cpu::Packed flags_packed(cpu::Strided(mask.data(), DType::Bool, sizes, mask_strides, numel), DType::Bool);
    cpu::Packed values(cpu::Strided(t.data(), t.dtype, sizes, strides, numel), t.dtype);
    const auto* flags = flags_packed.as<uint8_t>();
    const auto* from = values.as<char>();
    Dims count;
    count.push_back(count_true(flags, numel));
    Ref<Tensor> out = Tensor::empty(count, t.dtype, t.device());
    auto* to = out->ptr<char>();
    auto size = static_cast<int64_t>(itemsize(t.dtype));
    int64_t room = count[0];
    // Runs of selected elements are copied at once.
    for (int64_t i = 0; i < numel;) {
        if (!flags[i]) {
            ++i;
            continue;
        }
        int64_t begin = i;
        while (i < numel && flags[i] && i - begin < room) ++i;
        if (i == begin) break;  // another thread has changed the mask since it was counted
        room -= i - begin;
        std::memcpy(to, from + begin * size, static_cast<size_t>((i - begin) * size));
        to += (i - begin) * size;
    }
    return out;
}

}  // namespace mt
