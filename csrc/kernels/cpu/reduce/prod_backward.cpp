// The gradient of prod: of each element, the product of all the others along a dimension. The product of all is kept as
// a mantissa and an exponent of its own, so that it neither overflows nor underflows, and is divided by each element;
// zeros are counted apart. Rows with infinities or NaN are multiplied from both ends.
#include <algorithm>
#include <vector>

#include "core/isa.h"
#include "dispatch/infer/reduction.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/reduce/prod_loops.h"
#include "kernels/cpu/sort/sort.h"

namespace mt::cpu {

namespace {

// Rows are cut into pieces of a fixed length, so that the bits do not depend on the number of threads.
constexpr int64_t kPiece = 1 << 15;

const ProdTable& select_table() {
    switch (isa()) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return avx512::prod_table;
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return avx2::prod_table;
#endif
        default: break;
    }
    return baseline::prod_table;
}

template <class T>
const ProdLoops<T>& loops() {
    static const ProdTable& table = select_table();
    if constexpr (sizeof(T) == 4) return table.f32;
    else return table.f64;
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

template <class T>
void rows(T* out, const T* x, const T* g, int64_t outer, int64_t n) {
    int64_t pieces = (n + kPiece - 1) / kPiece;
    if (pieces == 1) {
        parallel_for(outer, grain_of(2 * n), [&](int64_t begin, int64_t end) {
            for (int64_t o = begin; o < end; ++o) {
                Product p = loops<T>().of_row(x + o * n, n);
                if (p.finite) loops<T>().divide(out + o * n, x + o * n, g[o], p, n);
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
    for_pieces([&](size_t i, int64_t o, int64_t start, int64_t count) {
        parts[i] = loops<T>().of_row(x + o * n + start, count);
    });
    std::vector<Product> totals(static_cast<size_t>(outer));
    for (size_t o = 0; o < totals.size(); ++o)
        for (size_t k = 0; k < static_cast<size_t>(pieces); ++k)
            loops<T>().join(&totals[o], parts[o * static_cast<size_t>(pieces) + k]);
    for_pieces([&](size_t, int64_t o, int64_t start, int64_t count) {
        const Product& p = totals[static_cast<size_t>(o)];
        if (p.finite) loops<T>().divide(out + o * n + start, x + o * n + start, g[o], p, count);
    });
    for (int64_t o = 0; o < outer; ++o)
        if (!totals[static_cast<size_t>(o)].finite) from_both_ends(out + o * n, x + o * n, g[o], n, 1);
}

template <class T>
void columns(T* out, const T* x, const T* g, int64_t outer, int64_t n, int64_t inner) {
    constexpr int64_t most = kProdColumns;
    int64_t chunks = (inner + most - 1) / most;
    int64_t cost = 2 * n * std::min(inner, most);
    parallel_for(outer * chunks, grain_of(cost), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            int64_t c0 = i % chunks * most, at = i / chunks * n * inner + c0;
            int width = static_cast<int>(std::min(most, inner - c0));
            const T *from = x + at, *grad = g + i / chunks * inner + c0;
            T* to = out + at;
            Product total[most];
            loops<T>().of_columns(total, from, n, inner, width);
            if (std::all_of(total, total + width, [](const Product& p) { return p.finite && !p.zeros; })) {
                loops<T>().divide_columns(to, from, grad, total, n, inner, width);
                continue;
            }
            for (int l = 0; l < width; ++l) {
                if (!total[l].finite) {
                    from_both_ends(to + l, from + l, grad[l], n, inner);
                } else {
                    for (int64_t r = 0; r < n; ++r)
                        loops<T>().divide(to + r * inner + l, from + r * inner + l, grad[l], total[l], 1);
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
