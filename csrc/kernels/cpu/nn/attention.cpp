// Scaled dot-product attention, a block of queries at a time: the scores of a block stay in the cache, and none are
// kept for the backward pass, which computes them again. Whole rows of scores are there at once, so the softmax is the
// documented one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dispatch/infer/nn/attention.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/nn/loops.h"
#include "kernels/cpu/nn/softmax.h"
#include "runtime/products/gemm.h"
#include "runtime/scratch.h"

namespace mt::cpu {

namespace {

constexpr int64_t kScoreBytes = 512 << 10;  // of a block: about half a second-level cache
constexpr int64_t kRows = 24;               // of queries: so many are whole tiles of products
constexpr int64_t kTransposedBytes = 64 << 10;  // of keys or values that several blocks of queries read transposed
constexpr int64_t kPadding = 16;                // keeps rows of those out of each other's cache sets

thread_local mt::Scratch t_scores, t_query, t_slopes, t_sums, t_keys, t_values;

template <class T>
T* scratch(mt::Scratch& memory, int64_t count) {
    return static_cast<T*>(memory.get(static_cast<size_t>(count > 0 ? count : 1) * sizeof(T)));
}

template <class T>
struct Matrix {
    const T* data;
    int64_t rs, cs;
};

// c[m, n] = a b
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t c_rs) {
    MtGemm g{};
    g.m = m;
    g.n = n;
    g.k = k;
    g.batch = 1;
    g.a = a.data;
    g.a_rs = a.rs;
    g.a_cs = a.cs;
    g.b = b.data;
    g.b_rs = b.rs;
    g.b_cs = b.cs;
    g.c = c;
    g.c_rs = c_rs;
    g.c_cs = 1;
    gemm<T>(&g);
}

// One call's sizes and masks; `first` is the operand that is the query.
template <class T>
struct Attention {
    int64_t batch, queries, keys, width, depth;
    T scale;
    bool causal;
    const T* mask = nullptr;
    int64_t mask_strides[3] = {};
    Scratch converted;

    Attention(Call& call, size_t first)
        : batch(call.in(first).sizes[0]), queries(call.in(first).sizes[1]), keys(call.in(first + 1).sizes[1]),
          width(call.in(first).sizes[2]), depth(call.in(first + 2).sizes[2]),
          scale(static_cast<T>(call.param(0).as_double())), causal(call.param(1).as_bool()) {
        if (call.operand_count <= first + 3 || !call.operands[first + 3].tensor) return;
        const Tensor& t = call.in(first + 3);
        if (t.dtype == DTypeOf<T>::value) {
            mask = t.ptr<T>();
            for (size_t d = 0; d < 3; ++d) mask_strides[d] = t.sizes[d] == 1 ? 0 : t.strides[d];
            return;
        }
        pack(converted.reserve(static_cast<size_t>(t.numel) * sizeof(T)), DTypeOf<T>::value, t);
        mask = converted.as<T>();
        mask_strides[0] = queries * keys;
        mask_strides[1] = keys;
        mask_strides[2] = 1;
    }

    int64_t block_rows() const {
        int64_t rows = kScoreBytes / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(keys, 1);
        // What a block computes of scores that only its last query sees is in vain: shorter blocks, if queries hide
        // keys.
        const int64_t most = causal ? std::clamp<int64_t>(queries / 8 / kRows * kRows, kRows, 10 * kRows) : 10 * kRows;
        return std::min(std::clamp<int64_t>(rows / kRows * kRows, kRows, most), queries);
    }

    // The transpose of one batch's keys or values [keys, columns], as it is read by so many blocks.
    Matrix<T> transposed(mt::Scratch& memory, const T* from, int64_t columns, int64_t blocks) const {
        if (blocks == 1 || keys * columns * static_cast<int64_t>(sizeof(T)) > kTransposedBytes)
            return {from, 1, columns};
        T* to = scratch<T>(memory, columns * (keys + kPadding));
        transpose_plane(to, keys + kPadding, from, columns, columns, keys);
        return {to, keys + kPadding, 1};
    }
    // How many keys the rows [.., end) of queries see.
    int64_t seen(int64_t end) const { return causal ? std::min(end, keys) : keys; }

    // p[rows, n]: the weights of the transposed keys for the queries [first, first + rows) of batch b; scaled query in
    // `scaled`.
    void weights(int64_t b, int64_t first, int64_t rows, int64_t n, const T* q, Matrix<T> k, T* scaled, T* p) const {
        const T* from = q + (b * queries + first) * width;
        for (int64_t i = 0; i < rows * width; ++i) scaled[i] = from[i] * scale;
        multiply<T>(rows, n, width, {scaled, width, 1}, k, p, n);
        constexpr T kNone = -std::numeric_limits<T>::infinity();
        if (mask)
            for (int64_t i = 0; i < rows; ++i) {
                const T* m = mask + b * mask_strides[0] + (first + i) * mask_strides[1];
                T* row = p + i * n;
                if (mask_strides[2] == 1)
                    for (int64_t j = 0; j < n; ++j) row[j] += m[j];
                else
                    for (int64_t j = 0; j < n; ++j) row[j] += m[j * mask_strides[2]];
            }
        if (causal)
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = first + i + 1; j < n; ++j) p[i * n + j] = kNone;
        // A query that sees no key at all gets nothing, and not NaN.
        bool hidden = false;
        for (int64_t i = 0; mask && i < rows; ++i) {
            int64_t j = 0;
            while (j < n && p[i * n + j] == kNone) ++j;
            if (j == n) {
                std::fill_n(p + i * n, n, T(0));
                scaled[i * width] = kNone;  // not needed any more: marks the row
                hidden = true;
            } else if (width) {
                scaled[i * width] = T(0);
            }
        }
        softmax_loops(sizeof(T) == 8).rows(p, p, rows, n, false);
        for (int64_t i = 0; hidden && i < rows; ++i)
            if (scaled[i * width] == kNone) std::fill_n(p + i * n, n, T(0));
    }
};

