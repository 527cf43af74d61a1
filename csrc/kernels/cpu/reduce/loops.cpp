// The tables of reduce.h from the blocks in accumulate.h, compiled once for each instruction set.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/reduce/reduce.h"
// What comes after it is for one instruction set.
#include "kernels/cpu/loops/target.h"
// Vectors before the blocks that are made of them.
#include "kernels/cpu/reduce/vectors.h"

#include "kernels/cpu/reduce/accumulate.h"

namespace mt::cpu::MT_ISA_NS {
namespace {

// Integer sums of narrow types, into int64: the order doesn't matter.
template <class In>
struct WideningSum {
    using Total = Loops<Add<uint64_t>>;

    static int64_t sum(const In* p, int64_t n) {
        int64_t total = 0;
        if constexpr (sizeof(In) == 1) {
            for (int64_t r = 0; r < n;) {  // short enough for 32 bits
                int64_t end = n - r < (1 << 20) ? n : r + (1 << 20);
                uint32_t part = 0;
                for (; r < end; ++r) part += p[r];
                total += part;
            }
        } else {
            for (int64_t r = 0; r < n; ++r) total += p[r];
        }
        return total;
    }
    static void rows(void* acc, const void* in, int64_t count, int64_t stride, int64_t n) {
        for (int64_t i = 0; i < count; ++i)
            static_cast<int64_t*>(acc)[i] = sum(static_cast<const In*>(in) + i * stride, n);
    }
    static void lanes_add(void* lanes, const void* in, int64_t n) {
        static_cast<int64_t*>(lanes)[0] += sum(static_cast<const In*>(in), n);
    }
    static void columns(void* acc, const void* in, int64_t rows, int64_t row_stride, int64_t cols, int64_t block) {
        auto* out = static_cast<int64_t*>(acc);
        auto* p = static_cast<const In*>(in);
        for (; rows > 0; rows -= block, out += cols) {
            for (int64_t c = 0; c < cols; ++c) out[c] = 0;
            for (int64_t r = 0; r < (rows < block ? rows : block); ++r, p += row_stride)
                for (int64_t c = 0; c < cols; ++c) out[c] += p[c];
        }
    }
    static constexpr ReduceLoops table(DType dtype) {
        return {dtype,   DType::I64, rows,    Total::lanes_init, lanes_add,   Total::lanes_finish,
                nullptr, columns,    nullptr, Total::combine,    Total::fill, nullptr};
    }
};

template <class T, bool Max>
struct ArgLoop {
    using Op = Extreme<T, Max, true>;
    using Acc = typename Op::Acc;

    static MT_INLINE bool exceeds(Acc a, Acc b) { return Max ? a > b : a < b; }

