// The loops of convolution, pooling, normalisation and recurrent layers, compiled once for each instruction set.
#include "kernels/cpu/nn/loops.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/reduce/reduce.h"
// What comes after it is for one instruction set.
#include "kernels/cpu/loops/target.h"
// Vectors before the blocks that are made of them.
#include "kernels/cpu/reduce/vectors.h"

#include "kernels/cpu/math/functions.h"
#include "kernels/cpu/reduce/accumulate.h"

namespace mt::cpu::MT_ISA_NS {
namespace {

// Adds over 64 lanes value(j, count, k): the vector of elements j .. j + count, zero in the lanes beyond; it goes to
// the k-th vector of lanes.
template <class T, class F>
MT_INLINE void lane_sums(Vec<T> (&lanes)[kVecs<Add<T>>], int64_t n, F value) {
    constexpr int W = kWidth<T>, N = kVecs<Add<T>>;
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) lanes[k] = splat<T>(T(0));
    int64_t r = 0;
    for (; r + kLanes <= n; r += kLanes)
#pragma GCC unroll 16
        for (int k = 0; k < N; ++k) lanes[k] = lanes[k] + value(r + k * W, W, k);
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) {
        int64_t left = n - r - k * W;
        if (left <= 0) break;
        lanes[k] = lanes[k] + value(r + k * W, static_cast<int>(left < W ? left : W), k);
    }
}

template <class T>
MT_INLINE Vec<T> load_some(const T* p, int count, T fill) {
    return count == kWidth<T> ? load<T>(p) : load_partial<T>(p, count, fill);
}

template <class T>
MT_INLINE void store_some(T* p, Vec<T> v, int count) {
    if (count == kWidth<T>) store<T>(p, v);
    else store_partial<T>(p, v, count);
}

// body(j, count) over n elements, a vector at a time.
template <class T, class F>
MT_INLINE void by_vectors(int64_t n, F body) {
    constexpr int W = kWidth<T>;
    int64_t j = 0;
    for (; j + W <= n; j += W) body(j, W);
    if (j < n) body(j, static_cast<int>(n - j));
}

#define MT_LAMBDA __attribute__((always_inline))

template <class T, int Stride>
MT_INLINE void axpy_strided(T* __restrict y, const T* __restrict x, T w, int64_t n, int64_t stride) {
    if constexpr (Stride) stride = Stride;
    for (int64_t j = 0; j < n; ++j) y[j] += w * x[j * stride];
}

template <class T>
void axpy(T* y, const T* x, T w, int64_t n, int64_t stride) {
    if (stride == 1) return axpy_strided<T, 1>(y, x, w, n, stride);
    if (stride == 2) return axpy_strided<T, 2>(y, x, w, n, stride);
    axpy_strided<T, 0>(y, x, w, n, stride);
}

template <class T>
void spread(T* __restrict y, const T* __restrict x, T w, int64_t n, int64_t stride) {
    if (stride == 1) {
        for (int64_t j = 0; j < n; ++j) y[j] += w * x[j];
    } else {
        for (int64_t j = 0; j < n; ++j) y[j * stride] += w * x[j];
    }
}

template <class T>
void stencil(T* y, const T* x, const T* w, const int64_t* offset, int64_t taps, T start, int64_t n) {
    constexpr int W = kWidth<T>;
    int64_t j = 0;
    for (; j + 4 * W <= n; j += 4 * W) {  // four sums at once hide the latency of the additions
        Vec<T> a = splat<T>(start), b = a, c = a, d = a;
        for (int64_t t = 0; t < taps; ++t) {
            const T* from = x + j + offset[t];
            Vec<T> weight = splat<T>(w[t]);
            a = a + weight * load<T>(from);
            b = b + weight * load<T>(from + W);
            c = c + weight * load<T>(from + 2 * W);
            d = d + weight * load<T>(from + 3 * W);
        }
        store<T>(y + j, a);
        store<T>(y + j + W, b);
        store<T>(y + j + 2 * W, c);
        store<T>(y + j + 3 * W, d);
    }
    for (; j < n; j += W) {
        int count = static_cast<int>(n - j < W ? n - j : W);
        Vec<T> a = splat<T>(start);
        for (int64_t t = 0; t < taps; ++t) a = a + splat<T>(w[t]) * load_some<T>(x + j + offset[t], count, T(0));
        store_some<T>(y + j, a, count);
    }
}

