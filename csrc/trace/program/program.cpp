#include "trace/program/program.h"
#include <algorithm>
#include <unordered_set>

#include "autograd/autocast.h"
#include "core/error.h"
#include "dispatch/generator.h"
#include "dispatch/python/tensor_object.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/buffers.h"
#include "trace/program/argument_guards.h"

namespace mt::trace {

const char* const kUnsettled = "it is not settled yet what of it is compiled";

namespace {

// Where the default generator is.
struct StreamPosition {
    bool torch;
    uint64_t seed, offset;
    static StreamPosition now() {
        const Generator& generator = default_generator();
        return {generator.draws_as_torch, generator.seed, generator.offset};
    }
};
thread_local StreamPosition stream_at_begin;
thread_local uint64_t settings_at_begin;
thread_local std::vector<const Tensor*> pinned_gradients;

int32_t find_storage(const std::vector<Tensor*>& tensors, const Storage* storage) {
    for (size_t i = 0; i < tensors.size(); ++i)
        if (tensors[i]->storage.get() == storage) return static_cast<int32_t>(i);
    return -1;
}

}  // namespace

const char* read_in_place(const std::vector<Trace::Snapshot>& snapshots, std::vector<TraceInput>& inputs) {
    for (const Trace::Snapshot& snapshot : snapshots) {
        const TraceInput& source = snapshot.source;
        for (const Trace::Snapshot& other : snapshots)
            if (&other != &snapshot &&
                other.source.is(source.storage, source.offset, source.sizes, source.strides, source.dtype))
                return "memory that it reads was changed from outside while it ran";
        for (TraceInput& input : inputs) {
            if (input.storage.get() != snapshot.copy.get()) continue;
            if (!(input.strides == source.strides))
                return "it reads memory with large gaps that NumPy or another framework may change";
            input = source;
        }
    }
    return nullptr;
}

namespace {

// The nodes that draw random numbers. False if what was drawn since the function began isn't just that, one place of
// the default generator's stream after the other.
bool find_random(const Trace& trace, std::vector<uint32_t>& found) {
    StreamPosition expected = stream_at_begin;
    for (uint32_t n = 0; n < trace.nodes.size(); ++n) {
        const TraceNode& node = trace.nodes[n];
        if (node.op->kind != Kind::Random) continue;
        if (node.device.type != DeviceType::CPU) return false;
        if (expected.torch) {
            const auto place = node.philox_offset == kStreamPlace ? find_place(node.seed) : nullptr;
            if (!place || place->owner != &default_generator() || place->offset != expected.offset++) return false;
        } else if (node.seed != expected.seed || node.philox_offset != expected.offset++) {
            return false;
        }
        found.push_back(n);
    }
    const StreamPosition now = StreamPosition::now();
    return now.torch == expected.torch && now.seed == expected.seed && now.offset == expected.offset;
}

}  // namespace

void begin_function() {
    if (function_log) end_function();
    function_log = new FunctionLog();  // not a thread's own: static memory for such is scarce, and shared by libraries
    function_log->number = functions_begun.fetch_add(1, std::memory_order_relaxed) + 1;
    own_nodes_from = next_sequence();
    ran_earlier_node = false;
    beyond_replay = nullptr;
    stream_at_begin = StreamPosition::now();
    settings_at_begin = settings_word();
}

std::vector<Tensor*> gradients_before() {
    std::vector<Tensor*> found;
    if (!function_log) return found;
    for (const FunctionLog::Gradient& one : function_log->gradients)
        if (one.before) found.push_back(one.before.get());
    return found;
}

void pin_gradient(const Tensor& gradient) { pinned_gradients.push_back(&gradient); }

void end_function() {
    forget_casts_of_function();
    pinned_gradients.clear();
    own_nodes_from = 0;
    // It goes last, since tensors may run code when they die.
    std::unique_ptr<FunctionLog> gone(std::exchange(function_log, nullptr));
}

std::unique_ptr<Program> Program::freeze(Trace& trace, std::shared_ptr<Plan> plan, const std::vector<Tensor*>& given,
                                         const std::vector<Tensor*>& returned, const char** why) {
    auto program = std::make_unique<Program>();
    auto refuse = [&](const char* reason) {
        *why = reason;
        return nullptr;
    };
    if (beyond_replay) return refuse(beyond_replay);
    if (trace.effects) return refuse("a value is read on its way");
    if (plan->op_by_op || plan->contest) return refuse(kUnsettled);
    if (settings_word() != settings_at_begin) return refuse("it changes a setting: the default dtype, device or modes");
    if (!find_random(trace, program->random_))
        return refuse("it draws random numbers from other generators than the CPU's default one");
    program->draws_as_torch_ = stream_at_begin.torch;
    std::vector<Tensor*> arguments = given, results = returned;
    program->given_count_ = given.size();
    program->result_count_ = returned.size();
    program->takes_gradients_ = !function_log->gradients.empty() || next_sequence() > own_nodes_from + 1;
    for (const Ref<Tensor>& leaf : function_log->taken) {
        if (std::find(given.begin(), given.end(), leaf.get()) != given.end()) continue;
        if (!bare_leaf(*leaf)) return refuse("a tensor whose gradient it takes has hooks");
        program->taken_.push_back(leaf);
    }
    if (program->takes_gradients_) {
        if (!gradients_are_plain()) return refuse("gradients are watched by hooks, or for anomalies");
    }
    for (const FunctionLog::Gradient& one : function_log->gradients) {
        Tensor& owner = *one.owner;
        auto argument = std::find(given.begin(), given.end(), &owner);
        if (!bare_leaf(owner)) return refuse("a tensor whose gradient it stores has hooks");
        const Ref<Tensor> now = owner.autograd ? owner.autograd->grad : Ref<Tensor>();
        Gradient gradient{Gradient::Before::Any, Gradient::After::Result, 0, 0, -1, {}};
        if (argument != given.end()) gradient.argument = static_cast<int32_t>(argument - given.begin());
        else program->hold(gradient.owner = one.owner);
        if (one.read || (one.before && now == one.before)) {
            const bool pinned = std::find(pinned_gradients.begin(), pinned_gradients.end(), one.before.get()) !=
                                pinned_gradients.end();
            gradient.before = pinned       ? Gradient::Before::Pinned
                              : one.before ? Gradient::Before::Argument
                                           : Gradient::Before::Absent;
            gradient.before_argument = static_cast<uint32_t>(arguments.size());
            if (gradient.before == Gradient::Before::Argument && !plain_in_python(*one.before))
                return refuse("a gradient has attributes of Python's, or is of another class");
            if (pinned) program->hold(gradient.pinned = one.before);
            else if (one.before) arguments.push_back(one.before.get());
            if (one.before == now) gradient.after = Gradient::After::Unchanged;
        }
        if (!now && gradient.after == Gradient::After::Result) gradient.after = Gradient::After::Absent;
        if (gradient.after == Gradient::After::Result) {
            gradient.after_result = static_cast<uint32_t>(results.size());
            results.push_back(now.get());
        }
        program->gradients_.push_back(std::move(gradient));
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
        const Tensor& t = *arguments[i];
        if (!bare(t)) return refuse("an argument has hooks");
        const bool leaf = !differentiated(t) || is_leaf(t);
        if (!leaf && ran_earlier_node) return refuse("gradients run through the history of an argument");
        if (!leaf && grad_fn(*arguments[i])->sequence >= own_nodes_from)
            return refuse("the history of an argument changes");
        const auto first = static_cast<uint32_t>(find_storage(arguments, t.storage.get()));
        // Whose history would it be, or whose gradient?
        if (first != i && (differentiated(t) || differentiated(*arguments[first])))
            return refuse("arguments that want gradients share memory");
        if (std::find(arguments.begin(), arguments.end(), &t) - arguments.begin() != static_cast<ptrdiff_t>(i))
            return refuse("a tensor is given twice");
        program->arguments_.push_back({t.dtype, t.device(), t.sizes, t.strides, false, t.offset, t.storage->nbytes,
                                       differentiated(t), leaf, traits_of(t), first,
                                       t.offset - arguments[first]->offset});
    }
    std::vector<TraceInput> inputs = trace.inputs;
    if (const char* reason = read_in_place(trace.snapshots(), inputs)) return refuse(reason);
    for (size_t i = 0; i < inputs.size(); ++i) {
        const TraceInput& input = inputs[i];
        int32_t argument = find_storage(arguments, input.storage.get());
        if (argument < 0) continue;
        auto which = static_cast<uint32_t>(argument);
        auto read = element_span(input.sizes, input.strides, input.offset);
        auto shows = [&](const Tensor& t) {
            auto shown = element_span(t.sizes, t.strides, t.offset);
            return t.storage == input.storage && read.first >= shown.first && read.second <= shown.second;
        };
        while (which < arguments.size() && !shows(*arguments[which])) ++which;
        if (which == arguments.size()) {
            which = static_cast<uint32_t>(argument);
            program->arguments_[which].whole_storage = true;
        }
        const Tensor& t = *arguments[which];
        program->argument_inputs_.push_back({static_cast<uint32_t>(i), which, input.offset - t.offset});
    }
    auto flat = [&](const Pending& p) { return trace.nodes[p.node].first_result + p.result; };
    const auto values = static_cast<uint32_t>(trace.results.size());
    auto made_inside = [&](const Storage& storage) {
        return storage.has_memory() && !storage.pending && storage.made_in >= function_log->number;
    };
    // Of memory that results show: each call has its own, as eagerly. This one's is the caller's to write.
    std::vector<const Storage*> constants;
    auto constant_of = [&](const Storage& storage) -> History::Home {
        const auto known = std::find(constants.begin(), constants.end(), &storage);
        const auto k = static_cast<uint32_t>(known - constants.begin());
        auto shows = [&](const TraceInput& input) { return input.storage.get() == &storage; };
        if (known == constants.end()) {
            constants.push_back(&storage);
            const Ref<Storage>& copy = program->constants_.emplace_back(Storage::copy(storage));
            copy->version = storage.version;
            for (TraceInput& input : inputs)
                if (shows(input)) input.storage = copy;
        }
        const auto others = std::count_if(trace.inputs.begin(), trace.inputs.end(), shows);
        return {History::Home::Type::Fresh, values + k, static_cast<uint32_t>(others)};
    };
    auto home_of = [&](const Storage& storage) -> History::Home {
        if (int32_t argument = find_storage(arguments, &storage); argument >= 0)
            return {History::Home::Type::Argument, static_cast<uint32_t>(argument)};
        if (made_inside(storage) && find_storage(results, &storage) >= 0) return constant_of(storage);
        if (storage.has_memory() || !storage.pending) return {History::Home::Type::Outside, 0};
        return {History::Home::Type::Fresh, static_cast<uint32_t>(flat(*storage.pending))};
    };
    History& history = program->history_;
    std::unordered_set<uint32_t> fresh;  // what is in program->fresh_
    for (Tensor* t : results) {
        if (!has_place(*t)) return refuse("a result is on a device without memory");
        Returned returned;
        auto same = std::find(arguments.begin(), arguments.end(), t);
        if (made_inside(*t->storage) && t->storage->deleter)
            return refuse("a result shows memory of another framework's that the function made");
        const auto [home, place, others] = home_of(*t->storage);
        const bool own = grad_fn(*t) && grad_fn(*t)->sequence >= own_nodes_from;
        const auto first = static_cast<size_t>(std::find(results.begin(), results.end(), t) - results.begin());
        if (first < program->results_.size()) {
            returned.type = Returned::Type::Same;
            returned.result = static_cast<uint32_t>(first);
        } else if (same != arguments.end()) {
            returned.type = Returned::Type::Argument;
            returned.argument = static_cast<uint32_t>(same - arguments.begin());
        } else if (home == History::Home::Type::Outside && t->storage->pending) {
            return refuse("a result is a view of memory that the function writes");
        } else if (home == History::Home::Type::Outside && !function_log->has_made(*t)) {
            returned.type = Returned::Type::Captured;
            returned.captured = Ref<Tensor>::borrow(t);
            program->hold(returned.captured);
        } else if (home != History::Home::Type::Fresh || own || t->base || counter_of(*t) || differentiated(*t)) {
            returned.type = Returned::Type::Made;
            returned.result = history.add(*t);
        } else {
            returned.type = Returned::Type::Fresh;
            returned.result = place;
            returned.dtype = t->dtype;
            returned.sizes = t->sizes;
            returned.strides = t->strides;
            returned.offset = t->offset;
            returned.is_inference = t->is_inference;
            history.add_plain(*t);
            if (place < values && fresh.insert(place).second) program->fresh_.push_back(place);
        }
        program->results_.push_back(std::move(returned));
    }
    for (const Ref<Tensor>& t : function_log->touched) {
        if (std::find(arguments.begin(), arguments.end(), t.get()) != arguments.end()) continue;
        if (find_storage(arguments, t->storage.get()) >= 0)
            return refuse("the function also reaches the memory of an argument by itself");
        program->hold(t);
    }
    if (ran_earlier_node) return refuse("gradients run through the history of a tensor from outside");
    if (const char* reason = history.finish(arguments, home_of)) return refuse(reason);
    for (uint32_t value : history.fresh())
        if (value < values && fresh.insert(value).second) program->fresh_.push_back(value);
    for (uint32_t value : program->fresh_) program->fresh_versions_.push_back(trace.results[value].storage->version);
    auto writes_counted = [&](const uint32_t& version) {
        return static_cast<uint32_t>(std::count(function_log->writes.begin(), function_log->writes.end(), &version));
    };
    auto note_writes = [&](const Storage* storage, int32_t argument) {
        const uint32_t writes = writes_counted(argument < 0 ? storage->version
                                                            : version_of(*arguments[static_cast<size_t>(argument)]));
        if (writes)
            program->versions_.push_back(
                {writes, argument,
                 argument < 0 ? Ref<Storage>::borrow(const_cast<Storage*>(storage)) : Ref<Storage>()});
    };
    for (size_t i = 0; i < arguments.size(); ++i) {
        note_writes(arguments[i]->storage.get(), static_cast<int32_t>(i));
        if (history.reads_geometry_of(static_cast<uint32_t>(i))) program->arguments_[i].whole_storage = true;
    }
    for (const Ref<Tensor>& t : function_log->touched) {
        if (!counter_of(*t) || std::find(arguments.begin(), arguments.end(), t.get()) != arguments.end()) continue;
        auto of_this = [&](const Version& version) { return version.counter == t->autograd->counter; };
        if (std::any_of(program->versions_.begin(), program->versions_.end(), of_this)) continue;
        if (const uint32_t writes = writes_counted(version_of(*t)))
            program->versions_.push_back({writes, -1, Ref<Storage>(), t->autograd->counter});
    }
    for (uint32_t i = 0; i < trace.results.size(); ++i) {
        Storage* storage = trace.results[i].storage;
        if (!storage) continue;
        if (storage->has_memory()) {
            int32_t argument = find_storage(arguments, storage);
            auto shared = [&](const ArgumentMeta& meta) { return meta.first == static_cast<uint32_t>(argument); };
            if (argument >= 0 && std::count_if(program->arguments_.begin(), program->arguments_.end(), shared) > 1)
                return refuse("it writes to an argument that shares memory with another one");
            program->written_.push_back({i, argument, argument < 0 ? Ref<Storage>::borrow(storage) : Ref<Storage>()});
            if (argument >= 0) program->arguments_[static_cast<size_t>(argument)].whole_storage = true;
            else note_writes(storage, -1);
        } else if (!fresh.contains(i)) {
            return refuse("it keeps a tensor that it does not return");
        }
    }
    std::vector<bool> landed(function_log->numbers.all().size());
    for (uint32_t i = 0; i < trace.scalars.size(); ++i)
        if (const uint32_t place = trace.scalars[i].scalar.place) {
            program->bound_scalars_.push_back({i, place});
            landed[place - 1] = true;
        }
    if (const char* reason = function_log->lost_number(landed)) return refuse(reason);
    for (const FunctionLog::Kept& kept : function_log->kept) {
        if (function_log->known.contains(kept.keeper.get()))
            return refuse("it computes with a tensor in which an optimizer counts steps or keeps another number");
        program->kept_.push_back(kept);
        program->hold(kept.keeper);
    }
    program->numbers_ = std::move(function_log->numbers);
    program->plan_ = std::move(plan);
    for (const ArgumentInput& input : program->argument_inputs_) inputs[input.input].storage.reset();
    program->trace_.copy_recording(trace, std::move(inputs));
    return program;
}

void Program::hold(const Ref<Tensor>& t) {
    held_.push_back(
        {t, t->storage.get(), t->sizes, t->strides, t->offset, differentiated(*t), traits_of(*t), held_by_python(*t)});
}

// Has a node that draws random numbers take its place of the default generator's stream.
void Program::draw_again(uint32_t n) {
    TraceNode& node = trace_.nodes[n];
    std::vector<Operand> operands(node.operand_count);
    Call call = call_of(trace_, node, operands);
    const ResultInfo& result = trace_.results[node.first_result];
    call.compute = node.compute;
    call.results[0].dtype = result.dtype;
    call.results[0].sizes = result.sizes;
    if (auto place = reserve_again(call)) trace_.places.push_back(std::move(place));
    node.seed = call.seed;
    node.philox_offset = call.philox_offset;
}

bool Program::run(Tensor* const* given, Ref<Tensor>* out) {
    Arguments all;
    if (busy_ || (!random_.empty() && draws_as_torch_ != default_generator().draws_as_torch) || !gather(given, all))
        return false;
    Tensor* const* arguments = all.begin();
    if (!numbers_.empty() && !numbers_.read(values_)) return false;
    for (const auto& [scalar, place] : bound_scalars_) trace_.scalars[scalar].scalar.f = values_[place - 1];
    busy_ = true;
    struct Unbind {
        Program& program;
        ~Unbind() {
            for (const ArgumentInput& input : program.argument_inputs_)
                program.trace_.inputs[input.input].storage.reset();
            for (ResultInfo& result : program.trace_.results) result.storage = nullptr;
            program.trace_.places.clear();
            program.busy_ = false;
        }
    } unbind{*this};
    for (const ArgumentInput& input : argument_inputs_) {
        const Tensor& t = *arguments[input.argument];
        trace_.inputs[input.input].storage = t.storage;
        trace_.inputs[input.input].offset = t.offset + input.offset;
    }
    for (uint32_t n : random_) draw_again(n);
    SmallVector<Storage*, 8> fresh;
    struct Release {
        SmallVector<Storage*, 8>& storages;
        ~Release() {
            for (Storage* storage : storages) Ref<Storage> last(storage);
        }
    } release{fresh};
    for (size_t i = 0; i < fresh_.size(); ++i) {
        const uint32_t result = fresh_[i];
        const ResultInfo& info = trace_.results[result];
        Ref<Storage> storage = Storage::allocate(byte_count(info.sizes, info.dtype), info.device);
        storage->version = fresh_versions_[i];
        trace_.results[result].storage = storage.get();
        fresh.push_back(storage.release());
    }
    const size_t constants = fresh.size();
    for (const Ref<Storage>& constant : constants_) {
        Ref<Storage> storage = Storage::copy(*constant);
        storage->version = constant->version;
        fresh.push_back(storage.release());
    }
    auto memory_of = [&](uint32_t value) {
        const size_t values = trace_.results.size();
        return value < values ? trace_.results[value].storage : fresh[constants + value - values];
    };
    for (const Written& w : written_) {
        Storage* storage = w.argument >= 0 ? arguments[w.argument]->storage.get() : w.memory.get();
        trace_.results[w.result].storage = storage;
    }
    for (const Version& v : versions_)
        (v.argument >= 0 ? version_of(*arguments[v.argument])
         : v.counter     ? v.counter->value
                         : v.memory->version) += v.writes;
    replay(trace_, *plan_);
    std::vector<Ref<Tensor>> made;
    if (!history_.empty()) made = history_.make(arguments, memory_of);
    SmallVector<Tensor*, 32> stored;  // the results, and what gradients become
    struct Drop {
        SmallVector<Tensor*, 32>& tensors;
        size_t from;
        ~Drop() {
            for (size_t i = from; i < tensors.size(); ++i) Ref<Tensor> last(tensors[i]);
        }
    } drop{stored, result_count_};
    for (size_t i = 0; i < results_.size(); ++i) {
        const Returned& returned = results_[i];
        Ref<Tensor> result;
        if (returned.type == Returned::Type::Argument) {
            result = Ref<Tensor>::borrow(arguments[returned.argument]);
        } else if (returned.type == Returned::Type::Captured) {
            result = returned.captured;
        } else if (returned.type == Returned::Type::Made) {
            result = made[returned.result];
        } else if (returned.type == Returned::Type::Same) {
            result = Ref<Tensor>::borrow(stored[returned.result]);
        } else {
            result = Tensor::make(Ref<Storage>::borrow(memory_of(returned.result)), returned.dtype, returned.sizes,
                                  returned.strides, returned.offset);
            result->is_inference = returned.is_inference;
        }
        if (i < result_count_) stored.push_back((out[i] = std::move(result)).get());
        else stored.push_back(result.release());
    }
    for (const FunctionLog::Kept& kept : kept_)
        if (kept.times) keep_number(*kept.keeper, values_[kept.place - 1], kept.times);
    // What they were dies at the end, since that may run code.
    for (const Gradient& gradient : gradients_) {
        if (gradient.after == Gradient::After::Unchanged) continue;
        Tensor& owner = gradient.of(arguments);
        if (gradient.after == Gradient::After::Absent && !owner.autograd) continue;
        Ref<Tensor>& place = autograd_meta(owner).grad;
        Ref<Tensor> now = gradient.after == Gradient::After::Result ? Ref<Tensor>::borrow(stored[gradient.after_result])
                                                                    : Ref<Tensor>();
        std::swap(place, now);
        stored.push_back(now.release());
    }
    return true;
}

}  // namespace mt::trace
