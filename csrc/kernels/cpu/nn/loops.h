// The inner loops of convolution, pooling and normalisation, one table for each instruction set. All tables give the
// same bits: sums run over 64 lanes as docs/numerics.md has it, and nothing is contracted.
#pragma once

#include <cstdint>

namespace mt::cpu {

inline constexpr int64_t kMostShort = 32, kRowsAtOnce = 16;

// An element of each window of a row of windows; some windows, at the ends, lack it.
struct MaxTap {
    int64_t from, low, high;
};

template <class T>
struct NnLoops {
    // y[j] += w * x[j * stride]
    void (*axpy)(T* y, const T* x, T w, int64_t n, int64_t stride);
    // y[j * stride] += w * x[j]
    void (*spread)(T* y, const T* x, T w, int64_t n, int64_t stride);
    // y[j] = start + the sum of w[t] * x[j + offset[t]] over t < taps, in that order.
    void (*stencil)(T* y, const T* x, const T* w, const int64_t* offset, int64_t taps, T start, int64_t n);
    // The sum of a[j] * b[j * stride].
    T (*dot)(const T* a, const T* b, int64_t n, int64_t stride);
    // values[j] is the first of the largest x[from + j * stride] of the taps that have low <= j < high, or the last NaN
    // among them, and index[j] becomes that place where one is larger than -inf. Either may be null.
    void (*max)(T* values, int32_t* index, const T* x, const MaxTap* taps, int64_t count, int64_t n, int64_t stride);
    // Copies `count` runs of `length` elements, which begin so many elements apart.
    void (*copy_runs)(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t length, int64_t count);
    // Adds them.
    void (*add_runs)(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t length, int64_t count);
    // What `max` finds in `rows` rows of n windows of 2 by 2 elements each, side by side: their first
    // elements are at x + row * 2 * width + 2 * j. index[row * n + j] counts from x.
    void (*max_pairs)(T* values, int64_t* index, const T* x, int64_t width, int64_t rows, int64_t n);
    T (*sum)(const T* x, int64_t n);
    // The sum of (x - mean)^2.
    T (*square_sum)(const T* x, T mean, int64_t n);
    // y = (x - mean) * rstd, then times w[j] and plus b[j] where there are such.
    void (*normalize)(T* y, const T* x, T mean, T rstd, const T* w, const T* b, int64_t n);
    // y = (x - mean) * scale + shift
    void (*affine)(T* y, const T* x, T mean, T scale, T shift, int64_t n);
    // The sums of g * w and of g * w * xhat with xhat = (x - mean) * rstd; w may be null.
    void (*grad_sums)(const T* g, const T* x, const T* w, T mean, T rstd, int64_t n, T* plain, T* product);
    // gx = rstd * (g * w[j] * scale - c1 - xhat * c2); w may be null.
    void (*grad_input)(T* gx, const T* g, const T* x, const T* w, T scale, T mean, T rstd, T c1, T c2, int64_t n);
    // gw += g * xhat and gb += g.
    void (*grad_params)(T* gw, T* gb, const T* g, const T* x, T mean, T rstd, int64_t n);
    // All of the above for rows of n <= kMostShort elements, which are shorter than vectors: rows side by side. gw and
    // gb, which get what the rows add up to, may be null, and w too.
    void (*short_rows_backward)(T* gx, T* gw, T* gb, const T* g, const T* x, const T* w, T eps, bool centered,
                                int64_t rows, int64_t n);
    // One step of a recurrent layer for one row of n hidden values; the formulas are in recurrent.cpp. `product` is the
    // hidden state's, bias may be null.
    // gates = [i, f, g, o]: in the product, out the gates themselves.
    void (*lstm_step)(T* gates, const T* x, const T* bias, const T* c_before, T* c, T* h, int64_t n);
    // dc: in the gradient of c, out that of c_before.
    void (*lstm_back)(T* d_gates, const T* gates, const T* c, const T* c_before, const T* dh, T* dc, int64_t n);
    // kept = [r, z, n, the product for n].
    void (*gru_step)(T* kept, const T* x, const T* product, const T* bias, const T* h_before, T* h, int64_t n);
    // dh: in the gradient of h, out the part of that of h_before that doesn't come through the product.
    void (*gru_back)(T* d_x, T* d_product, const T* kept, const T* h_before, T* dh, int64_t n);
    // h: in the product.
    void (*rnn_step)(T* h, const T* x, const T* bias, bool relu, int64_t n);
    void (*rnn_back)(T* d_x, const T* h, const T* dh, bool relu, int64_t n);
    // y[j] = the sum of w[e] * x[row[e] * n + j] over e < count, in that order.
    void (*add_rows)(T* y, const T* w, const int64_t* row, int64_t count, const T* x, int64_t n);
};

struct NnTable {
    NnLoops<float> f32;
    NnLoops<double> f64;
};

namespace baseline {
extern const NnTable nn_table;
}
namespace avx2 {
extern const NnTable nn_table;
}
namespace avx512 {
extern const NnTable nn_table;
}

// The table of mt::isa().
const NnTable& nn_table();

template <class T>
const NnLoops<T>& nn_loops() {
    if constexpr (sizeof(T) == 4) return nn_table().f32;
    else return nn_table().f64;
}

}  // namespace mt::cpu
