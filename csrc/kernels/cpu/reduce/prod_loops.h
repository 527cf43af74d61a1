// The loops of the gradient of prod, one table for each instruction set. All tables give the same bits.
#pragma once

#include <cstdint>

namespace mt::cpu {

inline constexpr int kProdColumns = 64;

// mantissa * 2^exponent, with a mantissa in [1, 2), of the elements but the zeros.
struct Product {
    double mantissa = 1;
    int64_t exponent = 0, zeros = 0;
    bool finite = true;
};

template <class T>
struct ProdLoops {
    Product (*of_row)(const T* x, int64_t n);
    // of_row of each of up to kProdColumns columns of n elements, which are `stride` apart.
    void (*of_columns)(Product* to, const T* x, int64_t n, int64_t stride, int columns);
    // What p was multiplied with, further.
    void (*join)(Product* p, const Product& more);
    // out = g times the product of the others, for elements of a row without infinities and NaN.
    void (*divide)(T* out, const T* x, T g, const Product& p, int64_t n);
    // The same for columns, without zeros either.
    void (*divide_columns)(T* out, const T* x, const T* g, const Product* p, int64_t n, int64_t stride, int columns);
};

struct ProdTable {
    ProdLoops<float> f32;
    ProdLoops<double> f64;
};

namespace baseline {
extern const ProdTable prod_table;
}
namespace avx2 {
extern const ProdTable prod_table;
}
namespace avx512 {
extern const ProdTable prod_table;
}

}  // namespace mt::cpu
