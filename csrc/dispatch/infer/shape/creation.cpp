#include "dispatch/infer/shape/creation.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "core/error.h"
#include "dispatch/infer/dtype_facts.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/registry.h"

namespace mt {

namespace {

[[noreturn]] void not_implemented(const char* kernel, DType dtype) {
    throw Error(ErrorKind::NotImplemented,
                std::string("\"") + kernel + "\" not implemented for '" + torch_type_name(dtype) + "'");
}

DType dtype_or(const Value& value, DType otherwise) {
    if (value.is_none()) return otherwise;
    return value.dtype;
}

// As C++ streams print a number: 0.5, 1e+20, inf.
std::string text_of(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", x);
    return text;
}
std::string text_of(const Value& value) {
    return value.tag == Value::Float ? text_of(value.f) : std::to_string(value.i);
}

void set_result(Call& call, DType dtype, const Dims& sizes) {
    for (int64_t size : sizes)
        if (size < 0)
            fail("Trying to create tensor with negative dimension " + std::to_string(size) + ": " + to_string(sizes));
    call.compute = call.results[0].dtype = dtype;
    call.results[0].sizes = sizes;
}

DType floating_or(const Call& call, const Value& value, const char* kernel) {
    DType dtype = dtype_or(value, call.ambient.default_dtype());
    if (!is_floating(dtype)) not_implemented(kernel, dtype);
    return dtype;
}

}  // namespace

void infer_full(Call& call) {
    Scalar fill = call.param(1).as_scalar();
    DType dtype = dtype_or(call.param(2), fill.dtype(call.ambient));
    check_fits(fill, dtype);
    set_result(call, dtype, call.param(0).ints);
}

void infer_arange(Call& call) {
    const Value &start = call.param(0), &end = call.param(1), &step = call.param(2);
    bool whole = start.tag != Value::Float && end.tag != Value::Float && step.tag != Value::Float;
    DType dtype = dtype_or(call.param(3), whole ? DType::I64 : call.ambient.default_dtype());
    if (dtype == DType::Bool) not_implemented("arange_cpu", dtype);
    double first = start.as_double(), last = end.as_double(), by = step.as_double();
    if (by == 0.0) fail("step must be nonzero");
    if (!std::isfinite(first) || !std::isfinite(last))
        fail("unsupported range: " + text_of(start) + " -> " + text_of(end));
    if (by != by) fail("step must not be NaN");
    if (by > 0 ? last < first : last > first) fail("upper bound and lower bound inconsistent with step sign");
    double count;
    int64_t size;
    if (whole) {
        uint64_t distance = by > 0 ? static_cast<uint64_t>(end.i) - static_cast<uint64_t>(start.i)
                                   : static_cast<uint64_t>(start.i) - static_cast<uint64_t>(end.i);
        uint64_t stride = by > 0 ? static_cast<uint64_t>(step.i) : uint64_t(0) - static_cast<uint64_t>(step.i);
        uint64_t exact = distance / stride + (distance % stride != 0);
        count = static_cast<double>(exact);
        size = static_cast<int64_t>(exact);
    } else {
        count = std::ceil((last - first) / by);
        size = count < 9223372036854775808.0 ? static_cast<int64_t>(count) : 0;
    }
    if (!(count >= 0 && count < 9223372036854775808.0))
        fail("invalid size, possible overflow: arange from " + text_of(start) + " to " + text_of(end) + " by " +
             text_of(step));
    set_result(call, dtype, Dims{size});
}

void infer_eye(Call& call) {
    int64_t n = call.param(0).as_int();
    int64_t m = call.param(1).is_none() ? n : call.param(1).as_int();
    if (n < 0) fail("n must be greater or equal to 0, got " + std::to_string(n));
    if (m < 0) fail("m must be greater or equal to 0, got " + std::to_string(m));
    set_result(call, dtype_or(call.param(2), call.ambient.default_dtype()), Dims{n, m});
}

void infer_linspace(Call& call) {
    int64_t steps = call.param(2).as_int();
    if (steps < 0) fail("number of steps must be non-negative");
    DType dtype = dtype_or(call.param(3), call.ambient.default_dtype());
    if (dtype == DType::Bool) not_implemented("linspace_cpu", dtype);
    set_result(call, dtype, Dims{steps});
}

void infer_uniform(Call& call) {
    DType dtype = floating_or(call, call.param(3), "check_uniform_bounds");
    double low = call.param(1).as_double(), high = call.param(2).as_double(), most = largest(dtype);
    auto check = [&](const char* name, double bound) {
        if (!(std::abs(bound) <= most)) fail(std::string(name) + " is out of bounds for " + c_type_name(dtype));
    };
    check("from", low);
    check("to", high);
    if (!(low <= high))
        fail("uniform_ expects to return a [from, to) range, but found from=" + text_of(low) +
             " > to=" + text_of(high));
    if (!(high - low <= most))
        fail(std::string("uniform_ expects to-from <= std::numeric_limits<") + torch_type_name(dtype) +
             ">::max(), but found to=" + text_of(high) + " and from=" + text_of(low) +
             " which result in to-from to exceed the limit");
    set_result(call, dtype, call.param(0).ints);
}

void infer_normal(Call& call) {
    DType dtype = floating_or(call, call.param(3), "normal_kernel_cpu");
    double std_dev = call.param(2).as_double();
    if (!(std_dev >= 0)) fail("normal expects std >= 0.0, but found std " + text_of(std_dev));
    set_result(call, dtype, call.param(0).ints);
}

void infer_randint(Call& call) {
    int64_t low = call.param(0).as_int(), high = call.param(1).as_int();
    if (low >= high)
        fail("random_ expects 'from' to be less than 'to', but got from=" + std::to_string(low) +
             " >= to=" + std::to_string(high));
    DType dtype = dtype_or(call.param(3), DType::I64);
    int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
    const char* type = "long";
    switch (dtype) {
        case DType::Bool: least = 0, most = 1, type = "bool"; break;
        case DType::U8: least = 0, most = 255, type = "unsigned char"; break;
        case DType::I32: least = INT32_MIN, most = INT32_MAX, type = "int"; break;
        default: break;
    }
    if (low < least || low > most) fail(std::string("from is out of bounds for ") + type);
    if (high - 1 < least || high - 1 > most) fail(std::string("to - 1 is out of bounds for ") + type);
    set_result(call, dtype, call.param(2).ints);
}

void infer_randperm(Call& call) {
    int64_t n = call.param(0).as_int();
    DType dtype = dtype_or(call.param(1), DType::I64);
    const DTypeInfo& facts = info(dtype);
    if (dtype != DType::U8 && !facts.is_signed) not_implemented("randperm", dtype);
    // The largest value must be exact; but of bfloat16, as in PyTorch.
    const int digits = dtype == DType::F16    ? 11
                       : dtype == DType::BF16 ? 63
                       : dtype == DType::F32  ? 24
                       : dtype == DType::F64  ? 53
                                              : 8 * facts.itemsize - facts.is_signed;
    const int64_t most = digits == 63 ? INT64_MAX : (int64_t{1} << digits) - !is_floating(dtype);
    if (n > 0 && n - 1 > most)
        fail("n is too large for result tensor type: randperm(" + std::to_string(n) + ") does not fit " +
             std::string(info(dtype).name));
    set_result(call, dtype, Dims{n});
}

void infer_drawn_floats(Call& call) {
    set_result(call, floating_or(call, call.param(call.param_count - 2), call.op->name.c_str()), call.param(0).ints);
}

void infer_drawn(Call& call) {
    const DType dtype = dtype_or(call.param(call.param_count - 2), call.ambient.default_dtype());
    if (is_complex(dtype)) not_implemented(call.op->name.c_str(), dtype);
    set_result(call, dtype, call.param(0).ints);
}

}  // namespace mt
