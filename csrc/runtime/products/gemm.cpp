#include "runtime/products/gemm.h"

#include <algorithm>

#include "core/isa.h"
#include "core/process/interrupt.h"
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
constexpr int64_t kTaskWork = 128 << 10;      // multiply-adds of some microseconds
constexpr int64_t kLargeWork = 4 << 20;       // for each thread: then it doesn't matter that threads wait

/// One register tile, in place: the most frequent case of the smallest products, without planning.
template <class T>
bool run_single_tile(const Kernels<T>& kernels, const MtGemm& g) {
    const int width = g.n > kernels.lanes ? 1 : 0;
    if (g.batch != 1 || g.epilogue != nullptr || g.k < 1 || g.k > kGemmBlockK<T> || g.m > kernels.max_rows[width] ||
        g.n > 2 * kernels.lanes || (g.n > 1 && (g.b_cs != 1 || g.c_cs != 1))) {
        return false;
    }
    const T *a = static_cast<const T*>(g.a), *b = static_cast<const T*>(g.b);
    kernels.micro[width][g.m - 1](g.k, a, g.a_rs, g.a_cs, b, g.b_rs, static_cast<T*>(g.c), g.c_rs, g.n,
                                  static_cast<const T*>(g.add), nullptr);
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
    planned.add = static_cast<const T*>(g.add);
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
            if (g.add != nullptr) product.add = static_cast<const T*>(g.add) + i * g.c_bs;
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

template <class T>
void gemms(const MtGemm& each, void* const* pointers, int64_t count, int64_t width) {
    const auto product = [&](int64_t i) {
        MtGemm g = each;
        void* const* mine = pointers + i * width;
        g.a = mine[0];
        g.b = mine[1];
        g.c = mine[2];
        g.add = width > 3 ? mine[3] : nullptr;
        return g;
    };
    // The longer side is shared out, in whole register tiles.
    const bool columns = each.n >= each.m;
    const int64_t length = columns ? each.n : each.m;
    const int64_t unit = columns ? 2 * gemm_detail::best_kernels<T>().lanes : 6;
    const int64_t threads = in_parallel_region() ? 1 : std::min<int64_t>(num_threads(), length / unit);
    const double work = static_cast<double>(each.m) * static_cast<double>(each.n) * static_cast<double>(each.k);
    const double all = work * static_cast<double>(count);
    const bool large = work >= static_cast<double>(kLargeWork * threads);
    if (threads < 2 || each.batch != 1 || large || all < kParallelWork) {
        for (int64_t i = 0; i < count; ++i) {
            const MtGemm g = product(i);
            gemm<T>(&g);
            check_interrupt();
        }
        return;
    }
    const int64_t share = (length / unit + threads - 1) / threads * unit;
    const auto run = [&](int64_t begin, int64_t end) {
        const auto at = [&](const void* from, int64_t step) {
            return from == nullptr ? nullptr : static_cast<const T*>(from) + begin * step;
        };
        for (int64_t i = 0; i < count; ++i) {
            MtGemm g = product(i);
            (columns ? g.n : g.m) = end - begin;
            if (columns) g.b = at(g.b, g.b_cs);
            else g.a = at(g.a, g.a_rs);
            const int64_t step = columns ? g.c_cs : g.c_rs;
            g.c = static_cast<T*>(g.c) + begin * step;
            g.add = at(g.add, step);
            gemm<T>(&g);
            check_interrupt();
        }
    };
    parallel_for(length, share, run, static_cast<int64_t>(all / kTaskWork));
}

template void gemms<float>(const MtGemm&, void* const*, int64_t, int64_t);
template void gemms<double>(const MtGemm&, void* const*, int64_t, int64_t);
template void gemm<float>(const MtGemm*);
template void gemm<double>(const MtGemm*);
template void gemm<int32_t>(const MtGemm*);
template void gemm<int64_t>(const MtGemm*);
template void gemm<uint8_t>(const MtGemm*);

}  // namespace mt
