// cast, clone, copy and fill.
#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "dispatch/infer_elementwise.h"
#include "dispatch/memory_order.h"
#include "kernels/cpu/elementwise_kernels.h"
#include "kernels/cpu/strided_loop.h"

namespace mt::cpu {

void run_copy(const Tensor& in, Tensor& out) {
    if (in.numel == out.numel && out.numel <= kElementwiseGrain && is_flat(in) && is_flat(out)) {
        if (in.dtype == out.dtype)
            std::memmove(out.data(), in.data(), static_cast<size_t>(out.numel) * itemsize(out.dtype));
        else get_convert(in.dtype, out.dtype)(out.data(), in.data(), out.numel);
        return;
    }
    copy_elements(operand_of(out, out.dtype), operand_of(in, in.dtype));
}

// Bytes of repeated elements that a fill copies: memcpy has the widest stores.
constexpr int64_t kPattern = 4096;

void run_fill(Tensor& out, Scalar value) {
    Number number{};
    const char* element = number.bytes;
    store_scalar(value, out.dtype, number.bytes);
    auto item = static_cast<int64_t>(itemsize(out.dtype));
    bool same_bytes = true;
    for (int64_t i = 1; i < item; ++i) same_bytes &= element[i] == element[0];
    // memset knows best when to write around the caches.
    if (same_bytes && is_flat(out)) {
        auto* data = static_cast<char*>(out.data());
        parallel_for(out.numel * item, kElementwiseGrain * 8, [&](int64_t begin, int64_t end) {
            std::memset(data + begin, element[0], static_cast<size_t>(end - begin));
        });
        return;
    }
    int64_t bytes = out.numel * item;
    if (bytes > kPattern && bytes < streaming_threshold() && is_flat(out)) {
        alignas(64) char pattern[kPattern];
        for (int64_t i = 0; i < kPattern; i += item) std::memcpy(pattern + i, element, static_cast<size_t>(item));
        auto* data = static_cast<char*>(out.data());
        parallel_for(bytes, kElementwiseGrain * 8, [&](int64_t begin, int64_t end) {
            for (int64_t at = begin; at < end; at += kPattern)
                std::memcpy(data + at, pattern, static_cast<size_t>(std::min(kPattern, end - at)));
        });
        return;
    }
    copy_elements(operand_of(out, out.dtype), scalar_operand(element, out.dtype));
}

namespace {

void copy_first(Call& call) { run_copy(call.in(0), *call.outputs[0]); }

void copy(Call& call) {
    const Operand& source = call.operands[1];
    if (source.tensor) run_copy(*source.tensor, *call.outputs[0]);
    else run_fill(*call.outputs[0], source.scalar);
}

void fill(Call& call) { run_fill(*call.outputs[0], call.param(0).as_scalar()); }

const RegisterOrder unordered{Order::RowMajor, {"_row_major"}};
const RegisterNative registered{Takes::Any,
                                {
                                    {"cast", infer_cast, copy_first},
                                    {"clone", infer_clone, copy_first},
                                    {"_row_major", infer_clone, copy_first},
                                    {"copy", infer_copy, copy},
                                    {"fill", infer_fill, fill},
                                }};

}  // namespace
}  // namespace mt::cpu
