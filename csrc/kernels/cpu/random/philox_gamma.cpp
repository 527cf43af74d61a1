// Samples of the gamma and Dirichlet distributions. How many numbers a sample takes depends on what they are, so each
// element has a stream of its own within the op's: 2^20 blocks of four words.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/process/parallel.h"
#include "dispatch/infer/pointwise.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/random/random.h"
#include "kernels/cpu/random/samples.h"

namespace mt::cpu {
namespace {

constexpr int64_t kGrain = 256;

// A uniform number inside (0, 1), of 53 bits.
double inside(uint32_t low, uint32_t high) {
    uint64_t word = static_cast<uint64_t>(high) << 32 | low;
    return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
}

// The logarithm of a sample of shape `a`: Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM
// TOMS 26, 2000). A sample of a shape below 1 is one of a + 1 times u^(1/a).
double log_gamma_sample(const Call& call, int64_t element, double a) {
    if (!(a > 0.0)) return a == 0.0 ? -std::numeric_limits<double>::infinity() : std::nan("");
    if (a == std::numeric_limits<double>::infinity()) return a;
    auto block = static_cast<uint64_t>(element) << 20;
    uint32_t words[4];
    double boost = 0.0;
    if (a < 1.0) {
        random_loops().philox(call.seed, call.philox_offset, block++, 1, words);
        boost = std::log(inside(words[0], words[1])) / a;
        a += 1.0;
    }
    const double d = a - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
    for (;;) {
        random_loops().philox(call.seed, call.philox_offset, block++, 1, words);
        double radius = std::sqrt(-2.0 * std::log(inside(words[0], words[1])));
        double angle = 6.283185307179586 * (words[2] * 0x1p-32), u = (words[3] + 0.5) * 0x1p-32;
        double x = radius * std::cos(angle), root = 1.0 + c * x;
        if (root <= 0.0) continue;
        double log_v = 3.0 * std::log(root);
        if (std::log(u) < 0.5 * x * x + d - d * root * root * root + d * log_v) return boost + std::log(d) + log_v;
    }
}

// No sample is zero, whose logarithm would be none.
double smallest(DType dtype) {
    return dtype == DType::F64   ? std::numeric_limits<double>::min()
           : dtype == DType::F16 ? 0x1p-14
                                 : static_cast<double>(std::numeric_limits<float>::min());
}

void standard_gamma(Call& call) {
    if (call.twister) return torch_standard_gamma(call);
    Packed shapes(call.in(0), DType::F64);
    ContiguousOut out(*call.outputs[0], DType::F64);
    const auto* a = static_cast<const double*>(shapes.data());
    auto* to = static_cast<double*>(out.data());
    const double least = smallest(call.outputs[0]->dtype);
    parallel_for(call.outputs[0]->numel, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            double sample = a[i] == 0.0 ? 0.0 : std::exp(log_gamma_sample(call, i, a[i]));
            to[i] = sample < least && a[i] > 0.0 ? least : sample;
        }
    });
    out.store();
}

// Gamma samples over their sum; their logarithms, so that small ones don't vanish all at once.
void sample_dirichlet(Call& call) {
    if (call.twister) return torch_sample_dirichlet(call);
    const Tensor& input = call.in(0);
    Packed shapes(input, DType::F64);
    ContiguousOut out(*call.outputs[0], DType::F64);
    const auto* a = static_cast<const double*>(shapes.data());
    auto* to = static_cast<double*>(out.data());
    const double least = smallest(call.outputs[0]->dtype);
    const int64_t n = input.ndim() ? input.sizes[static_cast<size_t>(input.ndim() - 1)] : 1;
    if (input.numel == 0) return;
    parallel_for(input.numel / n, std::max<int64_t>(kGrain / n, 1), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            double* at = to + row * n;
            for (int64_t i = 0; i < n; ++i) at[i] = log_gamma_sample(call, row * n + i, a[row * n + i]);
            const double most = *std::max_element(at, at + n);
            double sum = 0.0;
            for (int64_t i = 0; i < n; ++i) sum += at[i] = std::exp(at[i] - most);
            for (int64_t i = 0; i < n; ++i) at[i] = at[i] / sum < least ? least : at[i] / sum;
        }
    });
    out.store();
}

const RegisterNative registered{
    {"_standard_gamma", infer_floats, standard_gamma, Takes::Any},
    {"_sample_dirichlet", infer_floats, sample_dirichlet, Takes::Any},
};

}  // namespace
}  // namespace mt::cpu
