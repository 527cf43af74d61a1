#include "dispatch/infer/reduction.h"

#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

const Tensor& input_of(const Call& call, size_t i = 0) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type("argument " + std::to_string(i + 1) + " must be Tensor");
    return call.in(i);
}

void reduced_sizes(const Dims& sizes, uint64_t mask, bool keepdim, Dims& out) {
    out.clear();
    for (size_t d = 0; d < sizes.size(); ++d) {
        if (!(mask >> d & 1)) out.push_back(sizes[d]);
        else if (keepdim) out.push_back(1);
    }
}

bool flag(const Call& call, size_t i) { return i < call.param_count && call.param(i).as_bool(); }

// The explicit dtype parameter i, or `fallback`.
DType dtype_param(const Call& call, size_t i, DType fallback) {
    if (i >= call.param_count || call.param(i).is_none()) return fallback;
    return call.param(i).dtype;
}

void one_result(Call& call, const Tensor& t, uint64_t mask, bool keepdim, DType dtype) {
    call.result_count = 1;
    call.results[0].dtype = dtype;
    reduced_sizes(t.sizes, mask, keepdim, call.results[0].sizes);
}

void infer_accumulation(Call& call) {
    const Tensor& t = input_of(call);
    DType dtype = dtype_param(call, 2, is_floating(t.dtype) || is_complex(t.dtype) ? t.dtype : DType::I64);
    one_result(call, t, reduced_dims(call.param(0), t.ndim()), flag(call, 1), dtype);
}

// A reduction without an identity needs elements.
void check_not_empty(const char* name, const Tensor& t, uint64_t mask, bool all, bool index_error) {
    if (t.numel) return;
    if (all) {
        std::string text = std::string(name) + "(): Expected reduction dim to be specified for input.numel() == 0.";
        if (index_error) fail_index(text);
        fail(text + " Specify the reduction dim with the 'dim' argument.");
    }
    for (size_t d = 0; d < t.ndim(); ++d)
        if ((mask >> d & 1) && t.sizes[d] == 0)
            fail_index(std::string(name) + "(): Expected reduction dim " + std::to_string(d) +
                       " to have non-zero size.");
}

void refuse_complex(const char* name, const Tensor& t) {
    if (is_complex(t.dtype)) fail(std::string(name) + "(): does not support complex input");
}

bool is_all(const Value& dim) { return dim.is_none() || (dim.tag == Value::Ints && dim.ints.empty()); }

void infer_extreme(Call& call, const char* name) {
    const Tensor& t = input_of(call);
    if (is_complex(t.dtype))
        throw Error(ErrorKind::NotImplemented, std::string("\"") + (name + 1) + "_values_cpu\" not implemented for '" +
                                                   torch_type_name(t.dtype) + "'");
    uint64_t mask = reduced_dims(call.param(0), t.ndim());
    check_not_empty(name, t, mask, is_all(call.param(0)), false);
    one_result(call, t, mask, flag(call, 1), t.dtype);
}

void infer_arg(Call& call, const char* name) {
    const Tensor& t = input_of(call);
    if (t.dtype == DType::Bool) fail(std::string(name) + "(): does not support bool input");
    refuse_complex(name, t);
    uint64_t mask = reduced_dims(call.param(0), t.ndim());
    check_not_empty(name, t, mask, call.param(0).is_none(), true);
    one_result(call, t, mask, flag(call, 1), DType::I64);
}

void infer_extreme_dim(Call& call, const char* name) {
    const Tensor& t = input_of(call);
    refuse_complex(name, t);
    uint64_t mask = uint64_t(1) << normalize_dim(call.param(0).as_int(), t.ndim());
    check_not_empty(name, t, mask, false, true);
    bool keepdim = flag(call, 1);
    one_result(call, t, mask, keepdim, t.dtype);
    call.result_count = 2;
    call.results[1].dtype = DType::I64;
    reduced_sizes(t.sizes, mask, keepdim, call.results[1].sizes);
}

}  // namespace

