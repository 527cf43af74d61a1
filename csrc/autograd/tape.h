// The tape: one node for each differentiable call. The formulas themselves are the `vjp` functions of Python's rows.
#pragma once

#include <memory>
#include <vector>

#include "core/memory/pooled.h"
#include "dispatch/call.h"
#include "dispatch/python/python.h"

namespace mt {

struct GradNode;

struct Edge {
    Ref<GradNode> node;
    uint32_t index = 0;  // which of the node's outputs
};

// What a saved tensor holds, while a derivative is taken that goes forward: copied by the first write to its storage.
struct Snapshot {
    Ref<Tensor> tensor;    // without history
    Ref<Tensor> contents;  // from before the write; null while there was none
};

// Of a tensor that was saved while saved_tensors_hooks were in force: what `pack` made of it, `unpack`, and its
// history. Of one that was saved in forward mode: its snapshot and its history.
struct PackedTensor {
    PyRef packed{}, unpack{};
    Edge edge{};
    std::shared_ptr<Snapshot> snapshot{};
};

// A tensor kept for the backward pass, with the version it had.
struct SavedTensor {
    Ref<Tensor> tensor;  // null: only the meta was needed, or it is packed
    std::unique_ptr<PackedTensor> packed;
    bool by_hooks() const { return packed && !packed->snapshot; }
    bool has_snapshot() const { return packed && packed->snapshot && packed->snapshot->contents; }
    uint32_t version = 0;
    uint32_t index = 0;      // of an output: which one
    bool is_output = false;  // kept without its own history, which would be a reference cycle
    bool had_history = false;  // an operand that is a result: one that has none any more was detached in place
    bool held() const { return tensor || packed; }
};

// A Python callable of a node.
struct Hook {
    enum class Kind : uint8_t {
        Tensor,          // called with the gradient of one result before the node runs; may replace it
        Retain,          // like Tensor, after all of these: retain_grad
        Pre,             // called with all gradients before the node runs
        Post,            // called with the gradients after and before
        PostAccumulate,  // called with the leaf
    };
    Kind kind;
    uint32_t index;      // Tensor, Retain: which result
    PyObject* callable;  // owned
    // The framework's own, of a leaf: it does nothing but call ops, which a program has; a replay is without it.
    bool in_programs = false;
    // On another node as well, from which it may be removed: it then has an attribute `removed` that is true.
    bool elsewhere = false;
};

struct OperandMeta {
    Dims sizes;
    DType dtype{};
    Device device{};
};

struct OperandLayout {
    Dims strides;  // empty: as if contiguous
    int64_t offset = 0;
};

// Of a write in place to a view: the call's own node, and the geometry of the view and of its base.
struct WrittenView {
    Ref<GradNode> inner;
    Dims view_sizes, view_strides, base_sizes, base_strides;
    int64_t view_offset = 0;
    uint32_t view_operand = 0;  // which of the inner call's operands is the old content of the view
};

// Where a recorded or profiled call stands in the user's program; unresolved until somebody asks.
struct SourceRef {
    PyObject* code = nullptr;  // owned
    int lasti = -1;
};

struct GradNode {
    enum class Type : uint8_t { Op, Accumulate, CopySlices, Python };

