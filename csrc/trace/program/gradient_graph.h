// What a backward pass goes through, in words: two passes with the same words do the same.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/engine.h"
#include "core/pointer_numbers.h"

namespace mt::trace {

// The nodes of a graph with all that their formulas read, but for the contents of tensors and where these lie. Hooks,
// functions of the user's own, and leaves that have a gradient are left to the engine.
class GradientGraph {
  public:
    enum class Fit : uint8_t { Unfit, Pending, Fits };  // Pending: it would, once what was recorded has run
    Fit walk(const std::vector<Root>& roots, const std::vector<Ref<Tensor>>& seeds, bool retain_graph);
    // Without the numbers that are operands, which may change from pass to pass.
    uint64_t hash() const;

    // Where the tensors lie that a pass reads: each storage once, with the offset of the first tensor over it.
    struct Memory {
        Ref<Storage> storage;
        int64_t offset;
        DType dtype;
    };
    std::vector<GradNode*> nodes;  // the latest first; the roots hold them
    std::vector<Memory> memory;
    std::vector<uint64_t> words, numbers;

  private:
    void add(uint64_t word) { words.push_back(word); }
    void add(const Dims& dims);
    void add(const OperandMeta& meta);
    void add(const OperandLayout& layout);
    void add(const Value& value);
    void add(const SavedTensor& saved);
    void add(Tensor& tensor, uint64_t flags);
    void add_leaf(const GradNode& node);
    void add_formula(const GradNode& node);
    void add_node(const GradNode& node);
    void refuse() { fits_ = false; }

    PointerNumbers node_numbers_, memory_numbers_;
    bool fits_ = true, pending_ = false;
};

}  // namespace mt::trace
