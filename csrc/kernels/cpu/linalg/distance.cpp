// The distances between all vectors of one set and all of another.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/process/parallel.h"
#include "dispatch/infer/contraction.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

constexpr int kLanes = 16;                // independent sums, for the sake of vector instructions
constexpr int64_t kParallelWork = 1 << 15;  // differences that are worth a thread

// The combination over k of `term(|x - y|)`, in lanes that are combined in order.
template <class T, class Term, class Join>
T combine(const T* x, const T* y, int64_t k, Term term, Join join) {
    T lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lanes[l] = join(lanes[l], term(std::abs(x[i + l] - y[i + l])));
    for (int l = 0; i < k; ++i, ++l) lanes[l] = join(lanes[l], term(std::abs(x[i] - y[i])));
    T total = lanes[0];
    for (int l = 1; l < kLanes; ++l) total = join(total, lanes[l]);
    return total;
}

template <class T>
T distance(const T* x, const T* y, int64_t k, double p) {
    auto add = [](T a, T b) { return a + b; };
    if (p == 2) return std::sqrt(combine(x, y, k, [](T d) { return d * d; }, add));
    if (p == 1) return combine(x, y, k, [](T d) { return d; }, add);
    if (p == 0) return combine(x, y, k, [](T d) { return static_cast<T>(d != 0); }, add);
    if (p == std::numeric_limits<double>::infinity())
        return combine(x, y, k, [](T d) { return d; }, [](T a, T b) { return b > a || b != b ? b : a; });
    auto power = static_cast<T>(p);
    return std::pow(combine(x, y, k, [power](T d) { return std::pow(d, power); }, add), 1 / power);
}

template <class T>
void distances(const Tensor& a, const Tensor& b, Tensor& out, double p) {
    Packed first(a, a.dtype), second(b, b.dtype);
    ContiguousOut target(out, out.dtype);
    const auto *x = static_cast<const T*>(first.data()), *y = static_cast<const T*>(second.data());
    auto* to = static_cast<T*>(target.data());
    int64_t n = a.sizes[1], m = b.sizes[1], k = a.sizes[2];
    parallel_for(a.sizes[0] * n, kParallelWork / (m * std::max<int64_t>(k, 1)) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const T* others = y + row / n * m * k;
            for (int64_t j = 0; j < m; ++j) to[row * m + j] = distance(x + row * k, others + j * k, k, p);
        }
    });
    target.store();
}

void cdist_kernel(Call& call) {
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    double p = call.param(0).as_double();
    if (out.dtype == DType::F32) distances<float>(call.in(0), call.in(1), out, p);
    else distances<double>(call.in(0), call.in(1), out, p);
}

const RegisterNative registered{{"_cdist", infer_cdist, cdist_kernel}};

}  // namespace

}  // namespace mt::cpu
