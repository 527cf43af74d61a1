// The loops of softmax, log_softmax and logsumexp, compiled once for each instruction set.
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/nn/softmax.h"
#include "kernels/cpu/reduce/reduce.h"
// What comes after it is for one instruction set.
#include "kernels/cpu/loops/target.h"
// Vectors before the blocks that are made of them.
#include "kernels/cpu/reduce/vectors.h"

#include "kernels/cpu/math/functions.h"
#include "kernels/cpu/reduce/accumulate.h"

namespace mt::cpu::MT_ISA_NS {
namespace {

namespace math = mt::MT_ISA_NS::math;

constexpr int64_t kPiece = 1024;

template <class T>
void exp_all(T* out, const T* in, int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = math::exp<T>(in[i]);
}

// out[i] = in[i] - value, or in[i] / value.
template <class T, bool Divide>
MT_INLINE void scale_row(T* out, const T* in, T value, int64_t n) {
    constexpr int W = kWidth<T>;
    Vec<T> v = splat<T>(value);
    int64_t i = 0;
    for (; i + W <= n; i += W) store<T>(out + i, Divide ? load<T>(in + i) / v : load<T>(in + i) - v);
    if (i < n) {
        int left = static_cast<int>(n - i);
        Vec<T> x = load_partial<T>(in + i, left, T(1));
        store_partial<T>(out + i, Divide ? x / v : x - v, left);
    }
}

template <class T>
MT_INLINE T row_maximum(const T* p, int64_t n) {
    using Op = Extreme<T, true>;
    typename Op::Acc key = reduce_row<Op>(p, n);
    Op::unmap(&key, 1);
    return __builtin_bit_cast(T, key);
}

// Short rows: several together, so that the transcendental functions run over whole vectors.
template <class T>
void short_rows(T* out, const T* in, int64_t count, int64_t n, bool log) {
    alignas(64) T shifted[kPiece + 64], e[kPiece + 64], s[kPiece + 64];
    int64_t group = n > 16 ? kPiece / n : 64;
    for (int64_t first = 0; first < count; first += group) {
        int64_t rows = count - first < group ? count - first : group, elements = rows * n;
        const T* x = in + first * n;
        T* y = out + first * n;
        for (int64_t i = 0; i < rows; ++i)
            scale_row<T, false>(shifted + i * n, x + i * n, row_maximum(x + i * n, n), n);
        int64_t padded = (elements + 15) / 16 * 16;
        for (int64_t i = elements; i < padded; ++i) shifted[i] = T(0);
        exp_all<T>(e, shifted, padded);
        for (int64_t i = 0; i < rows; ++i) s[i] = reduce_row<Add<T>>(e + i * n, n);
        if (log) {
            int64_t padded_rows = (rows + 15) / 16 * 16;
            for (int64_t i = rows; i < padded_rows; ++i) s[i] = T(1);
            for (int64_t i = 0; i < padded_rows; ++i) s[i] = math::log<T>(s[i]);
            for (int64_t i = 0; i < rows; ++i) scale_row<T, false>(y + i * n, shifted + i * n, s[i], n);
        } else {
            for (int64_t i = 0; i < rows; ++i) scale_row<T, true>(y + i * n, e + i * n, s[i], n);
        }
    }
}

template <class T>
void long_row(T* out, const T* in, int64_t n, bool log) {
    alignas(64) T shifted[kPiece], e[kPiece];
    T m = row_maximum(in, n);
    int64_t block = row_block(n);
    T total = T(0);
    for (int64_t b = 0; b < n; b += block) {
        int64_t end = n - b < block ? n : b + block;
        Vec<T> lanes[kVecs<Add<T>>];
        for (int k = 0; k < kVecs<Add<T>>; ++k) lanes[k] = identity<Add<T>>();
        for (int64_t r = b; r < end; r += kPiece) {
            int64_t length = end - r < kPiece ? end - r : kPiece;
            scale_row<T, false>(shifted, in + r, m, length);
            exp_all<T>(e, shifted, length);
            accumulate<Add<T>>(lanes, e, length);
            __builtin_memcpy(out + r, log ? shifted : e, static_cast<size_t>(length) * sizeof(T));
        }
        T part = combine_lanes<Add<T>>(lanes);
        total = b ? total + part : part;
    }
    if (log) scale_row<T, false>(out, out, math::log<T>(total), n);
    else scale_row<T, true>(out, out, total, n);
}

template <class T>
void softmax_rows(void* out, const void* in, int64_t count, int64_t n, bool log) {
    auto* y = static_cast<T*>(out);
    auto* x = static_cast<const T*>(in);
    if (n <= kPiece / 2) return short_rows(y, x, count, n, log);
    for (int64_t i = 0; i < count; ++i) long_row(y + i * n, x + i * n, n, log);
}

template <class T>
void softmax_columns(void* out, const void* in, int64_t n, int64_t stride, int64_t cols, bool log) {
    using Max = Extreme<T, true>;
    auto* y = static_cast<T*>(out);
    auto* x = static_cast<const T*>(in);
    alignas(64) typename Max::Acc keys[kSoftmaxColumns] = {};
    alignas(64) T m[kSoftmaxColumns], s[kSoftmaxColumns], acc[kSoftmaxColumns], t[kSoftmaxColumns] = {},
                                                                                e[kSoftmaxColumns];
    Loops<Max>::columns(keys, x, n, stride, cols, n);
    Max::unmap(keys, cols);
    __builtin_memcpy(m, keys, sizeof m);
    int64_t padded = (cols + 15) / 16 * 16, block = column_block(n);
    for (int64_t b = 0; b < n; b += block) {
        for (int64_t c = 0; c < padded; ++c) acc[c] = T(0);
        for (int64_t r = b; r < (n - b < block ? n : b + block); ++r) {
            const T* from = x + r * stride;
            for (int64_t c = 0; c < cols; ++c) t[c] = from[c] - m[c];
            exp_all<T>(e, t, padded);
            for (int64_t c = 0; c < padded; ++c) acc[c] += e[c];
            __builtin_memcpy(y + r * stride, log ? t : e, static_cast<size_t>(cols) * sizeof(T));
        }
        for (int64_t c = 0; c < padded; ++c) s[c] = b ? s[c] + acc[c] : acc[c];
    }
    if (log)
        for (int64_t c = 0; c < padded; ++c) s[c] = math::log<T>(s[c]);
    for (int64_t r = 0; r < n; ++r) {
        T* row = y + r * stride;
        if (log)
            for (int64_t c = 0; c < cols; ++c) row[c] = row[c] - s[c];
        else
            for (int64_t c = 0; c < cols; ++c) row[c] = row[c] / s[c];
    }
}

// What is subtracted before exp: nothing where the maximum is infinite.
template <class T>
MT_INLINE T finite_maximum(T m) {
    return m == static_cast<T>(__builtin_inf()) || m == -static_cast<T>(__builtin_inf()) ? T(0) : m;
}

template <class T>
void logsumexp_rows(void* out, const void* in, int64_t count, int64_t n) {
    alignas(64) T shifted[kPiece], e[kPiece], sums[64], maxima[64];
    for (int64_t first = 0; first < count; first += 64) {
        int64_t rows = count - first < 64 ? count - first : 64;
        for (int64_t i = 0; i < 64; ++i) sums[i] = T(1);
        for (int64_t i = 0; i < rows; ++i) {
            const T* x = static_cast<const T*>(in) + (first + i) * n;
            T m = finite_maximum(row_maximum(x, n)), total = T(0);
            int64_t block = row_block(n);
            for (int64_t b = 0; b < n; b += block) {
                int64_t end = n - b < block ? n : b + block;
                Vec<T> lanes[kVecs<Add<T>>];
                for (int k = 0; k < kVecs<Add<T>>; ++k) lanes[k] = identity<Add<T>>();
                for (int64_t r = b; r < end; r += kPiece) {
                    int64_t length = end - r < kPiece ? end - r : kPiece, padded = (length + 15) / 16 * 16;
                    scale_row<T, false>(shifted, x + r, m, length);
                    for (int64_t k = length; k < padded; ++k) shifted[k] = T(0);
                    exp_all<T>(e, shifted, padded);
                    accumulate<Add<T>>(lanes, e, length);
                }
                T part = combine_lanes<Add<T>>(lanes);
                total = b ? total + part : part;
            }
            sums[i] = total;
            maxima[i] = m;
        }
        for (int64_t i = 0; i < 64; ++i) sums[i] = math::log<T>(sums[i]);
        for (int64_t i = 0; i < rows; ++i) static_cast<T*>(out)[first + i] = sums[i] + maxima[i];
    }
}

// grad * y summed, and y * (grad - sum); of log_softmax grad summed, and grad - exp(y) * sum.
template <class T>
void softmax_gradient_rows(void* out, const void* grad, const void* result, int64_t count, int64_t n, bool log) {
    constexpr int W = kWidth<T>;
    alignas(64) T piece[kPiece];
    for (int64_t i = 0; i < count; ++i) {
        const T *g = static_cast<const T*>(grad) + i * n, *y = static_cast<const T*>(result) + i * n;
        T* to = static_cast<T*>(out) + i * n;
        T total = T(0);
        int64_t block = row_block(n);
        for (int64_t b = 0; b < n; b += block) {
            int64_t end = n - b < block ? n : b + block;
            Vec<T> lanes[kVecs<Add<T>>];
            for (int k = 0; k < kVecs<Add<T>>; ++k) lanes[k] = identity<Add<T>>();
            for (int64_t r = b; r < end; r += kPiece) {
                int64_t length = end - r < kPiece ? end - r : kPiece;
                if (log) {
                    accumulate<Add<T>>(lanes, g + r, length);
                    continue;
                }
                for (int64_t k = 0; k < length; ++k) piece[k] = g[r + k] * y[r + k];
                accumulate<Add<T>>(lanes, piece, length);
            }
            T part = combine_lanes<Add<T>>(lanes);
            total = b ? total + part : part;
        }
        Vec<T> s = splat<T>(total);
        for (int64_t r = 0; r < n; r += kPiece) {
            int64_t length = n - r < kPiece ? n - r : kPiece, k = 0;
            if (log) {
                __builtin_memcpy(piece, y + r, static_cast<size_t>(length) * sizeof(T));
                int64_t padded = (length + 15) / 16 * 16;
                for (int64_t j = length; j < padded; ++j) piece[j] = T(0);
                exp_all<T>(piece, piece, padded);
            }
            for (; k + W <= length; k += W) {
                Vec<T> from = load<T>(g + r + k);
                if (log) store<T>(to + r + k, from - load<T>(piece + k) * s);
                else store<T>(to + r + k, load<T>(y + r + k) * (from - s));
            }
            for (; k < length; ++k) to[r + k] = log ? g[r + k] - piece[k] * total : y[r + k] * (g[r + k] - total);
        }
    }
}

template <class T>
void slopes(void* grad, const void* weight, double scale, int64_t count, int64_t n) {
    constexpr int W = kWidth<T>, N = W < 16 ? 16 / W : 1;
    static_assert(W <= 16);
    const Vec<T> by = splat<T>(static_cast<T>(scale));
    for (int64_t i = 0; i < count; ++i) {
        T* g = static_cast<T*>(grad) + i * n;
        const T* w = static_cast<const T*>(weight) + i * n;
        Vec<T> sums[N];
#pragma GCC unroll 8
        for (int v = 0; v < N; ++v) sums[v] = splat<T>(T(0));
        int64_t j = 0;
        for (; j + 16 <= n; j += 16)
#pragma GCC unroll 8
            for (int v = 0; v < N; ++v) sums[v] = sums[v] + load<T>(g + j + v * W) * load<T>(w + j + v * W);
        T lanes[16];
        for (int v = 0; v < N; ++v) store<T>(lanes + v * W, sums[v]);
        for (int64_t l = 0; j < n; ++j, ++l) lanes[l] += g[j] * w[j];
        for (int64_t half = 8; half > 0; half /= 2)
            for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
        const Vec<T> total = splat<T>(lanes[0]);
        for (j = 0; j + W <= n; j += W) store<T>(g + j, load<T>(w + j) * (load<T>(g + j) - total) * by);
        for (; j < n; ++j) g[j] = w[j] * (g[j] - lanes[0]) * static_cast<T>(scale);
    }
}

template <class T>
void logsumexp_columns(void* out, const void* in, int64_t n, int64_t stride, int64_t cols) {
    using Max = Extreme<T, true>;
    auto* x = static_cast<const T*>(in);
    alignas(64) typename Max::Acc keys[kSoftmaxColumns] = {};
    alignas(64) T m[kSoftmaxColumns], s[kSoftmaxColumns], acc[kSoftmaxColumns], t[kSoftmaxColumns] = {},
                                                                                e[kSoftmaxColumns];
    Loops<Max>::columns(keys, x, n, stride, cols, n);
    Max::unmap(keys, cols);
    __builtin_memcpy(m, keys, sizeof m);
    for (int64_t c = 0; c < cols; ++c) m[c] = finite_maximum(m[c]);
    int64_t padded = (cols + 15) / 16 * 16, block = column_block(n);
    for (int64_t b = 0; b < n; b += block) {
        for (int64_t c = 0; c < padded; ++c) acc[c] = T(0);
        for (int64_t r = b; r < (n - b < block ? n : b + block); ++r) {
            for (int64_t c = 0; c < cols; ++c) t[c] = x[r * stride + c] - m[c];
            exp_all<T>(e, t, padded);
            for (int64_t c = 0; c < padded; ++c) acc[c] += e[c];
        }
        for (int64_t c = 0; c < padded; ++c) s[c] = b ? s[c] + acc[c] : acc[c];
    }
    for (int64_t c = 0; c < padded; ++c) s[c] = math::log<T>(s[c]);
    for (int64_t c = 0; c < cols; ++c) static_cast<T*>(out)[c] = s[c] + m[c];
}

}  // namespace

constinit const SoftmaxTable softmax_table = {{softmax_rows<float>, softmax_columns<float>, logsumexp_rows<float>,
                                               logsumexp_columns<float>, softmax_gradient_rows<float>, slopes<float>},
                                              {softmax_rows<double>, softmax_columns<double>, logsumexp_rows<double>,
                                               logsumexp_columns<double>, softmax_gradient_rows<double>,
                                               slopes<double>}};

}  // namespace mt::cpu::MT_ISA_NS
