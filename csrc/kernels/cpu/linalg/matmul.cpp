// matmul: describes the operands to the runtime's GEMM by their strides; nothing is copied. A complex product is four
// real ones, of the parts where they lie.
#include "dispatch/call.h"
#include "dispatch/infer/contraction.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/linalg/matmul_narrow.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "runtime/abi.h"
#include "runtime/errors.h"

namespace mt::cpu {

namespace {

using GemmFn = void (*)(const MtGemm*);

// A product of a vector has an order of its own; of integers the order makes no difference.
GemmFn gemm_for(DType dtype, bool vector) {
    const MtRuntime* runtime = mt_runtime();
    if (vector && dtype == DType::F32) return runtime->gemv_f32;
    if (vector && dtype == DType::F64) return runtime->gemv_f64;
    switch (dtype) {
        case DType::F32: return runtime->gemm_f32;
        case DType::F64: return runtime->gemm_f64;
        case DType::I32: return runtime->gemm_s32;
        case DType::I64: return runtime->gemm_s64;
        default: return runtime->gemm_u8;
    }
}

constexpr int64_t kGrain = 1 << 14;

// A batch dimension, with its stride in each of a, b and c.
struct Batch {
    int64_t size, a, b, c;
};

// The batch dimensions of the product, merged where all three lie regularly.
size_t batch_dims(const Tensor& a, const Tensor& b, const Tensor& out, Batch* batches) {
    size_t rank_a = a.ndim() > 2 ? a.ndim() - 2 : 0, rank_b = b.ndim() > 2 ? b.ndim() - 2 : 0;
    size_t rank = rank_a > rank_b ? rank_a : rank_b, count = 0;
    auto stride_of = [rank](const Tensor& t, size_t own, size_t d) {
        size_t lead = rank - own;
        return d < lead || t.sizes[d - lead] == 1 ? 0 : t.strides[d - lead];
    };
    for (size_t d = 0; d < rank; ++d) {
        Batch next{out.sizes[d], stride_of(a, rank_a, d), stride_of(b, rank_b, d), out.strides[d]};
        if (next.size == 1) continue;
        Batch* last = batches + count - 1;
        if (count && last->a == next.a * next.size && last->b == next.b * next.size && last->c == next.c * next.size)
            *last = {last->size * next.size, next.a, next.b, next.c};
        else batches[count++] = next;
    }
    return count;
}

// What is done with each finished tile of a product.
struct Epilogue {
    decltype(MtGemm::epilogue) fn;
    void* ctx;
};

// out = a b. Returns whether the epilogue has been called: it is for a product that is one call of the GEMM.
bool product(const Tensor& a, const Tensor& b, const Tensor& out, const Epilogue* epilogue = nullptr) {
    size_t rank_a = a.ndim(), rank_b = b.ndim(), rank_c = out.ndim();
    MtGemm g{};
    g.batch = 1;
    g.k = a.sizes[rank_a - 1];
    g.a = a.data();
    g.b = b.data();
    g.c = out.data();
    g.a_cs = a.strides[rank_a - 1];
    g.m = g.n = 1;
    if (rank_a > 1) {
        g.m = a.sizes[rank_a - 2];
        g.a_rs = a.strides[rank_a - 2];
    }
    g.b_rs = b.strides[rank_b == 1 ? 0 : rank_b - 2];
    if (rank_b > 1) {
        g.n = b.sizes[rank_b - 1];
        g.b_cs = b.strides[rank_b - 1];
    }
    g.c_rs = g.n;
    g.c_cs = 1;
    if (rank_b > 1) g.c_cs = out.strides[--rank_c];
    if (rank_a > 1) g.c_rs = out.strides[--rank_c];

    // By the logical sizes: all batches of `a` are rows if `b` has none.
    const bool one_row = rank_b > 2 ? g.m == 1 : a.numel == g.k;
    const bool vector = g.k > 0 && (one_row || g.n == 1);

    Batch batches[kMaxDims];
    size_t count = batch_dims(a, b, out, batches);
    if (count) {
        // The innermost batch goes along; one that `b` doesn't depend on makes more rows.
        Batch inner = batches[--count];
        if (g.m == 1) {
            g.a_rs = inner.a;
            g.c_rs = inner.c;
        }
        if (inner.b == 0 && !(one_row && g.n > 1) && inner.a == g.a_rs * g.m && inner.c == g.c_rs * g.m) {
            g.m *= inner.size;
        } else {
            g.batch = inner.size;
            g.a_bs = inner.a;
            g.b_bs = inner.b;
            g.c_bs = inner.c;
        }
    }
    GemmFn gemm = gemm_for(a.dtype, vector);
    forget_runtime_error();
    if (!count) {
        const bool whole = epilogue != nullptr && !vector && g.batch == 1;
        if (whole) {
            g.epilogue = epilogue->fn;
            g.epilogue_ctx = epilogue->ctx;
        }
        gemm(&g);
        rethrow_runtime_error();  // the runtime's functions don't throw
        return whole;
    }
    auto size = static_cast<int64_t>(itemsize(a.dtype));
    int64_t calls = 1;
    for (size_t d = 0; d < count; ++d) calls *= batches[d].size;
    for (int64_t i = 0; i < calls; ++i) {
        MtGemm part = g;
        int64_t rest = i, at_a = 0, at_b = 0, at_c = 0;
        for (size_t d = count; d-- > 0;) {
            int64_t index = rest % batches[d].size;
            rest /= batches[d].size;
            at_a += index * batches[d].a;
            at_b += index * batches[d].b;
            at_c += index * batches[d].c;
        }
        part.a = static_cast<const char*>(g.a) + at_a * size;
        part.b = static_cast<const char*>(g.b) + at_b * size;
        part.c = static_cast<char*>(g.c) + at_c * size;
        gemm(&part);
        rethrow_runtime_error();
    }
    return false;
}

// The real (0) or imaginary (1) parts of a complex tensor, as a tensor on the same memory. The storage has a handle of
// its own: others may count on theirs meanwhile.
Ref<Tensor> part(const Tensor& t, int64_t which) {
    Dims strides = t.strides;
    for (int64_t& stride : strides) stride *= 2;
    return Tensor::make(Storage::alias(*t.storage), real_dtype(t.dtype), t.sizes, strides, t.offset * 2 + which);
}

template <class T>
void complex_product(const Tensor& a, const Tensor& b, Tensor& out) {
    ContiguousOut target(out, out.dtype);
    Ref<Tensor> first = Tensor::empty(out.sizes, real_dtype(out.dtype)),
                second = Tensor::empty(out.sizes, real_dtype(out.dtype));
    auto* to = static_cast<T*>(target.data());
    const T *x = first->ptr<T>(), *y = second->ptr<T>();
    for (int64_t imaginary = 0; imaginary < 2; ++imaginary) {
        product(*part(a, 0), *part(b, imaginary), *first);
        product(*part(a, 1), *part(b, 1 - imaginary), *second);
        parallel_for(out.numel, kGrain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) to[2 * i + imaginary] = imaginary ? x[i] + y[i] : x[i] - y[i];
        });
    }
    target.store();
}

