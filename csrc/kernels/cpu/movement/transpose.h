// Transposes of planes, in small blocks held in vector registers.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mt::cpu {

// One square of N x N elements: dst[i * dst_stride + j] = src[i + j * src_stride] for i, j < N.
template <class T, int64_t N> void transpose_square(T* dst, int64_t dst_stride, const T* src, int64_t src_stride) {
    if constexpr (N == 1) {
        *dst = *src;
    } else {
        typedef std::conditional_t<sizeof(T) == 1, uint32_t, T> Lane;  // four bytes of a row
        typedef Lane V __attribute__((vector_size(16)));
        auto load = [=](int64_t k) {
            V v;
            __builtin_memcpy(&v, src + k * src_stride, sizeof v);
            return v;
        };
        auto store = [=](int64_t k, V v) { __builtin_memcpy(dst + k * dst_stride, &v, sizeof v); };
        if constexpr (sizeof(T) == 1) {
            // Bytes and the eight bytes above them, in turns: an instruction that every x86 processor has.
            auto halves = [](V v) {
                typedef uint8_t B __attribute__((vector_size(16)));
                typedef uint64_t H __attribute__((vector_size(16)));
                typedef int64_t I __attribute__((vector_size(16)));
                H high = __builtin_shuffle(reinterpret_cast<H>(v), I{1, 1});
                constexpr B turns{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
                return reinterpret_cast<V>(__builtin_shuffle(reinterpret_cast<B>(v), reinterpret_cast<B>(high), turns));
            };
            uint32_t lanes[4];
            for (int64_t k = 0; k < 4; ++k) __builtin_memcpy(lanes + k, src + k * src_stride, 4);
            V v = halves(halves(V{lanes[0], lanes[1], lanes[2], lanes[3]}));
            for (int64_t k = 0; k < 4; ++k) {
                uint32_t lane = v[k];
                __builtin_memcpy(dst + k * dst_stride, &lane, 4);
            }
        } else if constexpr (N == 4) {
            typedef int32_t I __attribute__((vector_size(16)));
            V a = load(0), b = load(1), c = load(2), d = load(3);
            V ab_low = __builtin_shuffle(a, b, I{0, 4, 1, 5}), ab_high = __builtin_shuffle(a, b, I{2, 6, 3, 7});
            V cd_low = __builtin_shuffle(c, d, I{0, 4, 1, 5}), cd_high = __builtin_shuffle(c, d, I{2, 6, 3, 7});
            store(0, __builtin_shuffle(ab_low, cd_low, I{0, 1, 4, 5}));
            store(1, __builtin_shuffle(ab_low, cd_low, I{2, 3, 6, 7}));
            store(2, __builtin_shuffle(ab_high, cd_high, I{0, 1, 4, 5}));
            store(3, __builtin_shuffle(ab_high, cd_high, I{2, 3, 6, 7}));
        } else {
            typedef int64_t I __attribute__((vector_size(16)));
            V a = load(0), b = load(1);
            store(0, __builtin_shuffle(a, b, I{0, 2}));
            store(1, __builtin_shuffle(a, b, I{1, 3}));
        }
    }
}

// dst[i * dst_stride + j] = src[i + j * src_stride] for i < rows, j < cols.
template <class T>
void transpose_plane(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t rows, int64_t cols) {
    constexpr int64_t band = 32;  // columns at a time: their cache lines stay while i advances
    constexpr int64_t N = sizeof(T) == 8 ? 2 : sizeof(T) == 2 ? 1 : 4;
    if (rows < N || cols < N) {
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < cols; ++j) dst[i * dst_stride + j] = src[i + j * src_stride];
        return;
    }
    for (int64_t j0 = 0; j0 < cols; j0 += band) {
        int64_t j1 = cols - j0 < band ? cols : j0 + band;
        // What is left over at an end is copied with what is before it, once more.
        for (int64_t i = 0; i < rows; i += N) {
            if (i > rows - N) i = rows - N;
            for (int64_t j = j0; j < j1; j += N) {
                int64_t at = j < cols - N ? j : cols - N;
                transpose_square<T, N>(dst + i * dst_stride + at, dst_stride, src + i + at * src_stride, src_stride);
            }
        }
    }
}

}  // namespace mt::cpu
