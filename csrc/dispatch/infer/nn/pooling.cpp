#include "dispatch/infer/nn/pooling.h"

#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

std::string text(int64_t value) { return std::to_string(value); }

// Which types are taken beside the floating-point ones.
enum class Besides { None, Int64, Integers };

bool takes(const Tensor& t, Besides besides) {
    if (is_floating(t.dtype)) return true;
    if (besides == Besides::Int64) return t.dtype == DType::I64;
    if (besides == Besides::None || t.ndim() < 4) return false;
    return t.dtype == DType::U8 || t.dtype == DType::I8 || t.dtype == DType::I16 || t.dtype == DType::I32 ||
           t.dtype == DType::I64;
}

void check_input(const Call& call, const Tensor& t, Besides besides) {
    if (!takes(t, besides))
        throw Error(ErrorKind::NotImplemented,
                    "\"" + std::string(op_name(call)) + "\" not implemented for '" + torch_type_name(t.dtype) + "'");
    if (t.ndim() < 3 || t.ndim() > 5)
        fail(std::string(op_name(call)) + ": expected an input of 3 to 5 dimensions, but got " + to_string(t.sizes));
}

const Tensor& input_of(const Call& call, Besides besides = Besides::None) {
    if (!call.operand_count || !call.operands[0].tensor)
        fail_type(std::string(op_name(call)) + "(): argument 'input' (position 1) must be Tensor");
    check_input(call, call.in(0), besides);
    return call.in(0);
}

void result(Call& call, DType dtype, const Tensor& t, const Dims& spatial) {
    call.result_count = 1;
    call.results[0].dtype = dtype;
    call.results[0].sizes = {t.sizes[0], t.sizes[1]};
    for (int64_t n : spatial) call.results[0].sizes.push_back(n);
}

// The sizes of a picture as PyTorch writes them: (3x1x1).
std::string by_crosses(int64_t channels, const Dims& spatial) {
    std::string shown = "(" + text(channels) + (spatial.size() == 1 ? "x1" : "");  // a line is a picture of one row
    for (int64_t size : spatial) shown += "x" + text(size);
    return shown + ")";
}

Dims window_counts(const Dims& sizes, const Dims& kernel, const Dims& stride, const Dims& padding, const Dims* dilation,
                   bool ceil_mode) {
    size_t rank = sizes.size() - 2;
    if (kernel.size() != rank || stride.size() != rank || padding.size() != rank ||
        (dilation && dilation->size() != rank))
        fail("pooling: kernel_size, stride, padding and dilation must have " + text(static_cast<int64_t>(rank)) +
             " values");
    Dims counts;
    for (size_t d = 0; d < rank; ++d) {
        // As in PyTorch; nothing below overflows then.
        for (int64_t value : {kernel[d], stride[d], padding[d], dilation ? (*dilation)[d] : 1})
            if (value != static_cast<int32_t>(value)) fail("value cannot be converted to type int without overflow");
        if (kernel[d] <= 0) fail("kernel size should be greater than zero, but got " + to_string(kernel));
        if (stride[d] <= 0) fail("stride should not be zero");
        if (dilation && (*dilation)[d] <= 0)
            fail("dilation should be greater than zero, but got " + to_string(*dilation));
        if (padding[d] < 0) fail("pad must be non-negative, but got pad: " + text(padding[d]));
        int64_t reach = dilation ? ((kernel[d] - 1) * (*dilation)[d] + 1) : kernel[d];
        if (padding[d] > reach / 2)
            fail("pad should be at most half of effective kernel size, but got pad=" + text(padding[d]) +
                 ", kernel_size=" + text(kernel[d]) + " and dilation=" + text(dilation ? (*dilation)[d] : 1));
        counts.push_back(
            pool_output_size(sizes[2 + d], kernel[d], stride[d], padding[d], dilation ? (*dilation)[d] : 1, ceil_mode));
    }
    for (int64_t count : counts)
        if (count < 1)
            fail("Given input size: " + by_crosses(sizes[1], Dims(sizes.data() + 2, rank)) +
                 ". Calculated output size: " + by_crosses(sizes[1], counts) + ". Output size is too small");
    return counts;
}

