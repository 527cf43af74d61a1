// Kernels for any CPU: one lane, fma from the C library. They define the results; speed is for the other files.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "runtime/products/gemm_kernels.h"
#include "runtime/products/gemm_microkernel.h"
#include "runtime/products/gemv_microkernel.h"

namespace mt::gemm_detail {
namespace {

template <class Element>
struct Scalar {
    using T = Element;
    using V = Element;
    using Mask = int;
    static constexpr int kLanes = 1;
    static constexpr bool kCheapMask = true;
    static V zero() { return T{0}; }
    static V broadcast(const T* p) { return *p; }
    static Mask mask(int) { return 0; }
    static V load(const T* p) { return *p; }
    static V load(const T* p, Mask) { return *p; }
    static void store(T* p, V v) { *p = v; }
    static void store(T* p, V v, Mask) { *p = v; }
    static V muladd(V a, V b, V c) {
        if constexpr (std::is_floating_point_v<T>) {
            return std::fma(a, b, c);
        } else {  // in 64 unsigned bits, where overflow wraps
            return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c));
        }
    }
    static V add(V a, V b) {
        if constexpr (std::is_floating_point_v<T>) {
            return a + b;
        } else {
            return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        }
    }
    static void pack_transposed(int64_t kc, int64_t cols, const T* src, int64_t src_cs, T* dst, int64_t dst_rs) {
        for (int64_t j = 0; j < cols; ++j) {
            for (int64_t p = 0; p < kc; ++p) dst[p * dst_rs + j] = src[j * src_cs + p];
        }
    }
};

template <class T>
constexpr auto kKernels = make_kernels<Scalar<T>, 4, 4, 2>();

template <class Element>
struct Vector : Scalar<Element> {
    using Low = Element;
    static constexpr int kColumns = 1;
    static Element fold(const Element (&sum)[kVectorLanes]) {
        Element lane[kVectorLanes];
        std::copy_n(sum, kVectorLanes, lane);
        for (int w = kVectorLanes / 2; w > 0; w /= 2) {
            for (int l = 0; l < w; ++l) lane[l] += lane[l + w];
        }
        return lane[0];
    }
};

template <class T>
constexpr auto kVectorKernels = make_vector_kernels<Vector<T>>();

}  // namespace

template <>
const Kernels<float>& baseline_kernels<float>() {
    return kKernels<float>;
}
template <>
const Kernels<double>& baseline_kernels<double>() {
    return kKernels<double>;
}
template <>
const VectorKernels<float>& baseline_vector_kernels<float>() {
    return kVectorKernels<float>;
}
template <>
const VectorKernels<double>& baseline_vector_kernels<double>() {
    return kVectorKernels<double>;
}
template <>
const Kernels<int32_t>& baseline_kernels<int32_t>() {
    return kKernels<int32_t>;
}
template <>
const Kernels<int64_t>& baseline_kernels<int64_t>() {
    return kKernels<int64_t>;
}
template <>
const Kernels<uint8_t>& baseline_kernels<uint8_t>() {
    return kKernels<uint8_t>;
}

}  // namespace mt::gemm_detail
