// cumsum, cumprod and logcumsumexp: one element after the other, in a wider type than the result's.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "dispatch/infer/shape/order.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/scan/scan.h"
#include "kernels/cpu/sort/sort.h"

namespace mt::cpu {

namespace {

using Complex = std::complex<double>;

template <class Acc>
struct Plus {
    static constexpr Acc first{0};
    static Acc combine(Acc a, Acc b) { return a + b; }
};
template <class Acc>
struct Times {
    static constexpr Acc first{1};
    static Acc combine(Acc a, Acc b) {
        // As the product is defined: no detour for infinities.
        if constexpr (std::is_same_v<Acc, Complex>)
            return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
        else return a * b;
    }
};
// log(exp(a) + exp(b)) without overflow.
template <class Acc>
struct LogPlus {
    static constexpr Acc first{-std::numeric_limits<double>::infinity()};
    static double combine(double a, double b) {
        double low = std::isnan(b) ? b : std::min(a, b), high = std::isnan(b) ? b : std::max(a, b);
        return low != high || std::isfinite(low) ? std::log1p(std::exp(low - high)) + high : a;
    }
    static Complex combine(Complex a, Complex b) {
        bool nan = std::isnan(b.real()) || std::isnan(b.imag()) || std::isnan(a.real()) || std::isnan(a.imag());
        if (nan) return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
        Complex low = a.real() < b.real() ? a : b, high = a.real() < b.real() ? b : a;
        if (!std::isfinite(low.real()) && low.real() == high.real())
            return low.real() < 0 ? low : std::log(std::exp(low) + std::exp(high));
        // log(1 + z), exact also where z is small.
        Complex z = std::exp(low - high);
        double x = z.real(), y = z.imag();
        return Complex(0.5 * std::log1p(x * (2 + x) + y * y), std::atan2(y, 1 + x)) + high;
    }
};

template <class T, class Op, class Acc>
struct Scan {
    using Convert = Element<T>;

    // Several rows at once hide the latency of each one's chain.
    template <int Rows>
    static void rows(T* out, const T* in, int64_t n) {
        Acc acc[Rows];
        for (int k = 0; k < Rows; ++k) acc[k] = Op::first;
        for (int64_t r = 0; r < n; ++r)
            for (int k = 0; k < Rows; ++k) {
                acc[k] = Op::combine(acc[k], Convert::template load<Acc>(in[k * n + r]));
                out[k * n + r] = Convert::template store<Acc>(acc[k]);
            }
    }
    static void columns(T* out, const T* in, int64_t n, int64_t stride, int64_t cols) {
        constexpr int64_t most = 128;
        for (int64_t c0 = 0; c0 < cols; c0 += most) {
            Acc acc[most];
            int64_t width = std::min(most, cols - c0);
            for (int64_t c = 0; c < width; ++c) acc[c] = Op::first;
            for (int64_t r = 0; r < n; ++r) {
                const T* from = in + r * stride + c0;
                T* to = out + r * stride + c0;
                for (int64_t c = 0; c < width; ++c) {
                    acc[c] = Op::combine(acc[c], Convert::template load<Acc>(from[c]));
                    to[c] = Convert::template store<Acc>(acc[c]);
                }
            }
        }
    }
    static void run(void* target, const void* source, const Along& shape) {
        auto* out = static_cast<T*>(target);
        auto* in = static_cast<const T*>(source);
        int64_t n = shape.n, inner = shape.inner;
        if (inner == 1) {
            parallel_for(shape.outer, grain_of(n), [&](int64_t begin, int64_t end) {
                int64_t o = begin;
                for (; o + 4 <= end; o += 4) rows<4>(out + o * n, in + o * n, n);
                for (; o < end; ++o) rows<1>(out + o * n, in + o * n, n);
            });
            return;
        }
        constexpr int64_t most = 512;
        int64_t chunks = (inner + most - 1) / most;
        parallel_for(shape.outer * chunks, grain_of(n * std::min(inner, most)), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                int64_t c = i % chunks * most, at = i / chunks * n * inner + c;
                columns(out + at, in + at, n, inner, std::min(most, inner - c));
            }
        });
    }
};

template <template <class> class Op>
void scan_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    DType dtype = scan_dtype(t.dtype, call), loop = loop_dtype(dtype);
    if (!is_floating(dtype) && !is_complex(dtype)) loop = DType::I64;  // wraps to any narrower type
    ContiguousOut target(out, loop);
    const void* source = t.data();
    if (t.dtype != loop || !t.contiguous() || dtype != loop) {
        if (dtype == loop || dtype == t.dtype) {
            pack(target.data(), loop, t);
        } else {  // to a narrow type first
            Packed narrow(t, dtype);
            pack(target.data(), loop, Strided(narrow.data(), dtype, t.sizes, contiguous_strides(t.sizes), t.numel));
        }
        source = target.data();
    }
    Along shape(t.sizes, static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim())));
    constexpr bool logarithm = std::is_same_v<Op<double>, LogPlus<double>>;
    switch (loop) {
        case DType::F32:
            if constexpr (!logarithm)
                if (dtype != DType::F32) {  // 16 bits
                    Scan<float, Op<float>, float>::run(target.data(), source, shape);
                    break;
                }
            Scan<float, Op<double>, double>::run(target.data(), source, shape);
            break;
        case DType::F64: Scan<double, Op<double>, double>::run(target.data(), source, shape); break;
        case DType::C64: Scan<complex64, Op<Complex>, Complex>::run(target.data(), source, shape); break;
        case DType::C128: Scan<complex128, Op<Complex>, Complex>::run(target.data(), source, shape); break;
        default:
            if constexpr (!logarithm) Scan<uint64_t, Op<uint64_t>, uint64_t>::run(target.data(), source, shape);
    }
    target.store();
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"cumsum", infer_cumsum, scan_kernel<Plus>},
                                    {"cumprod", infer_cumprod, scan_kernel<Times>},
                                    {"logcumsumexp", infer_logcumsumexp, scan_kernel<LogPlus>},
                                }};

}  // namespace

}  // namespace mt::cpu