template <class T>
T dot(const T* a, const T* b, int64_t n, int64_t stride) {
    Vec<T> lanes[kVecs<Add<T>>];
    if (stride == 1) {
        lane_sums<T>(lanes, n, [&](int64_t j, int count, int) MT_LAMBDA {
            return load_some<T>(a + j, count, T(0)) * load_some<T>(b + j, count, T(0));
        });
    } else {
        lane_sums<T>(lanes, n, [&](int64_t j, int count, int) MT_LAMBDA {
            Vec<T> v = splat<T>(T(0));
            for (int i = 0; i < count; ++i) v[i] = b[(j + i) * stride];
            return load_some<T>(a + j, count, T(0)) * v;
        });
    }
    return combine_lanes<Add<T>>(lanes);
}

// p[i * stride] for low <= i < high; the other lanes are `fill`.
template <class T>
MT_INLINE Vec<T> load_lanes(const T* p, int64_t stride, int low, int high, T fill) {
    T lanes[kWidth<T>];
    store<T>(lanes, splat<T>(fill));
    for (int i = low; i < high; ++i) lanes[i] = p[i * stride];
    return load<T>(lanes);
}

// p[i * stride] for i < count; the other lanes are `fill`.
template <class T, int Stride>
MT_INLINE Vec<T> load_strided(const T* p, int64_t stride, int count, T fill) {
    constexpr int W = kWidth<T>;
    if constexpr (Stride == 1) return load_some<T>(p, count, fill);
    if constexpr (Stride == 2) {
        const int length = 2 * count - 1;
        const Vec<T> low = load_some<T>(p, length < W ? length : W, fill);
        const Vec<T> high = length > W ? load_partial<T>(p + W, length - W, fill) : splat<T>(fill);
        Vec<Int<T>> even;
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) even[i] = static_cast<Int<T>>(2 * i);
        return __builtin_shuffle(low, high, even);
    }
    return load_lanes<T>(p, stride, 0, count, fill);
}

// 32-bit integers as those of T's size, and back.
template <class T>
MT_INLINE Vec<Int<T>> load_places(const int32_t* p, int count) {
    if constexpr (sizeof(T) == 4) {
        return load_some<int32_t>(p, count, 0);
    } else {
        Int<T> lanes[kWidth<T>] = {};
        for (int i = 0; i < count; ++i) lanes[i] = p[i];
        return load<Int<T>>(lanes);
    }
}

template <class T>
MT_INLINE void store_places(int32_t* p, Vec<Int<T>> v, int count) {
    if constexpr (sizeof(T) == 4) {
        store_some<int32_t>(p, v, count);
    } else {
        Int<T> lanes[kWidth<T>];
        store<Int<T>>(lanes, v);
        for (int i = 0; i < count; ++i) p[i] = static_cast<int32_t>(lanes[i]);
    }
}

template <class T, int Stride>
MT_INLINE void max_strided(T* values, int32_t* index, const T* x, const MaxTap* taps, int64_t count, int64_t n,
                           int64_t stride) {
    constexpr T kLeast = -__builtin_inf();
    by_vectors<T>(n, [&](int64_t j, int lanes) MT_LAMBDA {
        Vec<T> best = splat<T>(kLeast);
        Vec<Int<T>> where{}, steps;
        for (int i = 0; i < kWidth<T>; ++i) steps[i] = static_cast<Int<T>>(i);
        steps = (steps + static_cast<Int<T>>(j)) * static_cast<Int<T>>(stride);
        if (index) where = load_places<T>(index + j, lanes);
        for (const MaxTap* tap = taps; tap != taps + count; ++tap) {
            const int low = static_cast<int>(tap->low > j ? tap->low - j : 0);
            const int high = static_cast<int>(tap->high - j < lanes ? tap->high - j : lanes);
            if (low >= high) continue;
            const T* at = x + (tap->from + j * stride);
            const Vec<T> v = low == 0 ? load_strided<T, Stride>(at, stride, high, kLeast)
                                      : load_lanes<T>(at, stride, low, high, kLeast);
            const auto take = (v > best) | (v != v);
            best = take ? v : best;
            if (index) where = take ? steps + static_cast<Int<T>>(tap->from) : where;
        }
        if (values) store_some<T>(values + j, best, lanes);
        if (index) store_places<T>(index + j, where, lanes);
    });
}

