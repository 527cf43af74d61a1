#include "trace/plan.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <unordered_map>

#include "core/allocator.h"
#include "core/error.h"
#include "dispatch/gpu.h"
#include "runtime/errors.h"
#include "runtime/scratch.h"
#include "trace/buffers.h"

namespace mt::trace {

std::shared_ptr<Plan> (*compile_hook)(Trace&) = nullptr;
std::shared_ptr<Plan> (*revise_hook)(Trace&, Plan&) = nullptr;
void (*flush_hook)(const Trace&, const Plan&, const char*, bool) = nullptr;
void (*refuse_hook)(const char*, const char*) = nullptr;
void (*eager_hook)(const char*) = nullptr;
void (*launch_profile_hook)(const Trace&, const Step&, int64_t, int64_t) = nullptr;
MT_THREAD_LOCAL const char* observation = nullptr;

void load_compiler() {
    if (compile_hook) return;
    PyRef module(PyImport_ImportModule("minitensor_jit.api"));
    if (!module) fail_python();
}

namespace {

MT_THREAD_LOCAL uint64_t g_options_id = 0;
constexpr int64_t kReleaseGilBytes = 1 << 18;

uint64_t hash_words(const std::vector<uint64_t>& words) {
    uint64_t h = 0x9E3779B97F4A7C15ull;
    for (uint64_t word : words) {
        h ^= word;
        h *= 0xFF51AFD7ED558CCDull;
        h ^= h >> 32;
    }
    return h;
}

// Bounded by bytes; least recently used plans leave first.
class PlanCache {
  public:
    std::shared_ptr<Plan>* find(const std::vector<uint64_t>& signature, uint64_t hash) {
        auto [first, last] = index_.equal_range(hash);
        for (; first != last; ++first) {
            auto entry = first->second;
            if (entry->signature != signature) continue;
            order_.splice(order_.begin(), order_, entry);
            ++hits;
            return &entry->plan;
        }
        ++misses;
        return nullptr;
    }
    void insert(std::vector<uint64_t> signature, uint64_t hash, uint64_t owner, std::shared_ptr<Plan> plan) {
        size_t size = plan->bytes() + signature.size() * sizeof(uint64_t);
        bytes += size;
        order_.push_front({std::move(signature), hash, owner, size, std::move(plan)});
        index_.emplace(hash, order_.begin());
        shrink();
    }
    // The newest stays, however large.
    void shrink() {
        while (bytes > limit && order_.size() > 1) {
            ++evicted;
            // Last, since what a plan holds may run code when it dies.
            std::shared_ptr<Plan> dying = erase(std::prev(order_.end()));
        }
    }
    void forget(uint64_t owner) {
        std::vector<std::shared_ptr<Plan>> dying;
        for (auto entry = order_.begin(); entry != order_.end();) {
            auto here = entry++;
            if (here->owner == owner) dying.push_back(erase(here));
        }
    }
    void clear() {
        index_.clear();
        bytes = 0;
        auto dying = std::exchange(order_, {});
    }
    size_t size() const { return order_.size(); }
    uint64_t hits = 0, misses = 0, evicted = 0, bytes = 0, limit = uint64_t{64} << 20;

  private:
    struct Entry {
        std::vector<uint64_t> signature;
        uint64_t hash;
        uint64_t owner;
        size_t bytes;
        std::shared_ptr<Plan> plan;
    };

    std::shared_ptr<Plan> erase(std::list<Entry>::iterator entry) {
        auto [first, end] = index_.equal_range(entry->hash);
        for (; first != end; ++first)
            if (first->second == entry) {
                index_.erase(first);
                break;
            }
        bytes -= entry->bytes;
        std::shared_ptr<Plan> plan = std::move(entry->plan);
        order_.erase(entry);
        return plan;
    }

