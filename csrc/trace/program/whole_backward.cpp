// Backward passes of a program that is recorded as a whole: each is a run of its own, and one that was compiled runs
// without the engine.
#include <memory>
#include <utility>

#include "autograd/accumulate_grad.h"
#include "dispatch/registry.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/stopped.h"
#include "trace/program/backward_program.h"

namespace mt::trace {

namespace {

const OpDef& backward_call() {
    static const OpDef* known = [] {
        auto* def = new OpDef;
        def->name = "backward()";
        return def;
    }();
    return *known;
}

// The last one of the thread, for its memory.
thread_local std::unique_ptr<GradientGraph> spare_graph;

class Graph {
  public:
    Graph() : graph_(spare_graph ? std::move(spare_graph) : std::make_unique<GradientGraph>()) {}
    ~Graph() {
        let_go();
        spare_graph = std::move(graph_);
    }
    // Of the tensors' memory, which a pass frees as it goes.
    void let_go() { auto dying = std::exchange(graph_->memory, {}); }
    Graph(const Graph&) = delete;
    GradientGraph* operator->() const { return graph_.get(); }
    GradientGraph& operator*() const { return *graph_; }

  private:
    std::unique_ptr<GradientGraph> graph_;
};

void run_eagerly(const std::vector<Root>& roots, std::vector<Ref<Tensor>>& seeds, const BackwardOptions& options) {
    ++call_counts.eager;
    Suspend suspend;
    run_backward_by_engine(roots, std::move(seeds), {}, options);
}

// False if it failed, and nothing has happened.
bool run_program(BackwardProgram& program, const GradientGraph& graph, const BackwardOptions& options) {
    Suspend suspend;
    std::vector<BackwardProgram::Stored> stored;
    try {
        stored = program.run(graph);
    } catch (const std::exception&) {
        Failure failure = Failure::current();
        if (failure.from_outside()) failure.raise();
        return false;
    }
    ++call_counts.programs;
    RecordingScope mode(Recording::as(false));
    for (BackwardProgram::Stored& one : stored) store_gradient(*one.node, std::move(one.gradient), false);
    if (!options.retain_graph)
        for (GradNode* node : graph.nodes)
            if (node->type != GradNode::Type::Accumulate) release_saved(*node);
    return true;
}

void record(Trace& trace, const GradientGraph& graph, const std::vector<Root>& roots, std::vector<Ref<Tensor>>& seeds,
            const BackwardOptions& options) {
    ++call_counts.recorded;
    try {
        run_backward_by_engine(roots, std::move(seeds), {}, options);
    } catch (const std::exception&) {
        trace.policy().forget();
        throw;
    }
    if (current != &trace || trace.empty()) return trace.policy().forget();
    freeze_at_flush(trace, [&](Trace& recorded, std::shared_ptr<Plan> plan) -> const char* {
        recorded.policy().keep(BackwardProgram::freeze(recorded, std::move(plan), graph));
        return nullptr;
    });
}

bool run_whole(const std::vector<Root>& roots, std::vector<Ref<Tensor>>& seeds, const BackwardOptions& options) {
    Trace* trace = current;
    if (!trace || !trace->may_begin_call() || anomaly.enabled || transform || backward_id() || options.forward ||
        thread_settings.forward_mode)
        return false;
    Graph graph;
    GradientGraph::Fit fit = graph->walk(roots, seeds, options.retain_graph);
    if (fit == GradientGraph::Fit::Unfit || !trace->end_run("a backward pass")) return false;
    if (fit == GradientGraph::Fit::Pending) fit = graph->walk(roots, seeds, options.retain_graph);
    if (fit != GradientGraph::Fit::Fits || current != trace) return false;
    switch (trace->begin_call(backward_call(), graph->hash())) {
        case Trace::CallRuns::AsEver: return false;
        case Trace::CallRuns::Eagerly:
            graph.let_go();
            try {
                run_eagerly(roots, seeds, options);
            } catch (const std::exception&) {
                trace->policy().forget();
                throw;
            }
            trace->policy().end_call();
            return true;
        case Trace::CallRuns::Recorded: break;
    }
    struct End {
        Trace& trace;
        ~End() { trace.end_call(); }
    } end{*trace};
    // Held: what Python code does meanwhile may have the policy forget it.
    const auto program = std::static_pointer_cast<BackwardProgram>(trace->policy().kept());
    if (!program || !program->is_for(*graph)) {
        record(*trace, *graph, roots, seeds, options);
        return true;
    }
    bool done = false;
    try {
        done = run_program(*program, *graph, options);
    } catch (const std::exception&) {
        trace->policy().forget();
        throw;
    }
    if (done) {
        trace->policy().end_program();
    } else {
        trace->policy().forget();
        graph.let_go();
        run_eagerly(roots, seeds, options);
    }
    return true;
}

}  // namespace

void install_whole_backward() { whole_backward_callback = run_whole; }

}  // namespace mt::trace