template <class T>
void max_row(T* values, int32_t* index, const T* x, const MaxTap* taps, int64_t count, int64_t n, int64_t stride) {
    if (stride == 1) return max_strided<T, 1>(values, index, x, taps, count, n, stride);
    if (stride == 2) return max_strided<T, 2>(values, index, x, taps, count, n, stride);
    max_strided<T, 0>(values, index, x, taps, count, n, stride);
}

template <class T>
void copy_runs(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t length, int64_t count) {
    constexpr int W = kWidth<T>;
    if (length >= W) {
        for (; count > 0; --count, to += to_step, from += from_step) {
            int64_t j = 0;
            for (; j + W <= length; j += W) store<T>(to + j, load<T>(from + j));
            if (j < length) store<T>(to + length - W, load<T>(from + length - W));
        }
    } else {
        const int some = static_cast<int>(length);
        for (; count > 0; --count, to += to_step, from += from_step)
            store_partial<T>(to, load_partial<T>(from, some, T(0)), some);
    }
}

template <class T>
void add_runs(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t length, int64_t count) {
    constexpr int W = kWidth<T>;
    const int rest = static_cast<int>(length % W);
    for (; count > 0; --count, to += to_step, from += from_step) {
        int64_t j = 0;
        for (; j + W <= length; j += W) store<T>(to + j, load<T>(to + j) + load<T>(from + j));
        if (rest)
            store_partial<T>(to + j, load_partial<T>(to + j, rest, T(0)) + load_partial<T>(from + j, rest, T(0)), rest);
    }
}

template <class T>
void max_few_pairs(T* values, int64_t* index, const T* x, int64_t width, int64_t rows, int64_t n) {
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t j = 0; j < n; ++j) {
            const int64_t at = row * 2 * width + 2 * j;
            T best = x[at];
            int64_t where = at;
            for (const int64_t next : {at + 1, at + width, at + width + 1}) {
                const T v = x[next];
                const bool take = (v > best) | (v != v);
                best = take ? v : best;
                where = take ? next : where;
            }
            if (values) values[row * n + j] = best;
            if (index) index[row * n + j] = where;
        }
}

// Small vectors, of 16 bytes whatever the instruction set: rows of windows are short.
template <class T>
void max_pairs(T* values, int64_t* index, const T* x, int64_t width, int64_t rows, int64_t n) {
    constexpr int W = 16 / sizeof(T);
    if (n < W) return max_few_pairs(values, index, x, width, rows, n);
    typedef T V __attribute__((vector_size(16)));
    typedef Int<T> I __attribute__((vector_size(16)));
    typedef int64_t Wide __attribute__((vector_size(8 * W)));
    I even, odd, steps;
    for (int i = 0; i < W; ++i) {
        even[i] = static_cast<Int<T>>(2 * i);
        odd[i] = even[i] + 1;
        steps[i] = even[i];
    }
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t j = 0; j < n; j += W) {
            if (j > n - W) j = n - W;  // what is left over is done with what is before it, once more
            const int64_t at = row * 2 * width + 2 * j;
            V a, b, c, d;
            __builtin_memcpy(&a, x + at, 16);
            __builtin_memcpy(&b, x + at + W, 16);
            __builtin_memcpy(&c, x + at + width, 16);
            __builtin_memcpy(&d, x + at + width + W, 16);
            V best = __builtin_shuffle(a, b, even);
            I where = steps + static_cast<Int<T>>(at);
            const auto next = [&](V v, int64_t offset) MT_LAMBDA {
                const I take = (v > best) | (v != v);
                best = take ? v : best;
                where = take ? steps + static_cast<Int<T>>(at + offset) : where;
            };
            next(__builtin_shuffle(a, b, odd), 1);
            next(__builtin_shuffle(c, d, even), width);
            next(__builtin_shuffle(c, d, odd), width + 1);
            const int64_t to = row * n + j;
            if (values) __builtin_memcpy(values + to, &best, 16);
            if (index) {
                const Wide wide = __builtin_convertvector(where, Wide);
                __builtin_memcpy(index + to, &wide, sizeof wide);
            }
        }
}

