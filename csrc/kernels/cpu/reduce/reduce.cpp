// The reductions' kernels: sum, nansum, prod, mean, var, std, norms, amax, amin, any, all.
#include "kernels/cpu/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/isa.h"
#include "dispatch/infer/reduction.h"
#include "dispatch/op.h"

namespace mt::cpu {

const ReduceTable& select_reduce_table() {
    switch (isa()) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return avx512::reduce_table;
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return avx2::reduce_table;
#endif
        default: break;
    }
    return baseline::reduce_table;
}

namespace {

// Reduces into the call's output, which may have another dtype than the accumulators.
void reduce_into(Tensor& out, const Strided& t, uint64_t mask, const ReduceLoops& loops, const ReduceLoops& next) {
    if (out.numel == 0) return;
    ContiguousOut target(out, loops.out);
    reduce_tensor(target.data(), t, mask, loops, next);
    target.store();
}

// A complex tensor as real numbers with a last dimension of two.
struct AsReal {
    Dims sizes, strides;
    DType dtype;

    explicit AsReal(const Strided& t) : dtype(real_dtype(t.dtype)) {
        for (size_t d = 0; d < t.sizes.size(); ++d) {
            sizes.push_back(t.sizes[d]);
            strides.push_back(wrapping_mul(t.strides[d], 2));
        }
        sizes.push_back(2);
        strides.push_back(1);
    }
};

// Sums both parts.
void complex_sum(void* out, const Strided& t, uint64_t mask) {
    AsReal real(t);
    const ReduceLoops& loops = reductions().get(ReduceOp::Sum, real.dtype);
    reduce_tensor(out, Strided(t.data, real.dtype, real.sizes, real.strides, t.numel * 2), mask, loops, loops);
}

// Multiplies in logical order, one element after the other.
template <class T>
void complex_product(void* target, const Strided& t, uint64_t mask, int64_t count) {
    auto* out = static_cast<T*>(target);
    auto* in = static_cast<const T*>(t.data);
    std::fill(out, out + count, T{1, 0});
    Dims at = t.sizes;
    for (size_t d = 0; d < at.size(); ++d) at[d] = 0;
    for (int64_t i = 0; i < t.numel; ++i) {
        int64_t place = 0, from = 0;
        for (size_t d = 0; d < at.size(); ++d) {
            if (!(mask >> d & 1)) place = place * t.sizes[d] + at[d];
            from += at[d] * t.strides[d];
        }
        T a = out[place], b = in[from];
        out[place] = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
        for (size_t d = at.size(); d-- > 0;) {
            if (++at[d] < t.sizes[d]) break;
            at[d] = 0;
        }
    }
}

template <ReduceOp op>
void complex_kernel(Call& call, uint64_t mask) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    Packed converted(t, out.dtype);
    Dims strides = contiguous_strides(t.sizes);
    Strided elements(converted.data(), out.dtype, t.sizes, strides, t.numel);
    ContiguousOut target(out, out.dtype);
    if constexpr (op == ReduceOp::Prod) {
        out.dtype == DType::C64 ? complex_product<complex64>(target.data(), elements, mask, out.numel)
                                : complex_product<complex128>(target.data(), elements, mask, out.numel);
    } else {
        complex_sum(target.data(), t.dtype == out.dtype ? Strided(t) : elements, mask);
    }
    target.store();
}

template <ReduceOp op>
void sum_or_prod_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    uint64_t mask = reduced_dims(call.param(0), t.ndim());
    const ReduceTable& table = reductions();
    if (is_complex(out.dtype)) return complex_kernel<op>(call, mask);
    if (is_floating(out.dtype)) {
        const ReduceLoops &loops = table.get(op, out.dtype),
                          &next = op == ReduceOp::Prod ? loops : table.get(ReduceOp::Sum, out.dtype);
        if (!is_complex(t.dtype)) return reduce_into(out, t, mask, loops, next);
        Packed real(t, loops.in);
        return reduce_into(out, Strided(real.data(), loops.in, t.sizes, contiguous_strides(t.sizes), t.numel), mask,
                           loops, next);
    }
    // Integers are accumulated in 64 bits, which agrees with any narrower type modulo its range once the elements are
    // of that type. NaN is nothing to them.
    constexpr ReduceOp whole = op == ReduceOp::Prod ? op : ReduceOp::Sum;
    const ReduceLoops& next = table.get(whole, DType::I64);
    bool convert = is_floating(t.dtype) || is_complex(t.dtype) || (out.dtype == DType::Bool && t.dtype != DType::Bool);
    DType dtype = convert ? out.dtype : t.dtype;
    DType loop = loop_dtype(dtype) == DType::U64 ? DType::I64 : loop_dtype(dtype);
    const ReduceLoops& loops = whole == ReduceOp::Sum ? table.get(whole, loop) : next;
    if (!convert && t.dtype != DType::U64) return reduce_into(out, t, mask, loops, next);
    bool hide = op == ReduceOp::NanSum && is_floating(t.dtype);
    DType from = hide ? DType::F64 : t.dtype;
    Packed numbers(t, from, hide);
    if (hide) {
        auto* p = const_cast<double*>(numbers.as<double>());  // a copy
        for (int64_t i = 0; i < t.numel; ++i) p[i] = p[i] == p[i] ? p[i] : 0;
    }
    Packed converted(Strided(numbers.data(), from, t.sizes, contiguous_strides(t.sizes), t.numel), dtype);
    if (dtype == DType::U64) dtype = DType::I64;
    reduce_into(out, Strided(converted.data(), dtype, t.sizes, contiguous_strides(t.sizes), t.numel), mask, loops,
                next);
}

