// Products of few rows or columns with a large float16 or bfloat16 matrix: it is converted piece by piece in a cache,
// so that memory is read once, and nothing is written there.
#include "kernels/cpu/linalg/matmul_narrow.h"

#include <algorithm>

#include "core/process/parallel.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/elementwise/loops.h"
#include "runtime/abi.h"
#include "runtime/products/gemm.h"
#include "runtime/products/gemv.h"
#include "runtime/scratch.h"

namespace mt::cpu {

namespace {

constexpr int64_t kFew = 64;             // rows for which a matrix is converted once only
constexpr int64_t kLarge = 64 << 10;     // elements of a matrix
constexpr int64_t kColumns = 256;        // of a piece; it has one of the product's blocks of k
constexpr int64_t kLeastColumns = 32;    // of a piece, where there are few
constexpr int64_t kAhead = 4;            // runs of memory that are sent for
constexpr int64_t kGrainWork = 1 << 14;  // elements
constexpr int64_t kBlock = kGemmBlockK<float>;

thread_local Scratch t_piece;

// C = A B with few rows of A and a large B, or the transpose of such a product.
struct NarrowProduct {
    int64_t rows, columns, k;
    const float* few;   // [rows, k]
    const char* large;  // [k, columns], of 16-bit elements
    int64_t rs, cs;     // one of which is 1
    float* c;
    int64_t c_rs, c_cs;
    ConvertFn load;
    void (*multiply)(const MtGemm*);

    // Converts a piece: as rows of `cols` elements if its rows are contiguous, otherwise as columns of `kc`.
    void convert(int64_t k0, int64_t kc, int64_t col0, int64_t cols, float* piece) const {
        const bool by_row = cs == 1;
        const int64_t runs = by_row ? kc : cols, length = by_row ? cols : kc, step = 2 * (by_row ? rs : cs);
        const char* from = large + 2 * (k0 * rs + col0 * cs);
        for (int64_t i = 0; i < runs; ++i, from += step, piece += length) {
            for (int64_t byte = 0; byte < 2 * length; byte += 64) __builtin_prefetch(from + kAhead * step + byte);
            load(piece, from, length);
        }
    }

    void run_columns(int64_t col0, int64_t cols) const {
        auto* piece = static_cast<float*>(
            t_piece.get(static_cast<size_t>(kBlock * cols + rows * cols) * sizeof(float)));
        float* part = piece + kBlock * cols;
        for (int64_t k0 = 0; k0 < k; k0 += kBlock) {
            const int64_t kc = std::min(kBlock, k - k0);
            convert(k0, kc, col0, cols, piece);
            MtGemm g{};
            g.batch = 1;
            g.m = rows;
            g.n = cols;
            g.k = kc;
            g.a = few + k0;
            g.a_rs = k;
            g.a_cs = 1;
            g.b = piece;
            g.b_rs = cs == 1 ? cols : 1;
            g.b_cs = cs == 1 ? 1 : kc;
            g.c = part;
            g.c_rs = cols;
            g.c_cs = 1;
            multiply(&g);
            for (int64_t i = 0; i < rows; ++i) {
                float* to = c + i * c_rs + col0 * c_cs;
                const float* from = part + i * cols;
                for (int64_t j = 0; j < cols; ++j) {
                    float& element = to[j * c_cs];
                    element = k0 == 0 ? from[j] : element + from[j];
                }
            }
        }
    }

    void run() const {
        int64_t width = kColumns;
        while (width > kLeastColumns && columns < 2 * width * num_threads()) width /= 2;
        parallel_for((columns + width - 1) / width, 1,
                     [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i)
                             run_columns(i * width, std::min(width, columns - i * width));
                     },
                     k * columns / kGrainWork);
    }
};

}  // namespace

bool narrow_product(const Tensor& a, const Tensor& b, Tensor& out) {
    if (a.dtype != b.dtype || (a.dtype != DType::F16 && a.dtype != DType::BF16)) return false;
    if (a.ndim() == 0 || b.ndim() == 0 || b.ndim() > 2) return false;
    const int64_t k = a.sizes.back(), n = b.ndim() == 2 ? b.sizes[1] : 1;
    if (k == 0) return false;
    const int64_t m = a.numel / k;
    const bool on_right = n <= m;  // the few columns
    const Tensor &few = on_right ? b : a, &large = on_right ? a : b;
    if (large.ndim() != 2 || large.numel < kLarge || std::min(m, n) > kFew || large.numel < 4 * few.numel) return false;
    NarrowProduct p{};
    p.rows = on_right ? n : m;
    p.columns = on_right ? m : n;
    p.k = k;
    p.large = static_cast<const char*>(large.data());
    p.rs = large.strides[on_right ? 1 : 0];
    p.cs = large.strides[on_right ? 0 : 1];
    if (p.rs != 1 && p.cs != 1) return false;
    p.load = elementwise().load[static_cast<size_t>(large.dtype)];
    p.multiply = m == 1 || n == 1 ? gemv<float> : gemm<float>;

    // The rows of `few`, and a result that is converted at the end.
    Ref<Tensor> rows = Tensor::empty(few.sizes, DType::F32), result = Tensor::empty(out.sizes, DType::F32);
    run_copy(few, *rows);
    if (on_right && n > 1) {
        Ref<Tensor> columns = Tensor::empty({n, k}, DType::F32);
        run_copy(*Tensor::make(Storage::alias(*rows->storage), DType::F32, Dims{n, k}, Dims{1, n}, rows->offset),
                 *columns);
        rows = columns;
    }
    p.few = rows->ptr<float>();
    p.c = result->ptr<float>();
    p.c_rs = on_right ? 1 : n;
    p.c_cs = on_right ? n : 1;
    p.run();
    run_copy(*result, out);
    return true;
}

}  // namespace mt::cpu