    std::list<Entry> order_;
    std::unordered_multimap<uint64_t, std::list<Entry>::iterator> index_;
};

PlanCache& plans() {
    static auto* cache = new PlanCache;
    return *cache;
}

// Scratch memory of launches, kept per thread.
void* scratch(size_t bytes) {
    struct Memory {
        void* data = nullptr;
        size_t capacity = 0;
        ~Memory() { deallocate(data, capacity); }
    };
    thread_local Memory memory;
    if (__builtin_expect(t_handlers != 0, 0)) {
        thread_local Scratch of_handlers;
        return of_handlers.get(bytes);
    }
    if (bytes > memory.capacity) {
        deallocate(std::exchange(memory.data, nullptr), std::exchange(memory.capacity, 0));
        memory.data = allocate(bytes);
        memory.capacity = bytes;
    }
    return memory.data;
}

class OverrideSource {
  public:
    explicit OverrideSource(const SourceRef& source) : previous_(source_override) { source_override = &source; }
    ~OverrideSource() { source_override = previous_; }

  private:
    const SourceRef* previous_;
};

void run_op(Trace& trace, const TraceNode& node, uint32_t index, Buffers& buffers) {
    OverrideSource source(node.source);
    if (on_gpu(node.device)) return run_on_host(trace, node, index, buffers);
    std::vector<Operand> operands(node.operand_count);
    Call call = call_of(trace, node, operands);
    std::vector<Ref<Tensor>> held;
    for (uint32_t i = 0; i < node.operand_count; ++i) {
        ValueRef value = trace.operands[node.first_operand + i];
        if (value.kind == RefKind::Scalar || value.kind == RefKind::None) continue;
        held.push_back(buffers.tensor_over(value));
        operands[i].tensor = held.back().get();
    }
    infer(call);
    for (uint32_t r = 0; r < node.result_count; ++r) {
        ValueRef value{RefKind::Node, static_cast<uint8_t>(r), index};
        buffers.output(value);
        held.push_back(buffers.tensor_over(value));
        call.outputs[r] = held.back().get();
    }
    call.result_count = node.result_count;
    run_kernel(call);
}

}  // namespace

Call call_of(Trace& trace, const TraceNode& node, std::vector<Operand>& operands) {
    for (uint32_t i = 0; i < node.operand_count; ++i) {
        ValueRef value = trace.operands[node.first_operand + i];
        operands[i].is_scalar = value.kind == RefKind::Scalar;
        if (operands[i].is_scalar) operands[i].scalar = trace.scalars[value.index].scalar;
    }
    Call call;
    call.op = node.op;
    call.operands = operands.data();
    call.operand_count = operands.size();
    call.params = trace.params.data() + node.first_param;
    call.param_count = node.param_count;
    call.seed = node.seed;
    call.philox_offset = node.philox_offset;
    return call;
}

void store_input(const Trace& trace, const InputSlot& slot, uint64_t* words) {
    if (slot.is_size) {
        words[0] = static_cast<uint64_t>(slot.size);
    } else if (slot.random) {
        words[0] = trace.nodes[slot.value.index].seed;
        words[1] = trace.nodes[slot.value.index].philox_offset;
    } else {
        store_scalar(trace.scalars[slot.value.index].scalar, slot.dtype, words);
    }
}

void observe(const Step& step, bool ran, void* const* pointers, size_t count) {
    PyRef addresses(PyTuple_New(static_cast<Py_ssize_t>(count)));
    if (!addresses) fail_python();
    for (size_t i = 0; i < count; ++i) {
        PyObject* address = PyLong_FromVoidPtr(pointers[i]);
        if (!address) fail_python();
        PyTuple_SET_ITEM(addresses.get(), static_cast<Py_ssize_t>(i), address);
    }
    PyRef ignored(
        PyObject_CallFunctionObjArgs(step.observer.get(), ran ? Py_True : Py_False, addresses.get(), nullptr));
    if (!ignored) fail_python();
}

namespace {

// False if an op inside a guarded launch failed.
bool run_launch(Trace& trace, const Step& step, Buffers& buffers) {
    if (step.program) return run_on_gpu(trace, step, buffers);
    SmallVector<void*, 32> pointers;
    SmallVector<uint64_t, 32> scalar_words;
    scalar_words.resize(2 * step.inputs.size());
    for (size_t i = 0; i < step.inputs.size(); ++i) {
        const InputSlot& slot = step.inputs[i];
        if (slot.random || slot.is_size || slot.value.kind == RefKind::Scalar) {
            store_input(trace, slot, &scalar_words[2 * i]);
            pointers.push_back(&scalar_words[2 * i]);
        } else {
            pointers.push_back(buffers.input(slot.value).data);
        }
    }
    for (ValueRef value : step.outputs) pointers.push_back(buffers.output(value).data);
    uint8_t failed = 0;
    if (step.reports_errors) pointers.push_back(&failed);
    pointers.push_back(step.scratch_bytes ? scratch(step.scratch_bytes) : nullptr);
    const bool observed = step.observer.get() != Py_None;
    const size_t arrays = step.inputs.size() + step.outputs.size();
    if (observed) observe(step, false, pointers.data(), arrays);
    int64_t start = launch_profile_hook ? now_ns() : 0;
    int32_t status;
    forget_runtime_error();
    {
        MaybeReleaseGil gil(step.work_bytes >= kReleaseGilBytes);
        status = step.entry(pointers.data(), mt_runtime());
    }
    // What Python raised, Ctrl-C's handler say, ends the step whether or not another run of it would succeed.
    if (step.guarded && (failed || t_runtime_error) && !PyErr_Occurred()) {
        forget_runtime_error();
        return false;
    }
    rethrow_runtime_error();
    if (launch_profile_hook) launch_profile_hook(trace, step, start, now_ns());
    if (status != 0) fail("the compiled cluster " + step.name + " failed with status " + std::to_string(status));
    if (observed) observe(step, true, pointers.data(), arrays);
    return true;
}

// Whether `fits` holds for all elements of a leaf.
template <class T, class F> bool all_fit(const Leaf& leaf, F&& fits) {
    const T* data = static_cast<const T*>(leaf.storage->data) + leaf.offset;
    int64_t count = product(leaf.sizes);
    if (leaf.strides == contiguous_strides(leaf.sizes))
        return std::all_of(data, data + count, [&](T value) { return fits(static_cast<int64_t>(value)); });
    std::vector<int64_t> at(leaf.sizes.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
        int64_t position = 0;
        for (size_t d = 0; d < at.size(); ++d) position += at[d] * leaf.strides[d];
        if (!fits(static_cast<int64_t>(data[position]))) return false;
        for (size_t d = at.size(); d-- > 0;) {
            if (++at[d] < leaf.sizes[d]) break;
            at[d] = 0;
        }
    }
    return true;
}

// A leaf with its elements where the host can read them.
Leaf on_host(const Leaf& leaf) {
    if (!on_gpu(leaf.storage->device)) return leaf;
    Ref<Tensor> there = Tensor::make(Storage::alias(*leaf.storage), leaf.dtype, leaf.sizes, leaf.strides, leaf.offset);
    Ref<Tensor> here = copy_across(*there, Device{});
    return {here->storage, 0, here->sizes, here->strides, here->dtype};
}

// Whether all indices that compiled code will use unchecked are within their bounds.
bool within_bounds(const Trace& trace, const BoundsCheck& check) {
    const Leaf leaf = on_host(trace.leaves[check.leaf]);
    const TraceNode& node = trace.nodes[check.node];
    // Targets that are to be ignored.
    bool has_ignored = node.op->name.starts_with("nll_loss");
    int64_t ignored = has_ignored ? trace.params[node.first_param].as_int() : 0;
    auto fits = [&](int64_t value) {
        return (value >= check.low && value < check.high) || (has_ignored && value == ignored);
    };
    switch (leaf.dtype) {
        case DType::I64: return all_fit<int64_t>(leaf, fits);
        case DType::I32: return all_fit<int32_t>(leaf, fits);
        case DType::I16: return all_fit<int16_t>(leaf, fits);
        case DType::I8: return all_fit<int8_t>(leaf, fits);
        case DType::U8: return all_fit<uint8_t>(leaf, fits);
        default: return false;
    }
}

void add_source_note(const SourceRef& source, const OpDef& op) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (source.code) {
        auto* code = reinterpret_cast<PyCodeObject*>(source.code);
        int line = PyCode_Addr2Line(code, source.lasti);
        PyRef note(PyUnicode_FromFormat("recorded as '%s' at %U:%d", op.name.c_str(), code->co_filename, line));
        if (note && value) {
            PyRef ignored(PyObject_CallMethod(value, "add_note", "O", note.get()));
            if (!ignored) PyErr_Clear();
        }
    }
    PyErr_Restore(type, value, traceback);
}

}  // namespace

