// Arithmetic of kernels for real numbers that also run on integers, which wrap around.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mt::cpu {

template <class T>
constexpr T sum_of(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else return a + b;
}

template <class T>
constexpr T product_of(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else return a * b;
}

}  // namespace mt::cpu