template <class T>
void divide(T* p, int64_t n, T count) {
    for (int64_t i = 0; i < n; ++i) p[i] /= count;
}

// p[i] /= count for n elements of a real dtype with loops.
void divide_all(void* p, DType dtype, int64_t n, double count) {
    dtype == DType::F32 ? divide(static_cast<float*>(p), n, static_cast<float>(count))
                        : divide(static_cast<double*>(p), n, count);
}

template <class T>
void root(T* p, int64_t n) {
    for (int64_t i = 0; i < n; ++i) p[i] = std::sqrt(p[i]);
}

void root_all(void* p, DType dtype, int64_t n) {
    dtype == DType::F32 ? root(static_cast<float*>(p), n) : root(static_cast<double*>(p), n);
}

int64_t count_reduced(const Dims& sizes, uint64_t mask) {
    int64_t count = 1;
    for (size_t d = 0; d < sizes.size(); ++d)
        if (mask >> d & 1) count *= sizes[d];
    return count;
}

void mean_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    uint64_t mask = reduced_dims(call.param(0), t.ndim());
    if (out.numel == 0) return;
    auto count = static_cast<double>(count_reduced(t.sizes, mask));
    if (is_complex(out.dtype)) {
        sum_or_prod_kernel<ReduceOp::Sum>(call);
        ContiguousOut target(out, out.dtype);
        pack(target.data(), out.dtype, out);
        divide_all(target.data(), real_dtype(out.dtype), out.numel * 2, count);
        return target.store();
    }
    const ReduceLoops& loops = reductions().get(ReduceOp::Sum, out.dtype);
    ContiguousOut target(out, loops.out);
    if (is_complex(t.dtype)) {
        Packed real(t, loops.in);
        reduce_tensor(target.data(), Strided(real.data(), loops.in, t.sizes, contiguous_strides(t.sizes), t.numel),
                      mask, loops, loops);
    } else {
        reduce_tensor(target.data(), t, mask, loops, loops);
    }
    divide_all(target.data(), loops.out, out.numel, count);
    target.store();
}

template <ReduceOp op>
void extreme_kernel(Call& call) {
    const Tensor& t = call.in(0);
    const ReduceLoops& loops = reductions().get(op, t.dtype);
    reduce_into(*call.outputs[0], t, reduced_dims(call.param(0), t.ndim()), loops, loops);
}

// any is the maximum of truth values, all the minimum.
template <ReduceOp op>
void logical_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    if (t.numel == 0) {
        std::memset(out.data(), op == ReduceOp::Min, static_cast<size_t>(out.numel));
        return;
    }
    const ReduceLoops& loops = reductions().get(op, DType::Bool);
    uint64_t mask = logical_dims(call.param(0), t.ndim());
    if (!is_complex(t.dtype)) return reduce_tensor(out.data(), t, mask, loops, loops);
    Packed truth(t, DType::Bool);
    reduce_tensor(out.data(), Strided(truth.data(), DType::Bool, t.sizes, contiguous_strides(t.sizes), t.numel), mask,
                  loops, loops);
}

// var (two passes: the mean, then the deviations from it) and, with `Root`, std.
template <bool Root>
void var_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    uint64_t mask = reduced_dims(call.param(0), t.ndim());
    const ReduceLoops& sums = reductions().get(ReduceOp::Sum, out.dtype);
    ContiguousOut target(out, sums.out);
    auto count = static_cast<double>(count_reduced(t.sizes, mask));
    Scratch means(static_cast<size_t>(out.numel) * itemsize(sums.out));
    reduce_tensor(means.data(), t, mask, sums, sums);
    divide_all(means.data(), sums.out, out.numel, count);
    reduce_deviations(target.data(), t, mask, reductions().deviations[sums.out == DType::F64], means.data());
    divide_all(target.data(), sums.out, out.numel, std::max(count - call.param(1).as_double(), 0.0));
    if (Root) root_all(target.data(), sums.out, out.numel);
    target.store();
}

// The Euclidean norm.
void norm2_kernel(Call& call) {
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    const ReduceLoops &loops = reductions().get(ReduceOp::SumSquares, out.dtype),
                      &next = reductions().get(ReduceOp::Sum, out.dtype);
    ContiguousOut target(out, loops.out);
    reduce_tensor(target.data(), call.in(0), reduced_dims(call.param(0), call.in(0).ndim()), loops, next);
    root_all(target.data(), loops.out, out.numel);
    target.store();
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"nansum", infer_nansum, sum_or_prod_kernel<ReduceOp::NanSum>},
                                    {"var", infer_var, var_kernel<false>},
                                    {"std", infer_var, var_kernel<true>},
                                    {"norm1", infer_norm, sum_or_prod_kernel<ReduceOp::SumAbs>},
                                    {"norm2", infer_norm, norm2_kernel},
                                    {"sum", infer_sum, sum_or_prod_kernel<ReduceOp::Sum>},
                                    {"prod", infer_prod, sum_or_prod_kernel<ReduceOp::Prod>},
                                    {"mean", infer_mean, mean_kernel},
                                    {"amax", infer_amax, extreme_kernel<ReduceOp::Max>},
                                    {"amin", infer_amin, extreme_kernel<ReduceOp::Min>},
                                    {"any", infer_any_all, logical_kernel<ReduceOp::Max>, Takes::Stored},
                                    {"all", infer_any_all, logical_kernel<ReduceOp::Min>, Takes::Stored},
                                }};

}  // namespace

}  // namespace mt::cpu
