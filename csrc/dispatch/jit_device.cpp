#include "dispatch/jit_device.h"

#include "core/error.h"

namespace mt {

void (*run_on_jit_device)(Call&, Ref<Tensor>*, Tensor*) = nullptr;
void (*copy_profile_hook)(Device, Device, int64_t, int64_t, int64_t) = nullptr;
thread_local const Device* clone_target = nullptr;

Ref<Tensor> copy_across(const Tensor& tensor, Device device) {
    static const OpDef* clone = find_op("clone");
    while (tensor.pending()) {
        Ref<Storage> storage = tensor.storage;
        materialize_hook(storage.get());
    }
    int64_t start = copy_profile_hook ? now_ns() : 0;
    // Handles over plain memory: the kernel is not a call on either device.
    Ref<Tensor> result = Tensor::empty(tensor.sizes, tensor.dtype, device);
    Ref<Storage> from = Storage::wrap(tensor.storage->data, tensor.storage->nbytes, [](void*) {}, nullptr);
    Ref<Storage> to = Storage::wrap(result->storage->data, result->storage->nbytes, [](void*) {}, nullptr);
    Ref<Tensor> source = Tensor::make(from, tensor.dtype, tensor.sizes, tensor.strides, tensor.offset);
    Ref<Tensor> target = Tensor::make(to, tensor.dtype, tensor.sizes, result->strides, 0);
    Ref<Storage> keep = tensor.storage;
    Operand operand;
    operand.tensor = source.get();
    Call call;
    call.op = clone;
    call.operands = &operand;
    call.operand_count = 1;
    infer(call);
    call.outputs[0] = target.get();
    call.result_count = 1;
    run_bare_kernel(call);
    if (copy_profile_hook)
        copy_profile_hook(tensor.device(), device, tensor.numel * static_cast<int64_t>(itemsize(tensor.dtype)), start,
                          now_ns());
    return result;
}

Ref<Tensor> clone_to(Tensor& tensor, Device device) {
    static const OpDef* clone = find_op("clone");
    struct Target {
        const Device* previous;
        explicit Target(const Device* device) : previous(std::exchange(clone_target, device)) {}
        ~Target() { clone_target = previous; }
    } target(&device);
    return call_op(*clone, {&tensor});
}

}  // namespace mt
