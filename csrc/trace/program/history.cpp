#include "trace/program/history.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "dispatch/python/tensor_object.h"

namespace mt::trace {

namespace {

// What of a node is the same in every call.
Ref<GradNode> common_part(const GradNode& node) {
    Ref<GradNode> same(new GradNode);
    same->type = node.type;
    same->released = node.released;
    same->saves = node.saves;
    same->inside = node.inside;
    same->function = node.function;
    same->op = node.op;
    same->operand_meta = node.operand_meta;
    same->layouts = node.layouts;
    same->scalars = node.scalars;
    same->operand_kind = node.operand_kind;
    same->params = node.params;
    same->result_meta = node.result_meta;
    if (const WrittenView* write = node.write.get()) {
        same->write = std::make_unique<WrittenView>(*write);
        same->write->inner = nullptr;
    }
    same->source = {Py_XNewRef(node.source.code), node.source.lasti};
    same->mark = node.mark;
    return same;
}

}  // namespace

uint32_t History::add(Tensor& result) {
    uint32_t number = tensor(result);
    results_ = tensors_.size();
    return number;
}

const char* History::finish(const std::vector<Tensor*>& arguments, const HomeOf& home_of) {
    arguments_ = &arguments;
    home_of_ = &home_of;
    // Both lists grow while they are looked through.
    for (size_t t = 0, n = 0; !why_ && (t < tensors_.size() || n < nodes_.size());) {
        if (t < tensors_.size()) look_at(t++);
        else look_into(n++);
    }
    if (!why_ && is_kept_elsewhere()) refuse("it keeps a tensor that it does not return");
    order_.resize(nodes_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(),
              [&](uint32_t a, uint32_t b) { return nodes_[a].sequence < nodes_[b].sequence; });
    std::sort(fresh_.begin(), fresh_.end());
    fresh_.erase(std::unique(fresh_.begin(), fresh_.end()), fresh_.end());
    // The results of this call count on.
    for (Ref<VersionCounter>& counter : counters_) counter = VersionCounter::from(counter->value);
    met_.clear();
    plain_.clear();
    met_nodes_.clear();
    numbers_.clear();
    reuses_nodes_ = keeps_nothing();
    own_references_.assign(nodes_.size(), 1);
    for (const NodeForm& form : nodes_) {
        for (const EdgeForm& one : form.edges)
            if (one.type == EdgeForm::Type::Own) ++own_references_[one.from];
        if (form.inner != kNone) ++own_references_[static_cast<size_t>(form.inner)];
    }
    return why_;
}

// Whether nodes have nothing of the call that made them: their backward pass has run, or needs no tensors, and they end
// at leaves from outside.
bool History::keeps_nothing() const {
    auto none = [](const SavedForm& form) { return form.tensor == kNone; };
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const NodeForm& form) {
        return !form.is_leaf && std::all_of(form.saved.begin(), form.saved.end(), none) &&
               std::all_of(form.outputs.begin(), form.outputs.end(), none) &&
               std::none_of(form.edges.begin(), form.edges.end(),
                            [](const EdgeForm& edge) { return edge.type == EdgeForm::Type::Argument; });
    });
}

// Whether new memory is seen by a tensor that was not met.
bool History::is_kept_elsewhere() const {
    std::unordered_map<const Storage*, uint32_t> known;
    for (const Tensor* t : met_) ++known[t->storage.get()];
    for (const Tensor* t : plain_) ++known[t->storage.get()];
    for (size_t i = 0; i < tensors_.size(); ++i)
        if (const Storage* memory = met_[i]->storage.get();
            tensors_[i].home.type == Home::Type::Fresh && memory->refcount != known[memory] + tensors_[i].home.others)
            return true;
    return false;
}

uint32_t History::tensor(Tensor& tensor) {
    const auto [known, is_new] = numbers_.try_emplace(&tensor, static_cast<uint32_t>(met_.size()));
    if (!is_new) return known->second;
    met_.push_back(&tensor);
    tensors_.emplace_back();
    return static_cast<uint32_t>(tensors_.size() - 1);
}

