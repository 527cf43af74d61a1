#include "dispatch/infer/shape/order.h"

#include <string>

#include "core/error.h"
#include "dispatch/infer/contraction.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/registry.h"

namespace mt {

namespace {

const Tensor& input_of(const Call& call, size_t i = 0) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type(std::string(op_name(call)) + "(): argument " + std::to_string(i + 1) + " must be Tensor");
    return call.in(i);
}

size_t dim_param(const Call& call, size_t i, const Tensor& t) {
    return static_cast<size_t>(normalize_dim(call.param(i).as_int(), t.ndim()));
}

ResultMeta& result(Call& call, DType dtype, const Dims& sizes) {
    call.result_count = 1;
    call.results[0].dtype = dtype;
    call.results[0].sizes = sizes;
    return call.results[0];
}

void values_and_indices(Call& call, DType dtype, const Dims& sizes) {
    result(call, dtype, sizes);
    call.result_count = 2;
    call.results[1].dtype = DType::I64;
    call.results[1].sizes = sizes;
}

[[noreturn]] void not_implemented(const char* kernel, DType dtype) {
    throw Error(ErrorKind::NotImplemented,
                std::string("\"") + kernel + "\" not implemented for '" + torch_type_name(dtype) + "'");
}

void infer_cumulative_extreme(Call& call, const char* kernel) {
    const Tensor& t = input_of(call);
    dim_param(call, 0, t);
    if (is_complex(t.dtype)) not_implemented(kernel, t.dtype);
    values_and_indices(call, t.dtype, t.sizes);
}

// Selects one element along a dimension.
void infer_selection(Call& call, const char* name, size_t dim_at, bool takes_bool) {
    const Tensor& t = input_of(call);
    size_t dim = dim_param(call, dim_at, t);
    if (t.ndim() && t.sizes[dim] == 0)
        fail_index(std::string(name) + "(): Expected reduction dim " + std::to_string(dim) + " to have non-zero size.");
    if (is_complex(t.dtype) || (!takes_bool && t.dtype == DType::Bool))
        not_implemented((std::string(name) + "_cpu").c_str(), t.dtype);
    Dims sizes;
    for (size_t d = 0; d < t.ndim(); ++d) {
        if (d != dim) sizes.push_back(t.sizes[d]);
        else if (call.param(dim_at + 1).as_bool()) sizes.push_back(1);
    }
    values_and_indices(call, t.dtype, sizes);
}

}  // namespace

DType scan_dtype(DType input, const Call& call) {
    if (call.param_count > 1 && !call.param(1).is_none()) return call.param(1).dtype;
    return is_floating(input) || is_complex(input) ? input : DType::I64;
}

void check_scan_inplace(const Call& call, const Tensor& destination) {
    if (call.op->infer != infer_cumsum && call.op->infer != infer_cumprod) return;
    if (call.param(1).is_none() || call.param(1).dtype == destination.dtype) return;
    fail(std::string("Bad in-place call: input tensor dtype ") + cpp_name(destination.dtype) +
         " and output tensor dtype " + cpp_name(call.param(1).dtype) + " should match");
}

void infer_cumsum(Call& call) {
    const Tensor& t = input_of(call);
    dim_param(call, 0, t);
    DType dtype = scan_dtype(t.dtype, call);
    if (dtype == DType::Bool && t.ndim() && t.numel) not_implemented("cumsum_out_cpu", dtype);
    result(call, dtype, t.sizes);
}

void infer_cumprod(Call& call) {
    const Tensor& t = input_of(call);
    dim_param(call, 0, t);
    DType dtype = scan_dtype(t.dtype, call);
    if (dtype == DType::Bool && t.ndim() && t.numel) not_implemented("cumprod_out_cpu", dtype);
    result(call, dtype, t.sizes);
}

void infer_cumprod_backward(Call& call) {
    const Tensor &grad = input_of(call, 0), &input = input_of(call, 1);
    dim_param(call, 0, input);
    if (grad.sizes != input.sizes || grad.dtype != input.dtype ||
        !(is_floating(input.dtype) || is_complex(input.dtype)))
        fail("the gradient of cumprod takes two floating-point or complex tensors of the same dtype and shape");
    result(call, input.dtype, input.sizes);
}

void infer_logcumsumexp(Call& call) {
    const Tensor& t = input_of(call);
    dim_param(call, 0, t);
    if (!is_floating(t.dtype) && !is_complex(t.dtype)) not_implemented("logcumsumexp_out_cpu", t.dtype);
    result(call, t.dtype, t.sizes);
}

