// Whether a program fits the arguments of a call: their dtypes, layouts, devices, gradients, and which share memory.
#include "trace/program/argument_guards.h"

#include <algorithm>

#include "dispatch/python/tensor_object.h"
#include "dispatch/thread_local_state.h"
#include "trace/program/program.h"

namespace mt::trace {

bool differentiated(const Tensor& t) { return thread_settings.grad_enabled && requires_grad(t); }

uint8_t traits_of(const Tensor& t) {
    const bool counts_by_itself = counter_of(t);
    return static_cast<uint8_t>(t.is_inference | t.wrapped_number << 1 | counts_by_itself << 2);
}

bool has_place(const Tensor& t) { return t.device().type == DeviceType::CPU || on_gpu(t.device()); }

bool bare(const Tensor& t) {
    if (!has_place(t)) return false;
    if (!differentiated(t)) return true;
    const bool leaf = is_leaf(t);
    if (!t.autograd) return true;
    const Ref<GradNode>& node = leaf ? t.autograd->accumulator : t.autograd->grad_fn;
    return !node || node->hooks.empty();
}

bool bare_leaf(const Tensor& t) {
    if (!t.autograd) return true;
    if (t.autograd->grad_fn) return false;
    const GradNode* accumulator = t.autograd->accumulator.get();
    return !accumulator || std::all_of(accumulator->hooks.begin(), accumulator->hooks.end(),
                                       [](const Hook& hook) { return hook.in_programs; });
}

bool gradients_are_plain() { return !anomaly.enabled && !saved_tensor_hooks; }

bool Program::outdated() const {
    return std::any_of(held_.begin(), held_.end(),
                       [](const Held& held) { return held.named && !held_by_python(*held.tensor); });
}

bool Program::gather(Tensor* const* given, Arguments& arguments) const {
    arguments.clear();
    for (size_t i = 0; i < given_count_; ++i) arguments.push_back(given[i]);
    for (const Gradient& gradient : gradients_) {
        Tensor& owner = gradient.of(given);
        if (!bare_leaf(owner)) return false;
        if (gradient.before == Gradient::Before::Any) continue;
        Tensor* now = owner.autograd ? owner.autograd->grad.get() : nullptr;
        if (gradient.before == Gradient::Before::Pinned) {
            if (now != gradient.pinned.get()) return false;
            continue;
        }
        if (!now != (gradient.before == Gradient::Before::Absent)) return false;
        if (!now) continue;
        if (!plain_in_python(*now)) return false;
        arguments.push_back(now);
    }
    return true;
}

bool Program::accepts(Tensor* const* given, size_t given_count) const {
    if (given_count != given_count_ || outdated() || !history_.holds()) return false;
    if (takes_gradients_ && !gradients_are_plain()) return false;
    if (!std::all_of(taken_.begin(), taken_.end(), [](const Ref<Tensor>& leaf) { return bare_leaf(*leaf); }))
        return false;
    Arguments arguments;
    if (!gather(given, arguments)) return false;
    const size_t count = arguments.size();
    for (size_t i = 0; i < count; ++i) {
        const Tensor& t = *arguments[i];
        const ArgumentMeta& meta = arguments_[i];
        if (t.dtype != meta.dtype || t.device() != meta.device || !(t.sizes == meta.sizes) ||
            !(t.strides == meta.strides) || t.storage->pending || differentiated(t) != meta.differentiated || !bare(t))
            return false;
        if (meta.differentiated && is_leaf(t) != meta.leaf) return false;
        if (traits_of(t) != meta.traits) return false;
        if (meta.whole_storage && (t.offset != meta.offset || t.storage->nbytes != meta.nbytes)) return false;
        if (meta.first != i && t.offset - arguments[meta.first]->offset != meta.after_first) return false;
        for (size_t j = 0; j < i; ++j)
            if (arguments[j] == &t || (arguments[j]->storage == t.storage) != (arguments_[j].first == meta.first))
                return false;
    }
    for (const Written& w : written_) {
        // A captured tensor that is written and passed as an argument would be both.
        for (size_t i = 0; w.argument < 0 && i < count; ++i)
            if (arguments[i]->storage == w.memory) return false;
        if (w.argument >= 0 && arguments[w.argument]->storage->read_only) return false;
        const Storage& memory = *(w.argument >= 0 ? arguments[w.argument]->storage : w.memory);
        if (!memory.external()) continue;
        for (size_t i = 0; i < count; ++i)
            if (arguments[i]->storage->overlaps(memory)) return false;
        for (const TraceInput& input : trace_.inputs)
            if (input.storage && input.storage->overlaps(memory)) return false;
    }
    for (const Held& held : held_) {
        const Tensor& t = *held.tensor;
        if (t.storage.get() != held.storage || differentiated(t) != held.differentiated || !(t.sizes == held.sizes) ||
            !(t.strides == held.strides) || t.offset != held.offset || traits_of(t) != held.traits)
            return false;
    }
    // Captured tensors that an unfinished recording is about to change.
    for (const TraceInput& input : trace_.inputs) {
        if (!input.storage) continue;
        if (input.storage->pending) return false;
        for (size_t i = 0; i < count; ++i)
            if (arguments[i]->storage == input.storage) return false;
    }
    return true;
}

}  // namespace mt::trace
