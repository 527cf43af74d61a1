// The ops that only traces have: reading and writing through a view of a recorded value, and x.copy_(y).
#include "core/error.h"
#include "trace/recording/trace.h"

namespace mt::trace {

namespace {

// `region` params of a view of the whole value `base`.
void check_region(const Call& call) {
    const Tensor& base = call.in(0);
    const Dims &sizes = call.param(0).ints, &strides = call.param(1).ints;
    if (sizes.size() != strides.size() || !base.contiguous()) fail(call.op->name + ": not a view of a row-major value");
    auto [low, high] = element_span(sizes, strides, call.param(2).as_int());
    if (product(sizes) && (low < 0 || high > base.numel)) fail(call.op->name + ": the view is out of bounds");
}

void infer_view_read(Call& call) {
    check_region(call);
    call.compute = call.results[0].dtype = call.in(0).dtype;
    call.results[0].sizes = call.param(0).ints;
}

void infer_view_write(Call& call) {
    check_region(call);
    if (!(call.in(1).sizes == call.param(0).ints) || call.in(1).dtype != call.in(0).dtype)
        fail(call.op->name + ": the value does not fit the view");
    call.compute = call.results[0].dtype = call.in(0).dtype;
    call.results[0].sizes = call.in(0).sizes;
}

void infer_assign(Call& call) {
    call.compute = call.results[0].dtype = call.param(1).dtype;
    call.results[0].sizes = call.param(0).ints;
    if (const Tensor* source = call.operands[0].tensor;
        source && !(broadcast_shapes(source->sizes, call.param(0).ints) == call.param(0).ints))
        fail(call.op->name + ": a value of shape " + to_string(source->sizes) + " does not fit " +
             to_string(call.param(0).ints));
}

void view_read_kernel(Call& call) {
    static const OpDef* clone = find_op("_row_major");
    Ref<Tensor> view = Tensor::view(call.in(0), call.param(0).ints, call.param(1).ints,
                                    call.param(2).i + call.in(0).offset);
    Operand operand;
    operand.tensor = view.get();
    Call inner(call.ambient);
    inner.op = clone;
    inner.operands = &operand;
    inner.operand_count = 1;
    infer(inner);
    inner.outputs[0] = call.outputs[0];
    clone->cpu(inner);
}

void copy_into(Tensor& destination, const Tensor& source, Ambient carried) {
    static const OpDef* copy = find_op("copy");
    Operand operands[2];
    operands[0].tensor = &destination;
    operands[1].tensor = const_cast<Tensor*>(&source);
    Call inner(carried);
    inner.op = copy;
    inner.operands = operands;
    inner.operand_count = 2;
    infer(inner);
    inner.outputs[0] = &destination;
    copy->cpu(inner);
}

void view_write_kernel(Call& call) {
    Tensor& out = *call.outputs[0];
    Ref<Tensor> flat_out = Tensor::make(out.storage, out.dtype, call.in(0).sizes, contiguous_strides(call.in(0).sizes),
                                        out.offset);
    copy_into(*flat_out, call.in(0), call.ambient);
    Ref<Tensor> region = Tensor::view(out, call.param(0).ints, call.param(1).ints, call.param(2).i + out.offset);
    copy_into(*region, call.in(1), call.ambient);
}

void assign_kernel(Call& call) {
    if (!call.operands[0].is_scalar) return copy_into(*call.outputs[0], call.in(0), call.ambient);
    static const OpDef* fill = find_op("fill");
    Operand destination;
    destination.tensor = call.outputs[0];
    const Scalar& scalar = call.operands[0].scalar;
    Value value = Value::of(scalar);
    Call inner(call.ambient);
    inner.op = fill;
    inner.operands = &destination;
    inner.operand_count = 1;
    inner.params = &value;
    inner.param_count = 1;
    infer(inner);
    inner.outputs[0] = call.outputs[0];
    fill->cpu(inner);
}

const RegisterNative registered{Takes::Any,
                                {{"_view_read", infer_view_read, view_read_kernel},
                                 {"_view_write", infer_view_write, view_write_kernel},
                                 {"_assign", infer_assign, assign_kernel}}};

}  // namespace

}  // namespace mt::trace
