#include "runtime/products/gemv.h"

#include <algorithm>

#include "core/isa.h"
#include "core/process/parallel.h"
#include "runtime/products/gemm.h"
#include "runtime/products/gemm_kernels.h"
#include "runtime/scratch.h"

namespace mt {
namespace {

using gemm_detail::kVectorStrip;
using gemm_detail::VectorKernels;

constexpr int64_t kParallelElements = 96 << 10;  // elements of the matrix that one thread reads faster than several
constexpr int64_t kTaskColumns = 64;             // columns are cut at multiples of it

// Of the thread that owns the product.
thread_local Scratch t_vector;
thread_local Scratch t_partial;

template <class T>
const VectorKernels<T>& choose_kernels() {
    switch (isa()) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return gemm_detail::avx512_vector_kernels<T>();
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return gemm_detail::avx2_vector_kernels<T>();
#endif
        default: break;
    }
    return gemm_detail::baseline_vector_kernels<T>();
}

/// c[j] = the sum over k of a[k] * b[k, j]: the product, turned so that the vector is on the left.
template <class T>
struct VectorProduct {
    const VectorKernels<T>& kernels;
    int64_t k, cols;
    const T* a;
    const T* b;
    int64_t rs, cs;
    T* c;
    int64_t c_cs;
    int64_t a_step = 1;  // other than 1 where there is no memory for a copy

    static constexpr int64_t kBlock = kGemmBlockK<T>;

    int64_t blocks() const { return (k + kBlock - 1) / kBlock; }

    /// One block of k for some columns, into `out`.
    void block(int64_t k0, int64_t col0, int64_t col1, T* out, int64_t out_step, bool accumulate) const {
        const int64_t kc = std::min(kBlock, k - k0);
        const T* at = b + k0 * rs + col0 * cs;
        const T* vector = a + k0 * a_step;
        T copied[kBlock];
        if (a_step != 1) {
            for (int64_t p = 0; p < kc; ++p) copied[p] = vector[p * a_step];
            vector = copied;
        }
        if (rs == 1 || kc == 1) return kernels.dots(kc, col1 - col0, vector, 0, at, cs, out, out_step, accumulate);
        if (cs == 1 && out_step == 1) return kernels.rows(kc, col1 - col0, vector, at, rs, out, accumulate);
        T column[kBlock];
        for (int64_t j = col0; j < col1; ++j, at += cs, out += out_step) {
            for (int64_t p = 0; p < kc; ++p) column[p] = at[p * rs];
            kernels.dots(kc, 1, vector, 0, column, 0, out, 0, accumulate);
        }
    }

    void columns(int64_t col0, int64_t col1) const {
        // Columns that are contiguous in k are read to their end, a few at a time.
        const int64_t step = rs == 1 && k > kBlock ? 4 : col1 - col0;
        for (int64_t j = col0; j < col1; j += step) {
            const int64_t end = std::min(col1, j + step);
            for (int64_t k0 = 0; k0 < k; k0 += kBlock) block(k0, j, end, c + j * c_cs, c_cs, k0 > 0);
        }
    }

    /// The sums of the blocks [block0, block1), each on its own: `partial` has one row for each block.
    void partials(int64_t block0, int64_t block1, T* partial) const {
        int64_t i = block0;
        if (cols == 1 && rs == 1 && a_step == 1) {  // all whole blocks at once
            const int64_t end = std::min(block1, k / kBlock);
            kernels.dots(kBlock, end - i, a + i * kBlock, kBlock, b + i * kBlock, kBlock, partial + i, 1, false);
            i = std::max(i, end);
        }
        for (; i < block1; ++i) block(i * kBlock, 0, cols, partial + i * cols, 1, false);
    }

    /// Rows that are contiguous: some columns of one block at a time, so that each thread reads long runs of memory.
    void rows(int64_t threads) const {
        const int64_t count = blocks();
        int64_t strip = kVectorStrip<T>;
        while (strip > kTaskColumns && count * ((cols + strip - 1) / strip) < 2 * threads) strip /= 2;
        const int64_t strips = (cols + strip - 1) / strip, units = count * strips;
        T* partial = static_cast<T*>(t_partial.try_get(static_cast<size_t>(count * cols) * sizeof(T)));
        if (partial == nullptr) return columns(0, cols);
        // Whole blocks for each thread, which lie together, if they are shared out evenly.
        const bool by_block = count % threads == 0 || count >= 8 * threads;
        const auto run_units = [&](int64_t begin, int64_t end) {
            for (int64_t unit = begin; unit < end; ++unit) {
                const int64_t i = by_block ? unit / strips : unit % count;
                const int64_t j = (by_block ? unit % strips : unit / count) * strip;
                block(i * kBlock, j, std::min(cols, j + strip), partial + i * cols + j, 1, false);
            }
        };
        if (threads > 1) parallel_for(units, 1, run_units, k * cols / (kParallelElements / 8));
        else run_units(0, units);
        add_up(partial);
    }