// A tensor that was met: what it shows, and its history.
void History::look_at(size_t number) {
    Tensor& t = *met_[number];
    TensorForm form;
    form.home = (*home_of_)(*t.storage);
    form.dtype = t.dtype;
    form.sizes = t.sizes;
    form.strides = t.strides;
    form.offset = t.offset;
    form.wrapped_number = t.wrapped_number;
    form.is_inference = t.is_inference;
    if (auto argument = std::find(arguments_->begin(), arguments_->end(), &t); argument != arguments_->end()) {
        form.is_argument = true;
        form.home = {Home::Type::Argument, static_cast<uint32_t>(argument - arguments_->begin())};
        tensors_[number] = std::move(form);
        return;
    }
    const Ref<GradNode>& history = grad_fn(t);
    if (history && history->sequence < own_nodes_from)
        return refuse("gradients run on through the history of a tensor from outside");
    if (form.home.type == Home::Type::Outside) {
        if (!history && !function_log->has_made(t)) {
            form.outside = Ref<Tensor>::borrow(&t);
            tensors_[number] = std::move(form);
            return;
        }
        form.memory = t.storage;
    }
    if (VersionCounter* counter = counter_of(t)) {
        form.counts_as_argument = form.home.type == Home::Type::Argument &&
                                  counter_of(*(*arguments_)[form.home.index]) == counter;
        const std::vector<Ref<Tensor>>& touched = function_log->touched;
        const bool from_outside = std::any_of(touched.begin(), touched.end(),
                                              [&](const Ref<Tensor>& one) { return counter_of(*one) == counter; });
        if (from_outside && !form.counts_as_argument) {
            form.outside_counter = t.autograd->counter;
        } else if (!form.counts_as_argument) {
            auto known = std::find(counters_.begin(), counters_.end(), t.autograd->counter);
            form.counter = static_cast<int32_t>(known - counters_.begin());
            if (known == counters_.end()) counters_.push_back(t.autograd->counter);
        }
    }
    const uint32_t value = form.home.index;
    if (form.home.type == Home::Type::Fresh) fresh_.push_back(value);
    if (number >= results_ && held_by_python(t)) return refuse("it keeps a tensor that it does not return");
    if (t.base) {
        for (size_t i = 0; i < arguments_->size(); ++i) {
            Tensor& argument = *(*arguments_)[i];
            if (t.base.get() == &argument || (argument.base && t.base == base_of_views(argument)))
                form.base_argument = static_cast<int32_t>(i);
        }
        if (form.base_argument == kNone) form.base = static_cast<int32_t>(tensor(*t.base));
        form.base_back = version_of(t) - (t.base_generation & ~kUnrecorded);
        form.unrecorded = is_unrecorded(t);
    }
    if (const AutogradMeta* meta = t.autograd) {
        if (meta->of_function) return refuse("a function of the user's own is in the history of a result");
        if (meta->retain_hook || meta->batch_level) return refuse("a tensor in the history of a result has hooks");
        if (meta->grad) return refuse("it stores gradients");
        form.has_meta = true;
        form.requires_grad = meta->requires_grad;
        form.output_index = meta->output_index;
        if (meta->grad_fn) form.grad_fn = node(*meta->grad_fn);
        if (meta->accumulator) form.accumulator = node(*meta->accumulator);
    }
    tensors_[number] = std::move(form);
}

int32_t History::node(GradNode& node) {
    const auto [known, is_new] = numbers_.try_emplace(&node, static_cast<uint32_t>(met_nodes_.size()));
    if (!is_new) return static_cast<int32_t>(known->second);
    met_nodes_.push_back(Ref<GradNode>::borrow(&node));
    nodes_.emplace_back();
    return static_cast<int32_t>(nodes_.size() - 1);
}

void History::look_into(size_t number) {
    GradNode& met = *met_nodes_[number];
    if (met.type == GradNode::Type::Python) return refuse("a function of the user's own is in the history of a result");
    if (met.forward_only || met.kept) return refuse("a derivative that goes forward is taken under no_grad");
    if (!met.hooks.empty()) return refuse("a node in the history of a result has hooks");
    for (const Scalar& scalar : met.scalars)
        if (scalar.place) return refuse("a gradient depends on a number that an optimizer reads at each call");
    if (met.metadata) return refuse("a node in the history of a result has metadata");
    if (met.trace) return refuse("anomalies are looked for");
    NodeForm form;
    form.same = common_part(met);
    form.sequence = met.sequence;
    form.is_leaf = met.type == GradNode::Type::Accumulate;
    for (const Edge& one : met.edges) form.edges.push_back(edge(one));
    for (const SavedTensor& one : met.saved) form.saved.push_back(saved(one));
    for (const SavedTensor& one : met.outputs) form.outputs.push_back(saved(one));
    if (GradNode* inner = met.inner()) form.inner = node(*inner);
    nodes_[number] = std::move(form);
}

