#include "dispatch/infer/nn/recurrent.h"

#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

const Tensor* optional_at(const Call& call, size_t i) {
    return i < call.operand_count ? call.operands[i].tensor : nullptr;
}

void expect(const Call& call, size_t i, const char* what, const Dims& sizes, DType dtype) {
    const Tensor* t = optional_at(call, i);
    if (!t) fail_type(std::string(op_name(call)) + "(): argument '" + what + "' must be Tensor");
    if (!(t->sizes == sizes))
        fail(std::string(op_name(call)) + ": expected " + what + " of shape " + to_string(sizes) + ", but got " +
             to_string(t->sizes));
    if (t->dtype != dtype)
        fail(std::string(op_name(call)) + ": expected " + what + " to have the dtype " + torch_type_name(dtype) +
             ", but got " + torch_type_name(t->dtype));
}

Recurrent mode_of(const Call& call) {
    int64_t mode = call.param(0).as_int();
    if (mode < 0 || mode > 3) fail_value(std::string(op_name(call)) + ": there is no such mode");
    return static_cast<Recurrent>(mode);
}

const Tensor& first_of(const Call& call, size_t i, int64_t dims) {
    const Tensor* t = optional_at(call, i);
    if (!t) fail_type(std::string(op_name(call)) + "(): argument " + std::to_string(i + 1) + " must be Tensor");
    if (t->ndim() != static_cast<size_t>(dims))
        fail(std::string(op_name(call)) + ": expected " + std::to_string(dims) + " dimensions, but got " +
             to_string(t->sizes));
    if (t->dtype != DType::F32 && t->dtype != DType::F64)
        throw Error(ErrorKind::NotImplemented, std::string("\"") + std::string(op_name(call)) +
                                                   "\" not implemented for '" + torch_type_name(t->dtype) + "'");
    return *t;
}

void add(Call& call, size_t i, DType dtype, const Dims& sizes) {
    call.results[i].dtype = dtype;
    call.results[i].sizes = sizes;
}

}  // namespace

RecurrentSizes recurrent_sizes(Recurrent mode) {
    switch (mode) {
        case Recurrent::Lstm: return {4, 5, 2, 0};
        case Recurrent::Gru: return {3, 4, 1, 3};
        default: return {1, 0, 1, 0};
    }
}

void infer_recurrent(Call& call) {
    Recurrent mode = mode_of(call);
    RecurrentSizes blocks = recurrent_sizes(mode);
    const Tensor &given = first_of(call, 0, 3), &hidden = first_of(call, 1, 2);
    int64_t steps = given.sizes[0], rows = given.sizes[1], width = hidden.sizes[1];
    expect(call, 0, "given", {steps, rows, blocks.gates * width}, hidden.dtype);
    expect(call, 1, "hidden", {rows, width}, given.dtype);
    if (mode == Recurrent::Lstm) expect(call, 2, "cell", {rows, width}, given.dtype);
    expect(call, 3, "weight", {blocks.gates * width, width}, given.dtype);
    if (optional_at(call, 4)) expect(call, 4, "bias", {blocks.gates * width}, given.dtype);
    if (optional_at(call, 5)) expect(call, 5, "sizes", {steps}, DType::I64);
    call.result_count = 3;
    add(call, 0, given.dtype, {steps, rows, width});
    add(call, 1, given.dtype, {blocks.states, rows, width});
    add(call, 2, given.dtype, {steps, rows, blocks.kept * width});
}

void infer_recurrent_backward(Call& call) {
    Recurrent mode = mode_of(call);
    RecurrentSizes blocks = recurrent_sizes(mode);
    const Tensor& output = first_of(call, 2, 3);
    int64_t steps = output.sizes[0], rows = output.sizes[1], width = output.sizes[2];
    expect(call, 0, "grad_output", {steps, rows, width}, output.dtype);
    expect(call, 1, "grad_last", {blocks.states, rows, width}, output.dtype);
    expect(call, 3, "kept", {steps, rows, blocks.kept * width}, output.dtype);
    expect(call, 4, "hidden", {rows, width}, output.dtype);
    if (mode == Recurrent::Lstm) expect(call, 5, "cell", {rows, width}, output.dtype);
    expect(call, 6, "weight", {blocks.gates * width, width}, output.dtype);
    if (optional_at(call, 7)) expect(call, 7, "sizes", {steps}, DType::I64);
    call.result_count = 3;
    add(call, 0, output.dtype, {steps, rows, blocks.gates * width});
    add(call, 1, output.dtype, {blocks.states, rows, width});
    add(call, 2, output.dtype, {steps, rows, blocks.product * width});
}

}  // namespace mt