template <class T>
T sum(const T* x, int64_t n) {
    Vec<T> lanes[kVecs<Add<T>>];
    lane_sums<T>(lanes, n, [&](int64_t j, int count, int) MT_LAMBDA { return load_some<T>(x + j, count, T(0)); });
    return combine_lanes<Add<T>>(lanes);
}

template <class T>
T square_sum(const T* x, T mean, int64_t n) {
    Vec<T> lanes[kVecs<Add<T>>], m = splat<T>(mean);
    lane_sums<T>(lanes, n, [&](int64_t j, int count, int) MT_LAMBDA {
        Vec<T> d = load_some<T>(x + j, count, mean) - m;
        return d * d;
    });
    return combine_lanes<Add<T>>(lanes);
}

template <class T>
void normalize(T* y, const T* x, T mean, T rstd, const T* w, const T* b, int64_t n) {
    Vec<T> m = splat<T>(mean), r = splat<T>(rstd);
    by_vectors<T>(n, [&](int64_t j, int count) MT_LAMBDA {
        Vec<T> v = (load_some<T>(x + j, count, T(0)) - m) * r;
        if (w) v = v * load_some<T>(w + j, count, T(0));
        if (b) v = v + load_some<T>(b + j, count, T(0));
        store_some<T>(y + j, v, count);
    });
}

template <class T>
void affine(T* y, const T* x, T mean, T scale, T shift, int64_t n) {
    Vec<T> m = splat<T>(mean), a = splat<T>(scale), b = splat<T>(shift);
    by_vectors<T>(n, [&](int64_t j, int count)
                         MT_LAMBDA { store_some<T>(y + j, (load_some<T>(x + j, count, T(0)) - m) * a + b, count); });
}

template <class T>
void grad_sums(const T* g, const T* x, const T* w, T mean, T rstd, int64_t n, T* plain, T* product) {
    Vec<T> first[kVecs<Add<T>>], second[kVecs<Add<T>>], m = splat<T>(mean), r = splat<T>(rstd);
#pragma GCC unroll 16
    for (int k = 0; k < kVecs<Add<T>>; ++k) second[k] = splat<T>(T(0));
    lane_sums<T>(first, n, [&](int64_t j, int count, int k) MT_LAMBDA {
        Vec<T> v = load_some<T>(g + j, count, T(0));
        if (w) v = v * load_some<T>(w + j, count, T(0));
        Vec<T> xhat = (load_some<T>(x + j, count, mean) - m) * r;
        second[k] = second[k] + v * xhat;
        return v;
    });
    *plain = combine_lanes<Add<T>>(first);
    *product = combine_lanes<Add<T>>(second);
}

template <class T>
void grad_input(T* gx, const T* g, const T* x, const T* w, T scale, T mean, T rstd, T c1, T c2, int64_t n) {
    Vec<T> m = splat<T>(mean), r = splat<T>(rstd), s = splat<T>(scale), a = splat<T>(c1), c = splat<T>(c2);
    by_vectors<T>(n, [&](int64_t j, int count) MT_LAMBDA {
        Vec<T> v = load_some<T>(g + j, count, T(0)) * s;
        if (w) v = v * load_some<T>(w + j, count, T(0));
        Vec<T> xhat = (load_some<T>(x + j, count, T(0)) - m) * r;
        store_some<T>(gx + j, r * (v - a - xhat * c), count);
    });
}

