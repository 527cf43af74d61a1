// The names of nodes: those of PyTorch.
#include "autograd/tape.h"

namespace mt {

namespace {

// What PyTorch calls the nodes of ops whose names differ from its own.
std::string_view special_name(const GradNode& node) {
    static constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"cast", "ToCopyBackward0"}, {"copy", "CopyBackwards"},          {"max_dim", "MaxBackward0"},
        {"min_dim", "MinBackward0"}, {"amax", "AmaxBackward0"},          {"nll_loss", "NllLossBackward0"},
        {"fill", "FillBackward0"},   {"conj_physical", "ConjBackward0"}, {"_row_major", "CloneBackward0"},
    };
    for (auto [op, name] : names)
        if (node.op->name == op) return name;
    if (node.op->name == "matmul" && node.operand_meta.size() == 2) {
        // PyTorch's matmul is these; broadcast products are not one op there.
        size_t x = node.operand_meta[0].sizes.size(), y = node.operand_meta[1].sizes.size();
        if (x == 1 && y == 1) return "DotBackward0";
        if (x == 2 && y == 1) return "MvBackward0";
        if (x == 2 && y == 2) return "MmBackward0";
        if (x == 3 && y == 3) return "BmmBackward0";
    }
    return {};
}

// PyTorch numbers the overloads: 0 without dim, 1 with it.
bool is_dim_overload(const GradNode& node) {
    static constexpr std::string_view names[] = {"sum", "mean", "prod", "squeeze"};
    for (std::string_view name : names)
        if (node.op->name == name) return !node.params.empty() && !node.params[0].is_none();
    return false;
}

}  // namespace

std::string node_name(const GradNode& node) {
    if (node.type == GradNode::Type::Accumulate) return "AccumulateGrad";
    if (node.type == GradNode::Type::CopySlices) return "CopySlices";
    if (node.type == GradNode::Type::Python) {
        PyRef name(PyObject_GetAttrString(node.callable, "__name__"));
        const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
        if (text) return text;
        PyErr_Clear();
        return "PythonBackward";
    }
    if (std::string_view special = special_name(node); !special.empty()) return std::string(special);
    // log_softmax -> LogSoftmaxBackward0
    std::string name;
    bool upper = true;
    for (char c : node.op->name) {
        if (c == '_') {
            upper = true;
            continue;
        }
        name += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
        upper = false;
    }
    return name + (is_dim_overload(node) ? "Backward1" : "Backward0");
}

}  // namespace mt