    uint32_t refcount = 1;
    Type type = Type::Op;
    bool released = false;
    bool saves = false;  // something that is freed with the graph
    // Made under no_grad while a derivative was taken that goes forward. One that goes backward ends here or, after a
    // write in place, goes on along the last edge, as if there had been no write.
    bool forward_only : 1 = false, passes : 1 = false;
    // All that it is computed of are dual numbers, which want no gradient: it is forward only in every mode, and its
    // results have no history any more when their level has ended. `unrecorded`: made under no_grad.
    bool of_duals : 1 = false, unrecorded : 1 = false;
    bool kept : 1 = false;  // released by a pass that goes backward; what it saved is there for those that go forward
    bool inside : 1 = false;  // of a function that PyTorch has one node for; see `name_node`
    const char* function = nullptr;  // of the last node of such a function: its name; kept for ever
    uint64_t sequence = 0;  // creation order: the engine runs the latest first
    const OpDef* op = nullptr;
    LentVector<Edge> edges;  // one per operand; null node: no gradient wanted
    LentVector<SavedTensor> saved;  // per operand
    LentVector<OperandMeta> operand_meta;  // per operand
    LentVector<OperandLayout> layouts;  // per operand of views and products; else none
    LentVector<Scalar> scalars;  // per operand, if one of them is a number
    LentVector<uint8_t> operand_kind;  // 0 tensor, 1 number, 2 none
    LentVector<Value> params;
    LentVector<SavedTensor> outputs;  // all results, if the formula reads them
    LentVector<OperandMeta> result_meta;
    // Accumulate: the leaf, not owned (its AutogradMeta owns this node).
    Tensor* leaf = nullptr;
    // The same where hooks of this node wait for its gradient and nobody else has it: owned, and doesn't own the node.
    Ref<Tensor> kept_leaf;
    std::unique_ptr<WrittenView> write;  // of CopySlices
    // Python: called with the gradients of the results, gives those of the operands.
    PyObject* callable = nullptr;
    std::vector<Hook> hooks;
    SourceRef source;
    uint64_t mark = 0;  // what the recorder had to say of the forward call; 0 for nothing
    PyObject* metadata = nullptr;  // the user's dict, made on first use
    PyObject* pyobject = nullptr;  // the Python object of this node while it lives; borrowed
    PyObject* trace = nullptr;  // in anomaly mode: the text of the stack of the forward call

    GradNode() {}  // not `= default`, by which `new GradNode()` would zero the memory
    GradNode(const GradNode&) = delete;
    GradNode* inner() const { return write ? write->inner.get() : nullptr; }

    static void destroy(GradNode* node);
    static void* operator new(size_t) { return Freelist<GradNode>::take(); }
    static void operator delete(void* memory) { Freelist<GradNode>::give(memory); }

    // Memory for so many elements of a vector that has none yet: of the node while there is some, else of the heap.
    template <class T>
    LentVector<T>& reserve_inline(LentVector<T>& vector, size_t count) {
        static_assert(alignof(T) <= 8);
        const size_t bytes = (count * sizeof(T) + 7) & ~size_t{7};
        if (__builtin_expect(bytes > kBytes - used_, 0)) {
            vector.reserve(count);
        } else {
            vector.lend(memory_ + used_, count);
            used_ += static_cast<uint32_t>(bytes);
        }
        return vector;
    }

  private:
    static constexpr size_t kBytes = 416;  // what a call of two operands needs
    uint32_t used_ = 0;
    alignas(8) unsigned char memory_[kBytes];
};

struct AutogradMeta {
    bool requires_grad = false;  // of a leaf
    Ref<Tensor> grad;
    Ref<GradNode> grad_fn;
    uint32_t output_index = 0;
    Ref<GradNode> accumulator;  // of a leaf, made on first use
    bool stands_for_leaf = false;  // the accumulator is that of another tensor, whose contents were unpacked
    Ref<VersionCounter> counter;  // of this tensor's versions; null: the storage counts
    // A view that a custom Function returned: a write would pass by the function's backward.
    bool of_function = false;
    PyObject* retain_hook = nullptr;  // of a result whose gradient is kept in `grad`; owned
    // Under vmap: the tensor with the mapped dimension first, of which this one is any slice. The level counts from 1.
    Ref<Tensor> batch_value;
    int batch_level = 0;

