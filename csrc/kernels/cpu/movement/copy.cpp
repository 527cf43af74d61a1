// cast, clone, copy and fill.
#include <algorithm>
#include <cstring>

#include "core/process/parallel.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/memory/memory_order.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/loops/strided_loop.h"

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
    // memset knows best when to write around the caches; else a choice between the value and itself stores whole
    // vectors.
    WhereFn choose = elementwise().where[item];
    auto write = [=](char* to, int64_t n) {
        const bool yes = true;
        if (same_bytes) std::memset(to, element[0], static_cast<size_t>(n * item));
        else choose(to, &yes, element, element, n, 7);
    };
    const int64_t grain = kElementwiseGrain * 8 / item;
    if (same_bytes || out.numel * item < streaming_threshold()) {
        auto* data = static_cast<char*>(out.data());
        if (is_flat(out))
            return parallel_for(out.numel, grain,
                                [&](int64_t begin, int64_t end) { write(data + begin * item, end - begin); });
        StridedLoop loop;
        loop.set_output(data, static_cast<size_t>(item), out.sizes, out.strides);
        loop.simplify();
        constexpr int64_t worth_a_call = 128;  // bytes
        if (loop.numel && loop.inner_stride(0) == item && loop.inner() * item >= worth_a_call)
            return parallel_for(loop.numel, grain, [&](int64_t begin, int64_t end) {
                loop.for_each_run(begin, end, INT64_MAX,
                                  [&](char* const* at, const int64_t*, int64_t n) { write(at[0], n); });
            });
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
const RegisterOrder copied{Order::CopiedStrides, {"clone", "cast"}};
const RegisterNative registered{Takes::Stored,
                                {
                                    {"cast", infer_cast, copy_first},
                                    {"clone", infer_clone, copy_first},
                                    {"_row_major", infer_clone, copy_first},
                                    {"copy", infer_copy, copy},
                                    {"fill", infer_fill, fill},
                                }};

}  // namespace
}  // namespace mt::cpu
