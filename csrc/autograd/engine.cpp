#include "autograd/engine.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "autograd/accumulate_grad.h"
#include "autograd/formula.h"
#include "autograd/node_hooks.h"
#include "autograd/validate_outputs.h"
#include "core/error.h"
#include "core/pointer_numbers.h"
#include "dispatch/jit_device.h"
#include "dispatch/python/python.h"
#include "dispatch/thread_local_state.h"

namespace mt {

namespace {

void accumulate(Ref<Tensor>& into, Ref<Tensor> gradient) {
    if (!into) into = std::move(gradient);
    else into = call_op(op_named("add"), {into.get(), gradient.get()});
}

// A formula that failed in anomaly mode: the warning names the forward call.
void report_anomaly(const GradNode& node) {
    std::string name = node_name(node);
    PyRef trace = PyRef::borrow(node.trace ? node.trace : Py_None);
    PyRef done(PyObject_CallFunction(anomaly.report, "sO", name.c_str(), trace.get()));
    if (!done) fail_python();
}

void check_for_nan(const GradNode& node, const Gradients& gradients) {
    for (size_t i = 0; i < gradients.size(); ++i) {
        if (!gradients[i]) continue;
        PyRef argument = wrapped(gradients[i]);
        PyRef found(PyObject_CallOneArg(anomaly.has_nan, argument.get()));
        if (!found) fail_python();
        if (found.get() == Py_True)
            fail("Function '" + node_name(node) + "' returned nan values in its " + std::to_string(i) + "th output.");
    }
}

}  // namespace

bool (*whole_backward_callback)(const std::vector<Root>&, std::vector<Ref<Tensor>>&, const BackwardOptions&) = nullptr;

void release_saved(GradNode& node) {
    node.released = true;
    // A derivative forward may yet come by.
    if ((node.kept = thread_settings.forward_mode)) {
        if (GradNode* inner = node.inner()) release_saved(*inner);
        return;
    }
    node.saved.clear();
    node.saved.resize(node.operand_kind.size());
    node.outputs.clear();
    if (GradNode* inner = node.inner()) release_saved(*inner);
    if (node.callable) {
        PyRef callable = PyRef::borrow(node.callable);
        PyRef done(PyObject_CallMethod(callable.get(), "release", nullptr));
        if (!done) PyErr_Clear();  // a callable without anything to release
    }
}

namespace {

uint64_t g_runs = 0;

class Run {
  public:
    Run(const std::vector<Edge>& inputs, const BackwardOptions& options) : options_(options) {
        for (size_t i = 0; i < inputs.size(); ++i) inputs_[inputs[i].node.get()].push_back({inputs[i].index, i});
        captured_.resize(inputs.size());
    }

    void seed(const Edge& edge, Ref<Tensor> gradient, size_t position) {
        roots_.push_back(edge.node);
        deliver(state_of(edge.node.get()), edge.index, std::move(gradient), nullptr, position);
    }

    bool will_execute(const GradNode* node) const {
        const uint32_t* number = numbers_.find(node);
        return number && states_[*number].useful;
    }
    uint64_t id() const { return id_; }
    bool accumulates() const { return inputs_.empty(); }
    bool forward() const { return options_.forward; }

    Gradients run() {
        count_dependencies();
        for (const auto& root : roots_)
            if (State& state = state_of(root.get()); state.dependencies == 0 && !std::exchange(state.queued, true))
                ready_.push(number_of(state));
        while (!ready_.empty()) {
            State& state = states_[ready_.top()];
            ready_.pop();
            Ref<GradNode> node = Ref<GradNode>::borrow(state.node);
            step(*node, state);
            // Ctrl-C ends a long pass; formulas that run no Python code of their own would not notice it.
            if ((++steps_ & 63) == 0 && PyErr_CheckSignals() < 0) fail_python();
        }
        for (const Ref<GradNode>& node : released_last_) release_saved(*node);
        return std::move(captured_);
    }

  private:
    // What there is to know of a node while the pass runs. The roots hold all nodes.
    struct State {
        GradNode* node;
        int dependencies = 0;
        bool seen = false, queued = false;
        bool useful = false;  // on the way to what is wanted
        Gradients gradients{};  // that have come so far, per result
    };
    struct Later {
        const std::vector<State>* states;
        bool operator()(uint32_t a, uint32_t b) const {
            return (*states)[a].node->sequence < (*states)[b].node->sequence;
        }
    };
    // Made before the first node runs: then they stay where they are.
    State& state_of(GradNode* node) {
        const auto [number, is_new] = numbers_.add(node, static_cast<uint32_t>(states_.size()));
        if (is_new) states_.push_back({node});
        if (is_new && node->inner()) inner_nodes_.insert(node->inner());
        return states_[*number];
    }
    uint32_t number_of(const State& state) const { return static_cast<uint32_t>(&state - states_.data()); }