template <class T>
void grad_params(T* gw, T* gb, const T* g, const T* x, T mean, T rstd, int64_t n) {
    Vec<T> m = splat<T>(mean), r = splat<T>(rstd);
    by_vectors<T>(n, [&](int64_t j, int count) MT_LAMBDA {
        Vec<T> v = load_some<T>(g + j, count, T(0));
        Vec<T> xhat = (load_some<T>(x + j, count, T(0)) - m) * r;
        store_some<T>(gw + j, load_some<T>(gw + j, count, T(0)) + v * xhat, count);
        store_some<T>(gb + j, load_some<T>(gb + j, count, T(0)) + v, count);
    });
}

MT_INLINE float root(float x) { return __builtin_sqrtf(x); }
MT_INLINE double root(double x) { return __builtin_sqrt(x); }

// lanes[0] = the sum of n lanes, of so many rows at once; in the order of combine_lanes.
template <class T>
MT_INLINE void sum_rows(T (*lanes)[kRowsAtOnce], int64_t n, int64_t count) {
    for (int64_t w = kMostShort / 2; w > 0; w /= 2)
        for (int64_t l = 0; l < w && l + w < n; ++l)
            for (int64_t r = 0; r < count; ++r) lanes[l][r] += lanes[l + w][r];
}

// At most kRowsAtOnce rows. `sums` are the gradients of weight and bias, of each place among them.
template <class T>
MT_INLINE void few_rows_backward(T* gx, T (*sums)[2][kRowsAtOnce], const T* g, const T* x, const T* w, T eps,
                                 bool centered, int64_t n, int64_t count) {
    alignas(64) T xhat[kMostShort][kRowsAtOnce], grad[kMostShort][kRowsAtOnce], lanes[kMostShort][kRowsAtOnce];
    alignas(64) T mean[kRowsAtOnce], rstd[kRowsAtOnce], plain[kRowsAtOnce];
    const T size = static_cast<T>(n);
    for (int64_t j = 0; j < n; ++j)
        for (int64_t r = 0; r < count; ++r) {
            lanes[j][r] = xhat[j][r] = x[r * n + j];
            grad[j][r] = g[r * n + j];
        }
    if (centered) sum_rows<T>(lanes, n, count);
    for (int64_t r = 0; r < count; ++r) mean[r] = centered ? lanes[0][r] / size : T(0);
    for (int64_t j = 0; j < n; ++j)
        for (int64_t r = 0; r < count; ++r) {
            xhat[j][r] -= mean[r];
            lanes[j][r] = xhat[j][r] * xhat[j][r];
        }
    sum_rows<T>(lanes, n, count);
    for (int64_t r = 0; r < count; ++r) rstd[r] = T(1) / root(lanes[0][r] / size + eps);
    for (int64_t j = 0; j < n; ++j)
        for (int64_t r = 0; r < count; ++r) {
            xhat[j][r] *= rstd[r];
            if (sums) {
                sums[j][0][r] += grad[j][r] * xhat[j][r];
                sums[j][1][r] += grad[j][r];
            }
            if (w) grad[j][r] *= w[j];
            lanes[j][r] = grad[j][r];
        }
    if (centered) sum_rows<T>(lanes, n, count);
    for (int64_t r = 0; r < count; ++r) plain[r] = centered ? lanes[0][r] / size : T(0);
    for (int64_t j = 0; j < n; ++j)
        for (int64_t r = 0; r < count; ++r) lanes[j][r] = grad[j][r] * xhat[j][r];
    sum_rows<T>(lanes, n, count);
    for (int64_t r = 0; r < count; ++r) lanes[0][r] /= size;
    for (int64_t j = 0; j < n; ++j)
        for (int64_t r = 0; r < count; ++r)
            gx[r * n + j] = rstd[r] * (grad[j][r] - plain[r] - xhat[j][r] * lanes[0][r]);
}

template <class T>
void short_rows_backward(T* gx, T* gw, T* gb, const T* g, const T* x, const T* w, T eps, bool centered, int64_t rows,
                         int64_t n) {
    alignas(64) T sums[kMostShort][2][kRowsAtOnce] = {};
    auto* wanted = gw ? sums : nullptr;
    int64_t i = 0;
    for (; i + kRowsAtOnce <= rows; i += kRowsAtOnce)
        few_rows_backward<T>(gx + i * n, wanted, g + i * n, x + i * n, w, eps, centered, n, kRowsAtOnce);
    if (i < rows) few_rows_backward<T>(gx + i * n, wanted, g + i * n, x + i * n, w, eps, centered, n, rows - i);
    for (int64_t j = 0; j < n && gw; ++j)
        for (int64_t r = 0; r < kRowsAtOnce; ++r) {
            gw[j] += sums[j][0][r];
            gb[j] += sums[j][1][r];
        }
}