void max_pool(Call& call, DType dtype) {
    const Tensor& t = call.in(0);
    result(call, dtype, t,
           window_counts(t.sizes, call.param(0).ints, call.param(1).ints, call.param(2).ints, &call.param(3).ints,
                         call.param(4).as_bool()));
}

Dims average_counts(const Call& call, const Dims& sizes, size_t first) {
    if (!call.param(first + 5).is_none() && call.param(first + 5).as_int() == 0) fail("divisor must be not zero");
    return window_counts(sizes, call.param(first).ints, call.param(first + 1).ints, call.param(first + 2).ints, nullptr,
                         call.param(first + 3).as_bool());
}

const Dims& adaptive_sizes(const Call& call, const Tensor& t) {
    const Dims& sizes = call.param(0).ints;
    if (sizes.size() + 2 != t.ndim()) fail("adaptive pooling: output_size must have a value for each dimension");
    for (int64_t n : sizes)
        if (n < 0) fail("elements of output_size must be greater than or equal to 0 but received " + to_string(sizes));
    return sizes;
}

void gradient_result(Call& call, const Tensor& g) {
    call.result_count = 1;
    call.results[0].dtype = g.dtype;
    call.results[0].sizes = call.param(0).ints;
}

void check_indices(const Call& call, const Tensor& t) {
    if (call.operand_count < 2 || !call.operands[1].tensor || call.in(1).dtype != DType::I64)
        fail("expected indices to have type int64");
    const Tensor& indices = call.in(1);
    if (indices.ndim() != t.ndim() || indices.sizes[0] != t.sizes[0] || indices.sizes[1] != t.sizes[1])
        fail("indices of shape " + to_string(indices.sizes) + " do not belong to planes of shape " +
             to_string(t.sizes));
}

}  // namespace

int64_t pool_output_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                         bool ceil_mode) {
    int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
    int64_t count = (room >= 0 ? room / stride : -((-room + stride - 1) / stride)) + 1;
    // No window may begin in the padding behind the input.
    if (ceil_mode && (count - 1) * stride >= in + padding) --count;
    return count;
}

void infer_max_pool(Call& call) { max_pool(call, input_of(call, Besides::Integers).dtype); }

void infer_max_pool_indices(Call& call) {
    input_of(call, Besides::Integers);
    max_pool(call, DType::I64);
}

void infer_adaptive_max_pool_indices(Call& call) {
    const Tensor& t = input_of(call);
    result(call, DType::I64, t, adaptive_sizes(call, t));
}

void infer_avg_pool(Call& call) {
    const Tensor& t = input_of(call, Besides::Int64);
    result(call, t.dtype, t, average_counts(call, t.sizes, 0));
}

void infer_avg_pool_backward(Call& call) {
    const Tensor& g = input_of(call);
    if (call.param(0).ints.size() != g.ndim()) fail("avg_pool_backward: input_size must have the gradient's rank");
    Dims counts = average_counts(call, call.param(0).ints, 1);
    for (size_t d = 0; d < counts.size(); ++d)
        if (counts[d] != g.sizes[2 + d]) fail("avg_pool_backward: the gradient's sizes are not those of the pooling");
    gradient_result(call, g);
}

void infer_adaptive_avg_pool(Call& call) {
    const Tensor& t = input_of(call);
    result(call, t.dtype, t, adaptive_sizes(call, t));
}

void infer_adaptive_avg_pool_backward(Call& call) {
    const Tensor& g = input_of(call);
    if (call.param(0).ints.size() != g.ndim())
        fail("adaptive_avg_pool_backward: input_size must have the gradient's rank");
    gradient_result(call, g);
}

void infer_plane_gather(Call& call) {
    const Tensor& t = input_of(call, Besides::Integers);
    check_indices(call, t);
    call.result_count = 1;
    call.results[0].dtype = t.dtype;
    call.results[0].sizes = call.in(1).sizes;
}

void infer_plane_scatter(Call& call) {
    const Tensor& t = input_of(call);
    check_indices(call, t);
    if (!(call.in(1).sizes == t.sizes))
        fail("Expected shape of indices to be same as that of the input tensor (" + to_string(t.sizes) +
             ") but got indices tensor with shape: " + to_string(call.in(1).sizes));
    result(call, t.dtype, t, call.param(0).ints);
}

}  // namespace mt