    /// Adds the gradient of a part, as `split` and `x[i]` make them, to that part of what the whole has already,
    /// instead of adding a tensor that is zero everywhere else. False where that can't be done.
    bool add_to_part(const GradNode& node, const Gradients& gradients) {
        static const OpDef *slice = &op_named("slice"), *select = &op_named("select");
        if ((node.op != slice && node.op != select) || node.type != GradNode::Type::Op || !node.hooks.empty() ||
            options_.create_graph || anomaly.enabled || !gradients[0])
            return false;
        const Edge& edge = node.edges[0];
        if (!edge.node || !will_execute(edge.node.get())) return false;
        const Gradients& arrived = state_of(edge.node.get()).gradients;
        if (edge.index >= arrived.size()) return false;
        const Ref<Tensor>& whole = arrived[edge.index];
        Tensor& part_of_gradient = *gradients[0];
        // Nobody else may see the memory change.
        if (!whole || !owned_once(*whole) || whole->storage->external() || whole->storage->read_only ||
            !whole->contiguous() || whole->dtype != part_of_gradient.dtype ||
            !(whole->sizes == node.operand_meta[0].sizes) || home_of(*whole) != home_of(part_of_gradient) ||
            batch_level(*whole) || batch_level(part_of_gradient) || is_sparse(*whole) || is_sparse(part_of_gradient))
            return false;
        Operand self, other;
        Ref<Tensor> part = call_op(*node.op, {whole.get()}, node.params);
        self.tensor = part.get();
        other.tensor = &part_of_gradient;
        call_op_inplace(op_named("add"), *part, {self, other});
        return true;
    }

    // All gradients that enter come by here.
    static void deliver(State& receiver, uint32_t index, Ref<Tensor> gradient, const GradNode* sender,
                        size_t position) {
        const auto& expected = receiver.node->result_meta;
        Ref<Tensor> fitted = fit(std::move(gradient), expected[index], sender, position);
        receiver.gradients.resize(expected.size());
        accumulate(receiver.gradients.at(index), std::move(fitted));
    }

    void count_dependencies() {
        // Depth first, without recursion; with captures only the nodes on a path to one are of use.
        std::vector<std::pair<uint32_t, size_t>> stack;
        auto enter = [&](GradNode* node) {
            State& state = state_of(node);
            if (!std::exchange(state.seen, true)) stack.push_back({number_of(state), 0});
        };
        for (const auto& root : roots_) {
            enter(root.get());
            while (!stack.empty()) {
                auto& [number, next] = stack.back();
                GradNode* node = states_[number].node;
                if (next < node->edges.size()) {
                    const bool leads = leads_on(*node, next);
                    GradNode* child = node->edges[next++].node.get();
                    if (child && leads) enter(child);
                } else {
                    bool of_use = inputs_.empty() || inputs_.contains(node);
                    for (size_t i = 0; i < node->edges.size(); ++i) {
                        const Edge& edge = node->edges[i];
                        if (!edge.node || !leads_on(*node, i)) continue;
                        State& receiver = state_of(edge.node.get());
                        ++receiver.dependencies;
                        of_use |= receiver.useful;
                    }
                    states_[number].useful = of_use;
                    stack.pop_back();
                }
            }
        }
    }