uint64_t options_id() { return g_options_id; }
void set_options_id(uint64_t id) { g_options_id = id; }

namespace {

// Runs body for a node; the exception is raised at the flush, and a note says where the failing op was called.
template <class F>
void located(const Trace& trace, uint32_t node, F&& body) {
    try {
        body();
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::Python) set_python_error_hook(error);
        add_source_note(trace.nodes[node].source, *trace.nodes[node].op);
        fail_python();
    }
}

void write_deferred(Trace& trace, const Plan& plan, Buffers& buffers) {
    for (ValueRef value : plan.deferred) {
        Storage* storage = trace.results[buffers.flat(value)].storage;
        if (!storage) continue;
        storage->ensure_memory();
        copy_bytes(storage->place(), buffers.input(value), buffers.bytes(buffers.flat(value)));
    }
}

// Op by op, without compiled code: the first op that fails raises its own error. What the trace read is still as it
// was: nothing has run yet, or the plan has guarded launches and so writes over nothing before its end.
void replay_eagerly(Trace& trace, const Plan& plan) {
    std::vector<bool> needed(trace.nodes.size());
    for (size_t n = trace.nodes.size(); n-- > 0;) {
        const TraceNode& node = trace.nodes[n];
        if (Trace::fallible(node)) needed[n] = true;
        for (uint32_t r = 0; r < node.result_count; ++r)
            if (trace.results[node.first_result + r].storage) needed[n] = true;
        if (!needed[n]) continue;
        for (uint32_t i = 0; i < node.operand_count; ++i) {
            ValueRef value = trace.operands[node.first_operand + i];
            if (value.kind == RefKind::Node) needed[value.index] = true;
        }
    }
    Buffers buffers(trace, plan);
    for (uint32_t n = 0; n < trace.nodes.size(); ++n)
        if (needed[n]) located(trace, n, [&] { run_op(trace, trace.nodes[n], n, buffers); });
    write_deferred(trace, plan, buffers);
}

}  // namespace

