// Calls on GPUs: recorded where a program is, and otherwise a trace of one op that is run at once.
#include "core/error.h"
#include "dispatch/gpu.h"
#include "trace/plan/plan.h"

namespace mt::trace {

namespace {

// What scopes say is said of recorded programs.
class Untagged {
  public:
    Untagged() : tag_(std::exchange(current_tag, Tag{})) {}
    ~Untagged() { current_tag = tag_; }
    Untagged(const Untagged&) = delete;

  private:
    Tag tag_;
};

// A write through a view that shows a part of its storage without gaps, as one to a storage of its own: the rest need
// not be read. Whoever calls has copied what else overlaps it.
class Window {
  public:
    Window(Call& call, Tensor& destination) : call_(call) {
        if (destination.storage->external() || call.operand_count > kMost || !destination.contiguous() ||
            !destination.numel)
            return;
        const size_t nbytes = static_cast<size_t>(destination.numel) * itemsize(destination.dtype);
        if (nbytes == destination.storage->nbytes) return;
        Ref<Storage> part = Storage::wrap(destination.place(), nbytes, [](void*) {}, nullptr);
        part->shared = [](void*) { return false; };  // what it is part of is ours
        handle_ = Tensor::make(std::move(part), destination.dtype, destination.sizes, destination.strides, 0);
        for (size_t i = 0; i < call.operand_count; ++i) {
            Tensor* t = originals_[i] = call.operands[i].tensor;
            const bool same = t && t->storage == destination.storage && t->offset == destination.offset &&
                              t->sizes == destination.sizes && t->strides == destination.strides &&
                              t->dtype == destination.dtype;
            if (same) call.operands[i].tensor = handle_.get();
        }
    }
    ~Window() {
        for (size_t i = 0; handle_ && i < call_.operand_count; ++i) call_.operands[i].tensor = originals_[i];
    }
    Window(const Window&) = delete;
    Tensor* get() const { return handle_.get(); }

  private:
    static constexpr size_t kMost = 4;
    Call& call_;
    Ref<Tensor> handle_;
    Tensor* originals_[kMost] = {};
};

void run(Call& call, Ref<Tensor>* results, Tensor* destination) {
    load_compiler();
    if (current_interpreter && !(destination && destination->storage->reinterpreted)) {
        if (destination) current_interpreter->run_inplace(call, *destination);
        else current_interpreter->run(call, results);
        return;
    }
    if (current_interpreter) current_interpreter->on_fallback(call);
    Untagged untagged;
    PrivateTrace trace;
    if (!destination) {
        trace->run(call, results);
        return run_at_once(*trace);
    }
    Window window(call, *destination);
    trace->run_inplace(call, window.get() ? *window.get() : *destination);
    run_at_once(*trace);
}

}  // namespace

void install_gpu() { run_on_gpu_callback = run; }

}  // namespace mt::trace