    void step(GradNode& node, State& state) {
        Gradients gradients = std::move(state.gradients);
        state.gradients.clear();
        gradients.resize(node.result_meta.size());
        bool any = false;
        for (auto& g : gradients) any |= static_cast<bool>(g);
        // As in PyTorch: what is on the way to another input is taken as it comes, before its hooks.
        const bool on_the_way = !inputs_.empty() && !options_.accumulate && wants_run(node);
        if (on_the_way) capture(node, gradients);
        if (any && !options_.forward) run_tensor_hooks(node, gradients);
        if (!on_the_way) capture(node, gradients);
        Gradients sent(node.edges.size());
        // Also where no gradient has come: hooks are told, and custom functions get zeros.
        if (state.useful) {
            if (node.type == GradNode::Type::Accumulate) {
                if (inputs_.empty() || options_.accumulate) {
                    run_prehooks(node, gradients);
                    store_gradient(node, node.hooks.empty() ? std::move(gradients[0]) : gradients[0],
                                   options_.create_graph);
                    run_posthooks(node, sent, gradients);
                }
            } else if (__builtin_expect(node.forward_only && !options_.forward, 0)) {
                if (node.passes) sent.back() = gradients[0];
            } else if (wants_run(node)) {
                if (__builtin_expect(node.sequence < own_nodes_from, 0)) ran_earlier_node = true;
                if (!options_.forward) run_prehooks(node, gradients);
                if (node.type == GradNode::Type::Python) {
                    any = true;
                } else {
                    any = std::any_of(gradients.begin(), gradients.end(), [](auto& g) { return static_cast<bool>(g); });
                    // Of a view that a Function marked as not differentiable: nothing was saved, as nobody would get
                    // it.
                    any &= std::any_of(node.edges.begin(), node.edges.end(), [](auto& e) { return bool(e.node); });
                    for (size_t i = 0; any && i < gradients.size(); ++i)
                        if (!gradients[i]) gradients[i] = full_of(node.result_meta[i], 0);
                }
                if (any && !add_to_part(node, gradients)) {
                    // What is computed of what was made under no_grad is as if it were made there too.
                    RecordingScope scope(
                        {thread_settings.grad_enabled, thread_settings.forward_only || node.unrecorded});
                    sent = apply(node, gradients);
                    sent.resize(node.edges.size());
                    if (__builtin_expect(node.unrecorded, 0)) mark(sent, gradients);
                }
                if (!options_.forward) run_posthooks(node, sent, gradients);
                if (!options_.retain_graph) release(node);
            }
        }
        gradients.clear();
        for (size_t i = 0; i < node.edges.size(); ++i) {
            const Edge& edge = node.edges[i];
            if (!edge.node || !leads_on(node, i)) continue;
            State& receiver = state_of(edge.node.get());
            if (sent[i] && receiver.useful) deliver(receiver, edge.index, std::move(sent[i]), &node, i);
            if (--receiver.dependencies == 0) ready_.push(number_of(receiver));
        }
    }

    // What the node of a write to a view and its inner node have in common is read by both. The inner one has a turn of
    // its own where the formula of a gradient has used its result.
    void release(GradNode& node) {
        if (inner_nodes_.contains(&node)) return;
        if (node.inner() && will_execute(node.inner())) released_last_.push_back(Ref<GradNode>::borrow(&node));
        else release_saved(node);
    }

    // What a formula gave back as it came is to be marked too.
    static void mark(Gradients& sent, const Gradients& came) {
        for (Ref<Tensor>& one : sent)
            if (one &&
                std::any_of(came.begin(), came.end(), [&](const Ref<Tensor>& g) { return g.get() == one.get(); }))
                one = call_op(op_named("alias"), {one.get()});
    }

    void capture(GradNode& node, const Gradients& gradients) {
        auto found = inputs_.find(&node);
        if (found == inputs_.end() || options_.accumulate) return;
        for (auto [index, slot] : found->second) captured_[slot] = gradients[index];
        if (__builtin_expect(function_log && node.leaf && node.leaf->made_in < function_log->number, 0))
            function_log->taken.push_back(Ref<Tensor>::borrow(node.leaf));
    }

    static Gradients apply(GradNode& node, Gradients& gradients) {
        if (!anomaly.enabled) return apply_formula(node, gradients);
        try {
            Gradients sent = apply_formula(node, gradients);
            if (anomaly.check_nan) check_for_nan(node, sent);
            return sent;
        } catch (const Error& error) {
            // The warning comes first; a Python exception is put aside meanwhile.
            PyObject *type, *value, *traceback;
            PyErr_Fetch(&type, &value, &traceback);
            report_anomaly(node);
            PyErr_Restore(type, value, traceback);
            throw;
        }
    }

    // False for a node that only leads to dead ends of other inputs.
    bool wants_run(const GradNode& node) const {
        if (inputs_.empty() || (options_.accumulate && inputs_.contains(const_cast<GradNode*>(&node)))) return true;
        for (size_t i = 0; i < node.edges.size(); ++i)
            if (const Edge& edge = node.edges[i]; edge.node && leads_on(node, i) && will_execute(edge.node.get()))
                return true;
        return false;
    }