// Loops of one function each, since those of several are not made vectors.
template <class T>
MT_INLINE void add_product(T* __restrict to, const T* __restrict x, const T* __restrict product,
                           const T* __restrict bias, int64_t n) {
    if (bias)
        for (int64_t j = 0; j < n; ++j) to[j] = x[j] + (product[j] + bias[j]);
    else
        for (int64_t j = 0; j < n; ++j) to[j] = x[j] + product[j];
}

template <class T>
MT_INLINE void sigmoids(T* x, int64_t n) {
    for (int64_t j = 0; j < n; ++j) x[j] = mt::MT_ISA_NS::math::sigmoid(x[j]);
}

template <class T>
MT_INLINE void tanhs(T* x, int64_t n) {
    for (int64_t j = 0; j < n; ++j) x[j] = mt::MT_ISA_NS::math::tanh(x[j]);
}

template <class T>
void lstm_step(T* __restrict gates, const T* __restrict x, const T* __restrict bias, const T* __restrict c_before,
               T* __restrict c, T* __restrict h, int64_t n) {
    if (bias)
        for (int64_t j = 0; j < 4 * n; ++j) gates[j] = x[j] + (gates[j] + bias[j]);
    else
        for (int64_t j = 0; j < 4 * n; ++j) gates[j] = x[j] + gates[j];
    sigmoids(gates, 2 * n);
    tanhs(gates + 2 * n, n);
    sigmoids(gates + 3 * n, n);
    for (int64_t j = 0; j < n; ++j) h[j] = c[j] = gates[n + j] * c_before[j] + gates[j] * gates[2 * n + j];
    tanhs(h, n);
    for (int64_t j = 0; j < n; ++j) h[j] = gates[3 * n + j] * h[j];
}

template <class T>
void lstm_back(T* __restrict d_gates, const T* __restrict gates, const T* __restrict c, const T* __restrict c_before,
               const T* __restrict dh, T* __restrict dc, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
        const T in = gates[j], forget = gates[n + j], fresh = gates[2 * n + j], out = gates[3 * n + j];
        const T level = mt::MT_ISA_NS::math::tanh(c[j]);
        const T d_cell = dc[j] + dh[j] * out * (T(1) - level * level);
        d_gates[j] = d_cell * fresh * in * (T(1) - in);
        d_gates[n + j] = d_cell * c_before[j] * forget * (T(1) - forget);
        d_gates[2 * n + j] = d_cell * in * (T(1) - fresh * fresh);
        d_gates[3 * n + j] = dh[j] * level * out * (T(1) - out);
        dc[j] = d_cell * forget;
    }
}

template <class T>
void gru_step(T* __restrict kept, const T* __restrict x, const T* __restrict product, const T* __restrict bias,
              const T* __restrict h_before, T* __restrict h, int64_t n) {
    add_product(kept, x, product, bias, 2 * n);
    sigmoids(kept, 2 * n);
    T *fresh = kept + 2 * n, *through = kept + 3 * n;
    for (int64_t j = 0; j < n; ++j) through[j] = bias ? product[2 * n + j] + bias[2 * n + j] : product[2 * n + j];
    for (int64_t j = 0; j < n; ++j) fresh[j] = x[2 * n + j] + kept[j] * through[j];
    tanhs(fresh, n);
    for (int64_t j = 0; j < n; ++j) h[j] = (h_before[j] - fresh[j]) * kept[n + j] + fresh[j];
}