void replay(Trace& trace, Plan& plan) {
    for (const BoundsCheck& check : plan.checks) {
        if (within_bounds(trace, check)) continue;
        replay_eagerly(trace, plan);
        ++plan.replays;
        return;
    }
    for (int64_t* counter : plan.counters) ++*counter;
    Buffers buffers(trace, plan);
    std::vector<int64_t> spent(plan.fastest.size(), 0);
    for (size_t s = 0; s < plan.steps.size(); ++s) {
        const Step& step = plan.steps[s];
        const bool timed = step.group >= 0 && !spent.empty();
        const int64_t started = timed ? now_ns() : 0;
        if (step.type == Step::Type::Op) {
            located(trace, step.node, [&] { run_op(trace, trace.nodes[step.node], step.node, buffers); });
        } else if (!run_launch(trace, step, buffers)) {
            replay_eagerly(trace, plan);
            ++plan.replays;
            return;
        }
        if (timed) spent[static_cast<size_t>(step.group)] += now_ns() - started;
        auto done = [&](ValueRef value) {
            if (value.kind == RefKind::Node && plan.last_use[buffers.flat(value)] == static_cast<int32_t>(s))
                buffers.free(buffers.flat(value));
        };
        if (step.type == Step::Type::Launch) {
            for (const InputSlot& slot : step.inputs) done(slot.value);
        } else {
            const TraceNode& node = trace.nodes[step.node];
            for (uint32_t i = 0; i < node.operand_count; ++i) done(trace.operands[node.first_operand + i]);
        }
    }
    write_deferred(trace, plan, buffers);
    ++plan.replays;
    for (size_t g = 0; g < spent.size(); ++g) plan.fastest[g] = std::min(plan.fastest[g], spent[g]);
}

