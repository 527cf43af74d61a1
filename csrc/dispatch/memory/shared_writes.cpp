#include "dispatch/memory/shared_writes.h"

#include "core/error.h"
#include "dispatch/out.h"
#include "dispatch/python/python.h"

namespace mt {

thread_local const char* writing_method = nullptr;

namespace {

const OpDef& masked_fill() {
    static const OpDef& op = *find_op("masked_fill");
    return op;
}

const OpDef& index_put() {
    static const OpDef& op = *find_op("_index_put");
    return op;
}

bool is_triangle(const OpDef& op) {
    static const OpDef *lower = find_op("tril"), *upper = find_op("triu");
    return &op == lower || &op == upper;
}

Value flag(bool value) { return Value::of(Scalar::of(value)); }

Ref<Tensor> filled(const Dims& sizes, Scalar value, DType dtype, Device device) {
    static const OpDef& full = *find_op("full");
    Value type, where;
    type.tag = Value::Type;
    type.dtype = dtype;
    where.tag = Value::Dev;
    where.device = device;
    return call_op(full, {}, {value_of(sizes), Value::of(value), type, where});
}

// The memory that a tensor shows, each place once.
class Line {
  public:
    explicit Line(Tensor& shown) : shown_(shown) {
        auto [low, high] = element_span(shown.sizes, shown.strides, shown.offset);
        size_ = high - low;
        elements_ = call_op(as_strided(), {&shown}, {value_of(Dims{size_}), value_of(Dims{1}), value_of(low)});
        static const OpDef& arange = *find_op("arange");
        Value type, where;
        type.tag = Value::Type;
        type.dtype = DType::I64;
        where.tag = Value::Dev;
        where.device = shown.device();
        Ref<Tensor> counted = call_op(arange, {}, {value_of(0), value_of(size_), value_of(1), type, where});
        places_ = call_op(as_strided(), {counted.get()},
                          {value_of(shown.sizes), value_of(shown.strides), value_of(shown.offset - low)});
    }

    Tensor& elements() { return *elements_; }
    // Of each element that is shown, the place in the line.
    Tensor& places() { return *places_; }

    // The places that are shown at least once where `mask` holds.
    Ref<Tensor> marked(Tensor& mask) {
        static const OpDef &where = *find_op("where"), &slice = *find_op("slice");
        Device device = shown_.device();
        // What isn't chosen marks a place behind the others.
        Ref<Tensor> last = filled(Dims{}, Scalar::of(size_), DType::I64, device);
        Ref<Tensor> chosen = call_op(where, {&mask, places_.get(), last.get()});
        Ref<Tensor> none = filled(Dims{size_ + 1}, Scalar::of(false), DType::Bool, device);
        Ref<Tensor> yes = filled(Dims{}, Scalar::of(true), DType::Bool, device);
        Ref<Tensor> all = call_op(index_put(), {none.get(), chosen.get(), yes.get()},
                                  {value_of(Dims{0}), flag(true), flag(false)});
        return call_op(slice, {all.get()}, {value_of(0), value_of(0), value_of(size_), value_of(1)});
    }

  private:
    static const OpDef& as_strided() {
        static const OpDef& op = *find_op("as_strided");
        return op;
    }

    Tensor& shown_;
    int64_t size_;
    Ref<Tensor> elements_, places_;
};

Operand operand_of(Tensor& tensor) {
    Operand operand;
    operand.tensor = &tensor;
    return operand;
}

void fill_marked(Tensor& destination, Tensor& mask, const Operand& value) {
    Line line(destination);
    Ref<Tensor> marked = line.marked(mask);
    call_op_inplace(masked_fill(), line.elements(), {operand_of(line.elements()), operand_of(*marked), value});
}

// PyTorch's warning, of what has a stride of 0.
void warn_if_expanded(const Call& call, const Tensor& destination) {
    if (is_triangle(*call.op) || destination.device().type == DeviceType::Meta) return;
    bool expanded = false;
    for (size_t d = 0; d < destination.ndim(); ++d) expanded |= destination.strides[d] == 0 && destination.sizes[d] > 1;
    if (!expanded) return;
    const bool number = writing_method || call.op == &masked_fill();
    const char* method = writing_method ? writing_method : number ? "masked_fill_" : "index_put_";
    std::string text = std::string("Use of ") + method +
                       " on expanded tensors is deprecated. Please clone() the tensor before performing this "
                       "operation. This also applies to advanced indexing e.g. tensor[" +
                       (number ? "mask] = scalar" : "indices] = tensor");
    warn(text);
}

}  // namespace

bool may_write_shared(const OpDef& op) { return &op == &masked_fill() || &op == &index_put() || is_triangle(op); }

void write_shared(Call& call, Tensor& destination) {
    warn_if_expanded(call, destination);
    if (call.op == &masked_fill()) {
        fill_marked(destination, *call.operands[1].tensor, call.operands[2]);
    } else if (is_triangle(*call.op)) {
        static const OpDef& logical_not = *find_op("logical_not");
        const Dims& sizes = destination.sizes;
        Ref<Tensor> all = filled(Dims{sizes[sizes.size() - 2], sizes[sizes.size() - 1]}, Scalar::of(true), DType::Bool,
                                 destination.device());
        Ref<Tensor> kept = call_op(*call.op, {all.get()}, {call.param(0)});
        Ref<Tensor> cleared = call_op(logical_not, {kept.get()});
        Operand zero;
        zero.is_scalar = true;
        fill_marked(destination, *cleared, zero);
    } else {
        static const OpDef& index = *find_op("_index");
        Line line(destination);
        Ref<Tensor> places = call_op(index, {&line.places(), call.operands[1].tensor}, {call.param(0), call.param(1)});
        call_op_inplace(index_put(), line.elements(),
                        {operand_of(line.elements()), operand_of(*places), call.operands[2]},
                        {value_of(Dims{0}), flag(true), call.param(2)});
    }
}

}  // namespace mt
