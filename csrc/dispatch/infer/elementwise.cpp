#include "dispatch/infer/elementwise.h"

#include <cmath>
#include <string>

#include "core/error.h"
#include "dispatch/infer/complex.h"
#include "dispatch/infer/dtype_facts.h"

namespace mt {

namespace {

[[noreturn]] void not_implemented(const char* kernel, DType dtype) {
    throw Error(ErrorKind::NotImplemented,
                std::string("\"") + kernel + "\" not implemented for '" + torch_type_name(dtype) + "'");
}

DType or_default_float(const Call& call, DType dtype) {
    return info(dtype).category < kFloating ? call.ambient.default_dtype() : dtype;
}

void set_unary(Call& call, DType compute, DType result) {
    call.compute = compute;
    call.results[0].dtype = result;
    call.results[0].sizes = call.in(0).sizes;
}

void set_broadcast(Call& call, DType compute, DType result) {
    call.compute = compute;
    ResultMeta& meta = call.results[0];
    meta.dtype = result;
    const Tensor *a = call.operands[0].tensor, *b = call.operands[1].tensor;
    if (a && b) {
        if (a->sizes == b->sizes) meta.sizes = a->sizes;
        else meta.sizes = broadcast_shapes(a->sizes, b->sizes);
    } else if (a || b) {
        meta.sizes = (a ? a : b)->sizes;
    } else {
        meta.sizes.clear();
    }
}

bool is_bool(const Operand& operand) {
    return operand.tensor ? operand.tensor->dtype == DType::Bool : operand.scalar.tag == Scalar::Bool;
}

void infer_bitwise(Call& call, const char* kernel) {
    require_tensor(call);
    DType dtype = result_type(call);
    if (info(dtype).category >= kFloating) not_implemented(kernel, dtype);
    set_broadcast(call, dtype, dtype);
}

}  // namespace

DType result_type(const Call& call) {
    const Operand* operands = call.operands;
    // Two tensors of one dtype, or a tensor with a number of no higher category: the tensor's.
    if (call.operand_count == 2) {
        const Tensor *a = operands[0].tensor, *b = operands[1].tensor;
        if (a && b && a->dtype == b->dtype) return a->dtype;
        if (const Tensor* only = a ? a : b;
            only && !(a && b) && operands[a ? 1 : 0].is_scalar &&
            static_cast<uint8_t>(info(only->dtype).category) >= operands[a ? 1 : 0].scalar.tag)
            return only->dtype;
    }
    ResultType type;
    for (size_t i = 0; i < call.operand_count; ++i) {
        if (const Tensor* t = operands[i].tensor) {
            if (t->wrapped_number) type.add_scalar(t->dtype);
            else type.add_tensor(t->dtype, t->ndim() == 0);
        } else if (operands[i].is_scalar) {
            type.add_scalar(operands[i].scalar.dtype(call.ambient));
        }
    }
    return type.get(call.ambient);
}

void require_tensor(const Call& call) {
    for (size_t i = 0; i < call.operand_count; ++i)
        if (call.operands[i].tensor) return;
    static constexpr const char* kinds[] = {"bool", "int", "float", "complex"};
    fail_type(std::string(op_name(call)) + "(): argument 'input' (position 1) must be Tensor, not " +
              kinds[static_cast<size_t>(call.operands[0].scalar.tag)]);
}

bool fits(Scalar value, DType dtype) {
    const DTypeInfo& type = info(dtype);
    if (value.tag == Scalar::Complex && type.category != kComplex && type.category != kBoolean) {
        if (value.imag != 0.0) return false;
        value = Scalar::of(value.f);
    }
    if (type.category == kInteger) {
        double bits = std::ldexp(1.0, static_cast<int>(type.itemsize * 8 - type.is_signed));
        if (value.tag == Scalar::Float)
            return value.f >= (type.is_signed ? -bits : 0.0) &&
                   (type.itemsize == 8 ? value.f < bits : value.f <= bits - 1);
        // An unsigned type takes negative integers of its range's size and wraps them, as in PyTorch.
        if (type.itemsize == 8) return true;
        auto most = (int64_t{1} << (type.itemsize * 8 - type.is_signed)) - 1;
        return value.i >= (type.is_signed ? -most - 1 : -most) && value.i <= most;
    }
    if (type.category < kFloating || value.tag < Scalar::Float) return true;
    double most = largest(real_dtype(dtype));
    auto inside = [&](double x) { return !(x > most || x < -most) || x - x != 0.0; };
    return inside(value.f) && inside(value.imag);
}

void check_fits(Scalar value, DType dtype) {
    if (!fits(value, dtype))
        fail(std::string("value cannot be converted to type ") + c_type_name(dtype) + " without overflow");
}

// Of what is first made a tensor of one element: those of 16 bits take any number, as infinities.
void check_element(Scalar value, DType dtype) {
    if (!is_floating(dtype) || itemsize(dtype) > 2) check_fits(value, dtype);
}

// Unary ------------------------------------------------------------------------------------------------------------

void infer_neg(Call& call) {
    DType dtype = call.in(0).dtype;
    if (dtype == DType::Bool)
        fail("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
             "the "
             "`~` or `logical_not()` operator instead.");
    set_unary(call, dtype, dtype);
}

void infer_abs(Call& call) {
    DType dtype = call.in(0).dtype;
    if (dtype == DType::Bool) not_implemented("abs_cpu", dtype);
    set_unary(call, dtype, real_dtype(dtype));
}

void infer_sign(Call& call) {
    refuse_complex(
        call.in(0).dtype,
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.");
    set_unary(call, call.in(0).dtype, call.in(0).dtype);
}

void infer_relu(Call& call) {
    DType dtype = call.in(0).dtype;
    if (dtype == DType::Bool) fail("Boolean inputs not supported for relu");
    refuse_complex(dtype, "clamp is not supported for complex types");
    set_unary(call, dtype, dtype);
}

void infer_square(Call& call) {
    DType dtype = call.in(0).dtype == DType::Bool ? DType::I64 : call.in(0).dtype;
    set_unary(call, dtype, dtype);
}

void infer_rounding(Call& call) {
    DType dtype = call.in(0).dtype;
    refuse_complex(dtype, (std::string(op_name(call)) + " is not supported for complex inputs").c_str());
    if (dtype == DType::Bool) not_implemented((std::string(op_name(call)) + "_vml_cpu").c_str(), dtype);
    set_unary(call, dtype, dtype);
}

void infer_float_unary(Call& call) {
    DType dtype = or_default_float(call, call.in(0).dtype);
    set_unary(call, dtype, dtype);
}

void infer_logical_not(Call& call) { set_unary(call, DType::Bool, DType::Bool); }

void infer_bitwise_not(Call& call) {
    DType dtype = call.in(0).dtype;
    if (info(dtype).category >= kFloating) not_implemented("bitwise_not_cpu", dtype);
    set_unary(call, dtype, dtype);
}

void infer_float_test(Call& call) {
    DType dtype = call.in(0).dtype;
    set_unary(call, info(dtype).category >= kFloating ? dtype : DType::F32, DType::Bool);
}

// Binary -----------------------------------------------------------------------------------------------------------

void infer_binary(Call& call) {
    DType dtype = result_type(call);
    set_broadcast(call, dtype, dtype);
}

void infer_sub(Call& call) {
    bool a = is_bool(call.operands[0]), b = is_bool(call.operands[1]);
    if (a && b)
        fail("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
             "operator instead.");
    if (a || b)
        fail("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
             "use the `~` or `logical_not()` operator instead.");
    infer_binary(call);
}

void infer_div(Call& call) {
    DType dtype = or_default_float(call, result_type(call));
    set_broadcast(call, dtype, dtype);
}

void infer_floor_divide(Call& call) {
    DType dtype = result_type(call);
    if (dtype == DType::Bool) not_implemented("div_floor_cpu", dtype);
    set_broadcast(call, dtype, dtype);
}

void infer_remainder(Call& call) {
    require_tensor(call);
    DType dtype = result_type(call);
    if (dtype == DType::Bool) not_implemented("remainder_cpu", dtype);
    set_broadcast(call, dtype, dtype);
}

void infer_pow(Call& call) {
    require_tensor(call);
    DType dtype = result_type(call);
    const Operand& exponent = call.operands[1];
    if (dtype == DType::Bool && !exponent.is_scalar)
        not_implemented("pow", dtype);  // the numbers 0 and 1 are no powers
    if (exponent.is_scalar && is_integral(dtype) && exponent.scalar.tag == Scalar::Int && exponent.scalar.i < 0)
        fail("Integers to negative integer powers are not allowed.");
    if (exponent.is_scalar && is_integral(dtype)) check_fits(exponent.scalar, dtype);
    set_broadcast(call, dtype, dtype);
}

void infer_extreme_of_two(Call& call) {
    infer_binary(call);
    if (is_complex(call.compute)) fail(std::string(op_name(call)) + " not implemented for complex tensors.");
}

void infer_equal(Call& call) { set_broadcast(call, result_type(call), DType::Bool); }

void infer_compare(Call& call) {
    infer_equal(call);
    // Complex numbers have no order; said here, so that it is said at the user's line when recording too.
    if (is_complex(call.compute)) not_implemented((std::string(op_name(call)) + "_cpu").c_str(), call.compute);
}

void infer_logical(Call& call) {
    result_type(call);  // raises for the pairs that have none
    set_broadcast(call, DType::Bool, DType::Bool);
}

void infer_bitwise_and(Call& call) { infer_bitwise(call, "bitwise_and_cpu"); }
void infer_bitwise_or(Call& call) { infer_bitwise(call, "bitwise_or_cpu"); }
void infer_bitwise_xor(Call& call) { infer_bitwise(call, "bitwise_xor_cpu"); }

// The rest ---------------------------------------------------------------------------------------------------------

void infer_where(Call& call) {
    const Operand& condition = call.operands[0];
    bool ok = condition.tensor ? condition.tensor->dtype == DType::Bool || condition.tensor->dtype == DType::U8
                               : condition.scalar.tag == Scalar::Bool;
    if (!ok)
        fail(std::string("where expected condition to be a boolean tensor, but got a tensor with dtype ") +
             torch_type_name(condition.tensor ? condition.tensor->dtype : condition.scalar.dtype(call.ambient)));
    Call values(call.ambient);
    values.operands = call.operands + 1;
    values.operand_count = 2;
    DType dtype = result_type(values);
    for (size_t i = 0; i < 2; ++i)
        if (values.operands[i].is_scalar) check_element(values.operands[i].scalar, dtype);
    call.compute = call.results[0].dtype = dtype;
    Dims& sizes = call.results[0].sizes;
    sizes = sizes_of(call.operands[0]);
    for (size_t i = 1; i < 3; ++i)
        if (const Tensor* t = call.operands[i].tensor; t && !(t->sizes == sizes))
            sizes = broadcast_shapes(sizes, t->sizes);
}

void infer_clamp(Call& call) {
    const Tensor& input = call.in(0);
    ResultType type;
    if (input.wrapped_number) type.add_scalar(input.dtype);
    else type.add_tensor(input.dtype, input.ndim() == 0);
    if (call.param(0).is_none() && call.param(1).is_none())
        fail("torch.clamp: At least one of 'min' or 'max' must not be None");
    for (size_t i = 0; i < 2; ++i)
        if (!call.param(i).is_none()) type.add_scalar(call.param(i).as_scalar().dtype(call.ambient));
    DType dtype = type.get(call.ambient);
    refuse_complex(dtype, "clamp is not supported for complex types");
    if (dtype == DType::Bool) not_implemented("clamp_scalar_cpu", dtype);
    for (size_t i = 0; i < 2; ++i)
        if (!call.param(i).is_none()) check_fits(call.param(i).as_scalar(), dtype);
    set_unary(call, dtype, dtype);
}

void infer_cast(Call& call) { set_unary(call, call.param(0).dtype, call.param(0).dtype); }

void infer_clone(Call& call) { set_unary(call, call.in(0).dtype, call.in(0).dtype); }

void infer_fill(Call& call) {
    check_fits(call.param(0).as_scalar(), call.in(0).dtype);
    set_unary(call, call.in(0).dtype, call.in(0).dtype);
}

void infer_copy(Call& call) {
    const Tensor& destination = call.in(0);
    set_unary(call, destination.dtype, destination.dtype);
    const Operand& source = call.operands[1];
    if (source.is_scalar) return check_element(source.scalar, destination.dtype);
    if (source.tensor->sizes == destination.sizes) return;
    if (!(broadcast_shapes(destination.sizes, source.tensor->sizes) == destination.sizes))
        fail("output with shape " + to_string(destination.sizes) + " doesn't match the broadcast shape " +
             to_string(broadcast_shapes(destination.sizes, source.tensor->sizes)));
}

}  // namespace mt
