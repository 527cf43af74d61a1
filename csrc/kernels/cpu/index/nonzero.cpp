#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "dispatch/op.h"
#include "kernels/cpu/index/nonzero.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt {

namespace {

int64_t count_true(const uint8_t* mask, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) count += mask[i];
    return count;
}

// The indices of the true flags among [begin, end): those of each dimension together, and of the next one `apart` from
// them. At most `room` of them, which only matters if another thread has changed the mask since it was counted.
void list_places(const uint8_t* flags, int64_t begin, int64_t end, const Dims& sizes, int64_t* to, int64_t apart,
                 int64_t room) {
    size_t rank = sizes.size();
    int64_t length = sizes.back();
    while (begin < end && room > 0) {
        int64_t row = begin / length, k = begin % length, last = std::min(length, k + end - begin);
        int64_t lead[kMaxDims], rest = row;
        for (size_t d = rank - 1; d-- > 0;) {
            lead[d] = rest % sizes[d];
            rest /= sizes[d];
        }
        const uint8_t* flag = flags + row * length;
        begin += last - k;
        while (k < last && room > 0) {
            // Eight flags at once where none is set.
            uint64_t eight;
            if (k + 8 <= last && (std::memcpy(&eight, flag + k, 8), eight == 0)) {
                k += 8;
                continue;
            }
            int64_t stop = std::min(k + 8, last);
            if (rank == 1) {
                // Without branches while there is room to write too far.
                if (room >= 8) {
                    int64_t found = 0;
                    for (; k < stop; ++k) {
                        to[found] = k;
                        found += flag[k];
                    }
                    to += found;
                    room -= found;
                } else {
                    for (; k < stop && room > 0; ++k)
                        if (flag[k]) {
                            *to++ = k;
                            --room;
                        }
                }
                continue;
            }
            for (; k < stop; ++k) {
                if (!flag[k] || room == 0) continue;
                for (size_t d = 0; d + 1 < rank; ++d) to[static_cast<int64_t>(d) * apart] = lead[d];
                to[static_cast<int64_t>(rank - 1) * apart] = k;
                ++to;
                --room;
            }
        }
    }
}

}  // namespace

Ref<Tensor> nonzero(const Tensor& t) {
    cpu::Packed mask(t, DType::Bool);
    const auto* flags = mask.as<uint8_t>();
    auto rank = static_cast<int64_t>(t.ndim());
    // Each part is counted first, so that all can be written at the same time.
    int64_t parts = t.numel < cpu::kGrain ? 1 : num_threads(), part = t.numel ? (t.numel + parts - 1) / parts : 0;
    std::vector<int64_t> starts(static_cast<size_t>(parts) + 1, 0);
    auto end_of = [&](int64_t p) { return std::min(t.numel, (p + 1) * part); };
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p)
            starts[static_cast<size_t>(p) + 1] = p * part < t.numel ? count_true(flags + p * part, end_of(p) - p * part)
                                                                    : 0;
    });
    for (size_t p = 0; p < static_cast<size_t>(parts); ++p) starts[p + 1] += starts[p];
    // A row for each element, but laid out by columns, as in PyTorch: those are what indexing reads.
    int64_t count = starts.back();
    Ref<Tensor> out = Tensor::empty(Dims{rank, count}, DType::I64, t.device());
    out = Tensor::make(out->storage, DType::I64, Dims{count, rank}, Dims{1, std::max<int64_t>(count, 1)}, 0);
    auto* places = out->ptr<int64_t>();
    if (count == 0 || rank == 0) return out;
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
            int64_t* to = places + starts[static_cast<size_t>(p)];
            int64_t room = starts[static_cast<size_t>(p) + 1] - starts[static_cast<size_t>(p)];
            list_places(flags, p * part, end_of(p), t.sizes, to, count, room);
        }
    });
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

Ref<Tensor> repeat_places(const Tensor& repeats) {
    if ((repeats.dtype != DType::I64 && repeats.dtype != DType::I32) || repeats.ndim() != 1)
        fail("repeats must be a vector of int32 or int64, got " + std::string(info(repeats.dtype).name) +
             to_string(repeats.sizes));
    cpu::Packed packed(repeats, DType::I64);
    const auto* counts = packed.as<int64_t>();
    int64_t total = 0;
    for (int64_t i = 0; i < repeats.numel; ++i) {
        if (counts[i] < 0) fail("repeats can not be negative");
        if (__builtin_add_overflow(total, counts[i], &total)) fail("repeats have a sum beyond 64 bits");
    }
    Dims sizes;
    sizes.push_back(total);
    Ref<Tensor> out = Tensor::empty(sizes, repeats.dtype, repeats.device());
    auto write = [&](auto* to) {
        for (int64_t i = 0; i < repeats.numel; ++i)
            for (int64_t k = 0; k < counts[i] && total > 0; ++k, --total)
                *to++ = static_cast<std::remove_pointer_t<decltype(to)>>(i);
    };
    if (repeats.dtype == DType::I32) write(out->ptr<int32_t>());
    else write(out->ptr<int64_t>());
    return out;
}

namespace {
// Its result's shape depends on data, and its kernel is called from Python.
const RegisterNative registered{{"masked_select", nullptr, nullptr, Takes::Stored}};
}  // namespace

}  // namespace mt
