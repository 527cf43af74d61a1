// A backward pass as one program: what it recorded, with its plan, over the tensors of any pass with the same words.
#pragma once

#include <memory>
#include <vector>

#include "trace/plan/plan.h"
#include "trace/program/gradient_graph.h"

namespace mt::trace {

// The engine is left to store what it gives, and to free the graph: it writes to new memory only, so that where it
// fails the engine can go through the graph as if nothing had been.
class BackwardProgram final : public KeptCall {
  public:
    // Of a pass that was recorded and has stored its gradients, when its plan is known. Null if it can't be kept.
    static std::shared_ptr<BackwardProgram> freeze(const Trace& trace, std::shared_ptr<Plan> plan,
                                                   const GradientGraph& graph);
    bool is_for(const GradientGraph& graph) const;
    struct Stored {
        GradNode* node;  // of the leaf
        Ref<Tensor> gradient;
    };
    std::vector<Stored> run(const GradientGraph& graph);

  private:
    struct Bound {  // an input of the trace
        uint32_t memory;
        int64_t offset;  // from the first tensor over it
    };
    struct Gradient {
        uint32_t node, result;  // which node of the graph is the leaf's, and which result of the trace it gets
        uint32_t version;
        DType dtype;
        Dims sizes, strides;
        int64_t offset;
    };
    Trace trace_;
    std::shared_ptr<Plan> plan_;
    std::vector<uint64_t> words_, numbers_;
    uint64_t settings_ = 0;
    std::vector<Bound> bound_;
    std::vector<Gradient> gradients_;
    bool busy_ = false;
};

}  // namespace mt::trace
