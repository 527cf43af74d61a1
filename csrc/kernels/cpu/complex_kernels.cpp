#include "kernels/cpu/complex_kernels.h"

#include <vector>

#include "dispatch/infer_reduction.h"
#include "dispatch/registry.h"
#include "kernels/cpu/complex_math.h"
#include "kernels/cpu/elementwise_kernels.h"
#include "kernels/cpu/index_strided.h"

namespace mt::cpu {

namespace {

Ref<Tensor> converted(const Tensor& from, DType dtype) {
    if (from.dtype == dtype) return Tensor::view(from, from.sizes, from.strides, from.offset);
    Ref<Tensor> result = Tensor::empty(from.sizes, dtype);
    run_copy(from, *result);
    return result;
}

// The parts of complex numbers as a last dimension of 2.
Ref<Tensor> parts(const Tensor& z) {
    Dims sizes = z.sizes, strides = z.strides;
    for (int64_t& stride : strides) stride = wrapping_mul(stride, 2);
    sizes.push_back(2);
    strides.push_back(1);
    return Tensor::make(z.storage, real_dtype(z.dtype), sizes, strides, wrapping_mul(z.offset, 2));
}

// The dimensions that a reduction's first parameter means, none of them the parts'.
Value dims_of(uint64_t mask, size_t rank) {
    Value dims;
    dims.tag = Value::Ints;
    for (size_t d = 0; d < rank; ++d)
        if (mask >> d & 1) dims.ints.push_back(static_cast<int64_t>(d));
    return dims;
}

// Runs the op's own kernel on the parts, each by itself. The result is contiguous for it.
void run_on_parts(Call& call, const Tensor& in, const Value& first) {
    Tensor& out = *call.outputs[0];
    Ref<Tensor> source = parts(in), result = Tensor::empty(out.sizes, in.dtype), target = parts(*result);
    std::vector<Value> params(call.params, call.params + call.param_count);
    params[0] = first;
    Operand operand;
    operand.tensor = source.get();
    Call inner = call;
    inner.operands = &operand;
    inner.operand_count = 1;
    inner.params = params.data();
    inner.compute = source->dtype;
    inner.results[0].dtype = target->dtype;
    inner.outputs[0] = target.get();
    call.op->cpu(inner);
    run_copy(*result, out);
}

// The type that a reduction computes in: complex if its operand or its result is.
DType wider(const Call& call) {
    DType out = call.outputs[0]->dtype;
    return is_complex(out) ? out : call.in(0).dtype;
}

void sum_or_mean(Call& call) {
    const Tensor& t = call.in(0);
    Ref<Tensor> in = converted(t, wider(call));
    uint64_t mask = reduced_dims(call.param(0), t.ndim());
    if (mask == 0) return run_copy(*in, *call.outputs[0]);  // of numbers without dimensions
    run_on_parts(call, *in, dims_of(mask, t.ndim()));
}

void cumsum(Call& call) {
    const Tensor& t = call.in(0);
    Ref<Tensor> in = converted(t, wider(call));
    if (t.ndim() == 0) return run_copy(*in, *call.outputs[0]);
    Value dim;
    dim.tag = Value::Int;
    dim.i = normalize_dim(call.param(0).as_int(), t.ndim());
    run_on_parts(call, *in, dim);
}

// One factor after the other, in logical order.
template <class Z>
void products(const Tensor& in, uint64_t mask, Tensor& out) {
    Dims order_sizes, order_strides, kept_sizes;
    for (int reduced = 0; reduced < 2; ++reduced)
        for (size_t d = 0; d < in.ndim(); ++d) {
            if ((mask >> d & 1) != static_cast<uint64_t>(reduced)) continue;
            order_sizes.push_back(in.sizes[d]);
            order_strides.push_back(in.strides[d]);
        }
    Packed packed(Strided(in.data(), in.dtype, order_sizes, order_strides, in.numel), in.dtype);
    const Z* x = packed.as<Z>();
    Z* r = out.ptr<Z>();
    int64_t count = out.numel ? in.numel / out.numel : 0;
    for (int64_t i = 0; i < out.numel; ++i) {
        Z product{1, 0};
        for (int64_t k = 0; k < count; ++k) product = complex_math::mul(product, x[i * count + k]);
        r[i] = product;
    }
}

void prod(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    Ref<Tensor> in = converted(t, wider(call)), result = Tensor::empty(out.sizes, in->dtype);
    uint64_t mask = reduced_dims(call.param(0), t.ndim());
    if (in->dtype == DType::C64) products<complex64>(*in, mask, *result);
    else products<complex128>(*in, mask, *result);
    run_copy(*result, out);
}

// Whether numbers are not zero, and then as for bools.
void of_truth(Call& call) {
    Ref<Tensor> truth = converted(call.in(0), DType::Bool);
    Operand operand;
    operand.tensor = truth.get();
    Call inner = call;
    inner.operands = &operand;
    inner.operand_count = 1;
    call.op->cpu(inner);
}

struct Named {
    std::string_view op;
    KernelFn kernel;
};
constexpr Named kKernels[] = {
    {"sum", sum_or_mean}, {"mean", sum_or_mean}, {"prod", prod},
    {"cumsum", cumsum},   {"any", of_truth},     {"all", of_truth},
};

}  // namespace

KernelFn find_complex_kernel(std::string_view op) {
    for (const Named& named : kKernels)
        if (named.op == op) return named.kernel;
    return nullptr;
}

}  // namespace mt::cpu
