#include "dispatch/jit_device.h"

#include "core/error.h"
#include "dispatch/generator.h"
#include "dispatch/gpu.h"
#include "dispatch/thread_local_state.h"

namespace mt {

void (*run_on_jit_device)(Call&, Ref<Tensor>*, Tensor*) = nullptr;
void (*run_on_gpu_callback)(Call&, Ref<Tensor>*, Tensor*) = nullptr;
void (*copy_profile_callback)(Device, Device, int64_t, int64_t, int64_t) = nullptr;
thread_local const Device* clone_target = nullptr;

namespace {

// A GPU's tensor whose elements lie further apart than this is put together there before it is copied.
constexpr int64_t kSparse = 4;

// The elements in new memory of the host, row-major. The kernel is not a call on any device.
Ref<Tensor> host_clone(const Tensor& tensor, Device device) {
    static const OpDef* clone = find_op("clone");
    // Handles over plain memory.
    Ref<Tensor> result = Tensor::empty(tensor.sizes, tensor.dtype, device);
    Ref<Storage> from = Storage::wrap(tensor.storage->data, tensor.storage->nbytes, [](void*) {}, nullptr);
    Ref<Storage> to = Storage::wrap(result->storage->data, result->storage->nbytes, [](void*) {}, nullptr);
    Ref<Tensor> source = Tensor::make(from, tensor.dtype, tensor.sizes, tensor.strides, tensor.offset);
    Ref<Tensor> target = Tensor::make(to, tensor.dtype, tensor.sizes, result->strides, 0);
    Operand operand;
    operand.tensor = source.get();
    Call call(ambient());
    call.op = clone;
    call.operands = &operand;
    call.operand_count = 1;
    infer(call);
    call.outputs[0] = target.get();
    call.result_count = 1;
    run_bare_kernel(call);
    return result;
}

class Quietly {
  public:
    Quietly()
        : grad_(std::exchange(thread_settings.grad_enabled, false)), target_(std::exchange(clone_target, nullptr)),
          interpreter_(std::exchange(current_interpreter, nullptr)) {}
    ~Quietly() {
        thread_settings.grad_enabled = grad_;
        clone_target = target_;
        current_interpreter = interpreter_;
    }
    Quietly(const Quietly&) = delete;

