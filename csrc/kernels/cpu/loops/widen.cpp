// Kernels that are compiled for few dtypes, run for all: their operands are converted before, their results after.
#include <string>

#include "core/error.h"
#include "dispatch/call.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/registry.h"
#include "kernels/cpu/elementwise/kernels.h"

namespace mt::cpu {

namespace {

// uint64 has no loops of its own here: int64 with the same bits, or in the same order.
DType stand_in(DType dtype) { return dtype == DType::U64 ? DType::I64 : loop_dtype(dtype); }

// Exchanges the order of uint64 with that of int64.
void flip_sign_bits(Tensor& t) {
    auto* p = t.ptr<uint64_t>();
    for (int64_t i = 0; i < t.numel; ++i) p[i] ^= uint64_t{1} << 63;
}

Ref<Tensor> converted(const Tensor& from, DType dtype, bool ordered) {
    Ref<Tensor> result = Tensor::empty(from.sizes, dtype);
    run_copy(from, *result);
    if (ordered && from.dtype == DType::U64) flip_sign_bits(*result);
    return result;
}

bool has_complex(const Call& call) {
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor; t && is_complex(t->dtype)) return true;
    for (size_t i = 0; i < call.result_count; ++i)
        if (call.outputs[i] && is_complex(call.outputs[i]->dtype)) return true;
    return false;
}

[[noreturn]] void refuse_complex(const Call& call) {
    DType dtype = call.outputs[0]->dtype;
    for (size_t i = call.operand_count; i-- > 0;)
        if (const Tensor* t = call.operands[i].tensor; t && is_complex(t->dtype)) dtype = t->dtype;
    refuse_dtype(*call.op, dtype);
}

void widened(Call& call) {
    if (has_complex(call)) refuse_complex(call);
    bool ordered = call.op->takes == Takes::Ordered;
    constexpr size_t kFew = 4;
    Ref<Tensor> few[kFew];
    std::vector<Ref<Tensor>> many(call.operand_count > kFew ? call.operand_count : 0);
    std::vector<Operand> operands(call.operands, call.operands + call.operand_count);
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = operands[i].tensor;
        if (!t) continue;
        if (stand_in(t->dtype) == t->dtype) continue;
        Ref<Tensor>& slot = many.empty() ? few[i] : many[i];
        slot = converted(*t, stand_in(t->dtype), ordered);
        operands[i].tensor = slot.get();
    }
    Call inner = call;
    inner.operands = operands.data();
    inner.compute = stand_in(call.compute);
    Ref<Tensor> results[std::size(call.outputs)];
    for (size_t i = 0; i < call.result_count; ++i) {
        const Tensor* out = call.outputs[i];
        if (!out || stand_in(out->dtype) == out->dtype) continue;
        inner.results[i].dtype = stand_in(out->dtype);
        results[i] = Tensor::empty(out->sizes, inner.results[i].dtype);
        inner.outputs[i] = results[i].get();
    }
    call.op->cpu(inner);
    for (size_t i = 0; i < call.result_count; ++i) {
        if (!results[i]) continue;
        if (ordered && call.outputs[i]->dtype == DType::U64) flip_sign_bits(*results[i]);
        run_copy(*results[i], *call.outputs[i]);
    }
}

const bool installed = (widen_callback = widened, true);

}  // namespace

}  // namespace mt::cpu
