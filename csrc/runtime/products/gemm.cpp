#include "runtime/products/gemm.h"

#include "core/isa.h"
#include "core/process/parallel.h"
#include "runtime/products/gemm_product.h"

namespace mt {

namespace gemm_detail {

template <class T>
const Kernels<T>& best_kernels() {
    switch (isa()) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return avx512_kernels<T>();
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return avx2_kernels<T>();
#endif
        default: break;
    }
    return baseline_kernels<T>();
}

template const Kernels<float>& best_kernels<float>();
template const Kernels<double>& best_kernels<double>();

}  // namespace gemm_detail

namespace {

using gemm_detail::Kernels;
using gemm_detail::Product;

constexpr int64_t kParallelWork = 256 << 10;  // multiply-adds below which one thread is faster than several

/// One register tile, in place: the most frequent case of the smallest products, without planning.
template <class T>
bool run_single_tile(const Kernels<T>& kernels, const MtGemm& g) {
    const int width = g.n > kernels.lanes ? 1 : 0;
    if (g.batch != 1 || g.epilogue != nullptr || g.k < 1 || g.k > kGemmBlockK<T> || g.m > kernels.max_rows[width] ||
        g.n > 2 * kernels.lanes || (g.n > 1 && (g.b_cs != 1 || g.c_cs != 1))) {
        return false;
    }
    const T *a = static_cast<const T*>(g.a), *b = static_cast<const T*>(g.b);
    kernels.micro[width][g.m - 1](g.k, a, g.a_rs, g.a_cs, b, g.b_rs, static_cast<T*>(g.c), g.c_rs, g.n, false, nullptr);
    return true;
}

/// A batch that is one taller matrix times a common B becomes that product.
void merge_batch(MtGemm& g) {
    if (g.batch > 1 && g.epilogue == nullptr && g.b_bs == 0 && g.a_bs == g.m * g.a_rs && g.c_bs == g.m * g.c_rs) {
        g.m *= g.batch;
        g.batch = 1;
    }
}

}  // namespace

template <class T>
void gemm(const MtGemm* call) {
    if (call->m <= 0 || call->n <= 0 || call->batch <= 0) return;
    static const Kernels<T>& kernels = gemm_detail::best_kernels<T>();
    if (run_single_tile(kernels, *call)) return;
    MtGemm g = *call;
    merge_batch(g);

    Product<T> planned{};
    planned.kernels = &kernels;
    planned.m = g.m;
    planned.n = g.n;
    planned.k = g.k;
    planned.a = {static_cast<const T*>(g.a), g.a_rs, g.a_cs};
    planned.b = {static_cast<const T*>(g.b), g.b_rs, g.b_cs};
    planned.c = {static_cast<T*>(g.c), g.c_rs, g.c_cs};
    planned.epilogue = {g.epilogue, g.epilogue_ctx, 0, false};
    planned.plan();

    const double work = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
    const int64_t threads = work * static_cast<double>(g.batch) < kParallelWork || in_parallel_region() ? 1
                                                                                                        : num_threads();
    if (g.batch == 1) return planned.run(threads);

    const bool swapped = planned.epilogue.transposed;
    auto run_matrices = [&](int64_t begin, int64_t end, int64_t threads_each) {
        Product<T> product = planned;
        for (int64_t i = begin; i < end; ++i) {
            const T* a = static_cast<const T*>(g.a) + i * g.a_bs;
            const T* b = static_cast<const T*>(g.b) + i * g.b_bs;
            product.a.data = swapped ? b : a;
            product.b.data = swapped ? a : b;
            product.c.data = static_cast<T*>(g.c) + i * g.c_bs;
            product.epilogue.batch = i;
            product.run(threads_each);
        }
    };
    // Whole matrices for each thread if there are enough of them, or if they are too small to be cut.
    if (threads == 1 || g.batch >= 4 * threads || work < 2 * kParallelWork) {
        const int64_t grain = work > 0 ? static_cast<int64_t>(kParallelWork / work) + 1 : g.batch;
        if (threads == 1) return run_matrices(0, g.batch, 1);
        return parallel_for(g.batch, grain, [&](int64_t begin, int64_t end) { run_matrices(begin, end, 1); });
    }
    run_matrices(0, g.batch, threads);
}

template void gemm<float>(const MtGemm*);
template void gemm<double>(const MtGemm*);
template void gemm<int32_t>(const MtGemm*);
template void gemm<int64_t>(const MtGemm*);
template void gemm<uint8_t>(const MtGemm*);

}  // namespace mt
