// The names of nodes: those of PyTorch.
#include "autograd/tape.h"

namespace mt {

namespace {

bool holds(const NodeName& name, const GradNode& node) {
    if (!name.ranks.empty()) {
        if (name.ranks.size() != node.operand_meta.size()) return false;
        for (size_t i = 0; i < name.ranks.size(); ++i)
            if (node.operand_meta[i].sizes.size() != name.ranks[i]) return false;
        return true;
    }
    if (name.operand >= 0) {
        const auto operand = static_cast<size_t>(name.operand);
        return (operand < node.operand_kind.size() && node.operand_kind[operand] == 0) == name.given;
    }
    if (name.param < 0) return true;
    const auto param = static_cast<size_t>(name.param);
    return (param < node.params.size() && !node.params[param].is_none()) == name.given;
}

}  // namespace

std::string node_name(const GradNode& node) {
    if (node.function) return node.function;
    // Of nodes that belong to no op PyTorch gives the name in C++.
    if (node.type == GradNode::Type::Accumulate) return "torch::autograd::AccumulateGrad";
    if (node.type == GradNode::Type::CopySlices) return "torch::autograd::CopySlices";
    if (node.type == GradNode::Type::Python) {
        PyRef name(PyObject_GetAttrString(node.callable, "__name__"));
        const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
        if (text) return text;
        PyErr_Clear();
        return "PythonBackward";
    }
    for (const NodeName& name : node.op->node_names)
        if (holds(name, node)) return name.name;
    // log_softmax -> LogSoftmaxBackward0, log1p -> Log1PBackward0
    std::string name;
    bool upper = true;
    for (char c : node.op->name) {
        if (c == '_') {
            upper = true;
            continue;
        }
        name += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
        upper = c >= '0' && c <= '9';
    }
    return name + "Backward0";
}

void name_node(GradNode& node, const char* function, uint64_t before) {
    auto is_call = [](const GradNode& one) {
        return one.type == GradNode::Type::Op || one.type == GradNode::Type::CopySlices;
    };
    if (!is_call(node) || node.sequence <= before) return;
    std::vector<GradNode*> waiting{&node};
    while (!waiting.empty()) {
        const GradNode& next = *waiting.back();
        waiting.pop_back();
        for (const Edge& edge : next.edges) {
            GradNode* made = edge.node.get();
            if (!made || !is_call(*made) || made->sequence <= before || made->inside) continue;
            made->inside = true;
            waiting.push_back(made);
        }
    }
    node.function = function;
}

}  // namespace mt
