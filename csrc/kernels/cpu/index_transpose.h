// Transposes of planes, in small blocks held in vector registers.
#pragma once

#include <cstdint>

namespace mt::cpu {

// dst[i * dst_stride + j] = src[i + j * src_stride] for i < rows, j < cols.
template <class T>
void transpose_plane(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t rows, int64_t cols) {
    constexpr int64_t band = 32;  // columns at a time: their cache lines stay while i advances
    constexpr int64_t N = sizeof(T) == 4 ? 4 : sizeof(T) == 8 ? 2 : 1;
    for (int64_t j0 = 0; j0 < cols; j0 += band) {
        int64_t j1 = cols - j0 < band ? cols : j0 + band, i = 0;
        if constexpr (N > 1) {
            typedef T V __attribute__((vector_size(16)));
            auto load = [](const T* p) {
                V v;
                __builtin_memcpy(&v, p, sizeof v);
                return v;
            };
            auto store = [](T* p, V v) { __builtin_memcpy(p, &v, sizeof v); };
            for (; i + N <= rows; i += N) {
                int64_t j = j0;
                for (; j + N <= j1; j += N) {
                    const T* s = src + i + j * src_stride;
                    T* d = dst + i * dst_stride + j;
                    if constexpr (N == 4) {
                        typedef int32_t I __attribute__((vector_size(16)));
                        V a = load(s), b = load(s + src_stride), c = load(s + 2 * src_stride),
                          e = load(s + 3 * src_stride);
                        V ab_low = __builtin_shuffle(a, b, I{0, 4, 1, 5}),
                          ab_high = __builtin_shuffle(a, b, I{2, 6, 3, 7});
                        V ce_low = __builtin_shuffle(c, e, I{0, 4, 1, 5}),
                          ce_high = __builtin_shuffle(c, e, I{2, 6, 3, 7});
                        store(d, __builtin_shuffle(ab_low, ce_low, I{0, 1, 4, 5}));
                        store(d + dst_stride, __builtin_shuffle(ab_low, ce_low, I{2, 3, 6, 7}));
                        store(d + 2 * dst_stride, __builtin_shuffle(ab_high, ce_high, I{0, 1, 4, 5}));
                        store(d + 3 * dst_stride, __builtin_shuffle(ab_high, ce_high, I{2, 3, 6, 7}));
                    } else {
                        typedef int64_t I __attribute__((vector_size(16)));
                        V a = load(s), b = load(s + src_stride);
                        store(d, __builtin_shuffle(a, b, I{0, 2}));
                        store(d + dst_stride, __builtin_shuffle(a, b, I{1, 3}));
                    }
                }
                for (; j < j1; ++j)
                    for (int64_t k = i; k < i + N; ++k) dst[k * dst_stride + j] = src[k + j * src_stride];
            }
        }
        for (; i < rows; ++i)
            for (int64_t j = j0; j < j1; ++j) dst[i * dst_stride + j] = src[i + j * src_stride];
    }
}

}  // namespace mt::cpu
