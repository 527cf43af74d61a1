// The tape: one node for each differentiable call. The formulas themselves are the `vjp` functions of Python's rows.
#pragma once

#include <memory>
#include <vector>

#include "dispatch/call.h"

namespace mt {

struct GradNode;

struct Edge {
    Ref<GradNode> node;
    uint32_t index = 0;  // which of the node's outputs
};

// A tensor kept for the backward pass, with the version it had.
struct SavedTensor {
    Ref<Tensor> tensor;  // null: only the meta was needed
    uint32_t version = 0;
    bool is_output = false;  // kept without its own history, which would be a reference cycle
    uint32_t index = 0;      // of an output: which one
};

struct OperandMeta {
    Dims sizes;
    DType dtype;
    Dims strides{};  // of views only
    int64_t offset = 0;
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
    bool saves = false;     // something that is freed with the graph
    uint64_t sequence = 0;  // creation order: the engine runs the latest first
    const OpDef* op = nullptr;
    std::vector<Edge> edges;  // one per operand; null node: no gradient wanted
    std::vector<SavedTensor> saved;        // per operand
    std::vector<OperandMeta> operand_meta; // per operand
    std::vector<Scalar> scalars;           // per operand, where it was a number
    std::vector<uint8_t> operand_kind;     // 0 tensor, 1 number, 2 none
    std::vector<Value> params;
    std::vector<SavedTensor> outputs;  // all results, if the formula reads them
    std::vector<OperandMeta> result_meta;
    // Accumulate: the leaf, not owned (its AutogradMeta owns this node).
    Tensor* leaf = nullptr;
    // CopySlices: the inner call's node and the geometry of the written view and its base.
    Ref<GradNode> inner;
    Dims view_sizes, view_strides, base_sizes, base_strides;
    int64_t view_offset = 0;
    // Python: called with the gradients of the results, gives those of the operands.
    PyObject* callable = nullptr;
    // (result index, hook): called with the gradient before the node runs; may replace it.
    std::vector<std::pair<uint32_t, PyObject*>> hooks;
    SourceRef source;

    static void destroy(GradNode* node);
};

struct AutogradMeta {
    bool requires_grad = false;  // of a leaf
    Ref<Tensor> grad;
    Ref<GradNode> grad_fn;
    uint32_t output_index = 0;
    Ref<GradNode> accumulator;  // of a leaf, made on first use
    uint32_t generation = 0;    // in-place rewrites of this base through any of its views
};

AutogradMeta& autograd_meta(Tensor& tensor);  // made on first use
bool requires_grad(const Tensor& tensor);
bool is_leaf(const Tensor& tensor);
// The edge that a consumer of `tensor` sends its gradient along; null when it needs none. Brings a stale view up to
// date.
Edge grad_edge(Tensor& tensor);
const Ref<GradNode>& grad_fn(Tensor& tensor);
void set_requires_grad(Tensor& tensor, bool value);
// Makes `tensor` the output `index` of `node`.
void set_history(Tensor& tensor, Ref<GradNode> node, uint32_t index);
uint64_t next_sequence();
// A copy of the tensor's handle without history.
Ref<Tensor> detach(const Tensor& tensor);
// The saved tensor, checked against in-place changes since; throws PyTorch's error.
Ref<Tensor> unpack(GradNode& node, const SavedTensor& saved);

// Captures the caller's position; installed by trace/. Used while recording or in anomaly mode.
extern void (*capture_source_hook)(SourceRef* source);
extern MT_THREAD_LOCAL bool capture_sources;
// While a gradient formula runs: the position of the forward call it belongs to.
extern MT_THREAD_LOCAL const SourceRef* source_override;

void install_tape();

}  // namespace mt
