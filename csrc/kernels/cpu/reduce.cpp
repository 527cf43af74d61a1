// The reductions' kernels: sum, prod, mean, amax, amin, any, all.
#include "kernels/cpu/reduce.h"

#include <algorithm>
#include <cstring>

#include "core/isa.h"
#include "dispatch/infer_reduction.h"
#include "dispatch/op.h"

namespace mt::cpu {

const ReduceTable& select_reduce_table() {
#if defined(__x86_64__)
    switch (isa()) {
        case Isa::Avx512: return avx512::reduce_table;
        case Isa::Avx2: return avx2::reduce_table;
        default: break;
    }
#endif
    return baseline::reduce_table;
}

namespace {

// Reduces into the call's output, which may have another dtype than the accumulators.
void reduce_into(Tensor& out, const Strided& t, uint64_t mask, const ReduceLoops& loops, const ReduceLoops& next) {
    if (out.numel == 0) return;
    ContiguousOut target(out, loops.out);
    reduce_tensor(target.data(), t, mask, loops, next);
    target.store();
}

template <ReduceOp op>
void sum_or_prod_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    uint64_t mask = reduced_dims(call.param(0), t.ndim());
    const ReduceTable& table = reductions();
    if (is_floating(out.dtype)) {
        const ReduceLoops& loops = table.get(op, out.dtype);
        return reduce_into(out, t, mask, loops, loops);
    }
    // Integers are accumulated in 64 bits, which agrees with any narrower type modulo its range once the elements are
    // of that type.
    const ReduceLoops& next = table.get(op, DType::I64);
    bool convert = is_floating(t.dtype) || (out.dtype == DType::Bool && t.dtype != DType::Bool);
    DType dtype = convert ? out.dtype : t.dtype;
    const ReduceLoops& loops = op == ReduceOp::Sum ? table.get(op, dtype) : next;
    if (!convert) return reduce_into(out, t, mask, loops, next);
    Packed converted(t, dtype);
    reduce_into(out, Strided(converted.data(), dtype, t.sizes, contiguous_strides(t.sizes), t.numel), mask, loops,
                next);
}

template <class T>
void divide(Tensor& out, int64_t count) {
    T* p = out.ptr<T>();
    for (int64_t i = 0; i < out.numel; ++i) p[i] /= static_cast<T>(count);
}

int64_t count_reduced(const Dims& sizes, uint64_t mask) {
    int64_t count = 1;
    for (size_t d = 0; d < sizes.size(); ++d)
        if (mask >> d & 1) count *= sizes[d];
    return count;
}

void mean_kernel(Call& call) {
    sum_or_prod_kernel<ReduceOp::Sum>(call);
    const Tensor& t = call.in(0);
    int64_t count = count_reduced(t.sizes, reduced_dims(call.param(0), t.ndim()));
    Tensor& out = *call.outputs[0];
    out.dtype == DType::F32 ? divide<float>(out, count) : divide<double>(out, count);
}

template <ReduceOp op>
void extreme_kernel(Call& call) {
    const Tensor& t = call.in(0);
    const ReduceLoops& loops = reductions().get(op, t.dtype);
    reduce_into(*call.outputs[0], t, reduced_dims(call.param(0), t.ndim()), loops, loops);
}

// any is the maximum of truth values, all the minimum.
template <ReduceOp op>
void logical_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    if (t.numel == 0) {
        std::memset(out.data(), op == ReduceOp::Min, static_cast<size_t>(out.numel));
        return;
    }
    const ReduceLoops& loops = reductions().get(op, DType::Bool);
    reduce_tensor(out.data(), t, reduced_dims(call.param(0), t.ndim()), loops, loops);
}

const RegisterNative registered{
    {"sum", infer_sum, sum_or_prod_kernel<ReduceOp::Sum>},
    {"prod", infer_prod, sum_or_prod_kernel<ReduceOp::Prod>},
    {"mean", infer_mean, mean_kernel},
    {"amax", infer_amax, extreme_kernel<ReduceOp::Max>, Takes::Ordered},
    {"amin", infer_amin, extreme_kernel<ReduceOp::Min>, Takes::Ordered},
    {"any", infer_any_all, logical_kernel<ReduceOp::Max>},
    {"all", infer_any_all, logical_kernel<ReduceOp::Min>},
};

}  // namespace

}  // namespace mt::cpu
