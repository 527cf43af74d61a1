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
    if (out.numel * item < streaming_threshold() && is_flat(out)) {
        // A choice between the value and itself: stores of whole vectors.
        WhereFn fill = elementwise().where[item];
        auto* data = static_cast<char*>(out.data());
        parallel_for(out.numel, kElementwiseGrain * 8 / item, [&](int64_t begin, int64_t end) {
            const bool yes = true;
            fill(data + begin * item, &yes, element, element, end - begin, 7);
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
