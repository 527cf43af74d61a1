#include "dispatch/infer/nn/convolution.h"

#include <string>

#include "core/error.h"
#include "dispatch/infer/contraction.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

std::string text(int64_t value) { return std::to_string(value); }

const Tensor& tensor_at(const Call& call, size_t i, const char* what) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type(std::string(op_name(call)) + "(): argument '" + what + "' must be Tensor");
    return call.in(i);
}

void result(Call& call, DType dtype, const Dims& sizes) {
    call.result_count = 1;
    call.results[0].dtype = dtype;
    call.results[0].sizes = sizes;
}

void check_dtype(const Call& call, const Tensor& t, bool integers = false) {
    if (!is_floating(t.dtype) && !(integers && t.dtype == DType::I64))
        throw Error(ErrorKind::NotImplemented,
                    "\"" + std::string(op_name(call)) + "\" not implemented for '" + torch_type_name(t.dtype) + "'");
}

// Strides, paddings and dilations, one for each of `rank` spatial dimensions.
void check_parameters(const Call& call, size_t first, size_t rank) {
    const char* names[] = {"stride", "padding", "dilation"};
    for (size_t i = 0; i < 3; ++i) {
        const Dims& values = call.param(first + i).ints;
        if (values.size() != rank)
            fail(std::string("expected ") + names[i] + " to be a single integer value or a list of " +
                 text(static_cast<int64_t>(rank)) + " values to match the convolution dimensions, but got " + names[i] +
                 "=" + to_string(values));
        for (int64_t v : values)
            if (i == 1 ? v < 0 : v <= 0)
                fail(i == 1   ? "negative padding is not supported"
                     : i == 0 ? "non-positive stride is not supported"
                              : "dilation should be greater than zero");
    }
    if (call.param(first + 3).as_int() <= 0) fail("non-positive groups is not supported");
}

void check_rank(const Call& call, const Tensor& t, const Tensor& other) {
    if (t.ndim() < 3 || t.ndim() > 5 || other.ndim() != t.ndim())
        fail(std::string(op_name(call)) + ": expected input and weight of 3 to 5 dimensions, but got " +
             to_string(t.sizes) + " and " + to_string(other.sizes));
}

void check_same_dtype(const Tensor& a, const Tensor& b, const char* what) {
    if (a.dtype != b.dtype)
        fail(std::string("Input type (") + cpp_name(a.dtype) + ") and " + what + " type (" + cpp_name(b.dtype) +
             ") should be the same");
}

// The output's spatial sizes; throws where the kernel does not fit.
void output_sizes(const Dims& input, const Dims& weight, const Call& call, size_t first, Dims& sizes) {
    const Dims &stride = call.param(first).ints, &padding = call.param(first + 1).ints,
               &dilation = call.param(first + 2).ints;
    auto reach = [&](size_t d) { return dilation[d] * (weight[d + 2] - 1) + 1; };
    auto room = [&](size_t d) { return input[d + 2] + 2 * padding[d]; };
    bool fits = true;
    for (size_t d = 0; d + 2 < input.size(); ++d) {
        fits &= reach(d) <= room(d);
        sizes.push_back(conv_output_size(input[d + 2], weight[d + 2], stride[d], padding[d], dilation[d]));
    }
    if (fits) return;
    std::string padded, kernel;
    for (size_t d = 0; d + 2 < input.size(); ++d) {
        padded += (d ? " x " : "") + text(room(d));
        kernel += (d ? " x " : "") + text(reach(d));
    }
    fail("Calculated padded input size per channel: (" + padded + "). Kernel size: (" + kernel +
         "). Kernel size can't be greater than actual input size");
}

}  // namespace

