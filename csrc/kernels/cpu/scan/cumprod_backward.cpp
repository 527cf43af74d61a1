// The gradient of cumprod: of element i, the sum over j >= i of g[j] times the product of the elements up to j but the
// i-th. Before the first zero along the dimension that is the sum of g[j] * out[j], divided by the element. At it the
// products leave it out, and end at the second zero; beyond it everything is zero.
#include <algorithm>
#include <complex>

#include "dispatch/infer/shape/order.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/scan/scan.h"
#include "kernels/cpu/sort/sort.h"

namespace mt::cpu {

namespace {

using Complex = std::complex<double>;

template <class T, class Acc>
struct CumprodBackward {
    static Acc load(T x) { return Element<T>::template load<Acc>(x); }
    static T store(Acc x) { return Element<T>::template store<Acc>(x); }
    static bool is_zero(T x) { return load(x) == Acc(0); }
    static Acc conj(Acc x) {
        if constexpr (std::is_same_v<Acc, Complex>) return std::conj(x);
        else return x;
    }
    static Acc times(Acc a, Acc b) {
        if constexpr (std::is_same_v<Acc, Complex>)
            return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
        else return a * b;
    }

    // The sum is rounded before it is divided, in every loop, so that the bits are the same for any number of threads.
    static T quotient(T sum, T x) {
        if constexpr (std::is_same_v<Acc, Complex>) return store(load(sum) / std::conj(load(x)));
        else return sum / x;
    }

    static bool any_zero(const T* x, int64_t n) {
        bool found = false;
        for (int64_t i = 0; i < n; ++i) found |= is_zero(x[i]);
        return found;
    }

    // Any row, of elements `stride` apart.
    static void row(T* dx, const T* g, const T* x, int64_t n, int64_t stride) {
        int64_t first = 0;
        Acc product(1), before(1), sum(0);
        for (; first < n && !is_zero(x[first * stride]); ++first) {
            product = times(product, load(x[first * stride]));
            dx[first * stride] = store(product);
        }
        before = product;
        for (int64_t i = first; i-- > 0;) {
            sum += times(load(g[i * stride]), conj(load(dx[i * stride])));
            dx[i * stride] = quotient(store(sum), x[i * stride]);
        }
        if (first == n) return;
        sum = times(load(g[first * stride]), conj(before));
        for (int64_t j = first + 1; j < n && !is_zero(x[j * stride]); ++j) {
            before = times(before, load(x[j * stride]));
            sum += times(load(g[j * stride]), conj(before));
        }
        dx[first * stride] = store(sum);
        for (int64_t j = first + 1; j < n; ++j) dx[j * stride] = store(Acc(0));
    }

    // Rows without zeros: several at once, to hide the latency of each one's chain, and divided where that takes
    // vectors.
    template <int Rows>
    static void rows(T* dx, const T* g, const T* x, int64_t n) {
        Acc acc[Rows];
        for (int k = 0; k < Rows; ++k) acc[k] = Acc(1);
        for (int64_t i = 0; i < n; ++i)
            for (int k = 0; k < Rows; ++k) {
                acc[k] = times(acc[k], load(x[k * n + i]));
                dx[k * n + i] = store(acc[k]);
            }
        for (int k = 0; k < Rows; ++k) acc[k] = Acc(0);
        constexpr int64_t block = 256;
        for (int64_t end = n; end > 0; end -= std::min(end, block)) {
            int64_t begin = std::max<int64_t>(end - block, 0);
            for (int64_t i = end; i-- > begin;)
                for (int k = 0; k < Rows; ++k) {
                    acc[k] += times(load(g[k * n + i]), conj(load(dx[k * n + i])));
                    dx[k * n + i] = store(acc[k]);
                }
            for (int k = 0; k < Rows; ++k) {
                T* to = dx + k * n;
                for (int64_t i = begin; i < end; ++i) to[i] = quotient(to[i], x[k * n + i]);
            }
        }
    }

    // Columns side by side; those with zeros one by one.
    static void columns(T* dx, const T* g, const T* x, int64_t n, int64_t stride, int64_t cols) {
        constexpr int64_t most = 128;
        for (int64_t c0 = 0; c0 < cols; c0 += most, dx += most, g += most, x += most) {
            int64_t width = std::min(most, cols - c0);
            bool zeros = false;
            for (int64_t r = 0; r < n && !zeros; ++r) zeros = any_zero(x + r * stride, width);
            if (zeros) {
                for (int64_t c = 0; c < width; ++c) row(dx + c, g + c, x + c, n, stride);
                continue;
            }
            Acc acc[most];
            std::fill_n(acc, width, Acc(1));
            for (int64_t r = 0; r < n; ++r)
                for (int64_t c = 0, at = r * stride; c < width; ++c, ++at) {
                    acc[c] = times(acc[c], load(x[at]));
                    dx[at] = store(acc[c]);
                }
            std::fill_n(acc, width, Acc(0));
            for (int64_t r = n; r-- > 0;)
                for (int64_t c = 0, at = r * stride; c < width; ++c, ++at) {
                    acc[c] += times(load(g[at]), conj(load(dx[at])));
                    dx[at] = quotient(store(acc[c]), x[at]);
                }
        }
    }

    static void run(Call& call, DType dtype) {
        Tensor& result = *call.outputs[0];
        Packed grad(call.in(0), dtype), input(call.in(1), dtype);
        ContiguousOut out(result, dtype);
        T* dx = out.as<T>();
        const T *g = grad.as<T>(), *x = input.as<T>();
        Along shape(result.sizes, static_cast<size_t>(normalize_dim(call.param(0).as_int(), result.ndim())));
        int64_t n = shape.n, inner = shape.inner;
        if (inner == 1) {
            constexpr int at_once = 4;
            parallel_for(shape.outer, grain_of(2 * n), [&](int64_t begin, int64_t end) {
                for (int64_t o = begin; o < end;) {
                    int64_t at = o * n;
                    if (o + at_once <= end && !any_zero(x + at, at_once * n)) {
                        rows<at_once>(dx + at, g + at, x + at, n);
                        o += at_once;
                    } else {
                        row(dx + at, g + at, x + at, n, 1);
                        ++o;
                    }
                }
            });
        } else {
            constexpr int64_t most = 512;
            int64_t chunks = (inner + most - 1) / most;
            int64_t grain = grain_of(2 * n * std::min(inner, most));
            parallel_for(shape.outer * chunks, grain, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                    int64_t c = i % chunks * most, at = i / chunks * n * inner + c;
                    columns(dx + at, g + at, x + at, n, inner, std::min(most, inner - c));
                }
            });
        }
        out.store();
    }
};

// grad, input; dim
void cumprod_backward_kernel(Call& call) {
    const Tensor& input = call.in(1);
    if (input.numel == 0) return;
    switch (loop_dtype(input.dtype)) {
        case DType::F64: CumprodBackward<double, double>::run(call, DType::F64); break;
        case DType::C64: CumprodBackward<complex64, Complex>::run(call, DType::C64); break;
        case DType::C128: CumprodBackward<complex128, Complex>::run(call, DType::C128); break;
        default: CumprodBackward<float, double>::run(call, DType::F32);
    }
}

const RegisterNative registered{Takes::Any, {{"_cumprod_backward", infer_cumprod_backward, cumprod_backward_kernel}}};

}  // namespace

}  // namespace mt::cpu