template <class T>
void gru_back(T* __restrict d_x, T* __restrict d_product, const T* __restrict kept, const T* __restrict h_before,
              T* __restrict dh, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
        const T reset = kept[j], update = kept[n + j], fresh = kept[2 * n + j], product = kept[3 * n + j];
        const T d_fresh = dh[j] * (T(1) - update) * (T(1) - fresh * fresh);
        const T d_reset = d_fresh * product * reset * (T(1) - reset);
        const T d_update = dh[j] * (h_before[j] - fresh) * update * (T(1) - update);
        d_x[j] = d_product[j] = d_reset;
        d_x[n + j] = d_product[n + j] = d_update;
        d_x[2 * n + j] = d_fresh;
        d_product[2 * n + j] = d_fresh * reset;
        dh[j] = dh[j] * update;
    }
}

template <class T>
void rnn_step(T* __restrict h, const T* __restrict x, const T* __restrict bias, bool relu, int64_t n) {
    for (int64_t j = 0; j < n; ++j) h[j] = x[j] + (bias ? h[j] + bias[j] : h[j]);
    if (relu)
        for (int64_t j = 0; j < n; ++j) h[j] = h[j] < T(0) ? T(0) : h[j];
    else
        for (int64_t j = 0; j < n; ++j) h[j] = mt::MT_ISA_NS::math::tanh(h[j]);
}

template <class T>
void rnn_back(T* __restrict d_x, const T* __restrict h, const T* __restrict dh, bool relu, int64_t n) {
    if (relu)
        for (int64_t j = 0; j < n; ++j) d_x[j] = h[j] > T(0) ? dh[j] : T(0);
    else
        for (int64_t j = 0; j < n; ++j) d_x[j] = dh[j] * (T(1) - h[j] * h[j]);
}

// `Count` vectors of sums at once, which stay in registers; the last has `last` elements.
template <class T, int Count>
MT_INLINE void add_rows_at_once(T* y, const T* w, const int64_t* row, int64_t count, const T* x, int64_t n, int last) {
    constexpr int W = kWidth<T>;
    Vec<T> sums[Count];
#pragma GCC unroll 8
    for (int k = 0; k < Count; ++k) sums[k] = splat<T>(T(0));
    for (int64_t e = 0; e < count; ++e) {
        const T* from = x + row[e] * n;
        const Vec<T> weight = splat<T>(w[e]);
#pragma GCC unroll 8
        for (int k = 0; k < Count; ++k) {
            const Vec<T> v = k + 1 < Count ? load<T>(from + k * W) : load_some<T>(from + k * W, last, T(0));
            sums[k] = sums[k] + weight * v;
        }
    }
#pragma GCC unroll 8
    for (int k = 0; k + 1 < Count; ++k) store<T>(y + k * W, sums[k]);
    store_some<T>(y + (Count - 1) * W, sums[Count - 1], last);
}

template <class T>
void add_rows(T* y, const T* w, const int64_t* row, int64_t count, const T* x, int64_t n) {
    constexpr int W = kWidth<T>;
    int64_t j = 0;
    for (; j + 8 * W <= n; j += 8 * W) add_rows_at_once<T, 8>(y + j, w, row, count, x + j, n, W);
    if (j + 4 * W <= n) {
        add_rows_at_once<T, 4>(y + j, w, row, count, x + j, n, W);
        j += 4 * W;
    }
    if (j + 2 * W <= n) {
        add_rows_at_once<T, 2>(y + j, w, row, count, x + j, n, W);
        j += 2 * W;
    }
    for (; j < n; j += W)
        add_rows_at_once<T, 1>(y + j, w, row, count, x + j, n, static_cast<int>(n - j < W ? n - j : W));
}

template <class T>
constexpr NnLoops<T> make_loops() {
    return {axpy<T>,      spread<T>,     stencil<T>,     dot<T>,
            max_row<T>,   copy_runs<T>,  add_runs<T>,    max_pairs<T>,
            sum<T>,       square_sum<T>, normalize<T>,   affine<T>,
            grad_sums<T>, grad_input<T>, grad_params<T>, short_rows_backward<T>,
            lstm_step<T>, lstm_back<T>,  gru_step<T>,    gru_back<T>,
            rnn_step<T>,  rnn_back<T>,   add_rows<T>};
}

}  // namespace

constinit const NnTable nn_table = {make_loops<float>(), make_loops<double>()};

}  // namespace mt::cpu::MT_ISA_NS