// Smaller types are computed in float32.
template <class F>
void with_type(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else body(float());
}

void attention_kernel(Call& call) {
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    with_type(out.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Attention<T> a(call, 0);
        Packed query(call.in(0), type), key(call.in(1), type), value(call.in(2), type);
        ContiguousOut target(out, type);
        int64_t block = a.block_rows(), blocks = (a.queries + block - 1) / block;
        parallel_for(a.batch * blocks, grain_of(block * a.keys * a.width), [&](int64_t begin, int64_t end) {
            T* p = scratch<T>(t_scores, block * a.keys);
            T* scaled = scratch<T>(t_query, block * a.width + block);
            Matrix<T> keys{};
            int64_t of = -1;
            for (int64_t i = begin; i < end; ++i) {
                int64_t b = i / blocks, first = i % blocks * block, rows = std::min(block, a.queries - first);
                int64_t n = a.seen(first + rows);
                T* to = target.as<T>() + (b * a.queries + first) * a.depth;
                if (n == 0) {
                    std::fill_n(to, rows * a.depth, T(0));
                    continue;
                }
                if (of != b) keys = a.transposed(t_keys, key.as<T>() + b * a.keys * a.width, a.width, blocks);
                of = b;
                a.weights(b, first, rows, n, query.as<T>(), keys, scaled, p);
                multiply<T>(rows, a.depth, n, {p, n, 1}, {value.as<T>() + b * a.keys * a.depth, a.depth, 1}, to,
                            a.depth);
            }
        });
        target.store();
    });
}

void attention_backward_kernel(Call& call) {
    with_type(call.in(0).dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Attention<T> a(call, 1);
        Packed grad(call.in(0), type), query(call.in(1), type), key(call.in(2), type), value(call.in(3), type);
        ContiguousOut gq(*call.outputs[0], type), gk(*call.outputs[1], type), gv(*call.outputs[2], type);
        int64_t block = a.block_rows(), blocks = block ? (a.queries + block - 1) / block : 0;
        int64_t of_keys = a.keys * a.width, of_values = a.keys * a.depth;
        parallel_for(a.batch, 1, [&](int64_t begin, int64_t end) {
            T* p = scratch<T>(t_scores, block * a.keys);
            T* slopes = scratch<T>(t_slopes, block * a.keys);
            T* scaled = scratch<T>(t_query, block * a.width + block);
            T* sums = scratch<T>(t_sums, a.keys * std::max(a.width, a.depth));
            for (int64_t b = begin; b < end; ++b) {
                T *to_keys = gk.as<T>() + b * of_keys, *to_values = gv.as<T>() + b * of_values;
                Matrix<T> keys = a.transposed(t_keys, key.as<T>() + b * of_keys, a.width, blocks);
                Matrix<T> values = a.transposed(t_values, value.as<T>() + b * of_values, a.depth, blocks);
                // The last block sees most keys: their gradients begin with its share.
                const int64_t all = blocks ? a.seen(a.queries) : 0;
                std::fill(to_keys + all * a.width, to_keys + of_keys, T(0));
                std::fill(to_values + all * a.depth, to_values + of_values, T(0));
                for (int64_t i = blocks - 1; i >= 0; --i) {
                    int64_t first = i * block, rows = std::min(block, a.queries - first), n = a.seen(first + rows);
                    const T* g = grad.as<T>() + (b * a.queries + first) * a.depth;
                    T* to_queries = gq.as<T>() + (b * a.queries + first) * a.width;
                    if (n == 0) {
                        std::fill_n(to_queries, rows * a.width, T(0));
                        continue;
                    }
                    const auto share = [&](T* to, const T* of_scores, const T* of_rows, int64_t columns) {
                        const bool start = i == blocks - 1;
                        multiply<T>(n, columns, rows, {of_scores, 1, n}, {of_rows, columns, 1}, start ? to : sums,
                                    columns);
                        if (!start) nn_loops<T>().add_runs(to, 0, sums, 0, n * columns, 1);
                    };
                    a.weights(b, first, rows, n, query.as<T>(), keys, scaled, p);
                    share(to_values, p, g, a.depth);
                    multiply<T>(rows, n, a.depth, {g, a.depth, 1}, values, slopes, n);
                    softmax_loops(sizeof(T) == 8).slopes(slopes, p, a.scale, rows, n);
                    multiply<T>(rows, a.width, n, {slopes, n, 1}, {key.as<T>() + b * of_keys, a.width, 1}, to_queries,
                                a.width);
                    share(to_keys, slopes, query.as<T>() + (b * a.queries + first) * a.width, a.width);
                }
            }
        });
        gq.store();
        gk.store();
        gv.store();
    });
}

const RegisterNative registered{
    {"attention", infer_attention, attention_kernel},
    {"attention_backward", infer_attention_backward, attention_backward_kernel},
};

}  // namespace

}  // namespace mt::cpu
