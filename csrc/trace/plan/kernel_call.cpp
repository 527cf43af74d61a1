// Kernels of the eager core, called by compiled code on whole arrays.
#include <cstring>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "dispatch/call.h"
#include "dispatch/registry.h"
#include "runtime/epilogue_kernel.h"

namespace mt::trace {

namespace {

// Reads the description of a call word by word (runtime/abi.h).
class Words {
  public:
    explicit Words(const int64_t* at) : at_(at) {}
    int64_t next() { return *at_++; }
    std::string_view text() {
        auto length = static_cast<size_t>(next());
        std::string_view found(reinterpret_cast<const char*>(at_), length);
        at_ += (length + 7) / 8;
        return found;
    }
    DType dtype() {
        std::string_view name = text();
        for (size_t i = 0; i < static_cast<size_t>(DType::Count); ++i)
            if (info(static_cast<DType>(i)).hlo_name == name) return static_cast<DType>(i);
        fail("compiled code names an unknown type " + std::string(name));
    }
    Dims dims() {
        Dims sizes;
        for (int64_t n = next(); n > 0; --n) sizes.push_back(next());
        return sizes;
    }
    double number() { return __builtin_bit_cast(double, next()); }
    Value value() {
        Value v;
        switch (next()) {
            case 0: return v;
            case 1: return Value::of(Scalar::of(next() != 0));
            case 2: return Value::of(Scalar::of(next()));
            case 3: return Value::of(Scalar::of(number()));
            case 4: {
                double re = number();
                return Value::of(Scalar::of(re, number()));
            }
            case 5:
                v.tag = Value::Type;
                v.dtype = dtype();
                return v;
            default:
                v.tag = Value::Ints;
                v.ints = dims();
                return v;
        }
    }

  private:
    const int64_t* at_;
};

Ref<Tensor> tensor_at(void* data, DType dtype, const Dims& sizes) {
    size_t bytes = static_cast<size_t>(product(sizes)) * itemsize(dtype);
    Ref<Storage> memory = Storage::wrap(data, bytes, [](void*) {}, nullptr);
    return Tensor::make(std::move(memory), dtype, sizes, contiguous_strides(sizes), 0);
}

bool fits(const ArgSpec& spec, const Value& value) {
    if (value.is_none()) return spec.optional;
    switch (spec.type) {
        case ArgType::Ints: return value.tag == Value::Ints;
        case ArgType::DTypeArg: return value.tag == Value::Type;
        case ArgType::DeviceArg: return false;
        default: return value.tag <= Value::Complex;
    }
}

bool fits(const ArgSpec& spec, const Operand& operand) {
    return operand.is_none() ? spec.optional : operand.tensor || spec.scalar_ok;
}

// Kernels rely on what the parser of Python's arguments has made sure of.
void check_arguments(const Call& call) {
    const OpDef& op = *call.op;
    bool good = call.param_count == op.param_args.size();
    for (size_t i = 0; good && i < call.param_count; ++i) good = fits(op.args[op.param_args[i]], call.params[i]);
    if (op.operand_list) {
        for (size_t i = 0; i < call.operand_count; ++i) good &= call.operands[i].tensor != nullptr;
    } else {
        good &= call.operand_count == op.operand_args.size();
        for (size_t i = 0; good && i < call.operand_count; ++i)
            good = fits(op.args[op.operand_args[i]], call.operands[i]);
    }
    if (!good) fail("compiled code calls '" + op.name + "' with other arguments than it takes: " + op.schema);
}

void kernel_call(const int64_t* description, void** pointers, const Epilogue* epilogue) {
    Words words(description);
    std::string_view name = words.text();
    const OpDef* op = find_op(name);
    if (!op || !op->cpu || !op->infer)
        fail("compiled code names the op '" + std::string(name) + "', which has no kernel");
    const Ambient carried = Ambient().with(words.dtype());
    std::vector<Value> params(static_cast<size_t>(words.next()));
    for (Value& param : params) param = words.value();
    std::vector<Operand> operands(static_cast<size_t>(words.next()));
    std::vector<Ref<Tensor>> held;
    for (Operand& operand : operands) {
        int64_t kind = words.next();  // none, tensor, number
        if (kind == 0) continue;
        DType dtype = words.dtype();
        if (kind == 1) {
            held.push_back(tensor_at(*pointers++, dtype, words.dims()));
            operand.tensor = held.back().get();
        } else {
            operand.is_scalar = true;
            operand.scalar = load_scalar(*pointers++, dtype);
        }
    }
    Call call(carried);
    call.op = op;
    call.operands = operands.data();
    call.operand_count = operands.size();
    call.params = params.data();
    call.param_count = params.size();
    if (op->kind == Kind::Random) {
        auto* position = static_cast<const uint64_t*>(*pointers++);
        call.seed = position[0];
        call.philox_offset = position[1];
    }
    check_arguments(call);
    infer(call);
    auto count = static_cast<size_t>(words.next());
    if (count != call.result_count) fail("compiled code expects other results of '" + op->name + "'");
    for (size_t i = 0; i < count; ++i) {
        DType dtype = words.dtype();
        held.push_back(tensor_at(*pointers++, dtype, words.dims()));
        if (dtype != call.results[i].dtype || !(held.back()->sizes == call.results[i].sizes))
            fail("compiled code expects another result of '" + op->name + "'");
        call.outputs[i] = held.back().get();
    }
    if (!epilogue) return run_bare_kernel(call);
    const EpilogueKernel* kernel = find_epilogue_kernel(name, call.results[0].dtype);
    if (!kernel) fail("compiled code has an epilogue for '" + op->name + "', which takes none");
    kernel->run(call, *epilogue);
}

const bool installed = (kernel_call_callback = kernel_call, true);

}  // namespace

}  // namespace mt::trace