namespace {

// Which inputs of launches on cards the host knows.
void find_host_inputs(const Trace& trace, Plan& plan) {
    for (Step& step : plan.steps) {
        if (!step.program) continue;
        for (const InputSlot& slot : step.inputs) {
            bool host = slot.random || slot.is_size || slot.value.kind == RefKind::Scalar;
            if (slot.value.kind == RefKind::Leaf) host = !on_gpu(trace.leaves[slot.value.index].storage->device);
            if (slot.value.kind == RefKind::Node) host = !on_gpu(trace.nodes[slot.value.index].device);
            step.from_host.push_back(host);
        }
    }
}

void count_last_uses(const Trace& trace, Plan& plan) {
    plan.last_use.assign(trace.results.size(), -1);
    auto use = [&](ValueRef value, size_t s) {
        if (value.kind == RefKind::Node)
            plan.last_use[trace.nodes[value.index].first_result + value.result] = static_cast<int32_t>(s);
    };
    for (size_t s = 0; s < plan.steps.size(); ++s) {
        const Step& step = plan.steps[s];
        if (step.type == Step::Type::Launch) {
            for (const InputSlot& slot : step.inputs) use(slot.value, s);
        } else {
            const TraceNode& node = trace.nodes[step.node];
            for (uint32_t i = 0; i < node.operand_count; ++i) use(trace.operands[node.first_operand + i], s);
        }
    }
    for (ValueRef value : plan.deferred) plan.last_use[trace.nodes[value.index].first_result + value.result] = -1;
}

}  // namespace

void Plan::complete(const Trace& trace) {
    count_last_uses(trace, *this);
    find_host_inputs(trace, *this);
}

size_t Plan::bytes() const {
    size_t total = sizeof(Plan) + last_use.size() * sizeof(int32_t) + checks.size() * sizeof(BoundsCheck) +
                   deferred.size() * sizeof(ValueRef) + fastest.size() * sizeof(int64_t);
    for (const Step& step : steps)
        total += sizeof(Step) + step.inputs.size() * sizeof(InputSlot) + step.outputs.size() * sizeof(ValueRef) +
                 step.inside.size() * sizeof(uint32_t) + step.name.size();
    return total;
}

std::shared_ptr<Plan> plan_of(Trace& trace, bool* hit) {
    trace.finish_signature();
    uint64_t hash = hash_words(trace.signature);
    std::shared_ptr<Plan>* known = plans().find(trace.signature, hash);
    std::shared_ptr<Plan> plan = known ? *known : nullptr;
    *hit = plan != nullptr;
    if (!plan) {
        if (!compile_hook) fail("recording is on, but no compiler is installed: import minitensor_jit");
        plan = compile_hook(trace);
        plans().insert(trace.signature, hash, trace.owner, plan);
    } else if (plan->replays >= plan->revisit && !launch_profile_hook) {
        if (std::shared_ptr<Plan> next = revise_hook(trace, *plan)) {
            // Python ran: the cache may have changed.
            plan = std::move(next);
            if ((known = plans().find(trace.signature, hash))) *known = plan;
        }
    }
    return plan;
}

// Compiling makes many objects while the collector pauses. What it left behind is young, and is collected at the end:
// otherwise the program's next object would begin a collection, and if a full one is due, that takes as long as
// compiling a small function.
struct CollectYoung {
    bool due = false;
    ~CollectYoung() {
        if (!due) return;
        PyObject* gc = PyImport_ImportModule("gc");
        PyObject* done = gc ? PyObject_CallMethod(gc, "collect", "i", 0) : nullptr;
        if (!done) PyErr_Clear();
        Py_XDECREF(done);
        Py_XDECREF(gc);
    }
};

