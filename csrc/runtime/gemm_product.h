// One matrix product, oriented and planned: what gemm.cpp schedules and gemm_product.cpp computes.
#pragma once

#include <cstdint>

#include "runtime/gemm_kernels.h"

namespace mt::gemm_detail {

template <class P>
struct Matrix {
    P* data;
    int64_t rs, cs;

    P* at(int64_t i, int64_t j) const { return data + i * rs + j * cs; }
};

/// How B reaches the kernels, which want contiguous rows.
enum class PackB {
    None,    ///< read in place
    Dots,    ///< read in place, column by column, for a single row of A
    Local,   ///< each panel packed just before its one use
    Shared,  ///< packed as a whole, then used by every block of rows
};

/// Where a product's finished tiles are reported.
struct Epilogue {
    void (*fn)(void* ctx, int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols) = nullptr;
    void* ctx = nullptr;
    int64_t batch = 0;
    bool transposed = false;

    void operator()(int64_t row0, int64_t rows, int64_t col0, int64_t cols) const {
        if (transposed) {
            fn(ctx, batch, col0, cols, row0, rows);
        } else {
            fn(ctx, batch, row0, rows, col0, cols);
        }
    }
};

/// C[m, n] = A[m, k] * B[k, n] with the decisions that do not change its result.
template <class T>
struct Product {
    const Kernels<T>* kernels;
    int64_t m, n, k;
    Matrix<const T> a, b;
    Matrix<T> c;
    Epilogue epilogue;

    int64_t tile_rows;   ///< rows of a register tile
    int64_t panel_cols;  ///< columns of a panel of B: those of the widest register tile in use
    bool pack_a;
    PackB pack_b;

    /// Chooses the orientation (C or its transpose), the tiles and the packing.
    void plan();

    /// Computes all of C on up to `threads` threads.
    void run(int64_t threads) const;

  private:
    void transpose();
    double cost() const;
    void clear() const;
    void run_tasks(const T* packed, int64_t col0, int64_t cols, int64_t threads) const;
    void run_block(const T* packed, int64_t slab0, int64_t slab_cols, int64_t row0, int64_t row1, int64_t col0,
                   int64_t col1) const;
    void run_dots(int64_t col0, int64_t col1) const;
    void run_panel(int64_t kc, const Matrix<const T>& a_block, int64_t a_step, const T* panel, int64_t panel_rs,
                   int64_t row0, int64_t row1, int64_t col0, int64_t cols, bool accumulate, bool first) const;
    Matrix<const T> pack_rows(T* packed, int64_t row0, int64_t rows, int64_t k0, int64_t kc, int64_t& step) const;
    void pack_panels(T* dst, int64_t k0, int64_t kc, int64_t col0, int64_t cols) const;
    int64_t padded(int64_t cols) const;
    int64_t block_rows(int64_t rows) const;
};

extern template struct Product<float>;
extern template struct Product<double>;
extern template struct Product<int32_t>;
extern template struct Product<int64_t>;
extern template struct Product<uint8_t>;

}  // namespace mt::gemm_detail
