#include "autograd/autocast.h"

#include <unordered_map>
#include <vector>

#include "autograd/tape.h"
#include "core/error.h"

namespace mt {

namespace {

struct KeptCast {
    Ref<Tensor> leaf, cast;
    uint32_t version;   // of the leaf when it was cast
    uint32_t function;  // that was recorded then; 0: none
    bool differentiable;
};

// On the heap, since a thread that ends within an autocast may not have the GIL.
MT_THREAD_LOCAL std::unordered_map<const Tensor*, KeptCast>* kept = nullptr;
MT_THREAD_LOCAL int nesting = 0;

uint32_t function_number() { return function_log ? function_log->number : 0; }

Ref<Tensor> cast(Tensor& tensor, DType dtype) {
    static const OpDef* op = find_op("cast");
    Value value;
    value.tag = Value::Type;
    value.dtype = dtype;
    return call_op(*op, {&tensor}, {value});
}

Ref<Tensor> cast_of_leaf(Tensor& leaf, DType dtype) {
    const bool differentiable = thread_settings.records_gradients();
    const uint32_t version = version_of(leaf), function = function_number();
    if (kept)
        if (auto found = kept->find(&leaf); found != kept->end()) {
            const KeptCast& known = found->second;
            if (known.cast->dtype == dtype && known.version == version && known.function == function &&
                known.differentiable == differentiable)
                return known.cast;
        }
    Ref<Tensor> made = cast(leaf, dtype);
    if (!kept) kept = new std::unordered_map<const Tensor*, KeptCast>;
    // What was there goes when the table is whole: tensors may run code when they die.
    KeptCast gone = std::exchange((*kept)[&leaf],
                                  KeptCast{Ref<Tensor>::borrow(&leaf), made, version, function, differentiable});
    return made;
}

bool autocast(Call& call, Ref<Tensor>* results) {
    const OpDef& op = *call.op;
    if (op.operand_list || (op.autocast[0] == CastTo::Nothing && op.autocast[1] == CastTo::Nothing)) return false;
    bool gpu = false, any = false;
    for (size_t i = 0; i < call.operand_count && !any; ++i)
        any = call.operands[i].tensor && autocast_takes(*call.operands[i].tensor, &gpu);
    if (!any || op.autocast[gpu] == CastTo::Nothing) return false;
    CastTarget target(op.autocast[gpu], gpu);
    for (size_t i = 0; i < call.operand_count; ++i)
        if (call.operands[i].tensor) target.see(*call.operands[i].tensor);
    std::vector<Operand> operands(call.operands, call.operands + call.operand_count);
    std::vector<Ref<Tensor>> owned;
    const uint32_t dying = call.dying;
    for (size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i].tensor) continue;
        owned.push_back(target(*operands[i].tensor));
        if (owned.back().get() != operands[i].tensor) call.dying &= ~(1u << i);
        operands[i].tensor = owned.back().get();
    }
    Operand* given = std::exchange(call.operands, operands.data());
    try {
        dispatch_as_given(call, results);
    } catch (...) {
        call.operands = given;
        call.dying = dying;
        throw;
    }
    call.operands = given;
    call.dying = dying;
    return true;
}

}  // namespace

bool autocast_takes(const Tensor& tensor, bool* gpu) {
    if (!is_floating(tensor.dtype) || tensor.dtype == DType::F64) return false;
    const Device device = home_of(tensor);
    if (device.type == DeviceType::Meta) return false;
    *gpu = on_gpu(device);
    return thread_settings.autocasts(*gpu);
}

CastTarget::CastTarget(CastTo rule, bool gpu)
    : fixed_(rule != CastTo::Widest), off_(rule == CastTo::Same),
      dtype_(rule == CastTo::Float32 ? DType::F32 : thread_settings.autocast_dtype(gpu)) {}

void CastTarget::see(const Tensor& tensor) {
    bool gpu;
    if (fixed_) return;
    if (tensor.dtype == DType::F64) off_ = true;  // the op's own promotion
    else if (autocast_takes(tensor, &gpu) && tensor.dtype != dtype_) dtype_ = DType::F32;
}

Ref<Tensor> CastTarget::operator()(Tensor& tensor) const {
    bool gpu;
    if (off_ || tensor.dtype == dtype_ || !autocast_takes(tensor, &gpu)) return Ref<Tensor>::borrow(&tensor);
    const bool keeps = (thread_settings.autocast & ThreadSettings::kAutocastCache) && tensor.dtype == DType::F32 &&
                       begins_history(tensor) && !tensor.base && !vmap_depth && nesting;
    return keeps ? cast_of_leaf(tensor, dtype_) : cast(tensor, dtype_);
}

void install_autocast() { autocast_callback = autocast; }

int enter_autocast() { return ++nesting; }

int autocast_nesting() { return nesting; }

int leave_autocast() {
    if (nesting > 0) --nesting;
    return nesting;
}

void clear_autocast_cache() { delete std::exchange(kept, nullptr); }

void forget_casts_of_function() {
    if (!kept || !function_log) return;
    std::vector<KeptCast> gone;
    for (auto at = kept->begin(); at != kept->end();) {
        if (at->second.function != function_number()) {
            ++at;
            continue;
        }
        gone.push_back(std::move(at->second));
        at = kept->erase(at);
    }
}

}  // namespace mt
