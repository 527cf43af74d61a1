// The gradient of prod: of each element, the product of all the others along a dimension. The product of all is kept as
// a mantissa and an exponent of its own, so that it neither overflows nor underflows, and is divided by each element;
// zeros are counted apart. Rows with infinities or NaN are multiplied from both ends.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "dispatch/infer_reduction.h"
#include "dispatch/op.h"
#include "kernels/cpu/index_strided.h"
#include "kernels/cpu/sort.h"

namespace mt::cpu {

namespace {

// Rows are cut into pieces of a fixed length, so that the bits do not depend on the number of threads.
constexpr int64_t kPiece = 1 << 15;
constexpr int64_t kColumns = 64;

// mantissa * 2^exponent, with a mantissa in [1, 2), of the elements but the zeros.
struct Product {
    double mantissa = 1;
    int64_t exponent = 0, zeros = 0;
    bool finite = true;
};

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
        uint64_t bits = std::bit_cast<uint64_t>(mantissa[l]);
        uint64_t biased = bits >> 52 & field;
        special[l] |= biased == field;
        exponent[l] += static_cast<int64_t>(biased) - static_cast<int64_t>(one);
        mantissa[l] = std::bit_cast<double>((bits & ~(field << 52)) | one << 52);
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
        double size = std::abs(x);
        bool small = size < 0x1p-500 && x != 0, large = size > 0x1p+500;
        exponent[l] += small ? -600 : large ? 600 : 0;
        mantissa[l] *= x == 0 ? 1.0 : x * (small ? 0x1p+600 : large ? 0x1p-600 : 1.0);
        normalise(l);
    }

    void get(int l, Product& total) const {
        total.mantissa *= mantissa[l];
        total.exponent += exponent[l];
        if (std::abs(total.mantissa) >= 2) {
            total.mantissa *= 0.5;
            ++total.exponent;
        }
        total.zeros += zeros[l];
        total.finite &= !special[l];
    }
};

template <class T>
Product product_of(const T* x, int64_t n) {
    constexpr int lanes = 8;
    Products<lanes> p;
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) p.multiply(x + i, lanes, lanes);
    for (; i < n; ++i) p.one(static_cast<int>(i % lanes), x[i]);
    Product total;
    for (int l = 0; l < lanes; ++l) p.get(l, total);
    return total;
}

// What is multiplied with an element's reciprocal: float32 gives or takes nothing beyond the limits here.
double clipped(const Product& p) {
    return std::ldexp(p.mantissa, static_cast<int>(std::clamp<int64_t>(p.exponent, -600, 600)));
}
float without(const Product&, double clip, float x) { return static_cast<float>(clip / x); }
double without(const Product& p, double clip, double x) {
    double size = std::abs(x);
    if (std::abs(p.exponent) <= 400 && size > 0x1p-500 && size < 0x1p+500) return clip / x;
    int exponent;
    double m = std::frexp(x, &exponent);
    return std::ldexp(p.mantissa / m, static_cast<int>(std::clamp<int64_t>(p.exponent - exponent, -5000, 5000)));
}

// Along a row, or a column, of elements `stride` apart, by products from both ends.
template <class T>
void from_both_ends(T* out, const T* x, T g, int64_t n, int64_t stride) {
    std::vector<double> after(static_cast<size_t>(n) + 1, 1.0);
    for (int64_t i = n; i-- > 0;) after[static_cast<size_t>(i)] = after[static_cast<size_t>(i) + 1] * x[i * stride];
    double before = 1;
    for (int64_t i = 0; i < n; ++i) {
        out[i * stride] = g * static_cast<T>(before * after[static_cast<size_t>(i) + 1]);
        before *= x[i * stride];
    }
}

