// masked_fill and masked_scatter.
#include <cstring>
#include <type_traits>

#include "dispatch/infer/shape/movement.h"
#include "dispatch/op.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/index/axes.h"
#include "kernels/cpu/loops/strided_loop.h"

namespace mt::cpu {

namespace {

// to[i] = mask[i] ? value : in[i]; what is single in `scalars` doesn't advance: bit 0 the input, 1 the mask, 2 the
// value.
template <class T>
void fill_block(void* to, const void* const* from, int64_t n, unsigned scalars) {
    auto* out = static_cast<T*>(to);
    auto* in = static_cast<const T*>(from[0]);
    auto* mask = static_cast<const uint8_t*>(from[1]);
    T value = *static_cast<const T*>(from[2]);
    if (scalars & 2) {
        for (int64_t i = 0; i < n; ++i) out[i] = *mask ? value : in[scalars & 1 ? 0 : i];
    } else if (scalars & 1) {
        T own = *in;
        for (int64_t i = 0; i < n; ++i) out[i] = mask[i] ? value : own;
    } else {
        // Without a branch, which a random mask would have go wrong every other time.
        if constexpr (std::is_integral_v<T>) {
#pragma GCC ivdep
            for (int64_t i = 0; i < n; ++i) {
                auto chosen = static_cast<T>(T(0) - static_cast<T>(mask[i] != 0));
                out[i] = static_cast<T>((value & chosen) | (in[i] & static_cast<T>(~chosen)));
            }
        } else {
            for (int64_t i = 0; i < n; ++i) out[i] = mask[i] ? value : in[i];
        }
    }
}

void masked_fill_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    alignas(16) char element[16] = {};
    const Operand& value = call.operands[2];
    if (!value.tensor) {
        store_scalar(value.scalar, t.dtype, element);
    } else {
        Packed one(*value.tensor, t.dtype);
        std::memcpy(element, one.data(), itemsize(t.dtype));
    }
    LoopOperand operands[3] = {operand_of(t, t.dtype, true), operand_of(call.in(1), DType::Bool),
                               scalar_operand(element, t.dtype)};
    operands[2].raw = true;
    using Block = void (*)(void*, const void* const*, int64_t, unsigned);
    Block block = nullptr;
    with_bits(itemsize(t.dtype), [&](auto bits) { block = fill_block<decltype(bits)>; });
    run_elementwise(
        operand_of(out, t.dtype, true), operands, 3,
        [](void* context, void* to, const void* const* from, int64_t n, unsigned scalars) {
            (*static_cast<Block*>(context))(to, from, n, scalars);
        },
        &block);
}

template <class T>
void scatter(T* out, const uint8_t* mask, int64_t n, const T* values) {
    for (int64_t i = 0; i < n; ++i)
        if (mask[i]) out[i] = *values++;
}

// Before anything is written.
void check_enough(const uint8_t* mask, int64_t n, int64_t count) {
    if (count >= n) return;
    int64_t ones = 0;
    for (int64_t i = 0; i < n; ++i) ones += mask[i] != 0;
    if (ones > count) fail("Number of elements of source < number of ones in mask");
}

void masked_scatter_kernel(Call& call) {
    const Tensor &t = call.in(0), &mask = call.in(1), &source = call.in(2);
    Tensor& out = *call.outputs[0];
    Dims mask_strides = broadcast_strides(mask.sizes, mask.strides, out.sizes);
    Packed flags(Strided(mask.data(), DType::Bool, out.sizes, mask_strides, out.numel), DType::Bool,
                 shares_memory(mask, out));
    check_enough(flags.as<uint8_t>(), out.numel, source.numel);
    Packed values(source, t.dtype, shares_memory(source, out));
    ContiguousOut target(out, t.dtype);
    if (target.data() != t.data()) {
        Dims strides = broadcast_strides(t.sizes, t.strides, out.sizes);
        pack(target.data(), t.dtype, Strided(t.data(), t.dtype, out.sizes, strides, out.numel));
    }
    with_bits(itemsize(t.dtype), [&](auto bits) {
        using T = decltype(bits);
        scatter(target.as<T>(), flags.as<uint8_t>(), out.numel, values.as<T>());
    });
    target.store();
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"masked_fill", infer_masked_fill, masked_fill_kernel, Takes::Stored},
                                    {"masked_scatter", infer_masked_scatter, masked_scatter_kernel, Takes::Stored},
                                }};

}  // namespace

}  // namespace mt::cpu
