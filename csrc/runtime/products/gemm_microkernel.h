// The register-tiled kernels, written once over a vector type. Included by one source file for each instruction set,
// after its `#pragma GCC target`: everything is in an unnamed namespace, so that no instantiation is shared between
// those files.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "runtime/products/gemm_kernels.h"

namespace mt::gemm_detail {
namespace {

// So many steps take longer than a cache line from memory.
constexpr int64_t kPrefetchK = 64;

template <bool kWrite, class T>
inline void send(const Send<T>& s, int64_t step) {
    const T* at = s.at + step * s.advance;
    for (int i = 0; i < s.places; ++i, at += s.step) {
        for (int l = 0; l < s.lines; ++l) __builtin_prefetch(at + l * kLineOfA<T>, kWrite, 2);
    }
}

// S describes a vector: T, V, Mask, kLanes, kCheapMask (a masked load costs no more than a plain one), and the
// operations zero, broadcast, load, store, mask, muladd and add.
template <class S, int kRows, int kVectors, bool kTail>
__attribute__((always_inline)) inline void tile(int64_t kc, const typename S::T* a, int64_t a_rs, int64_t a_cs,
                                                const typename S::T* b, int64_t b_rs, typename S::T* c, int64_t c_rs,
                                                int64_t cols, const typename S::T* add,
                                                const Meanwhile<typename S::T>* meanwhile) {
    using T = typename S::T;
    using V = typename S::V;
    constexpr int kLanes = S::kLanes;
    const auto mask = S::mask(static_cast<int>(cols - (kVectors - 1) * kLanes));

    V acc[kRows][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) acc[i][v] = S::zero();
    }

    // One pointer for three rows: [p], [p + rs] and [p + 2 * rs] are addressing modes, and a pointer for each row
    // would not fit into the general registers.
    constexpr int kGroups = (kRows + 2) / 3;
    const T* rows[kGroups];
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) rows[g] = a + 3 * g * a_rs;

    // C is wanted when the products are done: its lines are on their way meanwhile.
    if (kc >= kPrefetchK) {
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
            for (int v = 0; v < kVectors; ++v) __builtin_prefetch(c + i * c_rs + v * kLanes, 1);
        }
    }

    // Between the products of a line of A each: they leave no general register free.
    const int64_t most = meanwhile != nullptr ? kLineOfA<T> : kc;
    for (int64_t p0 = 0; p0 < kc; p0 += most) {
        const int64_t count = kc - p0 < most ? kc - p0 : most;
        if (meanwhile != nullptr) {
            const int64_t step = p0 / kLineOfA<T>;
            send<false>(meanwhile->a, step);
            send<false>(meanwhile->b, step);
            send<true>(meanwhile->written, step);
        }
        for (int64_t p = 0; p < count; ++p) {
            V bv[kVectors];
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                bv[v] = kTail && v == kVectors - 1 ? S::load(b + v * kLanes, mask) : S::load(b + v * kLanes);
            }
#pragma GCC unroll 16
            for (int i = 0; i < kRows; ++i) {
                const V av = S::broadcast(rows[i / 3] + (i % 3) * a_rs);
#pragma GCC unroll 4
                for (int v = 0; v < kVectors; ++v) acc[i][v] = S::muladd(av, bv[v], acc[i][v]);
            }
#pragma GCC unroll 8
            for (int g = 0; g < kGroups; ++g) {
                rows[g] += a_cs;
                asm("" : "+r"(rows[g]));  // keeps the compiler from making an induction variable of every row
            }
            b += b_rs;
        }
    }

    const auto finish = [&](auto adds) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i, c += c_rs, add += c_rs) {
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                T* out = c + v * kLanes;
                const bool masked = kTail && v == kVectors - 1;
                V value = acc[i][v];
                if constexpr (adds) {
                    const T* at = add + v * kLanes;
                    value = S::add(masked ? S::load(at, mask) : S::load(at), value);
                }
                if (masked) S::store(out, value, mask);
                else S::store(out, value);
            }
        }
    };
    if (add != nullptr) finish(std::true_type{});
    else finish(std::false_type{});
}

