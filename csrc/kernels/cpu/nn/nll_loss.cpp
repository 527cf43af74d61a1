// The negative log-likelihood of classes, row by row and as a mean, and the gradients.
#include <algorithm>
#include <string>

#include "core/error.h"
#include "dispatch/infer/nn/nll_loss.h"
#include "kernels/cpu/reduce/reduce.h"

namespace mt::cpu {

namespace {

// Targets, and which of them are not read.
struct Targets {
    const int64_t* data;
    int64_t count, step, ignored;

    // Throws for a target outside [0, classes) that is not to be ignored.
    Targets(const Tensor& t, int64_t classes, int64_t ignore_index)
        : data(t.ptr<int64_t>()), count(t.numel), step(t.strides[0]), ignored(ignore_index) {
        for (int64_t i = 0; i < count; ++i) {
            int64_t target = (*this)[i];
            if ((target < 0 || target >= classes) && target != ignored)
                fail_index("Target " + std::to_string(target) + " is out of bounds.");
        }
    }
    int64_t operator[](int64_t i) const { return data[i * step]; }
    bool counts(int64_t i) const { return (*this)[i] != ignored; }
    int64_t counted() const {
        int64_t n = 0;
        for (int64_t i = 0; i < count; ++i) n += counts(i);
        return n;
    }
};

// Smaller types are computed in float32.
template <class F>
void with_type(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else body(float());
}

// The elements as they lie if they are of type T, else converted and contiguous.
template <class T>
struct Rows {
    Scratch memory;
    const T* data;
    int64_t rs, cs;

    explicit Rows(const Tensor& t) {
        rs = t.strides[0];
        cs = t.ndim() > 1 ? t.strides[1] : 0;
        data = static_cast<const T*>(t.data());
        if (t.dtype == DTypeOf<T>::value) return;
        pack(memory.reserve(static_cast<size_t>(t.numel) * sizeof(T)), DTypeOf<T>::value, t);
        data = memory.as<T>();
        rs = t.ndim() > 1 ? t.sizes[1] : 1;
        cs = 1;
    }
};

template <class T>
void losses(T* to, const Tensor& t, const Targets& targets) {
    Rows<T> x(t);
    for (int64_t i = 0; i < targets.count; ++i)
        to[i] = targets.counts(i) ? -x.data[i * x.rs + targets[i] * x.cs] : T(0);
}

void nll_loss_kernel(Call& call) {
    const Tensor& t = call.in(0);
    with_type(t.dtype, [&](auto zero) {
        using T = decltype(zero);
        Targets targets(call.in(1), t.sizes[1], call.param(0).as_int());
        ContiguousOut out(*call.outputs[0], DTypeOf<T>::value);
        losses(out.as<T>(), t, targets);
        out.store();
    });
}

void nll_loss_mean_kernel(Call& call) {
    const Tensor& t = call.in(0);
    with_type(t.dtype, [&](auto zero) {
        using T = decltype(zero);
        Targets targets(call.in(1), t.sizes[1], call.param(0).as_int());
        Scratch memory(static_cast<size_t>(targets.count + 1) * sizeof(T));
        losses(memory.as<T>(), t, targets);
        ContiguousOut out(*call.outputs[0], DTypeOf<T>::value);
        const ReduceLoops& sum = reductions().get(ReduceOp::Sum, DTypeOf<T>::value);
        Dims sizes{targets.count}, strides{1};
        reduce_tensor(out.data(), Strided(memory.data(), DTypeOf<T>::value, sizes, strides, targets.count), 1, sum,
                      sum);
        out.as<T>()[0] /= static_cast<T>(targets.counted());
        out.store();
    });
}

// y[n, target[n]] = -gradient(n), zero elsewhere.
template <class T, class F>
void spread(T* y, const Targets& targets, int64_t classes, F gradient) {
    parallel_for(targets.count, grain_of(classes), [&](int64_t begin, int64_t end) {
        std::fill(y + begin * classes, y + end * classes, T(0));
        for (int64_t i = begin; i < end; ++i)
            if (targets.counts(i)) y[i * classes + targets[i]] = -gradient(i);
    });
}

void nll_loss_backward_kernel(Call& call) {
    with_type(call.in(0).dtype, [&](auto zero) {
        using T = decltype(zero);
        int64_t classes = call.param(0).as_int();
        Targets targets(call.in(1), classes, call.param(1).as_int());
        ContiguousOut out(*call.outputs[0], DTypeOf<T>::value);
        Rows<T> g(call.in(0));
        spread(out.as<T>(), targets, classes, [&](int64_t i) { return g.data[i * g.rs]; });
        out.store();
    });
}

void nll_loss_mean_backward_kernel(Call& call) {
    with_type(call.in(0).dtype, [&](auto zero) {
        using T = decltype(zero);
        int64_t classes = call.param(0).as_int();
        Targets targets(call.in(1), classes, call.param(1).as_int());
        ContiguousOut out(*call.outputs[0], DTypeOf<T>::value);
        T g;
        pack(&g, DTypeOf<T>::value, call.in(0));
        T share = g / static_cast<T>(targets.counted());
        spread(out.as<T>(), targets, classes, [&](int64_t) { return share; });
        out.store();
    });
}

const RegisterNative registered{
    {"nll_loss", infer_nll_loss, nll_loss_kernel},
    {"nll_loss_backward", infer_nll_loss_backward, nll_loss_backward_kernel},
    {"nll_loss_mean", infer_nll_loss_mean, nll_loss_mean_kernel},
    {"nll_loss_mean_backward", infer_nll_loss_mean_backward, nll_loss_mean_backward_kernel},
};

}  // namespace

}  // namespace mt::cpu
