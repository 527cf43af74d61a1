// Systems with triangular matrices. Rows are solved in blocks; what earlier blocks contribute is a matrix product, so
// the order of the operations depends on the sizes alone.
#include <complex>

#include "core/process/parallel.h"
#include "dispatch/infer/contraction.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/nn/loops.h"
#include "runtime/products/gemm.h"
#include "runtime/products/gemv.h"

namespace mt::cpu {

namespace {

constexpr int64_t kBlock = 32;               // rows that are solved one by one
constexpr int64_t kParallelWork = 1 << 15;  // operations that are worth a thread

// A lower triangular matrix of any strides. An upper one is lower from its last row and column on, backwards.
template <class T>
struct Lower {
    const T* data;
    int64_t rs, cs;
    bool unit;

    T at(int64_t i, int64_t j) const { return data[i * rs + j * cs]; }
    Lower from(int64_t i) const { return {data + i * (rs + cs), rs, cs, unit}; }
};

// n rows of m contiguous elements, which become the solution.
template <class T>
struct Rows {
    T* data;
    int64_t step, m;

    T* row(int64_t i) const { return data + i * step; }
    Rows from(int64_t i) const { return {row(i), step, m}; }
};

const NnLoops<float>& loops(const float*) { return nn_table().f32; }
const NnLoops<double>& loops(const double*) { return nn_table().f64; }

// row i -= the sum of a[i, k] * row k over k < i, in that order.
template <class T>
void eliminate(const Lower<T>& a, const Rows<T>& x, int64_t i) {
    T weights[kBlock];
    int64_t offsets[kBlock];
    weights[0] = 1;
    offsets[0] = i * x.step;
    for (int64_t k = 0; k < i; ++k) {
        weights[k + 1] = -a.at(i, k);
        offsets[k + 1] = k * x.step;
    }
    // It starts at -0.0, to which adding anything changes no bit.
    loops(a.data).stencil(x.row(i), x.data, weights, offsets, i + 1, T(-0.0), x.m);
}

template <class T>
void eliminate(const Lower<std::complex<T>>& a, const Rows<std::complex<T>>& x, int64_t i) {
    auto* to = reinterpret_cast<T*>(x.row(i));
    for (int64_t k = 0; k < i; ++k) {
        const std::complex<T> w = a.at(i, k);
        const T re = w.real(), im = w.imag();
        const auto* from = reinterpret_cast<const T*>(x.row(k));
        for (int64_t j = 0; j < 2 * x.m; j += 2) {
            to[j] -= re * from[j] - im * from[j + 1];
            to[j + 1] -= re * from[j + 1] + im * from[j];
        }
    }
}

// to = a x, for matrices of any strides.
template <class T>
void multiply(const T* a, int64_t a_rs, int64_t a_cs, const T* x, int64_t x_rs, int64_t x_cs, T* to, int64_t rows,
              int64_t count, int64_t m) {
    MtGemm g{};
    g.m = rows, g.n = m, g.k = count, g.batch = 1;
    g.a = a, g.a_rs = a_rs, g.a_cs = a_cs;
    g.b = x, g.b_rs = x_rs, g.b_cs = x_cs;
    g.c = to, g.c_rs = m, g.c_cs = 1;
    rows == 1 || m == 1 ? gemv<T>(&g) : gemm<T>(&g);
}

// `rows` rows of `below` -= a times `count` rows of x, where a is any matrix.
template <class T>
void subtract_product(const Lower<T>& a, const Rows<T>& x, const Rows<T>& below, int64_t rows, int64_t count) {
    Scratch scratch(static_cast<size_t>(rows * x.m) * sizeof(T));
    T* product = scratch.as<T>();
    multiply(a.data, a.rs, a.cs, x.data, x.step, 1, product, rows, count, x.m);
    for (int64_t i = 0; i < rows; ++i) {
        T* to = below.row(i);
        for (int64_t j = 0; j < x.m; ++j) to[j] -= product[i * x.m + j];
    }
}

// A complex product is four real ones, of the parts where they lie.
template <class T>
void subtract_product(const Lower<std::complex<T>>& a, const Rows<std::complex<T>>& x,
                      const Rows<std::complex<T>>& below, int64_t rows, int64_t count) {
    Scratch scratch(static_cast<size_t>(rows * x.m) * sizeof(T));
    T* product = scratch.as<T>();
    const auto *from = reinterpret_cast<const T*>(a.data), *with = reinterpret_cast<const T*>(x.data);
    for (int64_t p = 0; p < 2; ++p)
        for (int64_t q = 0; q < 2; ++q) {
            multiply(from + p, 2 * a.rs, 2 * a.cs, with + q, 2 * x.step, 2, product, rows, count, x.m);
            for (int64_t i = 0; i < rows; ++i) {
                T* to = reinterpret_cast<T*>(below.row(i)) + (p ^ q);
                const T* of = product + i * x.m;
                if (p && q)
                    for (int64_t j = 0; j < x.m; ++j) to[2 * j] += of[j];
                else
                    for (int64_t j = 0; j < x.m; ++j) to[2 * j] -= of[j];
            }
        }
}

template <class T>
void solve(const Lower<T>& a, const Rows<T>& x, int64_t n) {
    if (n > kBlock) {
        const int64_t half = (n / 2 + kBlock - 1) / kBlock * kBlock;
        solve(a, x, half);
        subtract_product({a.data + half * a.rs, a.rs, a.cs, false}, x, x.from(half), n - half, half);
        return solve(a.from(half), x.from(half), n - half);
    }
    for (int64_t i = 0; i < n; ++i) {
        if (i) eliminate(a, x, i);
        if (a.unit) continue;
        const T pivot = a.at(i, i);
        T* to = x.row(i);
        for (int64_t j = 0; j < x.m; ++j) to[j] /= pivot;
    }
}

// The strides of a tensor's batches, broadcast to those of the result.
Dims batch_strides(const Tensor& t, const Dims& sizes) {
    Dims target = sizes;
    for (size_t d = 0; d < 2; ++d) target[target.size() - 1 - d] = t.sizes[t.ndim() - 1 - d];
    return broadcast_strides(t.sizes, t.strides, target);
}

template <class T>
void solve_all(const Tensor& a, const Tensor& b, Tensor& out, bool upper, bool left, bool unit) {
    const size_t rank = out.ndim();
    const int64_t n = a.sizes[a.ndim() - 1], m = out.sizes[rank - (left ? 1 : 2)];
    // X A = B is A^T X^T = B^T.
    Dims a_strides = batch_strides(a, out.sizes), order = contiguous_strides(out.sizes);
    if (!left) {
        std::swap(a_strides[rank - 1], a_strides[rank - 2]);
        order[rank - 1] = m;
        order[rank - 2] = 1;
        upper = !upper;
    }
    ContiguousOut target(out, out.dtype);
    Scratch transposed;
    void* place = left ? target.data() : transposed.reserve(static_cast<size_t>(out.numel) * sizeof(T));
    T* x = static_cast<T*>(place);
    strided_copy(x, order, b.data(), broadcast_strides(b.sizes, b.strides, out.sizes), out.sizes, sizeof(T));
    const int64_t batches = out.numel / (n * m);
    parallel_for(batches, kParallelWork / (n * n * m) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const T* from = a.ptr<T>();
            int64_t rest = i;
            for (size_t d = rank - 2; d-- > 0;) {
                from += rest % out.sizes[d] * a_strides[d];
                rest /= out.sizes[d];
            }
            Lower<T> matrix{from, a_strides[rank - 2], a_strides[rank - 1], unit};
            Rows<T> rows{x + i * n * m, m, m};
            if (upper) {
                matrix = {from + (n - 1) * (matrix.rs + matrix.cs), -matrix.rs, -matrix.cs, unit};
                rows = {rows.row(n - 1), -m, m};
            }
            solve(matrix, rows, n);
        }
    });
    if (!left) strided_copy(target.data(), contiguous_strides(out.sizes), x, order, out.sizes, sizeof(T));
    target.store();
}

void solve_triangular(Call& call) {
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    auto* run = out.dtype == DType::F32   ? solve_all<float>
                : out.dtype == DType::F64 ? solve_all<double>
                : out.dtype == DType::C64 ? solve_all<std::complex<float>>
                                          : solve_all<std::complex<double>>;
    run(call.in(0), call.in(1), out, call.param(0).as_bool(), call.param(1).as_bool(), call.param(2).as_bool());
}

const RegisterNative registered{{"_linalg_solve_triangular", infer_solve_triangular, solve_triangular, Takes::Any}};

}  // namespace

}  // namespace mt::cpu