History::EdgeForm History::edge(const Edge& edge) {
    if (!edge.node) return {};
    GradNode& to = *edge.node;
    for (size_t i = 0; i < arguments_->size(); ++i) {
        Tensor& argument = *(*arguments_)[i];
        if (!argument.autograd) continue;
        const bool leaf = argument.autograd->accumulator == edge.node;
        if (leaf || (argument.autograd->grad_fn == edge.node && argument.autograd->output_index == edge.index))
            return {EdgeForm::Type::Argument, static_cast<uint32_t>(i), edge.index, {}, {}};
    }
    if (to.type == GradNode::Type::Accumulate) {
        // One that is gone is nobody's.
        if (!to.leaf || function_log->has_made(*to.leaf))
            return {EdgeForm::Type::Own, static_cast<uint32_t>(node(to)), edge.index, {}, {}};
        if (std::none_of(wanted_.begin(), wanted_.end(), [&](const Ref<Tensor>& t) { return t.get() == to.leaf; }))
            wanted_.push_back(Ref<Tensor>::borrow(to.leaf));
        return {EdgeForm::Type::Outside, 0, edge.index, edge.node, Ref<Tensor>::borrow(to.leaf)};
    }
    if (to.sequence < own_nodes_from) {
        refuse("gradients run on through the history of a tensor from outside");
        return {};
    }
    return {EdgeForm::Type::Own, static_cast<uint32_t>(node(to)), edge.index, {}, {}};
}

History::SavedForm History::saved(const SavedTensor& saved) {
    SavedForm form;
    if (saved.by_hooks() || saved.has_snapshot()) {
        refuse("hooks pack what gradients need");
        return form;
    }
    if (!saved.tensor) return form;
    form.tensor = static_cast<int32_t>(tensor(*saved.tensor));
    form.back = version_of(*saved.tensor) - saved.version;
    form.is_output = saved.is_output;
    form.had_history = saved.had_history;
    form.index = saved.index;
    return form;
}

bool History::reads_geometry_of(uint32_t argument) const {
    auto shows_part = [&](const TensorForm& form) {
        return form.home.type == Home::Type::Argument && form.home.index == argument && !form.is_argument;
    };
    return std::any_of(tensors_.begin(), tensors_.end(), shows_part) ||
           std::any_of(nodes_.begin(), nodes_.end(), [&](const NodeForm& form) {
               return form.same->op && form.same->op->kind == Kind::View &&
                      std::any_of(form.edges.begin(), form.edges.end(), [&](const EdgeForm& edge) {
                          return edge.type == EdgeForm::Type::Argument && edge.from == argument;
                      });
           });
}

bool History::holds() const {
    if (nodes_.empty()) return true;
    if (anomaly.enabled || saved_tensor_hooks) return false;
    return std::all_of(wanted_.begin(), wanted_.end(), [](const Ref<Tensor>& leaf) {
        return leaf->autograd && leaf->autograd->requires_grad && !leaf->autograd->grad_fn;
    });
}

History::Nodes History::make_nodes() const {
    Nodes nodes(nodes_.size());
    for (size_t n = 0; n < nodes_.size(); ++n) nodes[n] = common_part(*nodes_[n].same);
    return nodes;
}

bool History::is_spare(const Nodes& nodes) const {
    for (size_t n = 0; n < nodes.size(); ++n) {
        const GradNode& node = *nodes[n];
        if (node.refcount != own_references_[n] || !node.hooks.empty() || node.metadata || node.trace ||
            node.released != nodes_[n].same->released)
            return false;
        // A leaf may have got another node since.
        for (size_t i = 0; i < node.edges.size(); ++i)
            if (const EdgeForm& form = nodes_[n].edges[i];
                form.type == EdgeForm::Type::Outside &&
                (!form.leaf->autograd || form.leaf->autograd->accumulator != node.edges[i].node))
                return false;
    }
    return true;
}

History::Nodes History::take_nodes() {
    for (const Nodes& spare : spares_)
        if (is_spare(spare)) return spare;
    Nodes nodes = make_nodes();
    connect(nodes, nullptr, {});
    if (spares_.size() < kSpares) {
        spares_.push_back(nodes);
    } else {
        // Nodes may run code when they die: last.
        Nodes gone = std::exchange(spares_[next_spare_], nodes);
        next_spare_ = (next_spare_ + 1) % kSpares;
    }
    return nodes;
}