void flush_trace(Trace& trace, const char* reason, const Keep* keep = nullptr) {
    // All waiting is done before the trace is marked as running: two running traces that wait for each other would wait
    // for ever. While it waits, this one may grow or be run by another thread.
    while (trace.wait_until_idle() || (!trace.runner && release_readers(trace))) {}
    if (trace.empty()) {
        trace.clear();
        return;
    }
    if (trace.runner) fail("a recorded value is needed while it is being computed");
    if (!keep) trace.effects = true;  // a program that needs a value on its way can't be replayed as a whole
    CollectYoung young;
    Suspend suspend;
    struct Clear {
        Trace& trace;
        bool failed = true;
        ~Clear() {
            if (failed) {
                trace.abandon();
            } else {
                trace.clear();
                trace.runner = 0;
            }
        }
    } clear{trace};
    trace.runner = PyThread_get_thread_ident();
    trace.drop_unreachable();
    if (!trace.matters()) {
        // Nobody can see any of it. Errors that depend on shapes were raised while recording.
        clear.failed = false;
        return;
    }
    // The compiler is Python: a garbage collection within it would run finalizers that may want the very values at
    // hand.
    struct PauseCollector {
        int enabled = PyGC_Disable();
        ~PauseCollector() {
            if (enabled) PyGC_Enable();
        }
    } pause;
    bool hit = false;
    std::shared_ptr<Plan> plan = plan_of(trace, &hit);
    const char* why_recorded = keep ? (*keep)(trace, plan) : nullptr;
    if (flush_hook && reason) flush_hook(trace, *plan, keep ? end_of_function(why_recorded).c_str() : reason, hit);
    replay(trace, *plan);
    clear.failed = false;
    young.due = !hit && pause.enabled;
}

void flush_now(Trace& trace, const char* reason) { flush_trace(trace, reason); }

void run_at_once(Trace& trace) { flush_trace(trace, nullptr); }

void flush(const char* reason) {
    if (current) flush_trace(*current, reason);
}

std::string end_of_function(const char* why_recorded) {
    std::string reason = "the end of a function";
    return why_recorded ? reason + " that is recorded at every call: " + why_recorded : reason;
}

void freeze_at_flush(Trace& trace, const Keep& keep) { flush_trace(trace, "", &keep); }

PlanCacheInfo plan_cache_info() {
    const PlanCache& p = plans();
    return {p.hits, p.misses, p.evicted, p.size(), p.bytes, p.limit};
}
void clear_plan_cache() { plans().clear(); }
void set_plan_cache_limit(uint64_t bytes) {
    plans().limit = bytes;
    plans().shrink();
}
void forget_plans_of(uint64_t owner) { plans().forget(owner); }