uint64_t reduced_dims(const Value& dim, size_t rank) {
    auto all = rank >= 64 ? ~uint64_t(0) : (uint64_t(1) << rank) - 1;
    if (dim.is_none()) return all;
    if (dim.tag != Value::Ints) {
        auto bit = uint64_t(1) << normalize_dim(dim.as_int(), rank);
        return bit & all;  // a 0-d tensor has no dimension to reduce
    }
    if (dim.ints.empty()) return all;
    uint64_t mask = 0;
    for (int64_t d : dim.ints) {
        auto bit = uint64_t(1) << normalize_dim(d, rank);
        if (mask & bit)
            fail("dim " + std::to_string(normalize_dim(d, rank)) + " appears multiple times in the list of dims");
        mask |= bit;
    }
    return mask & all;
}

uint64_t logical_dims(const Value& dim, size_t rank) {
    return dim.tag == Value::Ints && dim.ints.empty() ? 0 : reduced_dims(dim, rank);
}

void infer_sum(Call& call) { infer_accumulation(call); }
void infer_prod(Call& call) { infer_accumulation(call); }

void infer_mean(Call& call) {
    const Tensor& t = input_of(call);
    bool given = call.param_count > 2 && !call.param(2).is_none();
    DType dtype = dtype_param(call, 2, t.dtype);
    if (!is_floating(dtype) && !is_complex(dtype))
        fail(std::string("mean(): could not infer output dtype. ") + (given ? "Optional" : "Input") +
             " dtype must be either a floating point or complex dtype. Got: " + torch_type_name(dtype));
    one_result(call, t, reduced_dims(call.param(0), t.ndim()), flag(call, 1), dtype);
}

void infer_nansum(Call& call) {
    if (is_complex(input_of(call).dtype)) fail("nansum on CPU does not support complex inputs");
    infer_accumulation(call);
}

void infer_norm(Call& call) {
    const Tensor& t = input_of(call);
    DType dtype = dtype_param(call, 2, t.dtype);
    if (!is_floating(dtype) || is_complex(t.dtype))
        fail(std::string("linalg.vector_norm: Expected a floating point or complex tensor as input. Got ") +
             torch_type_name(t.dtype));
    one_result(call, t, reduced_dims(call.param(0), t.ndim()), flag(call, 1), dtype);
}

void infer_var(Call& call) {
    const Tensor& t = input_of(call);
    if (!is_floating(t.dtype)) fail("std and var only support floating point and complex dtypes");
    one_result(call, t, reduced_dims(call.param(0), t.ndim()), flag(call, 2), t.dtype);
}

void infer_amax(Call& call) { infer_extreme(call, "amax"); }
void infer_amin(Call& call) { infer_extreme(call, "amin"); }

void infer_any_all(Call& call) {
    const Tensor& t = input_of(call);
    one_result(call, t, logical_dims(call.param(0), t.ndim()), flag(call, 1),
               t.dtype == DType::U8 ? DType::U8 : DType::Bool);
}

void infer_argmax(Call& call) { infer_arg(call, "argmax"); }
void infer_argmin(Call& call) { infer_arg(call, "argmin"); }
void infer_max_dim(Call& call) { infer_extreme_dim(call, "max"); }
void infer_min_dim(Call& call) { infer_extreme_dim(call, "min"); }

void infer_prod_backward(Call& call) {
    const Tensor &grad = input_of(call, 0), &input = input_of(call, 1);
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), input.ndim()));
    Dims sizes = input.sizes;
    if (!sizes.empty()) sizes[dim] = 1;
    if (grad.sizes != sizes || grad.dtype != input.dtype || !is_floating(input.dtype))
        fail("the gradient of prod takes two floating-point tensors of the same dtype, one reduced along dim");
    call.result_count = 1;
    call.results[0].dtype = input.dtype;
    call.results[0].sizes = input.sizes;
}

void infer_logsumexp(Call& call) {
    const Tensor& t = input_of(call);
    if (!is_floating(t.dtype))
        fail(std::string("logsumexp(): Expected floating point type for result tensor, but got: ") +
             torch_type_name(t.dtype));
    one_result(call, t, uint64_t(1) << normalize_dim(call.param(0).as_int(), t.ndim()), flag(call, 1), t.dtype);
}

}  // namespace mt