void matmul_kernel(Call& call) {
    const Tensor &a = call.in(0), &b = call.in(1);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    switch (a.dtype) {
        case DType::C64: return complex_product<float>(a, b, out);
        case DType::C128: return complex_product<double>(a, b, out);
        case DType::U8:
        case DType::I32:
        case DType::I64:
        case DType::F32:
        case DType::F64: product(a, b, out); return;
        default:
            if (!narrow_product(a, b, out)) widen_callback(call);
    }
}

// c = beta x + alpha c, for a matrix c with contiguous rows.
template <class T>
struct Addition {
    const T* x;
    int64_t rs, cs;
    T beta, alpha;
    T* c;
    int64_t c_rs;

    template <class Combine>
    void each(int64_t row0, int64_t rows, int64_t col0, int64_t cols, Combine combine) const {
        for (int64_t i = row0; i < row0 + rows; ++i) {
            T* to = c + i * c_rs + col0;
            const T* from = x + i * rs + col0 * cs;
            if (cs == 1) {
                for (int64_t j = 0; j < cols; ++j) to[j] = combine(from[j], to[j]);
            } else {
                for (int64_t j = 0; j < cols; ++j) to[j] = combine(from[j * cs], to[j]);
            }
        }
    }

    void tile(int64_t row0, int64_t rows, int64_t col0, int64_t cols) const {
        const T p = beta, q = alpha;
        // 1 times anything is itself, but for the bits of a NaN.
        if (p == 1 && q == 1) return each(row0, rows, col0, cols, [](T from, T to) { return from + to; });
        each(row0, rows, col0, cols, [p, q](T from, T to) { return from * p + to * q; });
    }
};