// Gives new nodes their edges, and what they keep.
void History::connect(const Nodes& nodes, Tensor* const* arguments, const std::vector<Ref<Tensor>>& tensors) const {
    auto saved_of = [&](const SavedForm& form) {
        SavedTensor saved;
        if (form.tensor == kNone) return saved;
        saved.tensor = tensors[static_cast<size_t>(form.tensor)];
        saved.version = version_of(*saved.tensor) - form.back;
        saved.is_output = form.is_output;
        // Of what isn't made by the call it may differ from call to call.
        const TensorForm& saved_form = tensors_[static_cast<size_t>(form.tensor)];
        saved.had_history = saved_form.is_argument || saved_form.outside
                                ? !form.is_output && saved.tensor->autograd && saved.tensor->autograd->grad_fn
                                : form.had_history;
        saved.index = form.index;
        return saved;
    };
    for (size_t n = 0; n < nodes_.size(); ++n) {
        const NodeForm& form = nodes_[n];
        GradNode& node = *nodes[n];
        node.edges.reserve(form.edges.size());
        for (const EdgeForm& one : form.edges) {
            switch (one.type) {
                case EdgeForm::Type::None: node.edges.emplace_back(); break;
                case EdgeForm::Type::Argument: node.edges.push_back(grad_edge(*arguments[one.from])); break;
                case EdgeForm::Type::Own: node.edges.push_back({nodes[one.from], one.index}); break;
                case EdgeForm::Type::Outside: node.edges.push_back(grad_edge(*one.leaf)); break;
            }
        }
        node.saved.reserve(form.saved.size());
        for (const SavedForm& one : form.saved) node.saved.push_back(saved_of(one));
        node.outputs.reserve(form.outputs.size());
        for (const SavedForm& one : form.outputs) node.outputs.push_back(saved_of(one));
        if (form.inner != kNone) node.write->inner = nodes[static_cast<size_t>(form.inner)];
    }
}

std::vector<Ref<Tensor>> History::make(Tensor* const* arguments, const std::function<Storage*(uint32_t)>& memory) {
    std::vector<Ref<Tensor>> tensors(tensors_.size());
    // Each call has its own, as they are when the function ends.
    std::vector<Ref<VersionCounter>> counters;
    for (const Ref<VersionCounter>& counter : counters_) counters.push_back(VersionCounter::from(counter->value));
    for (size_t i = 0; i < tensors_.size(); ++i) {
        const TensorForm& form = tensors_[i];
        if (form.is_argument) {
            tensors[i] = Ref<Tensor>::borrow(arguments[form.home.index]);
            continue;
        }
        if (form.outside) {
            tensors[i] = form.outside;
            continue;
        }
        Ref<Storage> storage = form.home.type == Home::Type::Argument ? arguments[form.home.index]->storage
                               : form.home.type == Home::Type::Fresh  ? Ref<Storage>::borrow(memory(form.home.index))
                                                                      : form.memory;
        tensors[i] = Tensor::make(std::move(storage), form.dtype, form.sizes, form.strides, form.offset);
        tensors[i]->wrapped_number = form.wrapped_number;
        tensors[i]->is_inference = form.is_inference;
        if (form.counts_as_argument) autograd_meta(*tensors[i]).counter = arguments[form.home.index]->autograd->counter;
        else if (form.outside_counter) autograd_meta(*tensors[i]).counter = form.outside_counter;
        else if (form.counter != kNone)
            autograd_meta(*tensors[i]).counter = counters[static_cast<size_t>(form.counter)];
    }
    const bool reused = reuses_nodes_ && !nodes_.empty();
    const Nodes nodes = reused ? take_nodes() : make_nodes();
    for (uint32_t n : order_) nodes[n]->sequence = nodes_[n].is_leaf ? UINT64_MAX : next_sequence();
    if (!reused) connect(nodes, arguments, tensors);
    for (size_t i = 0; i < tensors_.size(); ++i) {
        const TensorForm& form = tensors_[i];
        if (form.is_argument || form.outside) continue;
        Tensor& t = *tensors[i];
        if (form.base_argument != kNone) {
            // An argument may be a view itself: then its views have the same base.
            Tensor& argument = *arguments[form.base_argument];
            t.base = base_of_views(argument);
        } else if (form.base != kNone) {
            t.base = tensors[static_cast<size_t>(form.base)];
        }
        if (t.base) note_history_made(t, version_of(t) - form.base_back, form.unrecorded);
        if (!form.has_meta) continue;
        AutogradMeta& meta = autograd_meta(t);
        meta.requires_grad = form.requires_grad;
        meta.output_index = form.output_index;
        if (form.grad_fn != kNone) meta.grad_fn = nodes[static_cast<size_t>(form.grad_fn)];
        if (form.accumulator != kNone) {
            meta.accumulator = nodes[static_cast<size_t>(form.accumulator)];
            meta.accumulator->leaf = &t;
        }
    }
    return tensors;
}

}  // namespace mt::trace
