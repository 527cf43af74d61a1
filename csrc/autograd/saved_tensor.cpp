#include "autograd/saved_tensor.h"

#include <unordered_map>

#include "core/error.h"
#include "dispatch/call_steps.h"
#include "dispatch/python/python.h"
#include "dispatch/thread_local_state.h"

namespace mt {

namespace {

using Snapshots = std::unordered_map<const Storage*, std::vector<std::weak_ptr<Snapshot>>>;
thread_local Snapshots t_snapshots;

// Where the elements are: what vmap maps has them in the tensor behind it.
const Storage* storage_of(const Tensor& tensor) {
    const Tensor* at = &tensor;
    while (batch_level(*at)) at = at->autograd->batch_value.get();
    return at->storage.get();
}

std::unique_ptr<PackedTensor> snapshot_of(Tensor& value, bool is_output) {
    auto made = std::make_unique<PackedTensor>();
    if (!is_output && (is_floating(value.dtype) || is_complex(value.dtype)) && requires_grad(value))
        made->edge = grad_edge(value);
    made->snapshot = std::make_shared<Snapshot>(Snapshot{detach(value), {}});
    std::vector<std::weak_ptr<Snapshot>>& of_storage = t_snapshots[storage_of(value)];
    std::erase_if(of_storage, [](const std::weak_ptr<Snapshot>& one) { return one.expired(); });
    of_storage.push_back(made->snapshot);
    return made;
}

}  // namespace

void keep_saved(const Tensor& destination) {
    const auto found = t_snapshots.find(storage_of(destination));
    if (found == t_snapshots.end()) return;
    // Copying may run code that saves more.
    const std::vector<std::weak_ptr<Snapshot>> saved = std::move(found->second);
    t_snapshots.erase(found);
    static const OpDef* clone = find_op("clone");
    GradMode mode(false);
    for (const std::weak_ptr<Snapshot>& one : saved)
        if (const std::shared_ptr<Snapshot> snapshot = one.lock())
            snapshot->contents = call_op(*clone, {snapshot->tensor.get()});
}

void forget_saved() { t_snapshots.clear(); }

SavedTensor save(Tensor& value, bool is_output, uint32_t index) {
    SavedTensor saved;
    saved.version = version_of(value);
    saved.is_output = is_output;
    saved.index = index;
    saved.had_history = !is_output && value.autograd && value.autograd->grad_fn && !value.autograd->grad_fn->of_duals;
    Ref<Tensor> kept = is_output ? detach(value) : Ref<Tensor>::borrow(&value);
    if (!saved_tensor_hooks) {
        if (__builtin_expect(thread_settings.forward_mode, 0)) saved.packed = snapshot_of(value, is_output);
        saved.tensor = std::move(kept);
        return saved;
    }
    auto made = std::make_unique<PackedTensor>();
    if (!is_output) made->edge = grad_edge(value);
    PyRef hooks = PyRef::borrow(saved_tensor_hooks);
    PyRef given(wrap_callback(std::move(kept)));
    if (!given) fail_python();
    bool enabled = std::exchange(thread_settings.grad_enabled, false);
    made->packed = PyRef(PyObject_CallOneArg(PyTuple_GET_ITEM(hooks.get(), 0), given.get()));
    thread_settings.grad_enabled = enabled;
    if (!made->packed) fail_python();
    if (version_of(value) != saved.version)
        fail("A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not "
             "be modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if "
             "you need to perform in-place operations on the input to a pack hook.");
    made->unpack = PyRef::borrow(PyTuple_GET_ITEM(hooks.get(), 1));
    saved.packed = std::move(made);
    return saved;
}

namespace {

// The contents of a saved tensor, with its history.
Ref<Tensor> with_history(GradNode& node, const Tensor& contents, bool is_output, uint32_t index, const Edge& edge) {
    Ref<Tensor> result = detach(contents);
    if (!is_floating(result->dtype) && !is_complex(result->dtype)) return result;
    if (is_output) set_history(*result, Ref<GradNode>::borrow(&node), index);
    else if (edge.node) set_history(*result, edge.node, edge.index);
    return result;
}

// The tensor that `unpack` gave back for what `pack` made, with the history of the one that was saved.
Ref<Tensor> unpack_by_hook(GradNode& node, const SavedTensor& saved) {
    // The hook may free the graph.
    PyRef unpack = PyRef::borrow(saved.packed->unpack.get()), packed = PyRef::borrow(saved.packed->packed.get());
    const Edge edge = saved.packed->edge;
    const bool is_output = saved.is_output;
    const uint32_t index = saved.index;
    PyRef returned(PyObject_CallOneArg(unpack.get(), packed.get()));
    if (!returned) fail_python();
    Tensor* given = unwrap_callback(returned.get());
    if (!given)
        fail_type(std::string("Output of saved tensor unpack_hook expected to be a Tensor but got result of type ") +
                  Py_TYPE(returned.get())->tp_name);
    return with_history(node, *given, is_output, index, edge);
}

// A node's name without "Backward0", as PyTorch shows it here.
std::string op_of(const GradNode& node) {
    std::string name = node_name(node);
    const size_t at = name.rfind("Backward");
    return at == std::string::npos || name.find_first_not_of("0123456789", at + 8) != std::string::npos
               ? name
               : name.substr(0, at);
}

[[noreturn]] void refuse_modified(const GradNode& node, const SavedTensor& saved) {
    const Tensor& tensor = *saved.tensor;
    std::string made;
    if (saved.is_output) made = ", which is output " + std::to_string(saved.index) + " of " + op_of(node) + ",";
    else if (tensor.autograd && tensor.autograd->grad_fn)
        made = ", which is output " + std::to_string(tensor.autograd->output_index) + " of " +
               op_of(*tensor.autograd->grad_fn) + ",";
    std::string hint = anomaly.enabled
                           ? "the backtrace further above shows the operation that failed to compute its gradient. The "
                             "variable in question was changed in there or anywhere later. Good luck!"
                           : "enable anomaly detection to find the operation that failed to compute its gradient, with "
                             "minitensor.autograd.set_detect_anomaly(True, check_nan=False).";
    fail("one of the variables needed for gradient computation has been modified by an inplace operation: "
         "[minitensor." +
         std::string(torch_type_name(tensor.dtype)) + "Tensor " + to_string(tensor.sizes) + "]" + made +
         " is at version " + std::to_string(version_of(tensor)) + "; expected version " +
         std::to_string(saved.version) + " instead." + detail(" It was saved for " + node_name(node) + ".") +
         " Hint: " + hint);
}

}  // namespace

Ref<Tensor> unpack(GradNode& node, const SavedTensor& saved) {
    if (saved.by_hooks()) return unpack_by_hook(node, saved);
    if (saved.has_snapshot())
        return with_history(node, *saved.packed->snapshot->contents, saved.is_output, saved.index, saved.packed->edge);
    Tensor& tensor = *saved.tensor;
    // No element was written, or there would be a copy: the tensor was given another shape in place.
    if (saved.packed && version_of(tensor) != saved.version && thread_settings.forward_mode)
        return with_history(node, *saved.packed->snapshot->tensor, saved.is_output, saved.index, saved.packed->edge);
    if (version_of(tensor) != saved.version) refuse_modified(node, saved);
    const bool has_history = static_cast<bool>(grad_fn(tensor));  // refuses a view whose history can't be known
    if (saved.had_history && !has_history)
        fail("Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not "
             "supported, please use out-of-place `.detach()` instead");
    if (!saved.is_output) return saved.tensor;
    Ref<Tensor> result = detach(tensor);
    if (is_floating(result->dtype) || is_complex(result->dtype))
        set_history(*result, Ref<GradNode>::borrow(&node), saved.index);
    return result;
}

}  // namespace mt