// What a call adds to the product in `to`.
template <class T>
Addition<T> addition_of(const Call& call, const Tensor& input, const Tensor& to) {
    const size_t rank = input.ndim();
    return {input.ptr<T>(),
            rank == 2 && input.sizes[0] != 1 ? input.strides[0] : 0,
            rank > 0 && input.sizes[rank - 1] != 1 ? input.strides[rank - 1] : 0,
            static_cast<T>(call.param(0).as_double()),
            static_cast<T>(call.param(1).as_double()),
            to.ptr<T>(),
            to.sizes.back()};
}

template <class T>
void addmm(Call& call) {
    const Tensor &input = call.in(0), &a = call.in(1), &b = call.in(2);
    Tensor& out = *call.outputs[0];
    const int64_t n = out.sizes.back(), rows = out.numel / n;
    Ref<Tensor> own;  // of an `out` whose rows are not in order
    if (!is_contiguous(out.sizes, out.strides)) own = Tensor::empty(out.sizes, out.dtype);
    const Tensor& to = own ? *own : out;
    Addition<T> addition = addition_of<T>(call, input, to);
    const Epilogue epilogue{[](void* ctx, int64_t, int64_t row0, int64_t count, int64_t col0, int64_t cols) {
                                static_cast<const Addition<T>*>(ctx)->tile(row0, count, col0, cols);
                            },
                            &addition};
    // A small result is in the cache still when the product is done, which takes a quicker path without an epilogue.
    const bool done = product(a, b, to, out.numel > kGrain / 2 ? &epilogue : nullptr);
    if (!done) {
        parallel_for(rows, kGrain / n + 1,
                     [&](int64_t begin, int64_t end) { addition.tile(begin, end - begin, 0, n); });
    }
    if (own) run_copy(*own, out);
}

// In float32, and rounded once. Returns false where the whole call is better converted.
bool addmm_narrow(Call& call) {
    Tensor& out = *call.outputs[0];
    const Ref<Tensor> wide = Tensor::empty(out.sizes, DType::F32);
    if (!narrow_product(call.in(1), call.in(2), *wide)) return false;
    const Ref<Tensor> input = Tensor::empty(call.in(0).sizes, DType::F32);
    run_copy(call.in(0), *input);
    const Addition<float> addition = addition_of<float>(call, *input, *wide);
    const int64_t n = out.sizes.back();
    parallel_for(out.numel / n, kGrain / n + 1,
                 [&](int64_t begin, int64_t end) { addition.tile(begin, end - begin, 0, n); });
    run_copy(*wide, out);
    return true;
}

void addmm_kernel(Call& call) {
    if (call.outputs[0]->numel == 0) return;
    switch (call.in(1).dtype) {
        case DType::F32: return addmm<float>(call);
        case DType::F64: return addmm<double>(call);
        default:
            if (!addmm_narrow(call)) widen_callback(call);
    }
}

const RegisterNative registered{{"matmul", infer_matmul, matmul_kernel, Takes::Any},
                                {"_addmm", infer_addmm, addmm_kernel, Takes::Any}};

}  // namespace

}  // namespace mt::cpu