void infer_cummax(Call& call) { infer_cumulative_extreme(call, "cummax_cpu"); }
void infer_cummin(Call& call) { infer_cumulative_extreme(call, "cummin_cpu"); }

void infer_sort(Call& call) {
    const Tensor& t = input_of(call);
    dim_param(call, 0, t);
    if (is_complex(t.dtype)) fail(" Sort does not support complex dtypes on CPU");
    values_and_indices(call, t.dtype, t.sizes);
}

void infer_topk(Call& call) {
    const Tensor& t = input_of(call);
    size_t dim = dim_param(call, 1, t);
    int64_t k = call.param(0).as_int();
    if (k < 0 || k > (t.ndim() ? t.sizes[dim] : 1)) fail("selected index k out of range");
    if (is_complex(t.dtype)) fail(" topk does not support complex dtypes on CPU");
    if (t.dtype == DType::Bool) fail("topk does not support bool dtypes on CPU");
    Dims sizes = t.sizes;
    if (t.ndim()) sizes[dim] = k;
    values_and_indices(call, t.dtype, sizes);
}

void infer_kthvalue(Call& call) {
    const Tensor& t = input_of(call);
    size_t dim = dim_param(call, 1, t);
    int64_t k = call.param(0).as_int(), n = t.ndim() ? t.sizes[dim] : 1;
    if (n == 0) fail_index("kthvalue(): Expected reduction dim " + std::to_string(dim) + " to have non-zero size.");
    if (k < 1 || k > n)
        fail("kthvalue(): selected number k out of range for dimension " + std::to_string(static_cast<int64_t>(dim)));
    infer_selection(call, "kthvalue", 1, false);
}

void infer_median_dim(Call& call) { infer_selection(call, "median", 0, false); }
void infer_nanmedian_dim(Call& call) { infer_selection(call, "nanmedian", 0, false); }
void infer_median(Call& call) {
    const Tensor& t = input_of(call);
    if (is_complex(t.dtype) || t.dtype == DType::Bool) not_implemented("median_cpu", t.dtype);
    result(call, t.dtype, {});
}

void infer_nanmedian(Call& call) {
    const Tensor& t = input_of(call);
    if (is_complex(t.dtype) || t.dtype == DType::Bool) not_implemented("nanmedian_cpu", t.dtype);
    result(call, t.dtype, {});
}

void infer_mode(Call& call) { infer_selection(call, "mode", 0, true); }

void infer_searchsorted(Call& call) {
    const Tensor &sorted = input_of(call, 0), &values = input_of(call, 1);
    for (const Tensor* t : {&sorted, &values})
        if (is_complex(t->dtype) || t->dtype == DType::Bool) not_implemented("searchsorted_out_cpu", t->dtype);
    result(call, call.param(0).as_bool() ? DType::I32 : DType::I64, values.sizes);
}

void infer_order_rows(Call& call) {
    const Tensor& t = input_of(call);
    if (t.ndim() != 2) fail("_order_rows(): expected a matrix, got " + std::to_string(t.ndim()) + " dimensions");
    if (is_complex(t.dtype)) not_implemented("unique", t.dtype);
    Dims sizes;
    sizes.push_back(t.sizes[0]);
    result(call, DType::I64, sizes);
}

void infer_bincount(Call& call) {
    const Tensor& t = input_of(call);
    const Tensor* weights = call.operands[1].tensor;
    if (t.ndim() != 1 || (weights && (weights->ndim() != 1 || weights->sizes[0] != t.sizes[0])))
        fail("weights should be 1-d and have the same length as input");
    Dims sizes;
    sizes.push_back(call.param(0).as_int());
    result(call, !weights ? DType::I64 : weights->dtype == DType::F32 ? DType::F32 : DType::F64, sizes);
}

void infer_histogramdd(Call& call) {
    const Tensor& t = input_of(call);
    if (t.ndim() != 2) fail("_histogramdd(): expected a matrix of points");
    if (!is_floating(t.dtype)) not_implemented("histogramdd", t.dtype);
    result(call, t.dtype, call.param(0).ints);
}

void infer_segment_reduce(Call& call) {
    const Tensor &data = input_of(call, 0), &offsets = input_of(call, 1);
    auto axis = static_cast<size_t>(call.param(2).as_int());
    if (offsets.ndim() != axis + 1 || data.ndim() <= axis)
        fail("segment_reduce(): offsets must have the dimensions of data up to axis");
    if (!is_floating(data.dtype)) not_implemented("_segment_reduce_cpu", data.dtype);
    Dims sizes = data.sizes;
    sizes[axis] = offsets.sizes[axis] - 1;
    result(call, data.dtype, sizes);
}

}  // namespace mt
