// cat, tril and triu.
#include <algorithm>
#include <cstring>

#include "dispatch/infer/shape/index.h"
#include "dispatch/memory/memory_order.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

void cat_kernel(Call& call) {
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), out.ndim()));
    auto size = static_cast<int64_t>(itemsize(out.dtype));
    auto* to = static_cast<char*>(out.data());
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor& t = call.in(i);
        if (cat_skips(t)) continue;
        if (t.dtype == out.dtype) {
            strided_copy(to, out.strides, t.data(), t.strides, t.sizes, static_cast<size_t>(size));
        } else if (t.numel) {
            Packed converted(t, out.dtype);
            strided_copy(to, out.strides, converted.data(), contiguous_strides(t.sizes), t.sizes,
                         static_cast<size_t>(size));
        }
        to += t.sizes[dim] * out.strides[dim] * size;
    }
}

// Zeroes what is above (Lower) or below the diagonal.
template <bool Lower>
void triangle_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    ContiguousOut target(out, t.dtype);
    if (target.data() != t.data()) pack(target.data(), t.dtype, t);
    int64_t rows = t.sizes[t.ndim() - 2], cols = t.sizes[t.ndim() - 1], diagonal = call.param(0).as_int();
    diagonal = std::clamp(diagonal, -rows - 1, cols + 1);
    auto size = static_cast<int64_t>(itemsize(t.dtype));
    auto* data = static_cast<char*>(target.data());
    parallel_for(t.numel / cols, grain_of(cols), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            int64_t border = std::clamp<int64_t>(row % rows + diagonal + (Lower ? 1 : 0), 0, cols);
            int64_t first = Lower ? border : 0, last = Lower ? cols : border;
            std::memset(data + (row * cols + first) * size, 0, static_cast<size_t>((last - first) * size));
        }
    });
    target.store();
}

const RegisterOrder ordered{Order::Images, {"cat"}};
const RegisterNative registered{Takes::Any,
                                {
                                    {"cat", infer_cat, cat_kernel, Takes::Stored},
                                    {"tril", infer_tril, triangle_kernel<true>},
                                    {"triu", infer_triu, triangle_kernel<false>},
                                }};

}  // namespace

}  // namespace mt::cpu
