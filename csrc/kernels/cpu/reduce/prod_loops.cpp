// The loops of the gradient of prod, compiled once for each instruction set.
#include "kernels/cpu/reduce/prod_loops.h"

#include <cstdint>

// What comes after it is for one instruction set.
#include "kernels/cpu/loops/target.h"

namespace mt::cpu::MT_ISA_NS {
namespace {

// Products side by side, one in each lane.
template <int Lanes>
struct Products {
    double mantissa[Lanes];
    int64_t exponent[Lanes], zeros[Lanes], special[Lanes];

    Products() {
        for (int l = 0; l < Lanes; ++l) mantissa[l] = 1, exponent[l] = zeros[l] = special[l] = 0;
    }

    void normalise(int l) {
        constexpr uint64_t field = 0x7FF, one = 0x3FF;
        uint64_t bits = __builtin_bit_cast(uint64_t, mantissa[l]);
        uint64_t biased = bits >> 52 & field;
        special[l] |= biased == field;
        exponent[l] += static_cast<int64_t>(biased) - static_cast<int64_t>(one);
        mantissa[l] = __builtin_bit_cast(double, (bits & ~(field << 52)) | one << 52);
    }

    // Four rows of a few lanes: a product of four numbers of float32's range has a place in float64's.
    void multiply(const float* x, int64_t stride, int count) {
        const float *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;
        for (int l = 0; l < count; ++l) {
            zeros[l] += (x[l] == 0) + (x1[l] == 0) + (x2[l] == 0) + (x3[l] == 0);
            double a = x[l] == 0 ? 1.0 : x[l], b = x1[l] == 0 ? 1.0 : x1[l];
            double c = x2[l] == 0 ? 1.0 : x2[l], d = x3[l] == 0 ? 1.0 : x3[l];
            mantissa[l] *= (a * b) * (c * d);
            normalise(l);
        }
    }
    void multiply(const double* x, int64_t stride, int count) {
        for (int r = 0; r < 4; ++r)
            for (int l = 0; l < count; ++l) one(l, x[r * stride + l]);
    }

    void one(int l, float x) {
        zeros[l] += x == 0;
        mantissa[l] *= x == 0 ? 1.0 : x;
        normalise(l);
    }
    // Very small and very large numbers are brought near 1 first: denormals have no exponent to take.
    void one(int l, double x) {
        zeros[l] += x == 0;
        double size = __builtin_fabs(x);
        bool small = size < 0x1p-500 && x != 0, large = size > 0x1p+500;
        exponent[l] += small ? -600 : large ? 600 : 0;
        mantissa[l] *= x == 0 ? 1.0 : x * (small ? 0x1p+600 : large ? 0x1p-600 : 1.0);
        normalise(l);
    }

    void get(int l, Product& total) const {
        total.mantissa *= mantissa[l];
        total.exponent += exponent[l];
        if (__builtin_fabs(total.mantissa) >= 2) {
            total.mantissa *= 0.5;
            ++total.exponent;
        }
        total.zeros += zeros[l];
        total.finite &= !special[l];
    }
};

template <class T>
Product of_row(const T* x, int64_t n) {
    constexpr int lanes = 8;
    Products<lanes> p;
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) p.multiply(x + i, lanes, lanes);
    for (; i < n; ++i) p.one(static_cast<int>(i % lanes), x[i]);
    Product total;
    for (int l = 0; l < lanes; ++l) p.get(l, total);
    return total;
}

template <class T>
void of_columns(Product* to, const T* x, int64_t n, int64_t stride, int columns) {
    Products<kProdColumns> lanes;
    int64_t r = 0;
    if (columns == kProdColumns)
        for (; r + 4 <= n; r += 4) lanes.multiply(x + r * stride, stride, kProdColumns);
    else
        for (; r + 4 <= n; r += 4) lanes.multiply(x + r * stride, stride, columns);
    for (; r < n; ++r)
        for (int l = 0; l < columns; ++l) lanes.one(l, x[r * stride + l]);
    for (int l = 0; l < columns; ++l) {
        to[l] = {};
        lanes.get(l, to[l]);
    }
}

void join(Product* p, const Product& more) {
    Products<1> one;
    one.mantissa[0] = more.mantissa;
    one.exponent[0] = more.exponent;
    one.zeros[0] = more.zeros;
    one.special[0] = !more.finite;
    one.get(0, *p);
}

int64_t clamp(int64_t x, int64_t limit) { return x < -limit ? -limit : x > limit ? limit : x; }

// What is multiplied with an element's reciprocal: float32 gives or takes nothing beyond the limits here.
double clipped(const Product& p) { return __builtin_ldexp(p.mantissa, static_cast<int>(clamp(p.exponent, 600))); }
float without(const Product&, double clip, float x) { return static_cast<float>(clip / x); }
double without(const Product& p, double clip, double x) {
    double size = __builtin_fabs(x);
    if (clamp(p.exponent, 400) == p.exponent && size > 0x1p-500 && size < 0x1p+500) return clip / x;
    constexpr uint64_t field = 0x7FF;
    const uint64_t bits = __builtin_bit_cast(uint64_t, x), biased = bits >> 52 & field;
    int exponent;
    double m;  // in [1/2, 1), as frexp has it
    if (biased == 0 || biased == field) {
        m = __builtin_frexp(x, &exponent);
    } else {
        m = __builtin_bit_cast(double, (bits & ~(field << 52)) | uint64_t{1022} << 52);
        exponent = static_cast<int>(biased) - 1022;
    }
    const double quotient = p.mantissa / m;  // from 1 to 4
    const int64_t scale = clamp(p.exponent - exponent, 5000);
    if (clamp(scale, 1020) == scale)
        return quotient * __builtin_bit_cast(double, static_cast<uint64_t>(scale + 1023) << 52);
    if (clamp(scale, 1100) != scale) return quotient * (scale < 0 ? 0.0 : __builtin_inf());
    return __builtin_ldexp(quotient, static_cast<int>(scale));
}

template <class T>
void divide(T* out, const T* x, T g, const Product& p, int64_t n) {
    double clip = clipped(p);
    if (p.zeros == 0) {
        for (int64_t i = 0; i < n; ++i) out[i] = g * without(p, clip, x[i]);
    } else {
        T others = p.zeros == 1 ? without(p, clip, T(1)) : T(0);
        for (int64_t i = 0; i < n; ++i) out[i] = g * (x[i] == 0 ? others : T(0));
    }
}

template <class T>
void divide_columns(T* out, const T* x, const T* g, const Product* p, int64_t n, int64_t stride, int columns) {
    double clip[kProdColumns];
    for (int l = 0; l < columns; ++l) clip[l] = clipped(p[l]);
    for (int64_t r = 0; r < n; ++r)
        for (int l = 0; l < columns; ++l) out[r * stride + l] = g[l] * without(p[l], clip[l], x[r * stride + l]);
}

template <class T>
constexpr ProdLoops<T> make_prod_loops() {
    return {of_row<T>, of_columns<T>, join, divide<T>, divide_columns<T>};
}

}  // namespace

constinit const ProdTable prod_table = {make_prod_loops<float>(), make_prod_loops<double>()};

}  // namespace mt::cpu::MT_ISA_NS