template <class S, int kRows, int kVectors>
void micro(int64_t kc, const typename S::T* a, int64_t a_rs, int64_t a_cs, const typename S::T* b, int64_t b_rs,
           typename S::T* c, int64_t c_rs, int64_t cols, const typename S::T* add,
           const Meanwhile<typename S::T>* meanwhile) {
    if (!S::kCheapMask && cols == kVectors * S::kLanes) {
        tile<S, kRows, kVectors, false>(kc, a, a_rs, a_cs, b, b_rs, c, c_rs, cols, add, meanwhile);
    } else {
        tile<S, kRows, kVectors, true>(kc, a, a_rs, a_cs, b, b_rs, c, c_rs, cols, add, meanwhile);
    }
}

template <class S, int kVectors, class Rows>
struct MicroTable;
template <class S, int kVectors, int... kRowsLess1>
struct MicroTable<S, kVectors, std::integer_sequence<int, kRowsLess1...>> {
    static constexpr MicroKernel<typename S::T> table[] = {micro<S, kRowsLess1 + 1, kVectors>...};
};

template <class S, int kRows>
void patches(int64_t kc, const typename S::T* x, const int32_t* offsets, const typename S::T* b, typename S::T* c,
             bool accumulate) {
    using V = typename S::V;
    V acc[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) acc[i] = S::zero();
    for (int64_t p = 0; p < kc; ++p, b += S::kLanes) {
        const typename S::T* at = x + offsets[p];
        const V bv = S::load(b);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) acc[i] = S::muladd(S::broadcast(at + i), bv, acc[i]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i, c += S::kLanes) S::store(c, accumulate ? S::add(S::load(c), acc[i]) : acc[i]);
}

template <class S, class Rows>
struct PatchTable;
template <class S, int... kRowsLess1>
struct PatchTable<S, std::integer_sequence<int, kRowsLess1...>> {
    static constexpr PatchKernel<typename S::T> table[] = {patches<S, kRowsLess1 + 1>...};
};

template <class S, int kFilters>
void planes(int64_t kc, const typename S::T* w, int64_t w_rs, const typename S::T* x, int64_t x_step,
            const int32_t* offsets, typename S::T* y, int64_t y_rs, int64_t y_step, const typename S::T* bias,
            bool accumulate) {
    using T = typename S::T;
    using V = typename S::V;
    V acc[kFilters][2];
#pragma GCC unroll 16
    for (int i = 0; i < kFilters; ++i) acc[i][0] = acc[i][1] = S::zero();
    constexpr int kGroups = (kFilters + 2) / 3;  // as in `tile`
    const T* rows[kGroups];
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) rows[g] = w + 3 * g * w_rs;
    for (int64_t p = 0; p < kc; ++p) {
        const T* at = x + offsets[p];
        const V first = S::load(at), second = S::load(at + x_step);
#pragma GCC unroll 16
        for (int i = 0; i < kFilters; ++i) {
            const V weight = S::broadcast(rows[i / 3] + (i % 3) * w_rs);
            acc[i][0] = S::muladd(weight, first, acc[i][0]);
            acc[i][1] = S::muladd(weight, second, acc[i][1]);
        }
#pragma GCC unroll 8
        for (int g = 0; g < kGroups; ++g) {
            ++rows[g];
            asm("" : "+r"(rows[g]));
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kFilters; ++i, y += y_rs) {
        if (accumulate) {
            acc[i][0] = S::add(S::load(y), acc[i][0]);
            acc[i][1] = S::add(S::load(y + y_step), acc[i][1]);
        }
        if (bias != nullptr) {
            const V added = S::broadcast(bias + i);
            acc[i][0] = S::add(acc[i][0], added);
            acc[i][1] = S::add(acc[i][1], added);
        }
        S::store(y, acc[i][0]);
        S::store(y + y_step, acc[i][1]);
    }
}