    /// Adds the blocks' sums in order.
    void add_up(const T* partial) const {
        for (int64_t j = 0; j < cols; ++j) {
            T total = partial[j];
            for (int64_t i = 1; i < blocks(); ++i) total += partial[i * cols + j];
            c[j * c_cs] = total;
        }
    }

    void run(int64_t threads) const {
        if (k == 0) {
            for (int64_t j = 0; j < cols; ++j) c[j * c_cs] = 0;
            return;
        }
        if (cs == 1 && rs != 1 && cols > 1 && (threads > 1 || c_cs != 1)) return rows(threads);
        const int64_t grain = std::min(kTaskColumns, std::max<int64_t>(1, kParallelElements / 8 / k));
        const bool by_block = cols < threads * std::max<int64_t>(grain, 4) && blocks() >= threads;
        if (threads > 1 && !by_block) {
            return parallel_for(cols, grain, [&](int64_t begin, int64_t end) { columns(begin, end); });
        }
        if (cols > 1 && threads == 1) return columns(0, cols);
        T* partial = static_cast<T*>(t_partial.try_get(static_cast<size_t>(blocks() * cols) * sizeof(T)));
        if (partial == nullptr) return columns(0, cols);
        if (threads > 1) {
            parallel_for(blocks(), 1, [&](int64_t begin, int64_t end) { partials(begin, end, partial); });
        } else {
            partials(0, blocks(), partial);
        }
        add_up(partial);
    }
};

}  // namespace

template <class T>
void gemv(const MtGemm* g) {
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return;
    static const VectorKernels<T>& kernels = choose_kernels<T>();
    const bool on_right = g->n == 1 && g->m > 1;
    const T* vector = static_cast<const T*>(on_right ? g->b : g->a);
    int64_t vector_step = on_right ? g->b_rs : g->a_cs, vector_bs = on_right ? g->b_bs : g->a_bs;
    const T* matrix = static_cast<const T*>(on_right ? g->a : g->b);
    const int64_t matrix_bs = on_right ? g->a_bs : g->b_bs;
    VectorProduct<T> product{kernels,
                             g->k,
                             on_right ? g->m : g->n,
                             vector,
                             matrix,
                             on_right ? g->a_cs : g->b_rs,
                             on_right ? g->a_rs : g->b_cs,
                             static_cast<T*>(g->c),
                             on_right ? g->c_rs : g->c_cs};

    const int64_t k = g->k;
    if (vector_step != 1 && k > 1) {
        const int64_t vectors = vector_bs == 0 ? 1 : g->batch;
        T* copy = static_cast<T*>(t_vector.try_get(static_cast<size_t>(vectors * k) * sizeof(T)));
        if (copy == nullptr) {
            product.a_step = vector_step;
        } else {
            for (int64_t i = 0; i < vectors; ++i) {
                const T* from = vector + i * vector_bs;
                for (int64_t p = 0; p < k; ++p) copy[i * k + p] = from[p * vector_step];
            }
            vector = copy;
            vector_bs = vector_bs == 0 ? 0 : k;
        }
    }

    const int64_t elements = k * product.cols;
    const bool large = elements * g->batch >= kParallelElements && !in_parallel_region();
    const int64_t threads = large ? num_threads() : 1;
    auto run = [&](int64_t begin, int64_t end, int64_t threads_each) {
        VectorProduct<T> one = product;
        for (int64_t i = begin; i < end; ++i) {
            one.a = vector + i * vector_bs;
            one.b = matrix + i * matrix_bs;
            one.c = product.c + i * g->c_bs;
            one.run(threads_each);
        }
    };
    if (threads > 1 && (g->batch >= 4 * threads || elements < kParallelElements)) {
        const int64_t grain = std::max<int64_t>(1, kParallelElements / 8 / std::max<int64_t>(1, elements));
        return parallel_for(g->batch, grain, [&](int64_t begin, int64_t end) { run(begin, end, 1); });
    }
    run(0, g->batch, threads);
}

template void gemv<float>(const MtGemm*);
template void gemv<double>(const MtGemm*);

}  // namespace mt
