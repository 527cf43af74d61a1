// Samples of distributions whose parameters are tensors, of PyTorch's random numbers. How many numbers a sample takes
// depends on what they are, so elements are drawn one after the other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "dispatch/infer/pointwise.h"
#include "kernels/cpu/random/mt19937.h"
#include "kernels/cpu/random/samples.h"

namespace mt::cpu {

namespace {

// Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26, 2000). The shape's arithmetic is
// rounded to its type T, constants to single precision, as PyTorch's are.
template <class T> double gamma_sample(Twister& twister, T shape) {
    if (shape == T(0)) return 0.0;
    double scale = 1.0;
    if (shape < T(1)) {
        const double u = 1.0 - twister.unit();
        scale = std::pow(u, static_cast<double>(T(1) / shape));
        shape += T(1);
    }
    const double d = shape - T(1.0f / 3.0f), c = 1.0 / std::sqrt(9.0 * d);
    for (;;) {
        double x, y;
        do {
            x = twister.normal();
            y = 1.0 + c * x;
        } while (y <= 0.0);
        const double v = y * y * y, u = 1.0 - twister.unit(), square = x * x;
        const bool inside = u < 1.0 - static_cast<double>(0.0331f) * square * square;
        if (inside || std::log(u) < 0.5 * square + d * (1.0 - v + std::log(v))) return scale * d * v;
    }
}

// Rates from 10 on: Hörmann, "The transformed rejection method for generating Poisson random variables" (1993), PTRS.
// Smaller ones: how many uniform numbers can be multiplied before the product is below exp(-rate).
double poisson_sample(Twister& twister, double rate) {
    if (!(rate >= 0.0)) return std::numeric_limits<double>::quiet_NaN();  // refused before
    if (rate == 0.0) return 0.0;
    if (rate < 10.0) {
        const double least = std::exp(-rate);
        double count = 0.0;
        for (double product = twister.unit(); product > least; product *= twister.unit()) count += 1.0;
        return count;
    }
    const double root = std::sqrt(rate), logarithm = std::log(rate), b = 0.931 + 2.53 * root;
    const double a = -0.059 + 0.02483 * b, inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    const double v_r = 0.9277 - 3.6224 / (b - 2.0);
    for (;;) {
        const double u = twister.unit() - 0.5, v = twister.unit(), us = 0.5 - std::fabs(u);
        const double k = std::floor((2.0 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= v_r) return k;
        if (k < 0.0 || (us < 0.013 && v > us)) continue;
        const double bound = -rate + k * logarithm - std::lgamma(k + 1.0);
        if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <= bound) return k;
    }
}

// What Stirling's formula lacks of log(k!).
template <class T> T stirling_rest(T k) {
    static const T first[] = {T(0.0810614667953272),  T(0.0413406959554092), T(0.0276779256849983),
                              T(0.02079067210376509), T(0.0166446911898211), T(0.0138761288230707),
                              T(0.0118967099458917),  T(0.0104112652619720), T(0.00925546218271273),
                              T(0.00833056343336287)};
    if (k <= T(9)) return first[static_cast<size_t>(k)];
    const T square = (k + 1) * (k + 1);
    return static_cast<T>((1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1));
}

// Hörmann, "The generation of binomial random variates" (1993), BTRS: for count * p >= 10 and p <= 1/2.
template <class T> T binomial_rejected(Twister& twister, T count, T p) {
    const double spread = std::sqrt(count * p * (1 - p));
    const double b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5;
    const double v_r = 0.92 - 4.2 / b, r = p / (1 - p), alpha = (2.83 + 5.1 / b) * spread;
    const double m = std::floor((count + 1) * p);
    for (;;) {
        const double u = twister.unit() - 0.5;
        double v = twister.unit();
        const double us = 0.5 - std::fabs(u);
        const T k = static_cast<T>(std::floor((2 * a / us + b) * u + c));
        if (us >= 0.07 && v <= v_r) return k;
        if (k < 0 || k > count) continue;
        v = std::log(v * alpha / (a / (us * us) + b));
        const double bound = (m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) +
                             (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                             (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + stirling_rest<double>(m) +
                             stirling_rest<double>(count - m) - stirling_rest<T>(k) - stirling_rest<T>(count - k);
        if (v <= bound) return k;
    }
}

// How many geometric numbers fit into count.
template <class T> T binomial_counted(Twister& twister, T count, T p) {
    const double logarithm = std::log1p(-p);
    double sum = 0.0;
    for (T successes = 0;; successes += 1) {
        sum += std::ceil(std::log(twister.unit()) / logarithm);
        if (sum > count) return successes;
    }
}

template <class T> T binomial_sample(Twister& twister, T count, T p) {
    if (!std::isfinite(count)) return std::numeric_limits<T>::quiet_NaN();  // a sum is never above NaN
    if (count <= 0 || p <= 0) return T(0);
    if (p >= 1) return count;
    if (p <= T(0.5))
        return count * p >= 10 ? binomial_rejected(twister, count, p) : binomial_counted(twister, count, p);
    if (p > T(0.5)) {
        const T q = 1 - p;
        return count - (count * q >= 10 ? binomial_rejected(twister, count, q) : binomial_counted(twister, count, q));
    }
    return std::numeric_limits<T>::quiet_NaN();
}

template <class T> constexpr DType kType = sizeof(T) == 4 ? DType::F32 : DType::F64;

// f(twister, element of each operand) for all elements, in order.
template <class T, class F> void sample(Call& call, F f) {
    Tensor& out = *call.outputs[0];
    Drawing from(call);
    ContiguousOut to(out, kType<T>);
    Packed first(call.in(0), kType<T>);
    const T* x = first.as<T>();
    if (call.operand_count == 1) {
        for (int64_t i = 0; i < out.numel; ++i) to.as<T>()[i] = static_cast<T>(f(*from, x[i], T(0)));
    } else {
        Packed second(call.in(1), kType<T>);
        const T* y = second.as<T>();
        for (int64_t i = 0; i < out.numel; ++i) to.as<T>()[i] = static_cast<T>(f(*from, x[i], y[i]));
    }
    to.store();
}

bool is_double(const Call& call) { return call.in(0).dtype == DType::F64; }

void poisson(Call& call) {
    auto one = [](Twister& twister, auto rate, auto) { return poisson_sample(twister, static_cast<double>(rate)); };
    is_double(call) ? sample<double>(call, one) : sample<float>(call, one);
}

void binomial(Call& call) {
    auto one = [](Twister& twister, auto count, auto p) { return binomial_sample(twister, count, p); };
    is_double(call) ? sample<double>(call, one) : sample<float>(call, one);
}

// Row by row: cumulated weights in their type, and a search for a number of 53 bits.
template <class T> void multinomial_of(Call& call) {
    const Tensor& weights = call.in(0);
    Tensor& out = *call.outputs[0];
    Drawing from(call);
    ContiguousOut to(out, DType::I64);
    Packed packed(weights, kType<T>);
    const int64_t count = call.param(0).as_int(), categories = weights.sizes[weights.ndim() - 1];
    std::vector<T> sums(static_cast<size_t>(categories));
    auto* chosen = to.as<int64_t>();
    for (const T *row = packed.as<T>(), *end = row + weights.numel; row != end; row += categories) {
        T sum = 0;
        for (int64_t i = 0; i < categories; ++i) sums[static_cast<size_t>(i)] = sum += row[i];
        for (T& part : sums) part /= sum;
        sums.back() = T(1);
        for (int64_t i = 0; i < count; ++i) {
            const double u = from->unit();
            *chosen++ = std::lower_bound(sums.begin(), sums.end(), u,
                                         [](T part, double at) { return static_cast<double>(part) < at; }) -
                        sums.begin();
        }
    }
    to.store();
}

void multinomial(Call& call) { is_double(call) ? multinomial_of<double>(call) : multinomial_of<float>(call); }

void infer_multinomial(Call& call) {
    const Tensor& weights = call.in(0);
    if (weights.ndim() < 1 || weights.sizes[weights.ndim() - 1] < 1) fail("prob_dist must have categories");
    call.results[0].dtype = DType::I64;
    call.results[0].sizes = weights.sizes;
    call.results[0].sizes[weights.ndim() - 1] = std::max<int64_t>(call.param(0).as_int(), 0);
    call.compute = DType::I64;
}

const RegisterNative registered{
    {"_mt19937_poisson", infer_floats, poisson, Takes::Any},
    {"_mt19937_binomial", infer_floats, binomial, Takes::Any},
    {"_mt19937_multinomial", infer_multinomial, multinomial, Takes::Any},
};

}  // namespace

void torch_standard_gamma(Call& call) {
    auto one = [](Twister& twister, auto shape, auto) {
        using T = decltype(shape);
        return std::max(std::numeric_limits<T>::min(), static_cast<T>(gamma_sample(twister, shape)));
    };
    is_double(call) ? sample<double>(call, one) : sample<float>(call, one);
}

void torch_sample_dirichlet(Call& call) {
    const Tensor& input = call.in(0);
    if (input.numel == 0) return;
    Drawing from(call);
    ContiguousOut to(*call.outputs[0], DType::F64);
    Packed shapes(input, DType::F64);
    const auto* a = shapes.as<double>();
    auto* out = to.as<double>();
    for (int64_t i = 0; i < input.numel; ++i)
        out[i] = std::max(std::numeric_limits<double>::min(), gamma_sample<double>(*from, a[i]));
    const bool wide = is_double(call);
    const double least = wide ? std::numeric_limits<double>::min() : double{std::numeric_limits<float>::min()};
    const double most = wide ? std::nextafter(1.0, 0.0) : double{std::nextafterf(1.0f, 0.0f)};
    const int64_t n = input.ndim() ? input.sizes[input.ndim() - 1] : 1;
    for (int64_t row = 0; row < input.numel; row += n) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; ++i) sum += out[row + i];
        for (int64_t i = 0; i < n; ++i) out[row + i] = std::min(most, std::max(least, out[row + i] / sum));
    }
    to.store();
}

}  // namespace mt::cpu