template <class S, class Filters>
struct PlaneTable;
template <class S, int... kFiltersLess1>
struct PlaneTable<S, std::integer_sequence<int, kFiltersLess1...>> {
    static constexpr PlaneKernel<typename S::T> table[] = {planes<S, kFiltersLess1 + 1>...};
};

template <class S, int kTaps, int kLines, int kVectors>
void taps(int64_t kc, const typename S::T* x, int64_t line, const int32_t* offsets, const typename S::T* b,
          typename S::T* c, bool accumulate) {
    using T = typename S::T;
    using V = typename S::V;
    V acc[kLines * kTaps][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kLines * kTaps; ++i) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) acc[i][v] = S::zero();
    }
    for (int64_t p = 0; p < kc; ++p, b += kVectors * S::kLanes) {
        V bv[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) bv[v] = S::load(b + v * S::kLanes);
        const T* at = x + offsets[p];
#pragma GCC unroll 4
        for (int l = 0; l < kLines; ++l, at += line) {
#pragma GCC unroll 8
            for (int t = 0; t < kTaps; ++t) {
                const V element = S::broadcast(at + t);
#pragma GCC unroll 2
                for (int v = 0; v < kVectors; ++v)
                    acc[l * kTaps + t][v] = S::muladd(element, bv[v], acc[l * kTaps + t][v]);
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLines * kTaps; ++i) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v, c += S::kLanes)
            S::store(c, accumulate ? S::add(S::load(c), acc[i][v]) : acc[i][v]);
    }
}

template <class S, int kAt>
constexpr TapKernel<typename S::T> tap_kernel() {
    constexpr int kTaps = kAt % kMostTaps + 1, kLines = kAt / kMostTaps % kMostTapLines + 1;
    constexpr int kVectors = kAt / kMostTaps / kMostTapLines + 1;
    if constexpr (kTaps * kLines * kVectors <= kMostTapSums) return taps<S, kTaps, kLines, kVectors>;
    else return nullptr;
}

template <class S, class At>
struct TapTable;
template <class S, int... kAt>
struct TapTable<S, std::integer_sequence<int, kAt...>> {
    static constexpr TapKernel<typename S::T> table[] = {tap_kernel<S, kAt>()...};
};

/// The kernel table with tiles of up to kRows1 x 1, kRows2 x 2 and kRows4 x 4 vectors.
template <class S, int kRows1, int kRows2, int kRows4>
constexpr Kernels<typename S::T> make_kernels(DotKernel<typename S::T> dots = nullptr) {
    // A vector that fills a cache line makes good use of it wherever it is.
    constexpr int64_t kDirectBytes = S::kLanes * sizeof(typename S::T) >= 64 ? 2 << 20 : 128 << 10;
    return {S::kLanes,
            {kRows1, kRows2, kRows4},
            {MicroTable<S, 1, std::make_integer_sequence<int, kRows1>>::table,
             MicroTable<S, 2, std::make_integer_sequence<int, kRows2>>::table,
             MicroTable<S, 4, std::make_integer_sequence<int, kRows4>>::table},
            S::pack_transposed,
            dots,
            kDirectBytes,
            nullptr,
            nullptr,
            nullptr};
}

/// The same with kernels for convolutions.
template <class S, int kRows1, int kRows2, int kRows4>
constexpr Kernels<typename S::T> make_float_kernels(DotKernel<typename S::T> dots) {
    Kernels<typename S::T> kernels = make_kernels<S, kRows1, kRows2, kRows4>(dots);
    kernels.patches = PatchTable<S, std::make_integer_sequence<int, kRows1>>::table;
    kernels.planes = PlaneTable<S, std::make_integer_sequence<int, kMostPlaneFilters>>::table;
    kernels.taps = TapTable<S, std::make_integer_sequence<int, kMostTaps * kMostTapLines * kMostTapVectors>>::table;
    return kernels;
}

}  // namespace
}  // namespace mt::gemm_detail