    // What Op::map gives for one element.
    static MT_INLINE Acc key_of(T x) {
        if constexpr (kFloat<T>) {
            x = x + T(0);
            auto bits = __builtin_bit_cast(Acc, x);
            bits ^= (bits >> (sizeof(T) * 8 - 1)) & Op::kMagnitude;
            return x != x ? Op::kNan : bits;
        } else {
            return x;
        }
    }
    // The first of n elements whose key is `key`: there is one.
    static MT_INLINE int64_t find(const T* p, int64_t n, Acc key) {
        constexpr int W = kWidth<T>;
        Vec<Acc> wanted = splat<Acc>(key);
        for (int64_t r = 0;; r += W) {
            // What fills the last vector stands behind the elements.
            Vec<T> v = n - r >= W ? load<T>(p + r) : load_partial<T>(p + r, static_cast<int>(n - r), Op::fill());
            int at = first_true<Int<T>>((Vec<Int<T>>)(Op::map(v) == wanted));
            if (at < W) return r + at;
        }
    }
    static void rows(void* acc, int64_t* index, const void* in, int64_t count, int64_t stride, int64_t n) {
        for (int64_t i = 0; i < count; ++i) {
            const T* p = static_cast<const T*>(in) + i * stride;
            Acc best{};
            int64_t at = 0;
            for (int64_t r = 0; r < n; r += kRowBlock) {  // found again while it's in the cache
                int64_t length = n - r < kRowBlock ? n - r : kRowBlock;
                Acc key = reduce_row<Op>(p + r, length);
                if (r && !exceeds(key, best)) continue;
                best = key;
                at = r + find(p + r, length, key);
            }
            static_cast<Acc*>(acc)[i] = best;
            index[i] = at;
        }
    }
    static void columns(void* acc, int64_t* index, const void* in, int64_t first, int64_t rows, int64_t row_stride,
                        int64_t cols) {
        auto* best = static_cast<Acc*>(acc);
        // Indices of the elements' own width, relative to the rows of one pass, keep the loop in vectors.
        using Index = IntOf<(sizeof(T) < 4 ? 4 : sizeof(T))>;
        constexpr int64_t chunk = 256, pass = 1 << 30;
        alignas(64) Acc key[chunk];
        alignas(64) Index at[chunk];
        for (int64_t r0 = 0; r0 < rows; r0 += pass) {
            int64_t r1 = rows - r0 < pass ? rows : r0 + pass;
            for (int64_t c0 = 0; c0 < cols; c0 += chunk) {
                int64_t width = cols - c0 < chunk ? cols - c0 : chunk;
                const T* p = static_cast<const T*>(in) + r0 * row_stride + c0;
                for (int64_t c = 0; c < width; ++c) key[c] = key_of(p[c]);
                for (int64_t c = 0; c < width; ++c) at[c] = 0;
                for (int64_t r = r0 + 1; r < r1; ++r) {
                    p += row_stride;
                    for (int64_t c = 0; c < width; ++c) {
                        Acc k = key_of(p[c]);
                        bool over = exceeds(k, key[c]);
                        key[c] = over ? k : key[c];
                        at[c] = over ? static_cast<Index>(r - r0) : at[c];
                    }
                }
                for (int64_t c = 0; c < width; ++c) {
                    if (first + r0 && !exceeds(key[c], best[c0 + c])) continue;
                    best[c0 + c] = key[c];
                    index[c0 + c] = first + r0 + at[c];
                }
            }
        }
    }
    static bool better(const void* a, const void* b) {
        return exceeds(*static_cast<const Acc*>(a), *static_cast<const Acc*>(b));
    }
    static constexpr ArgLoops table(DType dtype) { return {dtype, rows, columns, better}; }
};

// Squared deviations from a mean.
template <class T>
struct Deviations {
    static constexpr int W = kWidth<T>, N = kVecs<Add<T>>;

