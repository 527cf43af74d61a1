// One matrix product, oriented and planned: what gemm.cpp schedules and gemm_product.cpp computes.
#pragma once

#include <cstdint>

#include "runtime/products/gemm_kernels.h"

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
    Shared,  ///< each panel packed where it is first used, for every block of rows
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

template <class T>
struct Coming;

/// C[m, n] = A[m, k] * B[k, n] with the decisions that do not change its result. It never fails: where there is no
/// memory for a packed matrix, that is read in place, or packed a panel at a time on the stack.
template <class T>
struct Product {
    const Kernels<T>* kernels;
    int64_t m, n, k;
    Matrix<const T> a, b;
    Matrix<T> c;
    const T* add;  ///< with the strides of C; or null
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
    const T* added_to(const T* out) const { return add == nullptr ? nullptr : add + (out - c.data); }
    /// The columns [col0, col0 + cols) of B, and room for them packed, with a byte for the state of each panel over
    /// each block of k.
    struct Slab {
        T* packed;
        int64_t col0, cols;
        uint8_t* states;
    };
    /// The columns [col0, col0 + cols) and the rows [row0, row1) of C over the block [k0, k0 + kc) of k.
    struct Panel {
        int64_t k0, kc, row0, row1, col0, cols;
        Matrix<const T> a;  ///< these rows; those of a tile begin `a_step` apart for each row of the tile before
        int64_t a_step;
        bool first;  ///< nobody has read these rows of A yet
        const T* b;
        int64_t b_rs;
        const T* next_b;  ///< the packed panel that is read next, or null
        int64_t next_rs;
    };

    void run_tasks(const Slab& slab, int64_t threads) const;
    void run_block(const Slab& slab, int64_t row0, int64_t row1, int64_t col0, int64_t col1, int64_t start) const;
    void run_block_on_stack(const Slab& slab, int64_t row0, int64_t row1, int64_t col0, int64_t col1,
                            int64_t start) const;
    void run_block(const Slab& slab, int64_t row0, int64_t row1, int64_t col0, int64_t col1, int64_t start,
                   T* local) const;
    uint8_t* use_packed(const Slab& slab, int64_t next_k, int64_t next_col, Panel& panel, Coming<T>& coming) const;
    void run_dots(int64_t col0, int64_t col1) const;
    void run_panel(const Panel& panel, Coming<T>& coming_a, Coming<T>& coming_b) const;
    void pack_rows(T* packed, int64_t row0, int64_t rows, int64_t k0, int64_t length) const;
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