void infer_convolution(Call& call) {
    const Tensor &t = tensor_at(call, 0, "input"), &w = tensor_at(call, 1, "weight");
    check_rank(call, t, w);
    check_parameters(call, 0, t.ndim() - 2);
    const bool biased = call.operand_count > 2 && call.operands[2].tensor;
    check_same_dtype(t, w, biased ? "bias" : "weight");
    check_dtype(call, t, true);
    int64_t groups = call.param(3).as_int();
    if (w.sizes[0] < groups || w.sizes[0] % groups)
        fail("Given groups=" + text(groups) + ", expected weight to be " +
             (w.sizes[0] < groups ? "at least " + text(groups) + " at dimension 0"
                                  : "divisible by " + text(groups) + " at dimension 0") +
             ", but got weight of size " + to_string(w.sizes) + " instead");
    if (t.sizes[1] != w.sizes[1] * groups)
        fail("Given groups=" + text(groups) + ", weight of size " + to_string(w.sizes) + ", expected input" +
             to_string(t.sizes) + " to have " + text(w.sizes[1] * groups) + " channels, but got " + text(t.sizes[1]) +
             " channels instead");
    if (biased) {
        const Tensor& b = call.in(2);
        check_same_dtype(t, b, "bias");
        if (b.ndim() != 1 || b.sizes[0] != w.sizes[0])
            fail("Given weight of size " + to_string(w.sizes) + ", expected bias to be 1-dimensional with " +
                 text(w.sizes[0]) + " elements, but got bias of size " + to_string(b.sizes) + " instead");
    }
    Dims sizes;
    sizes.push_back(t.sizes[0]);
    sizes.push_back(w.sizes[0]);
    output_sizes(t.sizes, w.sizes, call, 0, sizes);
    result(call, t.dtype, sizes);
}

void infer_convolution_backward_input(Call& call) {
    const Tensor &g = tensor_at(call, 0, "grad"), &w = tensor_at(call, 1, "weight");
    check_rank(call, g, w);
    const Dims& sizes = call.param(0).ints;
    if (sizes.size() != g.ndim()) fail("convolution_backward_input: input_size must have the gradient's rank");
    check_parameters(call, 1, g.ndim() - 2);
    check_same_dtype(g, w, "weight");
    check_dtype(call, g, true);
    Dims expected;
    expected.push_back(sizes[0]);
    expected.push_back(w.sizes[0]);
    output_sizes(sizes, w.sizes, call, 1, expected);
    if (!(g.sizes == expected) || sizes[1] != w.sizes[1] * call.param(4).as_int())
        fail("convolution_backward_input: a convolution of " + to_string(sizes) + " with weights " +
             to_string(w.sizes) + " gives " + to_string(expected) + ", but the gradient has " + to_string(g.sizes));
    result(call, g.dtype, sizes);
}

void infer_convolution_backward_weight(Call& call) {
    const Tensor &g = tensor_at(call, 0, "grad"), &t = tensor_at(call, 1, "input");
    check_rank(call, t, g);
    const Dims& sizes = call.param(0).ints;
    if (sizes.size() != g.ndim()) fail("convolution_backward_weight: weight_size must have the gradient's rank");
    check_parameters(call, 1, g.ndim() - 2);
    check_same_dtype(g, t, "gradient");
    check_dtype(call, g);
    Dims expected;
    expected.push_back(t.sizes[0]);
    expected.push_back(sizes[0]);
    output_sizes(t.sizes, sizes, call, 1, expected);
    if (!(g.sizes == expected) || t.sizes[1] != sizes[1] * call.param(4).as_int())
        fail("convolution_backward_weight: a convolution of " + to_string(t.sizes) + " with weights " +
             to_string(sizes) + " gives " + to_string(expected) + ", but the gradient has " + to_string(g.sizes));
    result(call, g.dtype, sizes);
}

void infer_im2col(Call& call) {
    const Tensor& t = tensor_at(call, 0, "input");
    check_dtype(call, t);
    const Dims &kernel = call.param(0).ints, &dilation = call.param(1).ints, &padding = call.param(2).ints,
               &stride = call.param(3).ints;
    if (t.ndim() != 4) fail("im2col: expected an input of 4 dimensions, but got " + to_string(t.sizes));
    Dims sizes;
    sizes.push_back(t.sizes[0]);
    sizes.push_back(t.sizes[1] * kernel[0] * kernel[1]);
    int64_t length = 1;
    for (size_t d = 0; d < 2; ++d)
        length *= conv_output_size(t.sizes[2 + d], kernel[d], stride[d], padding[d], dilation[d]);
    sizes.push_back(length);
    result(call, t.dtype, sizes);
}

void infer_col2im(Call& call) {
    const Tensor& t = tensor_at(call, 0, "input");
    check_dtype(call, t);
    const Dims &output = call.param(0).ints, &kernel = call.param(1).ints;
    if (t.ndim() != 3) fail("col2im: expected an input of 3 dimensions, but got " + to_string(t.sizes));
    Dims sizes;
    sizes.push_back(t.sizes[0]);
    sizes.push_back(t.sizes[1] / (kernel[0] * kernel[1]));
    sizes.push_back(output[0]);
    sizes.push_back(output[1]);
    result(call, t.dtype, sizes);
}

}  // namespace mt