    static void row(void* acc, const void* in, int64_t n, const void* mean) {
        auto* p = static_cast<const T*>(in);
        T centre = *static_cast<const T*>(mean);
        Vec<T> lanes[N] = {}, m = splat<T>(centre);
        int64_t r = 0;
        for (; r + kLanes <= n; r += kLanes)
#pragma GCC unroll 16
            for (int k = 0; k < N; ++k) {
                Vec<T> d = load<T>(p + r + k * W) - m;
                lanes[k] += d * d;
            }
        for (int k = 0; k < N; ++k) {
            int64_t left = n - r - k * W;
            if (left <= 0) break;
            Vec<T> x = left >= W ? load<T>(p + r + k * W)
                                 : load_partial<T>(p + r + k * W, static_cast<int>(left), T(0));
            Vec<T> d = x - m;
            if (left < W)  // the rest of the vector is nothing, also where the mean is infinite
                for (int i = static_cast<int>(left); i < W; ++i) d[i] = T(0);
            lanes[k] += d * d;
        }
        *static_cast<T*>(acc) = combine_lanes<Add<T>>(lanes);
    }
    static void columns(void* acc, const void* in, int64_t rows, int64_t row_stride, int64_t cols, const void* mean) {
        constexpr int64_t chunk = 1024;
        for (int64_t c0 = 0; c0 < cols; c0 += chunk) {
            int64_t width = cols - c0 < chunk ? cols - c0 : chunk;
            T* __restrict a = static_cast<T*>(acc) + c0;
            const T* __restrict m = static_cast<const T*>(mean) + c0;
            for (int64_t c = 0; c < width; ++c) a[c] = T(0);
            int64_t r = 0;
            for (; r + 4 <= rows; r += 4) {
                const T* __restrict p = static_cast<const T*>(in) + r * row_stride + c0;
                for (int64_t c = 0; c < width; ++c) {
                    T d0 = p[c] - m[c], d1 = p[c + row_stride] - m[c], d2 = p[c + 2 * row_stride] - m[c],
                      d3 = p[c + 3 * row_stride] - m[c];
                    a[c] = (((a[c] + d0 * d0) + d1 * d1) + d2 * d2) + d3 * d3;
                }
            }
            for (; r < rows; ++r) {
                const T* __restrict p = static_cast<const T*>(in) + r * row_stride + c0;
                for (int64_t c = 0; c < width; ++c) a[c] += (p[c] - m[c]) * (p[c] - m[c]);
            }
        }
    }
    static constexpr DeviationLoops table(DType dtype) { return {dtype, row, columns}; }
};

}  // namespace

#define MT_NONE                                                      \
    {DType::Count, DType::Count, nullptr, nullptr, nullptr, nullptr, \
     nullptr,      nullptr,      nullptr, nullptr, nullptr, nullptr}
#define MT_EXTREMES(MAX)                                                                                \
    {Loops<Extreme<uint8_t, MAX>>::table(DType::Bool), Loops<Extreme<uint8_t, MAX>>::table(DType::U8),  \
     Loops<Extreme<int32_t, MAX>>::table(DType::I32),  Loops<Extreme<int64_t, MAX>>::table(DType::I64), \
     Loops<Extreme<float, MAX>>::table(DType::F32),    Loops<Extreme<double, MAX>>::table(DType::F64),  \
     Loops<Extreme<uint64_t, MAX>>::table(DType::U64)}
#define MT_ARG(MAX)                                                                       \
    {ArgLoop<uint8_t, MAX>::table(DType::Bool), ArgLoop<uint8_t, MAX>::table(DType::U8),  \
     ArgLoop<int32_t, MAX>::table(DType::I32),  ArgLoop<int64_t, MAX>::table(DType::I64), \
     ArgLoop<float, MAX>::table(DType::F32),    ArgLoop<double, MAX>::table(DType::F64),  \
     ArgLoop<uint64_t, MAX>::table(DType::U64)}
#define MT_FLOATS(OP) \
    {MT_NONE, MT_NONE, MT_NONE, MT_NONE, Loops<OP<float>>::table(DType::F32), Loops<OP<double>>::table(DType::F64)}

constinit const ReduceTable reduce_table = {
    {{WideningSum<uint8_t>::table(DType::Bool), WideningSum<uint8_t>::table(DType::U8),
      WideningSum<int32_t>::table(DType::I32), Loops<Add<uint64_t>>::table(DType::I64),
      Loops<Add<float>>::table(DType::F32), Loops<Add<double>>::table(DType::F64)},
     {MT_NONE, MT_NONE, MT_NONE, Loops<Mul<uint64_t>>::table(DType::I64), Loops<Mul<float>>::table(DType::F32),
      Loops<Mul<double>>::table(DType::F64)},
     MT_EXTREMES(true),
     MT_EXTREMES(false),
     MT_FLOATS(AddFinite),
     MT_FLOATS(AddMagnitude),
     MT_FLOATS(AddSquare)},
    {MT_ARG(true), MT_ARG(false)},
    {Deviations<float>::table(DType::F32), Deviations<double>::table(DType::F64)},
};

#undef MT_NONE
#undef MT_EXTREMES
#undef MT_ARG
#undef MT_FLOATS

}  // namespace mt::cpu::MT_ISA_NS