// Elements of a row without infinities and NaN.
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
void rows(T* out, const T* x, const T* g, int64_t outer, int64_t n) {
    int64_t pieces = (n + kPiece - 1) / kPiece;
    if (pieces == 1) {
        parallel_for(outer, grain_of(2 * n), [&](int64_t begin, int64_t end) {
            for (int64_t o = begin; o < end; ++o) {
                Product p = product_of(x + o * n, n);
                if (p.finite) divide(out + o * n, x + o * n, g[o], p, n);
                else from_both_ends(out + o * n, x + o * n, g[o], n, 1);
            }
        });
        return;
    }
    std::vector<Product> parts(static_cast<size_t>(outer * pieces));
    auto for_pieces = [&](auto&& f) {
        parallel_for(outer * pieces, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                int64_t start = i % pieces * kPiece;
                f(static_cast<size_t>(i), i / pieces, start, std::min(kPiece, n - start));
            }
        });
    };
    for_pieces(
        [&](size_t i, int64_t o, int64_t start, int64_t count) { parts[i] = product_of(x + o * n + start, count); });
    std::vector<Product> totals(static_cast<size_t>(outer));
    for (size_t o = 0; o < totals.size(); ++o)
        for (size_t k = 0; k < static_cast<size_t>(pieces); ++k) {
            const Product& part = parts[o * static_cast<size_t>(pieces) + k];
            Products<1> one;
            one.mantissa[0] = part.mantissa;
            one.exponent[0] = part.exponent;
            one.zeros[0] = part.zeros;
            one.special[0] = !part.finite;
            one.get(0, totals[o]);
        }
    for_pieces([&](size_t, int64_t o, int64_t start, int64_t count) {
        const Product& p = totals[static_cast<size_t>(o)];
        if (p.finite) divide(out + o * n + start, x + o * n + start, g[o], p, count);
    });
    for (int64_t o = 0; o < outer; ++o)
        if (!totals[static_cast<size_t>(o)].finite) from_both_ends(out + o * n, x + o * n, g[o], n, 1);
}

template <class T>
void columns(T* out, const T* x, const T* g, int64_t outer, int64_t n, int64_t inner) {
    int64_t chunks = (inner + kColumns - 1) / kColumns;
    int64_t cost = 2 * n * std::min(inner, kColumns);
    parallel_for(outer * chunks, grain_of(cost), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            int64_t c0 = i % chunks * kColumns, at = i / chunks * n * inner + c0;
            int width = static_cast<int>(std::min(kColumns, inner - c0));
            const T *from = x + at, *grad = g + i / chunks * inner + c0;
            T* to = out + at;
            Products<kColumns> lanes;
            int64_t r = 0;
            for (; r + 4 <= n; r += 4) lanes.multiply(from + r * inner, inner, width);
            for (; r < n; ++r)
                for (int l = 0; l < width; ++l) lanes.one(l, from[r * inner + l]);
            Product total[kColumns];
            double clip[kColumns];
            bool plain = true;
            for (int l = 0; l < width; ++l) {
                lanes.get(l, total[l]);
                clip[l] = clipped(total[l]);
                plain &= total[l].finite && !total[l].zeros;
            }
            for (r = 0; r < n && plain; ++r)
                for (int l = 0; l < width; ++l)
                    to[r * inner + l] = grad[l] * without(total[l], clip[l], from[r * inner + l]);
            for (int l = 0; l < width && !plain; ++l) {
                if (!total[l].finite) {
                    from_both_ends(to + l, from + l, grad[l], n, inner);
                } else {
                    for (r = 0; r < n; ++r) divide(to + r * inner + l, from + r * inner + l, grad[l], total[l], 1);
                }
            }
        }
    });
}

// grad, with the size 1 along dim, and input; dim
void prod_backward_kernel(Call& call) {
    const Tensor& input = call.in(1);
    if (input.numel == 0) return;
    Along shape(input.sizes, static_cast<size_t>(normalize_dim(call.param(0).as_int(), input.ndim())));
    auto run = [&](auto zero) {
        using T = decltype(zero);
        Packed g(call.in(0), DTypeOf<T>::value), x(input, DTypeOf<T>::value);
        ContiguousOut out(*call.outputs[0], DTypeOf<T>::value);
        if (shape.inner == 1) rows(out.as<T>(), x.as<T>(), g.as<T>(), shape.outer, shape.n);
        else columns(out.as<T>(), x.as<T>(), g.as<T>(), shape.outer, shape.n, shape.inner);
        out.store();
    };
    if (input.dtype == DType::F64) run(double{});
    else run(float{});
}

const RegisterNative registered{{"_prod_backward", infer_prod_backward, prod_backward_kernel}};

}  // namespace

}  // namespace mt::cpu