    // Whether this pass takes the node's edge.
    bool leads_on(const GradNode& node, size_t edge) const {
        if (__builtin_expect(!node.forward_only, 1)) return true;
        return (node.passes && edge + 1 == node.edges.size()) != options_.forward;
    }

    BackwardOptions options_;
    uint64_t steps_ = 0, id_ = ++g_runs;
    std::unordered_map<GradNode*, std::vector<std::pair<uint32_t, size_t>>> inputs_;
    Gradients captured_;
    std::vector<Ref<GradNode>> roots_;
    std::unordered_set<const GradNode*> inner_nodes_;  // of the nodes of writes to views
    std::vector<Ref<GradNode>> released_last_;
    std::vector<State> states_;
    PointerNumbers numbers_;
    std::priority_queue<uint32_t, std::vector<uint32_t>, Later> ready_{Later{&states_}};
};

}  // namespace

namespace {

MT_THREAD_LOCAL const Run* current_run = nullptr;

class RunScope {
  public:
    explicit RunScope(const Run& run) : previous_(std::exchange(current_run, &run)) {}
    ~RunScope() { current_run = previous_; }
    RunScope(const RunScope&) = delete;

  private:
    const Run* previous_;
};

// The gradient to start from, as it was given or one.
Ref<Tensor> seed_for(const Root& root, Ref<Tensor> given, size_t position) {
    if (!given) {
        if (product(root.meta.sizes) != 1) fail("grad can be implicitly created only for scalar outputs");
        if (is_complex(root.meta.dtype))
            fail(std::string("grad can be implicitly created only for real scalar outputs but got ") +
                 info(root.meta.dtype).name);
        return full_of({root.meta.sizes, root.meta.dtype, root.meta.device}, 1);
    }
    std::string place = "[" + std::to_string(position) + "]";
    if (!(given->sizes == root.meta.sizes))
        fail("Mismatch in shape: grad_output" + place + " has a shape of minitensor.Size(" + to_string(given->sizes) +
             ") and output" + place + " has a shape of minitensor.Size(" + to_string(root.meta.sizes) + ").");
    if (is_complex(given->dtype) != is_complex(root.meta.dtype))
        fail("For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
             "dtype: grad_output" +
             place + " has a dtype of minitensor." + info(given->dtype).name + " and output" + place +
             " has a dtype of minitensor." + info(root.meta.dtype).name + ".");
    return fit(std::move(given), root.meta, nullptr, position);
}

}  // namespace

std::vector<Ref<Tensor>> run_backward(const std::vector<Root>& roots, std::vector<Ref<Tensor>> gradients,
                                      const std::vector<Edge>& inputs, const BackwardOptions& options) {
    if (whole_backward_callback && inputs.empty() && !options.create_graph &&
        whole_backward_callback(roots, gradients, options))
        return {};
    return run_backward_by_engine(roots, std::move(gradients), inputs, options);
}

std::vector<Ref<Tensor>> run_backward_by_engine(const std::vector<Root>& roots, std::vector<Ref<Tensor>> gradients,
                                                const std::vector<Edge>& inputs, const BackwardOptions& options) {
    // What the caller gave is cast where the caller is; whether that is recorded isn't up to create_graph.
    for (size_t i = 0; i < roots.size(); ++i) gradients[i] = seed_for(roots[i], std::move(gradients[i]), i);
    RecordingScope mode(options.create_graph ? Recording{true, false} : Recording::as(false));
    Run run(inputs, options);
    RunScope scope(run);
    for (size_t i = 0; i < roots.size(); ++i) run.seed(roots[i].edge, std::move(gradients[i]), i);
    std::vector<Ref<Tensor>> result = run.run();
    if (!inputs.empty() && !options.allow_unused)
        for (size_t i = 0; i < result.size(); ++i)
            if (!result[i])
                fail("The differentiated Tensor at index " + std::to_string(i) +
                     " appears to not have been used in the graph. Set allow_unused=True if this is the desired "
                     "behavior.");
    return result;
}

uint64_t backward_id() { return current_run ? current_run->id() : 0; }
bool goes_forward() { return current_run && current_run->forward(); }
bool backward_accumulates() { return current_run && current_run->accumulates(); }
bool will_execute(const GradNode& node) { return current_run && current_run->will_execute(&node); }
bool gradient_wanted(const GradNode& node, size_t position) {
    if (position >= node.edges.size()) return false;
    const GradNode* receiver = node.edges[position].node.get();
    return receiver && (!current_run || current_run->accumulates() || current_run->will_execute(receiver));
}

}  // namespace mt