  private:
    bool grad_;
    const Device* target_;
    Interpreter* interpreter_;
};

// The elements in order in memory of the same GPU.
Ref<Tensor> in_order_on_gpu(const Tensor& tensor) {
    static const OpDef* row_major = find_op("_row_major");
    Quietly quietly;
    Ref<Tensor> handle = Tensor::make(tensor.storage, tensor.dtype, tensor.sizes, tensor.strides, tensor.offset);
    return call_op(*row_major, {handle.get()});
}

void copy_elements(const Tensor& to, const Tensor& from) {
    copy_bytes(to.place(), from.place(), static_cast<size_t>(to.numel) * itemsize(to.dtype));
}

// The elements from `low` to `high` of a GPU's storage in host memory, seen as the tensor sees them.
Ref<Tensor> span_of(const Tensor& tensor, int64_t low, int64_t high) {
    auto size = static_cast<int64_t>(itemsize(tensor.dtype));
    Ref<Storage> span = Storage::allocate(static_cast<size_t>((high - low) * size));
    copy_bytes(span->place(), tensor.storage->place().plus(low * size), span->nbytes);
    return Tensor::make(span, tensor.dtype, tensor.sizes, tensor.strides, tensor.offset - low);
}

Ref<Tensor> from_gpu(const Tensor& tensor, Device device) {
    // The copy for a kernel that has no code on the GPU ends here again; it has to do without this detour.
    static thread_local bool putting_together = false;
    if (tensor.contiguous()) {
        Ref<Tensor> result = Tensor::empty(tensor.sizes, tensor.dtype, device);
        copy_elements(*result, tensor);
        return result;
    }
    auto [low, high] = element_span(tensor.sizes, tensor.strides, tensor.offset);
    if (on_gpu(device) || (high - low > kSparse * tensor.numel && !putting_together)) {
        struct Flag {
            Flag() { putting_together = true; }
            ~Flag() { putting_together = false; }
        } flag;
        return from_gpu(*in_order_on_gpu(tensor), device);
    }
    return host_clone(*span_of(tensor, low, high), device);
}

Ref<Tensor> to_gpu(const Tensor& tensor, Device device) {
    if (!tensor.contiguous()) return to_gpu(*host_clone(tensor, Device{}), device);
    Ref<Tensor> result = Tensor::empty(tensor.sizes, tensor.dtype, device);
    copy_elements(*result, tensor);
    return result;
}

}  // namespace

Ref<Tensor> copy_across(const Tensor& tensor, Device device) {
    while (tensor.pending()) {
        Ref<Storage> storage = tensor.storage;
        materialize_callback(storage.get());
    }
    int64_t start = copy_profile_callback ? now_ns() : 0;
    Ref<Storage> keep = tensor.storage;
    keep->ensure_memory();
    Ref<Tensor> result = on_gpu(tensor.device()) ? from_gpu(tensor, device)
                         : on_gpu(device)        ? to_gpu(tensor, device)
                                                 : host_clone(tensor, device);
    if (copy_profile_callback)
        copy_profile_callback(tensor.device(), device, tensor.numel * static_cast<int64_t>(itemsize(tensor.dtype)),
                              start, now_ns());
    return result;
}

Ref<Tensor> copy_as_it_lies(const Tensor& tensor) {
    auto [low, high] = element_span(tensor.sizes, tensor.strides, tensor.offset);
    if (tensor.pending() || tensor.contiguous() || high - low > kSparse * tensor.numel)
        return copy_across(tensor, Device{});
    int64_t start = copy_profile_callback ? now_ns() : 0;
    Ref<Storage> keep = tensor.storage;
    Ref<Tensor> result = span_of(tensor, low, high);
    if (copy_profile_callback)
        copy_profile_callback(tensor.device(), Device{}, static_cast<int64_t>(result->storage->nbytes), start,
                              now_ns());
    return result;
}

Ref<Tensor> clone_to(Tensor& tensor, Device device) {
    static const OpDef* clone = find_op("clone");
    if (tensor.device().type == DeviceType::Meta && device.type != DeviceType::Meta)
        throw Error(ErrorKind::NotImplemented, "Cannot copy out of meta tensor; no data!");
    struct Target {
        const Device* previous;
        explicit Target(const Device* device) : previous(std::exchange(clone_target, device)) {}
        ~Target() { clone_target = previous; }
    } target(&device);
    return call_op(*clone, {&tensor});
}

void run_over_host(Call& call, Ref<Tensor>* results) {
    const Device device = call.device;
    std::vector<Operand> operands(call.operands, call.operands + call.operand_count);
    std::vector<Ref<Tensor>> copies;
    for (Operand& operand : operands) {
        if (!operand.tensor || on_host(*operand.tensor)) continue;
        copies.push_back(copy_as_it_lies(*operand.tensor));
        operand.tensor = copies.back().get();
    }
    std::vector<Value> params(call.params, call.params + call.param_count);
    for (Value& param : params)
        if (param.tag == Value::Dev) param.device = Device{};
    Call here = call;
    here.operands = operands.data();
    here.params = params.data();
    here.device = Device{};
    struct Numbers {
        Generator* previous;
        explicit Numbers(Device device)
            : previous(
                  std::exchange(active_generator, active_generator ? active_generator : &default_generator(device))) {}
        ~Numbers() { active_generator = previous; }
    } numbers(device);
    {
        Quietly quietly;
        dispatch(here, results);
    }
    call.result_count = here.result_count;
    for (size_t i = 0; i < call.result_count; ++i) results[i] = copy_across(*results[i], device);
}

}  // namespace mt
