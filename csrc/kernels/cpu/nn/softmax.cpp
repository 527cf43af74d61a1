// softmax, log_softmax and logsumexp.
#include "kernels/cpu/nn/softmax.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/isa.h"
#include "dispatch/infer/nn/softmax.h"
#include "dispatch/infer/reduction.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

const SoftmaxTable& select_table() {
    switch (isa()) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return avx512::softmax_table;
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return avx2::softmax_table;
#endif
        default: break;
    }
    return baseline::softmax_table;
}

const SoftmaxLoops& loops_for(DType dtype) {
    static const SoftmaxTable& table = select_table();
    return loop_dtype(dtype) == DType::F32 ? table.f32 : table.f64;
}

constexpr int64_t cost = 8;  // of an element, in units of cheap work

template <bool Log>
void softmax_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    DType dtype = loop_dtype(out.dtype);
    ContiguousOut target(out, dtype);
    const void* source = t.data();
    if (t.dtype != dtype || !t.contiguous()) {
        pack(target.data(), dtype, t);  // then in place
        source = target.data();
    }
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    int64_t n = t.ndim() ? t.sizes[dim] : 1, inner = 1;
    for (size_t d = dim + 1; d < t.ndim(); ++d) inner *= t.sizes[d];
    int64_t outer = out.numel / (n * inner);
    const SoftmaxLoops& loops = loops_for(dtype);
    auto size = static_cast<int64_t>(itemsize(dtype));
    auto* y = static_cast<char*>(target.data());
    auto* x = static_cast<const char*>(source);
    if (inner == 1) {
        parallel_for(outer, grain_of(n * cost), [&](int64_t begin, int64_t end) {
            loops.rows(y + begin * n * size, x + begin * n * size, end - begin, n, Log);
        });
    } else {
        int64_t chunks = (inner + kSoftmaxColumns - 1) / kSoftmaxColumns;
        parallel_for(outer * chunks, grain_of(n * std::min(inner, kSoftmaxColumns) * cost),
                     [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                             int64_t c = i % chunks * kSoftmaxColumns, at = (i / chunks * n * inner + c) * size;
                             loops.columns(y + at, x + at, n, inner, std::min(inner - c, kSoftmaxColumns), Log);
                         }
                     });
    }
    target.store();
}

template <bool Log>
void softmax_gradient_kernel(Call& call) {
    const Tensor& g = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    DType dtype = loop_dtype(out.dtype);
    ContiguousOut target(out, dtype);
    Packed grad(g, dtype), result(call.in(1), dtype);
    int64_t n = out.ndim() ? out.sizes[out.ndim() - 1] : 1;
    const SoftmaxLoops& loops = loops_for(dtype);
    int64_t row = n * static_cast<int64_t>(itemsize(dtype));
    parallel_for(out.numel / n, grain_of(n * cost), [&](int64_t begin, int64_t end) {
        loops.gradient_rows(target.as<char>() + begin * row, grad.as<char>() + begin * row,
                            result.as<char>() + begin * row, end - begin, n, Log);
    });
    target.store();
}

void logsumexp_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    DType dtype = loop_dtype(out.dtype);
    ContiguousOut target(out, dtype);
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    int64_t n = t.ndim() ? t.sizes[dim] : 1, inner = 1;
    for (size_t d = dim + 1; d < t.ndim(); ++d) inner *= t.sizes[d];
    const SoftmaxLoops& loops = loops_for(dtype);
    auto size = static_cast<int64_t>(itemsize(dtype));
    auto* y = static_cast<char*>(target.data());
    if (n == 0) {
        double nothing = -std::numeric_limits<double>::infinity();
        for (int64_t i = 0; i < out.numel; ++i) store_scalar(Scalar::of(nothing), dtype, y + i * size);
        return target.store();
    }
    Packed packed(t, dtype);
    auto* x = packed.as<char>();
    if (inner == 1) {
        parallel_for(out.numel, grain_of(n * cost), [&](int64_t begin, int64_t end) {
            loops.sum_rows(y + begin * size, x + begin * n * size, end - begin, n);
        });
    } else {
        int64_t chunks = (inner + kSoftmaxColumns - 1) / kSoftmaxColumns;
        parallel_for(out.numel / inner * chunks, grain_of(n * std::min(inner, kSoftmaxColumns) * cost),
                     [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                             int64_t c = i % chunks * kSoftmaxColumns, o = i / chunks;
                             loops.sum_columns(y + (o * inner + c) * size, x + (o * n * inner + c) * size, n, inner,
                                               std::min(inner - c, kSoftmaxColumns));
                         }
                     });
    }
    target.store();
}

const RegisterNative registered{
    {"softmax", infer_softmax, softmax_kernel<false>, Takes::Any},
    {"log_softmax", infer_log_softmax, softmax_kernel<true>, Takes::Any},
    {"_softmax_backward", infer_softmax_gradient, softmax_gradient_kernel<false>, Takes::Any},
    {"_log_softmax_backward", infer_softmax_gradient, softmax_gradient_kernel<true>, Takes::Any},
    {"_logsumexp", infer_logsumexp, logsumexp_kernel, Takes::Any},
};

}  // namespace

const SoftmaxLoops& softmax_loops(bool wide) { return loops_for(wide ? DType::F64 : DType::F32); }

}  // namespace mt::cpu
