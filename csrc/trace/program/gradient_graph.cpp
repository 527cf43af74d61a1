#include "trace/program/gradient_graph.h"

#include <algorithm>

#include "core/hash.h"
#include "dispatch/registry.h"
#include "dispatch/thread_local_state.h"

namespace mt::trace {

namespace {

constexpr size_t kMaxGraph = 4096;  // nodes, of passes that a trace has room for
constexpr uint64_t kNothing = ~uint64_t{0};

bool on_cpu(const Device& device) { return device.type == DeviceType::CPU; }

// Whether an op's formula is the framework's own: those of extensions have kernels or shape rules in Python.
bool is_own(const OpDef& op) { return !op.python_infer && !op.python_kernel[static_cast<size_t>(DeviceType::CPU)]; }

}  // namespace

uint64_t GradientGraph::hash() const {
    uint64_t hash = settings_word();
    for (uint64_t word : words) hash = mixed(hash, word);
    return hash;
}

void GradientGraph::add(const Dims& dims) {
    for (int64_t n : dims) add(static_cast<uint64_t>(n));
}

void GradientGraph::add(const OperandMeta& meta) {
    if (!on_cpu(meta.device)) refuse();
    add(static_cast<uint64_t>(meta.dtype) | meta.sizes.size() << 8);
    add(meta.sizes);
}

void GradientGraph::add(const OperandLayout& layout) {
    add(layout.strides.size());
    add(layout.strides);
    add(static_cast<uint64_t>(layout.offset));
}

void GradientGraph::add(const Value& value) {
    add(static_cast<uint64_t>(value.tag) | static_cast<uint64_t>(value.dtype) << 8 | value.ints.size() << 32);
    switch (value.tag) {
        case Value::Ints: return add(value.ints);
        case Value::Dev:
            return add(static_cast<uint64_t>(value.device.type) << 8 | static_cast<uint8_t>(value.device.index));
        case Value::Complex: add(__builtin_bit_cast(uint64_t, value.imag)); [[fallthrough]];
        default: add(static_cast<uint64_t>(value.i));
    }
}

void GradientGraph::add(Tensor& tensor, uint64_t flags) {
    Storage& storage = *tensor.storage;
    if (!on_cpu(tensor.device()) || tensor.is_inference || batch_level(tensor) || storage.reinterpreted) refuse();
    if (storage.pending) pending_ = true;
    else if (!storage.has_memory()) refuse();
    const auto [number, is_new] = memory_numbers_.add(&storage, static_cast<uint32_t>(memory.size()));
    if (is_new) memory.push_back({tensor.storage, tensor.offset, tensor.dtype});
    const Memory& known = memory[*number];
    if (known.dtype != tensor.dtype) refuse();
    add(flags | static_cast<uint64_t>(tensor.dtype) << 8 | uint64_t{tensor.wrapped_number} << 16 |
        tensor.sizes.size() << 24 | uint64_t{*number} << 32);
    add(tensor.sizes);
    add(tensor.strides);
    add(static_cast<uint64_t>(tensor.offset - known.offset));
}

void GradientGraph::add(const SavedTensor& saved) {
    if (saved.by_hooks() || saved.has_snapshot()) return refuse();
    if (!saved.tensor) return add(kNothing);
    Tensor& tensor = *saved.tensor;
    // What was written since is an error, and a view whose base was written may be one.
    if (version_of(tensor) != saved.version || (tensor.base && is_outdated(tensor))) refuse();
    if (saved.had_history && !(tensor.autograd && tensor.autograd->grad_fn)) refuse();
    add(tensor, uint64_t{saved.is_output} << 1 | uint64_t{saved.index} << 2);
}

void GradientGraph::add_leaf(const GradNode& node) {
    if (node.kept_leaf) return refuse();
    if (!node.leaf) return add(kNothing);
    const Tensor& leaf = *node.leaf;
    const AutogradMeta* meta = leaf.autograd;
    if (!meta || meta->grad || meta->grad_fn || !meta->requires_grad || (leaf.base && is_outdated(leaf)) ||
        !on_cpu(leaf.device()) || leaf.is_inference || meta->batch_level)
        return refuse();
    add(static_cast<uint64_t>(leaf.dtype) | leaf.sizes.size() << 8);
    add(leaf.sizes);
    add(leaf.strides);
}

void GradientGraph::add_formula(const GradNode& node) {
    if (node.type != GradNode::Type::Op || !is_own(*node.op) || (node.released && node.saves)) return refuse();
    add(static_cast<uint64_t>(node.op->id) | node.operand_kind.size() << 16 | node.params.size() << 32 |
        node.outputs.size() << 48);
    for (size_t i = 0; i < node.operand_kind.size(); ++i) {
        add(node.operand_kind[i]);
        if (node.operand_kind[i] == 0) {
            add(node.operand_meta[i]);
            if (!node.layouts.empty()) add(node.layouts[i]);
            add(node.saved[i]);
        } else if (node.operand_kind[i] == 1) {
            const Scalar& scalar = node.scalars[i];
            if (scalar.place) refuse();
            add(scalar.tag);
            numbers.push_back(static_cast<uint64_t>(scalar.i));
            numbers.push_back(__builtin_bit_cast(uint64_t, scalar.imag));
        }
    }
    for (const SavedTensor& saved : node.outputs) add(saved);
    for (const Value& value : node.params) add(value);
}

void GradientGraph::add_node(const GradNode& node) {
    if (!node.hooks.empty() || node.mark || node.trace || node.forward_only || node.kept) return refuse();
    add(static_cast<uint64_t>(node.type) | node.edges.size() << 8 | node.result_meta.size() << 32);
    if (node.type == GradNode::Type::Accumulate) add_leaf(node);
    else add_formula(node);
    for (const OperandMeta& meta : node.result_meta) add(meta);
    for (const Edge& edge : node.edges)
        add(edge.node ? uint64_t{*node_numbers_.add(edge.node.get(), 0).first} << 32 | edge.index : kNothing);
}

GradientGraph::Fit GradientGraph::walk(const std::vector<Root>& roots, const std::vector<Ref<Tensor>>& seeds,
                                       bool retain_graph) {
    nodes.clear();
    memory.clear();
    words.clear();
    numbers.clear();
    node_numbers_.clear();
    memory_numbers_.clear();
    fits_ = true;
    pending_ = false;
    for (const Root& root : roots)
        if (node_numbers_.add(root.edge.node.get(), 0).second) nodes.push_back(root.edge.node.get());
    for (size_t i = 0; i < nodes.size(); ++i) {
        if (nodes.size() > kMaxGraph) return Fit::Unfit;
        for (const Edge& edge : nodes[i]->edges)
            if (edge.node && node_numbers_.add(edge.node.get(), 0).second) nodes.push_back(edge.node.get());
    }
    // The engine runs the latest first, and sums in that order.
    std::stable_sort(nodes.begin(), nodes.end(),
                     [](const GradNode* a, const GradNode* b) { return a->sequence > b->sequence; });
    for (uint32_t i = 0; i < nodes.size(); ++i) *node_numbers_.add(nodes[i], 0).first = i;
    add(nodes.size() << 32 | roots.size() << 8 | uint64_t{retain_graph});
    for (size_t i = 0; i < roots.size(); ++i) {
        const Root& root = roots[i];
        add(uint64_t{*node_numbers_.add(root.edge.node.get(), 0).first} << 32 | root.edge.index);
        add(root.meta);
        if (!seeds[i]) {
            // What has another number of elements, or is complex, has no gradient to begin with.
            if (product(root.meta.sizes) != 1 || is_complex(root.meta.dtype)) return Fit::Unfit;
            add(kNothing);
        } else {
            if (!(seeds[i]->sizes == root.meta.sizes) || seeds[i]->dtype != root.meta.dtype) return Fit::Unfit;
            add(*seeds[i], 0);
        }
    }
    for (const GradNode* node : nodes) {
        add_node(*node);
        if (!fits_) return Fit::Unfit;
    }
    return pending_ ? Fit::Pending : Fit::Fits;
}

}  // namespace mt::trace
