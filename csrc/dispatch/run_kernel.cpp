// The run of a kernel on operands and results that are there: which kernel a call gets, and without the GIL where it is
// long.
#include <algorithm>
#include <iterator>
#include <vector>

#include "core/error.h"
#include "core/process/faults.h"
#include "dispatch/call.h"

namespace mt {

namespace {

constexpr int64_t kReleaseGilElements = 1 << 15;

int64_t work_of(const Call& call) {
    int64_t most = call.outputs[0] ? call.outputs[0]->numel : 0;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (call.operands[i].tensor) most = std::max(most, call.operands[i].tensor->numel);
    return most;
}

// A kernel that runs without the GIL gets handles of its own, over memory that stays: meanwhile other threads may give
// a tensor other contents, or record a write to its storage.
class Pinned {
  public:
    explicit Pinned(Call& call) : call_(call) {
        size_t count = call.operand_count + std::size(call.outputs);
        if (count > std::size(few_)) many_.resize(count);
        slots_ = many_.empty() ? few_ : many_.data();
        for (size_t i = 0; i < call.operand_count; ++i) pin(call.operands[i].tensor);
        for (Tensor*& output : call.outputs) pin(output);
    }
    ~Pinned() {
        Slot* next = slots_;
        for (size_t i = 0; i < call_.operand_count; ++i) call_.operands[i].tensor = next++->original;
        for (Tensor*& output : call_.outputs) output = next++->original;
    }

  private:
    struct Slot {
        Tensor* original = nullptr;
        Ref<Storage> storage;  // keeps the memory
        Ref<Tensor> handle;
    };

    void pin(Tensor*& tensor) {
        Slot& slot = slots_[used_++];
        slot.original = tensor;
        if (!tensor) return;
        slot.storage = tensor->storage;
        // Storages and tensors that were the same stay the same.
        Ref<Storage> memory;
        for (Slot* other = slots_; other != &slot; ++other) {
            if (other->original == tensor) {
                slot.handle = other->handle;
                tensor = slot.handle.get();
                return;
            }
            if (other->storage == slot.storage) memory = other->handle->storage;
        }
        if (!memory) memory = Storage::wrap(slot.storage->data, slot.storage->nbytes, [](void*) {}, nullptr);
        slot.handle = Tensor::make(std::move(memory), tensor->dtype, tensor->sizes, tensor->strides, tensor->offset);
        tensor = slot.handle.get();
    }

    Call& call_;
    Slot few_[6];
    std::vector<Slot> many_;
    Slot* slots_;
    size_t used_ = 0;
};

// Whether an operand or a result is of a type that loops are not compiled for.
bool has_other_dtypes(const Call& call) {
    constexpr unsigned loops = 1u << static_cast<unsigned>(DType::Bool) | 1u << static_cast<unsigned>(DType::U8) |
                               1u << static_cast<unsigned>(DType::I32) | 1u << static_cast<unsigned>(DType::I64) |
                               1u << static_cast<unsigned>(DType::F32) | 1u << static_cast<unsigned>(DType::F64);
    unsigned seen = 0;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor) seen |= 1u << static_cast<unsigned>(t->dtype);
    for (size_t i = 0; i < call.result_count; ++i)
        if (call.outputs[i]) seen |= 1u << static_cast<unsigned>(call.outputs[i]->dtype);
    return seen & ~loops;
}

// What PyTorch calls the kernel of an op in its errors.
std::string kernel_name(const std::string& op) {
    if (op == "bitwise_left_shift") return "lshift";
    if (op == "bitwise_right_shift") return "rshift";
    for (const char* vectorized : {"erf", "floor", "lgamma", "round", "trunc"})
        if (op == vectorized) return op + "_vml";
    return op;
}

}  // namespace

void refuse_dtype(const OpDef& op, DType dtype) {
    throw Error(ErrorKind::NotImplemented,
                "\"" + kernel_name(op.name) + "_cpu\" not implemented for '" + torch_type_name(dtype) + "'");
}

static KernelFn kernel_of(const Call& call) {
    fault_point(FaultPlace::Kernel);
    KernelFn kernel = call.op->cpu;
    if (!kernel && call.op->python_infer) return python_step_callback;
    if (!kernel) throw Error(ErrorKind::NotImplemented, "op '" + call.op->name + "' has no kernel for device cpu");
    return call.op->takes < Takes::Any && has_other_dtypes(call) ? widen_callback : kernel;
}

void run_bare_kernel(Call& call) { kernel_of(call)(call); }

void run_kernel(Call& call) {
    KernelFn kernel = kernel_of(call);
    if (__builtin_expect(profile_callback != nullptr, 0)) {
        int64_t start = now_ns();
        kernel(call);
        profile_callback(call.op, call, start, now_ns());
        return;
    }
    // Other threads may draw from the same generator.
    if (call.twister || work_of(call) < kReleaseGilElements) {
        kernel(call);
        return;
    }
    Pinned pinned(call);
    MaybeReleaseGil gil(true);
    kernel(call);
}

}  // namespace mt