    AutogradMeta() = default;
    AutogradMeta(const AutogradMeta&) = delete;
    ~AutogradMeta() { Py_XDECREF(retain_hook); }
    static void* operator new(size_t) { return Pool<sizeof(AutogradMeta)>::take(); }
    static void operator delete(void* memory) { Pool<sizeof(AutogradMeta)>::give(memory); }
};

// Of a view's `base_generation`, which is the version that its history was made for: it was made while nothing was
// recorded, so that a gradient can't be followed through it once the base is written to.
inline constexpr uint32_t kUnrecorded = 1u << 31;
inline bool is_unrecorded(const Tensor& view) { return view.base_generation & kUnrecorded; }
inline bool is_outdated(const Tensor& view) { return (version_of(view) ^ view.base_generation) & ~kUnrecorded; }
inline void note_history_made(Tensor& view, uint32_t version, bool unrecorded) {
    view.base_generation = (version & ~kUnrecorded) | (unrecorded ? kUnrecorded : 0);
}
inline VersionCounter* counter_of(const Tensor& tensor) {
    return tensor.autograd ? tensor.autograd->counter.get() : nullptr;
}

// Whether the tensor is a leaf that wants a gradient.
inline bool begins_history(const Tensor& tensor) {
    return tensor.autograd && tensor.autograd->requires_grad && !tensor.autograd->grad_fn;
}
// What a view of `source` has as its base. A leaf that is a view itself begins a history, for its views too.
inline Ref<Tensor> base_of_views(Tensor& source) {
    return source.base && !begins_history(source) ? source.base : Ref<Tensor>::borrow(&source);
}

inline int batch_level(const Tensor& tensor) { return tensor.autograd ? tensor.autograd->batch_level : 0; }

// Where the elements are, also of what vmap maps: its handles have no memory.
inline Device home_of(const Tensor& tensor) {
    return batch_level(tensor) ? home_of(*tensor.autograd->batch_value) : place_of_components(tensor.device());
}

AutogradMeta& autograd_meta(Tensor& tensor);  // made on first use
bool requires_grad(const Tensor& tensor);
bool is_leaf(const Tensor& tensor);
// The edge that a consumer of `tensor` sends its gradient along; null when it needs none. Brings a stale view up to
// date.
Edge grad_edge(Tensor& tensor);
const Ref<GradNode>& grad_fn(Tensor& tensor);
// Where a pass that goes backward begins that arrives at `edge`; null where there is none.
Edge backward_edge(Edge edge);
// Whether a formula is being differentiated: then dual numbers are variables as any.
extern MT_THREAD_LOCAL bool duals_are_variables;
// Whether the tensor is computed of dual numbers alone.
inline bool is_of_duals(const Tensor& tensor) {
    return tensor.autograd && tensor.autograd->grad_fn && tensor.autograd->grad_fn->of_duals;
}
// Marks a node with these edges as `forward_only`, if it is made under no_grad or is of dual numbers alone.
void note_direction(GradNode& node);
// requires_grad as users see it: whether a gradient goes backward from the tensor.
bool requires_backward(Tensor& tensor);
void set_requires_grad(Tensor& tensor, bool value);
// Makes `tensor` the output `index` of `node`.
void set_history(Tensor& tensor, Ref<GradNode> node, uint32_t index);
// The same for a tensor that was written in place, whose old content was operand `operand` of the node: the write to a
// view is one to its base.
void rebase_history(Tensor& tensor, const Ref<GradNode>& node, uint32_t index, size_t operand);
uint64_t next_sequence();
// The node of one call, so far with null edges; and the rest of it, once these are set. `before` has what in-place
// calls overwrote, per operand.
Ref<GradNode> begin_node(const Call& call);
void finish_node(GradNode& node, const Call& call, const Ref<Tensor>* before = nullptr);
// Throws if gradients of a write to `view` couldn't be followed.
void check_written_view(const Tensor& view);
// Throws if a tensor that wants gradients may not be written: a leaf, a view of one, or what the above refuses.
void check_written(const Tensor& tensor);
// The leaf of an Accumulate node, or null if it is gone.
Ref<Tensor> leaf_of(GradNode& node);
// A function that a transform (grad, vjp, jvp) differentiates is running. What it has captured it may not write to:
// what was made before it `began` and isn't `given`.
struct Transform {
    uint32_t began;
    std::vector<Ref<Tensor>> given;
    std::unique_ptr<Transform> around;
};
extern MT_THREAD_LOCAL Transform* transform;  // owned by the thread
void begin_transform(std::vector<Ref<Tensor>> given);
void end_transform();
int transform_depth();  // how many have begun on this thread
// Throws if a tensor of inference mode would be written outside of it.
void check_inference(const Tensor& written);
// A copy of the tensor's handle without history. Under vmap the mapped tensor keeps its own.
Ref<Tensor> detach(const Tensor& tensor);
// As a user means it: also what is behind vmap loses its history.
Ref<Tensor> detach_deeply(const Tensor& tensor);
// Drops a tensor's history. Hooks that were put on it stay, for when it is a leaf that requires grad.
void detach_in_place(Tensor& tensor);
std::string node_name(const GradNode& node);  // AddBackward0
// The node that ends a function's history becomes that of the function, by its name: what the function made since the
// node `before` is inside of it, and isn't shown. Nothing else depends on it.
void name_node(GradNode& node, const char* function, uint64_t before);
// The sequence number of the latest node.
uint64_t latest_sequence();
// The saved tensor, checked against in-place changes since; throws PyTorch's error.
Ref<Tensor> unpack(GradNode& node, const SavedTensor& saved);

// Captures the caller's position; installed by trace/. Used while recording or in anomaly mode.
extern void (*capture_source_callback)(SourceRef* source);
extern MT_THREAD_LOCAL bool capture_sources;
// What a recorder says of the calls at hand, for their gradients; and how it is told which formula runs: it returns
// what to give back at its end.
extern MT_THREAD_LOCAL uint64_t call_mark;
extern uint64_t (*begin_formula_callback)(uint64_t mark);
extern void (*end_formula_callback)(uint64_t previous);
// While a gradient formula runs: the position of the forward call it belongs to.
extern MT_THREAD_LOCAL const SourceRef* source_override;

// (pack, unpack) that are in force on this thread, or null; borrowed.
extern MT_THREAD_LOCAL PyObject* saved_tensor_hooks;

// Anomaly mode, for all threads. `stack()` gives the text of the caller's stack, `report(name, trace)` warns about the
// node whose formula failed, `has_nan(tensor)` looks for NaN.
struct Anomaly {
    bool enabled = false, check_nan = true;
    PyObject *stack = nullptr, *report = nullptr, *has_nan = nullptr;  // owned
};
extern Anomaly anomaly;
// Notes the stack in a new node, and what of a backward pass made it.
void note_stack(GradNode& node);
extern MT_THREAD_LOCAL const GradNode* current_node;  // whose formula is running, or which is asked what it saved

// While a function is recorded that may be replayed later: which nodes are its own, by their sequence, and whether the
// formula of an earlier one has run.
extern MT_THREAD_LOCAL uint64_t own_nodes_from;
extern MT_THREAD_LOCAL bool ran_earlier_node;
// What it did that a replay would not do, as a reason; null for nothing.
extern MT_THREAD_LOCAL const char* beyond_replay;
inline void note_beyond_replay(const char* what) {
    if (own_nodes_from) beyond_replay = what;
}

// To be called before the .grad of a tensor is read (`read`) or replaced.
void log_gradient_use(Tensor& owner, bool read);
inline void note_gradient_use(Tensor& owner, bool read) {
    if (__builtin_expect(function_log != nullptr, 0)) log_gradient_use(owner, read);
}

// A tensor gets another geometry in place. Where there is memory it isn't one that the function made.
inline void note_other_geometry(const Tensor& tensor) {
    if (tensor.storage->has_memory()) note_beyond_replay("it changes the shape of a tensor in place");
}

void install_tape();

}  // namespace mt
