#include "trace/program/backward_program.h"

#include <algorithm>

#include "dispatch/thread_local_state.h"
#include "trace/program/program.h"

namespace mt::trace {

std::shared_ptr<BackwardProgram> BackwardProgram::freeze(const Trace& trace, std::shared_ptr<Plan> plan,
                                                         const GradientGraph& graph) {
    if (plan->op_by_op || plan->contest) return nullptr;
    auto program = std::make_shared<BackwardProgram>();
    if (std::any_of(trace.nodes.begin(), trace.nodes.end(), [](const TraceNode& node) {
            return node.op->kind == Kind::Random || node.device.type != DeviceType::CPU;
        }))
        return nullptr;
    std::vector<TraceInput> inputs = trace.inputs;
    if (read_in_place(trace.snapshots(), inputs)) return nullptr;
    for (TraceInput& input : inputs) {
        auto known = std::find_if(graph.memory.begin(), graph.memory.end(), [&](const GradientGraph::Memory& memory) {
            return memory.storage == input.storage && memory.dtype == input.dtype;
        });
        if (known == graph.memory.end()) return nullptr;
        program->bound_.push_back({static_cast<uint32_t>(known - graph.memory.begin()), input.offset - known->offset});
        input.storage.reset();
    }
    size_t stored = 0;
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
        const GradNode& node = *graph.nodes[i];
        if (node.type != GradNode::Type::Accumulate || !node.leaf) continue;
        const Tensor* gradient = node.leaf->autograd->grad.get();
        if (!gradient) continue;  // none has arrived
        const Storage& storage = *gradient->storage;
        if (!storage.pending || storage.pending->trace != &trace || storage.has_memory() || gradient->base ||
            gradient->autograd)
            return nullptr;
        program->gradients_.push_back({i, trace.nodes[storage.pending->node].first_result + storage.pending->result,
                                       storage.version, gradient->dtype, gradient->sizes, gradient->strides,
                                       gradient->offset});
        ++stored;
    }
    std::vector<uint32_t> values;
    for (const Gradient& gradient : program->gradients_) values.push_back(gradient.result);
    std::sort(values.begin(), values.end());
    if (std::adjacent_find(values.begin(), values.end()) != values.end()) return nullptr;
    // Nothing else of it may be seen by anybody.
    const auto alive = std::count_if(trace.results.begin(), trace.results.end(),
                                     [](const ResultInfo& result) { return result.storage != nullptr; });
    if (static_cast<size_t>(alive) != stored) return nullptr;
    program->trace_.copy_recording(trace, std::move(inputs));
    program->plan_ = std::move(plan);
    program->words_ = graph.words;
    program->numbers_ = graph.numbers;
    program->settings_ = settings_word();
    return program;
}

bool BackwardProgram::is_for(const GradientGraph& graph) const {
    return !busy_ && settings_ == settings_word() && words_ == graph.words && numbers_ == graph.numbers;
}

std::vector<BackwardProgram::Stored> BackwardProgram::run(const GradientGraph& graph) {
    busy_ = true;
    struct Unbind {
        BackwardProgram& program;
        ~Unbind() {
            for (ResultInfo& result : program.trace_.results) result.storage = nullptr;
            // Their last owner may run code.
            for (TraceInput& input : program.trace_.inputs) Ref<Storage> last = std::move(input.storage);
            program.busy_ = false;
        }
    } unbind{*this};
    for (size_t i = 0; i < bound_.size(); ++i) {
        const GradientGraph::Memory& memory = graph.memory[bound_[i].memory];
        trace_.inputs[i].storage = memory.storage;
        trace_.inputs[i].offset = memory.offset + bound_[i].offset;
    }
    std::vector<Stored> stored;
    stored.reserve(gradients_.size());
    for (const Gradient& gradient : gradients_) {
        ResultInfo& info = trace_.results[gradient.result];
        Ref<Storage> storage = Storage::allocate(byte_count(info.sizes, info.dtype), info.device);
        storage->version = gradient.version;
        info.storage = storage.get();
        stored.push_back({graph.nodes[gradient.node], Tensor::make(std::move(storage), gradient.dtype, gradient.sizes,
                                                                   gradient.strides, gradient.offset)});
    }
    replay(trace_, *plan_);
    return stored;
}

}  // namespace mt::trace