namespace {

void materialize(Storage* storage) {
    Trace* trace = storage->pending->trace;
    if (trace) trace->wait_until_idle();
    if (!storage->pending) return;
    trace = storage->pending->trace;
    if (!trace) fail("this value was never computed: the recorded program it belongs to failed earlier");
    if (trace == current && current_tag.must)
        refuse_hook(observation ? observation : "an eager op",
                    "it needs a value in the middle of a function that is compiled as a whole");
    flush_trace(*trace, observation ? observation : "a value was needed by an op that runs eagerly");
}

void pending_died(Storage* storage) {
    if (Trace* trace = storage->pending->trace)
        trace->results[trace->nodes[storage->pending->node].first_result + storage->pending->result].storage = nullptr;
    delete storage->pending;
    storage->pending = nullptr;
}

// Reading and writing through a view of a recorded value, and x.copy_(y): the ops that only traces have.
// `region` params of a view of the whole value `base`.
void check_region(const Call& call) {
    const Tensor& base = call.in(0);
    const Dims &sizes = call.param(0).ints, &strides = call.param(1).ints;
    if (sizes.size() != strides.size() || !base.contiguous()) fail(call.op->name + ": not a view of a row-major value");
    auto [low, high] = element_span(sizes, strides, call.param(2).as_int());
    if (product(sizes) && (low < 0 || high > base.numel)) fail(call.op->name + ": the view is out of bounds");
}

void infer_view_read(Call& call) {
    check_region(call);
    call.compute = call.results[0].dtype = call.in(0).dtype;
    call.results[0].sizes = call.param(0).ints;
}

void infer_view_write(Call& call) {
    check_region(call);
    if (!(call.in(1).sizes == call.param(0).ints) || call.in(1).dtype != call.in(0).dtype)
        fail(call.op->name + ": the value does not fit the view");
    call.compute = call.results[0].dtype = call.in(0).dtype;
    call.results[0].sizes = call.in(0).sizes;
}

void infer_assign(Call& call) {
    call.compute = call.results[0].dtype = call.param(1).dtype;
    call.results[0].sizes = call.param(0).ints;
    if (const Tensor* source = call.operands[0].tensor;
        source && !(broadcast_shapes(source->sizes, call.param(0).ints) == call.param(0).ints))
        fail(call.op->name + ": a value of shape " + to_string(source->sizes) + " does not fit " +
             to_string(call.param(0).ints));
}

void view_read_kernel(Call& call) {
    static const OpDef* clone = find_op("_row_major");
    Ref<Tensor> view = Tensor::view(call.in(0), call.param(0).ints, call.param(1).ints,
                                    call.param(2).i + call.in(0).offset);
    Operand operand;
    operand.tensor = view.get();
    Call inner;
    inner.op = clone;
    inner.operands = &operand;
    inner.operand_count = 1;
    infer(inner);
    inner.outputs[0] = call.outputs[0];
    clone->cpu(inner);
}

void copy_into(Tensor& destination, const Tensor& source) {
    static const OpDef* copy = find_op("copy");
    Operand operands[2];
    operands[0].tensor = &destination;
    operands[1].tensor = const_cast<Tensor*>(&source);
    Call inner;
    inner.op = copy;
    inner.operands = operands;
    inner.operand_count = 2;
    infer(inner);
    inner.outputs[0] = &destination;
    copy->cpu(inner);
}

void view_write_kernel(Call& call) {
    Tensor& out = *call.outputs[0];
    Ref<Tensor> flat_out = Tensor::make(out.storage, out.dtype, call.in(0).sizes, contiguous_strides(call.in(0).sizes),
                                        out.offset);
    copy_into(*flat_out, call.in(0));
    Ref<Tensor> region = Tensor::view(out, call.param(0).ints, call.param(1).ints, call.param(2).i + out.offset);
    copy_into(*region, call.in(1));
}

void assign_kernel(Call& call) {
    if (!call.operands[0].is_scalar) return copy_into(*call.outputs[0], call.in(0));
    static const OpDef* fill = find_op("fill");
    Operand destination;
    destination.tensor = call.outputs[0];
    const Scalar& scalar = call.operands[0].scalar;
    Value value = Value::of(scalar);
    Call inner;
    inner.op = fill;
    inner.operands = &destination;
    inner.operand_count = 1;
    inner.params = &value;
    inner.param_count = 1;
    infer(inner);
    inner.outputs[0] = call.outputs[0];
    fill->cpu(inner);
}

const RegisterNative registered{Takes::Any,
                                {{"_view_read", infer_view_read, view_read_kernel},
                                 {"_view_write", infer_view_write, view_write_kernel},
                                 {"_assign", infer_assign, assign_kernel}}};

}  // namespace

void install() {
    materialize_hook = materialize;
    pending_died_hook = pending_died;
    before_write_hook = [](Storage* storage) { keep_leaves(storage, nullptr); };
    capture_source_hook = capture_source;
    install_jit_device();
    install_gpu();
}

}  // namespace mt::trace
