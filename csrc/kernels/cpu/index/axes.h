// What the index kernels share: loops over the dimensions beside the indexed one, and the types they are compiled for.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "kernels/cpu/index/bounds.h"

namespace mt::cpu {

// Nested loops over two arrays at once, outermost first; neighbours that run on regularly are one loop.
class Axes {
  public:
    void add(int64_t size, int64_t a, int64_t b = 0) {
        total_ *= size;
        if (size == 1) return;
        if (count_ && axes_[count_ - 1].a == a * size && axes_[count_ - 1].b == b * size) {
            axes_[count_ - 1] = {axes_[count_ - 1].size * size, a, b};
            return;
        }
        axes_[count_++] = {size, a, b};
    }
    int64_t total() const { return total_; }
    // Whether it is one loop (or none) over neighbours in `a`.
    bool dense() const { return count_ == 0 || (count_ == 1 && axes_[0].a == 1); }

    struct Offset {
        int64_t a = 0, b = 0;
    };
    Offset at(int64_t place) const {
        Offset offset;
        for (size_t i = count_; i-- > 0;) {
            int64_t index = place % axes_[i].size;
            place /= axes_[i].size;
            offset.a += index * axes_[i].a;
            offset.b += index * axes_[i].b;
        }
        return offset;
    }

    // f(place, offset, n, step): n places from `place` on, which begin at `offset` and are `step` apart.
    template <class F>
    void for_each_run(int64_t begin, int64_t end, F&& f) const {
        if (!count_) {
            if (begin < end) f(begin, Offset{}, int64_t{1}, Offset{});
            return;
        }
        const Axis& inner = axes_[count_ - 1];
        while (begin < end) {
            int64_t left = inner.size - begin % inner.size, n = end - begin < left ? end - begin : left;
            f(begin, at(begin), n, Offset{inner.a, inner.b});
            begin += n;
        }
    }

  private:
    struct Axis {
        int64_t size, a, b;
    };
    Axis axes_[kMaxDims];
    size_t count_ = 0;
    int64_t total_ = 1;
};

struct Wide {
    uint64_t low, high;
};

// Calls f with a value of an unsigned type of `bytes` bytes: elements that are only moved.
template <class F>
void with_bits(size_t bytes, F&& f) {
    switch (bytes) {
        case 1: return f(uint8_t{});
        case 2: return f(uint16_t{});
        case 4: return f(uint32_t{});
        case 8: return f(uint64_t{});
        default: return f(Wide{});
    }
}

template <class T>
struct ComplexOf {
    T re, im;
    friend ComplexOf operator+(ComplexOf x, ComplexOf y) { return {x.re + y.re, x.im + y.im}; }
    friend ComplexOf operator*(ComplexOf x, ComplexOf y) {
        return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
    }
};

// The type in which elements of `dtype` are combined: half precision in float32, rounded once at the end.
inline DType combining_dtype(DType dtype) {
    return dtype == DType::F16 || dtype == DType::BF16 || is_float8(dtype) ? DType::F32 : dtype;
}

// Calls f with a value of a type for sums and products of `dtype`. Both wrap, so signs don't matter.
template <class F>
void with_ring(DType dtype, F&& f) {
    switch (combining_dtype(dtype)) {
        case DType::Bool: return f(bool{});
        case DType::F32: return f(float{});
        case DType::F64: return f(double{});
        case DType::C64: return f(ComplexOf<float>{});
        case DType::C128: return f(ComplexOf<double>{});
        default: break;
    }
    switch (itemsize(dtype)) {
        case 1: return f(uint8_t{});
        case 2: return f(uint16_t{});
        case 4: return f(uint32_t{});
        default: return f(uint64_t{});
    }
}

// Calls f with a value of a type that orders elements of `dtype`, which is not complex.
template <class F>
void with_order(DType dtype, F&& f) {
    switch (combining_dtype(dtype)) {
        case DType::Bool: return f(bool{});
        case DType::U8: return f(uint8_t{});
        case DType::I8: return f(int8_t{});
        case DType::U16: return f(uint16_t{});
        case DType::I16: return f(int16_t{});
        case DType::U32: return f(uint32_t{});
        case DType::I32: return f(int32_t{});
        case DType::U64: return f(uint64_t{});
        case DType::I64: return f(int64_t{});
        case DType::F32: return f(float{});
        default: return f(double{});
    }
}

struct Assign {
    template <class T>
    void operator()(T& to, const T& value) const {
        to = value;
    }
};
struct Add {
    template <class T>
    void operator()(T& to, const T& value) const {
        if constexpr (__is_same(T, bool)) to = to | value;
        else to = static_cast<T>(to + value);
    }
};

}  // namespace mt::cpu
