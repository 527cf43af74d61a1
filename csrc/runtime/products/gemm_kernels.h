// The interface between the product's driver and the kernels of one instruction set.
#pragma once

#include <cstdint>

namespace mt::gemm_detail {

/// Memory that is sent for while a tile's products go on: with every line of A along k so many lines at each of so many
/// places, `step` elements apart, and `advance` further on with the next line.
template <class T>
struct Send {
    const T* at;
    int64_t step, advance;
    int places, lines;
};

/// What later tiles will read, and where they will write. A kernel that is given none sends for nothing.
template <class T>
struct Meanwhile {
    Send<T> a, b, written;
};

/// Computes one tile over one block of k: C[rows, cols] = A[rows, kc] * B[kc, cols], added to `add` unless that is
/// null. Its rows are as far apart as those of C, which it may be. The number of rows and of vectors in a row of the
/// tile is fixed in each kernel; `cols` may leave the last vector partly unused. B's rows and C's rows are contiguous;
/// A has any strides.
template <class T>
using MicroKernel = void (*)(int64_t kc, const T* a, int64_t a_rs, int64_t a_cs, const T* b, int64_t b_rs, T* c,
                             int64_t c_rs, int64_t cols, const T* add, const Meanwhile<T>* meanwhile);

/// A line of A holds so many neighbouring values of k.
template <class T>
inline constexpr int64_t kLineOfA = 64 / sizeof(T);

/// Packs columns that are contiguous in k: dst[p * dst_rs + j] = src[j * src_cs + p] for p < kc, j < cols. `cols` is
/// rounded up to whole vectors; the lanes beyond hold arbitrary values.
template <class T>
using PackTransposed = void (*)(int64_t kc, int64_t cols, const T* src, int64_t src_cs, T* dst, int64_t dst_rs);

/// One row of A times columns of B that are contiguous in k, without packing: C[j] = (accumulate ? C[j] : 0) + the sum
/// of a[p * a_cs] * b[j * b_cs + p] over p < kc, for j < cols, each in order of p.
template <class T>
using DotKernel = void (*)(int64_t kc, int64_t cols, const T* a, int64_t a_cs, const T* b, int64_t b_cs, T* c,
                           bool accumulate);

/// Neighbouring results of a convolution for one vector of filters, over one block of k: C[i, f] = (accumulate ? C : 0)
/// + the sum of x[offsets[p] + i] * b[p, f] over p < kc, each in order of p. The number of results is fixed in each
/// kernel; rows of B and C are one vector long.
template <class T>
using PatchKernel = void (*)(int64_t kc, const T* x, const int32_t* offsets, const T* b, T* c, bool accumulate);

/// Part of a convolution's result for some filters, whose number is fixed in each kernel, and two vectors of
/// neighbouring results, `x_step` apart in the image and y_step in the result, over one block of k: y[f * y_rs + i] =
/// (accumulate ? y : 0) + the sum of w[f * w_rs + p] * x[offsets[p] + i] over p < kc, in order of p, and then + bias[f]
/// unless that is null. The two vectors may overlap.
template <class T>
using PlaneKernel = void (*)(int64_t kc, const T* w, int64_t w_rs, const T* x, int64_t x_step, const int32_t* offsets,
                             T* y, int64_t y_rs, int64_t y_step, const T* bias, bool accumulate);

/// Part of the gradient of a convolution's filters, over one block of positions: C[(l * taps + t), f] = (accumulate ? C
/// : 0) + the sum of x[offsets[p] + l * line + t] * b[p, f] over p < kc, each in order of p. The numbers of lines, of
/// taps, and of vectors in a row of B and C are fixed in each kernel.
template <class T>
using TapKernel = void (*)(int64_t kc, const T* x, int64_t line, const int32_t* offsets, const T* b, T* c,
                           bool accumulate);
inline constexpr int kMostTaps = 5, kMostTapLines = 3, kMostTapVectors = 2;
/// Sums that a kernel keeps in registers.
inline constexpr int kMostTapSums = 12;
inline constexpr int kMostPlaneFilters = 6;

/// The kernels of one element type for one instruction set.
template <class T>
struct Kernels {
    static constexpr int kWidths = 3;  ///< tiles of 1, 2 and 4 vectors

    int lanes;  ///< elements of a vector
    int max_rows[kWidths];  ///< tallest tile of each width
    const MicroKernel<T>* micro[kWidths];  ///< [width][rows - 1]
    PackTransposed<T> pack_transposed;
    DotKernel<T> dots;  ///< null where packing is as good
    int64_t direct_b_bytes;  ///< contiguous rows of B up to this size are read better in place than packed
    const PatchKernel<T>* patches;  ///< [results - 1], up to max_rows[0]; null where they are not better than `micro`
    const PlaneKernel<T>* planes;  ///< [filters - 1], up to kMostPlaneFilters; null as `patches`
    /// [((vectors - 1) * kMostTapLines + lines - 1) * kMostTaps + taps - 1], null beyond kMostTapSums; null as
    /// `patches`
    const TapKernel<T>* taps;
};

/// The kernels of this machine's instruction set.
template <class T>
const Kernels<T>& best_kernels();

/// The lanes over which a product of a vector is summed: part of the numerics, as the order in gemv.h is.
inline constexpr int kVectorLanes = 16;
/// Columns whose lanes are kept in a cache, while their rows are read in runs of so many elements.
template <class T>
inline constexpr int64_t kVectorStrip = 2048 / sizeof(T);

/// The kernels for products of a vector, in float and double. Both compute sums in lanes over one block of kc values of
/// k, from a contiguous vector `a`.
template <class T>
struct VectorKernels {
    /// c[j * c_step] = (accumulate ? c[j * c_step] : 0) + the sum of a[j * a_step + p] * b[j * b_step + p], for j <
    /// cols: columns that are contiguous in k, or with a_step the blocks of one.
    void (*dots)(int64_t kc, int64_t cols, const T* a, int64_t a_step, const T* b, int64_t b_step, T* c, int64_t c_step,
                 bool accumulate);
    /// c[j] = (accumulate ? c[j] : 0) + the sum of a[p] * b[p * b_rs + j], for j < cols.
    void (*rows)(int64_t kc, int64_t cols, const T* a, const T* b, int64_t b_rs, T* c, bool accumulate);
};

template <class T>
const VectorKernels<T>& baseline_vector_kernels();

/// Defined for T in float, double, int32_t, int64_t, uint8_t by gemm_baseline.cpp, gemm_avx2.cpp and gemm_avx512.cpp.
template <class T>
const Kernels<T>& baseline_kernels();
#if defined(__x86_64__)
template <class T>
const Kernels<T>& avx2_kernels();
template <class T>
const Kernels<T>& avx512_kernels();
template <class T>
const VectorKernels<T>& avx2_vector_kernels();
template <class T>
const VectorKernels<T>& avx512_vector_kernels();

// 256-bit shuffles are as fast as 512-bit ones or faster for this purpose: one implementation for both.
void dots_avx2(int64_t kc, int64_t cols, const float* a, int64_t a_cs, const float* b, int64_t b_cs, float* c,
               bool accumulate);
void dots_avx2(int64_t kc, int64_t cols, const double* a, int64_t a_cs, const double* b, int64_t b_cs, double* c,
               bool accumulate);
#endif

}  // namespace mt::gemm_detail
