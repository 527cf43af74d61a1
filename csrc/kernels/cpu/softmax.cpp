// softmax, log_softmax, and the loss on top of them.
#include "kernels/cpu/softmax.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/isa.h"
#include "dispatch/infer_reduction.h"
#include "dispatch/op.h"
#include "kernels/cpu/index_strided.h"

namespace mt::cpu {

namespace {

const SoftmaxTable& select_table() {
#if defined(__x86_64__)
    switch (isa()) {
        case Isa::Avx512: return avx512::softmax_table;
        case Isa::Avx2: return avx2::softmax_table;
        default: break;
    }
#endif
    return baseline::softmax_table;
}

const SoftmaxLoops& loops_for(DType dtype) {
    static const SoftmaxTable& table = select_table();
    return dtype == DType::F32 ? table.f32 : table.f64;
}

template <bool Log>
void softmax_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    ContiguousOut target(out, out.dtype);
    const void* source = t.data();
    if (t.dtype != out.dtype || !t.contiguous()) {
        pack(target.data(), out.dtype, t);  // then in place
        source = target.data();
    }
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    int64_t n = t.ndim() ? t.sizes[dim] : 1, inner = 1;
    for (size_t d = dim + 1; d < t.ndim(); ++d) inner *= t.sizes[d];
    int64_t outer = out.numel / (n * inner);
    const SoftmaxLoops& loops = loops_for(out.dtype);
    auto size = static_cast<int64_t>(itemsize(out.dtype));
    constexpr int64_t cost = 8;  // of an element, in units of cheap work
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

// Throws for a target outside [0, classes) that is not to be ignored.
void check_targets(const int64_t* target, int64_t stride, int64_t n, int64_t classes, int64_t ignored) {
    for (int64_t i = 0; i < n; ++i)
        if ((target[i * stride] < 0 || target[i * stride] >= classes) && target[i * stride] != ignored)
            fail_index("Target " + std::to_string(target[i * stride]) + " is out of bounds.");
}

template <class T>
void nll_loss(Call& call) {
    const Tensor &t = call.in(0), &target = call.in(1);
    const auto* x = t.ptr<T>();
    const auto* index = target.ptr<int64_t>();
    int64_t n = target.numel, step = target.strides[0];
    int64_t ignored = call.param(0).as_int();
    check_targets(index, step, n, t.sizes[1], ignored);
    ContiguousOut out(*call.outputs[0], t.dtype);
    T* y = out.as<T>();
    for (int64_t i = 0; i < n; ++i)
        y[i] = index[i * step] == ignored ? T(0) : -x[i * t.strides[0] + index[i * step] * t.strides[1]];
    out.store();
}

void nll_loss_kernel(Call& call) { call.in(0).dtype == DType::F32 ? nll_loss<float>(call) : nll_loss<double>(call); }

template <class T>
void nll_loss_backward(Call& call) {
    const Tensor &grad = call.in(0), &target = call.in(1);
    const auto* g = grad.ptr<T>();
    const auto* index = target.ptr<int64_t>();
    int64_t classes = call.param(0).as_int(), n = target.numel, step = target.strides[0], grad_step = grad.strides[0];
    int64_t ignored = call.param(1).as_int();
    check_targets(index, step, n, classes, ignored);
    ContiguousOut out(*call.outputs[0], grad.dtype);
    T* y = out.as<T>();
    parallel_for(n, grain_of(classes), [&](int64_t begin, int64_t end) {
        std::fill(y + begin * classes, y + end * classes, T(0));
        for (int64_t i = begin; i < end; ++i)
            if (index[i * step] != ignored) y[i * classes + index[i * step]] = -g[i * grad_step];
    });
    out.store();
}

void nll_loss_backward_kernel(Call& call) {
    switch (call.in(0).dtype) {
        case DType::F32: return nll_loss_backward<float>(call);
        default: return nll_loss_backward<double>(call);
    }
}

const RegisterNative registered{
    {"softmax", infer_softmax, softmax_kernel<false>},
    {"log_softmax", infer_log_softmax, softmax_kernel<true>},
    {"nll_loss", infer_nll_loss, nll_loss_kernel},
    {"nll_loss_backward", infer_nll_loss_backward, nll_loss_backward_kernel},
};

}  // namespace

const SoftmaxLoops& softmax_loops(bool wide) { return loops_for(wide ? DType::F64 : DType::F32); }

}  // namespace mt::cpu
