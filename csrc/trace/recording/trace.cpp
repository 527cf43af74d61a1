// How calls become nodes of a trace, and the words that tell one trace from another.
#include "trace/recording/trace.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/engine.h"
#include "core/error.h"
#include "core/memory/allocator.h"
#include "dispatch/settings.h"
#include "trace/plan/plan.h"
#include "trace/plan/stopped.h"

namespace mt::trace {

const OpDef& view_read_op() {
    static const OpDef* op = find_op("_view_read");
    return *op;
}

bool is_baked(const Scalar& s) {
    if (s.place) return false;
    if (s.tag == Scalar::Complex) return true;  // rare, and launches take numbers of 8 bytes
    if (s.tag != Scalar::Float) return s.tag == Scalar::Bool || (s.i >= -3 && s.i <= 3);
    // What the kernels, pow above all, treat apart.
    return s.f == 0.0 || s.f == 1.0 || s.f == -1.0 || s.f == 2.0 || s.f == -2.0 || s.f == 0.5 || s.f == -0.5;
}

namespace {

const OpDef& view_write_op() {
    static const OpDef* op = find_op("_view_write");
    return *op;
}

// With what tensors still reach behind a storage that was made shorter.
int64_t storage_elements(const Storage& storage, DType dtype) {
    return static_cast<int64_t>(std::max(storage.nbytes, storage.held) / itemsize(dtype));
}

// Whether `tensor` shows its whole storage in order.
bool covers_storage(const Tensor& tensor) {
    return tensor.offset == 0 && tensor.numel == storage_elements(*tensor.storage, tensor.dtype) && tensor.contiguous();
}

uint64_t word_of(Device device) {
    if (device.type == DeviceType::CPU) return 0;
    return static_cast<uint64_t>(device.type) << 8 | static_cast<uint8_t>(device.index);
}

uint64_t bits_of(const Scalar& s) {
    uint64_t word;
    std::memcpy(&word, &s.i, sizeof word);
    return word;
}

}  // namespace

Trace::Trace() : input_table_(64, -1) {}

Trace::~Trace() {
    clear();
    Py_XDECREF(source_.code);
}

void Trace::clear() {
    stopped.reset();
    for (ResultInfo& r : results) {
        if (!r.storage) continue;
        delete r.storage->pending;
        r.storage->pending = nullptr;
    }
    function_nodes += nodes.size();
    follows = false;
    promised_ = 0;
    Recorded over = std::exchange(static_cast<Recorded&>(*this), std::move(spare_));
    const std::optional<Following::Start> followed = following_.end(over);
    places.clear();
    scopes = 0;
    calls_ = 0;
    gated = is_program_;
    input_table_.assign(64, -1);
    repetition_.clear();
    ended_as_part_ = false;
    auto snapshots = std::move(snapshots_);
    snapshots_.clear();
    // Last, since code objects and the owners of storages may run code when they die.
    for (TraceNode& node : over.nodes) Py_XDECREF(node.source.code);
    for (const Snapshot& snapshot : snapshots) Py_XDECREF(snapshot.place.code);
    for (TraceInput& input : over.inputs)
        if (input.storage && counts_readers) --input.storage->readers;
    for (TraceInput& input : over.inputs) input.storage.reset();
    if (followed) following_.keep(*followed, over);
    over.clear();
    spare_ = std::move(over);
}

ValueRef Trace::read(Tensor& tensor) {
    Storage& storage = *tensor.storage;
    if (storage.pending) {
        const Pending& pending = *storage.pending;
        ValueRef base{RefKind::Node, static_cast<uint8_t>(pending.result), pending.node};
        if (tensor.offset == 0 && tensor.sizes == pending.sizes && tensor.contiguous()) return base;
        return append(view_read_op(), {base},
                      {value_of(tensor.sizes), value_of(tensor.strides), value_of(tensor.offset)}, tensor.dtype,
                      tensor.sizes, storage.device);
    }
    if (wrote_shared && storage.external() && std::any_of(results.begin(), results.end(), [&](const ResultInfo& r) {
            return r.storage && r.storage->overlaps(storage);
        }))
        check_open("a read of memory that was written through another tensor");
    if (storage.external() && !whole_function) {
        // NumPy or another framework may change these bytes before the flush: what the program reads is what is there
        // now.
        return input_of_copy(tensor);
    }
    return input_of(tensor.storage, tensor.offset, tensor.sizes, tensor.strides, tensor.dtype);
}

ValueRef Trace::add_operand(const Operand& operand) {
    if (operand.tensor) return read(*operand.tensor);
    if (!operand.is_scalar) return {};
    scalars.push_back({operand.scalar, is_baked(operand.scalar)});
    return {RefKind::Scalar, 0, static_cast<uint32_t>(scalars.size() - 1)};
}

void Trace::push_operand(ValueRef input) {
    operands.push_back(input);
    if (input.kind != RefKind::Scalar) {
        signature.push_back(input.word());
        return;
    }
    const ScalarInput& scalar = scalars[input.index];
    signature.push_back(input.word() | static_cast<uint64_t>(scalar.baked) << 56 |
                        static_cast<uint64_t>(scalar.scalar.tag) << 57);
    if (!scalar.baked) return;
    signature.push_back(bits_of(scalar.scalar));
    if (scalar.scalar.tag == Scalar::Complex) signature.push_back(__builtin_bit_cast(uint64_t, scalar.scalar.imag));
}

void Trace::push_value(const Value& value) {
    params.push_back(value);
    signature.push_back(static_cast<uint64_t>(value.tag) << 32 | static_cast<uint64_t>(value.ints.size()));
    if (value.tag == Value::Type) signature.push_back(static_cast<uint64_t>(value.dtype));
    else if (value.tag == Value::Ints)
        for (int64_t i : value.ints) signature.push_back(static_cast<uint64_t>(i));
    else if (value.tag == Value::Dev) signature.push_back(word_of(value.device));
    else signature.push_back(static_cast<uint64_t>(value.i));
    if (value.tag == Value::Complex) signature.push_back(__builtin_bit_cast(uint64_t, value.imag));
}

namespace {

uint64_t word_of(const OpDef& op, size_t operand_count, const Tag& tag) {
    return static_cast<uint64_t>(op.id) << 48 | static_cast<uint64_t>(operand_count & 0xFFF) << 36 |
           static_cast<uint64_t>(static_cast<uint8_t>(tag.compile + 1)) << 33 | static_cast<uint64_t>(tag.must) << 32 |
           static_cast<uint32_t>(tag.scope);
}

}  // namespace

// With the first words of the node in the signature.
uint32_t Trace::add_node(const OpDef& op, size_t operand_count, Device device) {
    const Tag& tag = current_tag;
    signature.push_back(word_of(op, operand_count, tag));
    // No op has a number as high as this.
    if (device.type != DeviceType::CPU) signature.push_back(uint64_t{0xFFFF} << 48 | word_of(device));
    TraceNode& node = nodes.emplace_back();
    node.device = device;
    node.source = {Py_XNewRef(source_.code), source_.lasti};
    node.op = &op;
    node.first_operand = static_cast<uint32_t>(operands.size());
    node.first_param = static_cast<uint32_t>(params.size());
    node.first_result = static_cast<uint32_t>(results.size());
    node.tag = tag;
    return static_cast<uint32_t>(nodes.size() - 1);
}

void Trace::add_result(DType dtype, Device device, const Dims& sizes) {
    ResultInfo& result = results.emplace_back();
    result.dtype = dtype;
    result.device = device;
    result.sizes = sizes;
    result.storage = nullptr;
    result.before = {};
}

// What inference made of the call, and all it had for that beside the operands and parameters.
void Trace::sign_results(TraceNode& node) {
    static_assert(kMaxResults <= 3 && static_cast<size_t>(DType::Count) < 0xFF);
    uint64_t word = uint64_t{node.ambient.word()} << 32 | static_cast<uint64_t>(node.compute);
    for (uint32_t i = 0; i < node.result_count; ++i)
        word |= (static_cast<uint64_t>(results[node.first_result + i].dtype) + 1) << (8 * i + 8);
    signature.push_back(word);
    if (node.op->python_infer) {
        // A rule in Python may have read anything.
        for (uint32_t i = 0; i < node.result_count; ++i) {
            const Dims& sizes = results[node.first_result + i].sizes;
            signature.push_back(sizes.size());
            for (int64_t size : sizes) signature.push_back(static_cast<uint64_t>(size));
        }
    }
    node.last_word = static_cast<uint32_t>(signature.size());
}

ValueRef Trace::append(const OpDef& op, std::initializer_list<ValueRef> refs, std::initializer_list<Value> values,
                       DType dtype, const Dims& sizes, Device device) {
    uint32_t index = add_node(op, refs.size(), device);
    for (const ValueRef& ref : refs) push_operand(ref);
    for (const Value& value : values) push_value(value);
    TraceNode& node = nodes[index];
    node.operand_count = static_cast<uint32_t>(refs.size());
    node.param_count = static_cast<uint32_t>(values.size());
    node.result_count = 1;
    node.compute = dtype;
    add_result(dtype, device, sizes);
    sign_results(node);
    return {RefKind::Node, 0, index};
}

// Whether the call is recorded the same way whenever it has the same operands, parameters and ambient settings, without
// anything that only inference knows.
static bool is_repeatable(const Call& call) {
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor; t && t->wrapped_number) return false;
    return call.op->kind != Kind::Random && !call.op->python_infer && call.device.type == DeviceType::CPU &&
           hash_of(call.params, call.param_count) == call.given;
}

void Trace::record(Call& call, uint32_t* node_index) {
    SmallVector<ValueRef, 8> refs;
    for (size_t i = 0; i < call.operand_count; ++i) refs.push_back(add_operand(call.operands[i]));
    uint32_t index = add_node(*call.op, refs.size(), call.device);
    if (index + 1 >= Repetition::kNodes) gated = is_program_;  // operands may have been nodes too
    for (const ValueRef& ref : refs) push_operand(ref);
    for (size_t i = 0; i < call.param_count; ++i) push_value(call.params[i]);
    TraceNode& node = nodes[index];
    node.operand_count = static_cast<uint32_t>(refs.size());
    node.param_count = static_cast<uint32_t>(call.param_count);
    node.result_count = static_cast<uint32_t>(call.result_count);
    node.compute = call.compute;
    node.ambient = call.ambient;
    node.called = backward_id() == 0;
    node.repeatable = is_repeatable(call);
    node.seed = call.seed;
    node.philox_offset = call.philox_offset;
    if (call.op->advance && call.philox_offset == kStreamPlace) places.push_back(find_place(call.seed));
    for (size_t i = 0; i < call.result_count; ++i)
        add_result(call.results[i].dtype, call.device, call.results[i].sizes);
    sign_results(node);
    *node_index = index;
}

void Trace::bind(Storage* storage, ValueRef value, const Dims& sizes) {
    ResultInfo& bound = results[nodes[value.index].first_result + value.result];
    if (!storage->pending) {
        if (storage->has_memory()) bound.before = input_over(storage);
        storage->pending = new Pending;
    } else {
        const Pending& old = *storage->pending;
        bound.before = {RefKind::Node, static_cast<uint8_t>(old.result), old.node};
        results[nodes[old.node].first_result + old.result].storage = nullptr;
    }
    storage->pending->trace = this;
    storage->pending->node = value.index;
    storage->pending->result = value.result;
    storage->pending->sizes = sizes;
    bound.storage = storage;
}

// Compiled functions are one trace, whatever they do, and so are calls of others that are known to be short: programs
// can be kept of them. A pass of gradients is a part of a round.
bool Trace::ends_before(const Call& call, const SourceRef& source) {
    if (uncut && function_nodes + nodes.size() < kShortCall) return false;
    return owner == 0 && !whole_function && !current_tag.must && !backward_id() &&
           repetition_.ends(*this, *call.op, source);
}

void Trace::observe(const char* what) {
    if (eager_region_ && !end_eager_region()) return;
    if (repetition_.after_part() && !current_tag.must) flush_now(*this, what);
}

void Trace::set_program(bool is_program) {
    wake();
    policy_.start();
    gated = is_program_ = is_program;
}

void Trace::wake() {
    if (!eager_region_) return;
    eager_region_ = gated = false;
    eager_budget = 0;
    capture_sources = true;
    policy_.forget();
}

// A value is observed while the policy is paused: false if nothing changes by that.
bool Trace::end_eager_region() {
    if (!policy_.observe(eager_budget)) return false;
    eager_budget = 0;
    eager_region_ = false;
    gated = is_program_;
    capture_sources = true;
    return true;
}

bool Trace::goes_by_policy() const {
    return is_program_ && nested == 0 && owner == 0 && !whole_function && may_measure();
}

// A part of a loop is over: it runs now.
void Trace::end_part() {
    ended_as_part_ = was_cut = true;
    flush_now(*this, "the trace repeats itself");
    repetition_.begin_part();
}

bool Trace::asks_policy(Call& call, const SourceRef& at) {
    eager_budget = policy_.begin(call, at);
    eager_region_ = gated = eager_budget != 0;
    if (eager_region_) capture_sources = flush_hook != nullptr;  // for the account
    return eager_region_;
}

bool Trace::may_begin_call() const {
    return goes_by_policy() && !runner && !(eager_region_ && policy_.is_paused()) && current_tag.compile == -1 &&
           !current_tag.must && !current_tag.scope && !flush_hook && !launch_profile_hook && !profile_hook &&
           !function_log && !vmap_depth && !thread_settings.inference_mode;
}

bool Trace::end_run(const char* why) {
    if (eager_region_ && !end_eager_region()) return false;
    if (!nodes.empty() || repetition_.after_part()) flush_now(*this, why);
    return current == this && nodes.empty() && !eager_region_ && !runner;
}

Trace::CallRuns Trace::begin_call(const OpDef& kind, uint64_t work) {
    SourceRef at;
    capture_source(&at);  // makes Python objects
    const PyRef code(at.code);
    if (!code || runner || eager_region_ || !nodes.empty()) return CallRuns::AsEver;
    const uint32_t count = policy_.begin_call(kind, work, at);
    if (!count) {
        gated = false;  // what is recorded is this run
        return CallRuns::Recorded;
    }
    if (!policy_.is_paused()) return CallRuns::Eagerly;
    eager_budget = count;
    eager_region_ = gated = true;
    capture_sources = false;
    return CallRuns::AsEver;
}

bool Trace::prefers_eager(Call& call) {
    const bool part_ran = eager_region_ && policy_.counts_calls();
    if (eager_region_) {
        eager_budget = policy_.outlast();
        if (!eager_budget && backward_id()) eager_budget = Repetition::kNodes;  // no run begins in the midst of a pass
        if (eager_budget) return true;
        wake();
    }
    gated = false;  // until it is empty again, or long
    if (!goes_by_policy() || current_tag.compile != -1 || current_tag.must || runner) return false;
    const bool is_long = nodes.size() >= Repetition::kNodes;
    if (is_long) gated = true;
    else if (!nodes.empty() || (repetition_.after_part() && !part_ran)) return false;
    struct Position {
        SourceRef source;
        ~Position() { Py_XDECREF(source.code); }
    } position;
    capture_source(&position.source, policy_.expected_code());  // makes Python objects
    if (!position.source.code || runner || eager_region_) return false;
    if (is_long) {
        if (!ends_before(call, position.source)) return false;
        const SourceRef at = position.source;
        end_part();
        infer(call);  // of what the operands are now
        if (runner || eager_region_ || !nodes.empty()) return false;
        return asks_policy(call, at);
    }
    return nodes.empty() && asks_policy(call, position.source);
}

// Everything that may let other threads run, collect garbage or flush happens here, before the call is recorded: the
// nodes that its operands refer to would be gone. Afterwards nothing waits for another trace, and the position is
// noted.
void Trace::settle(Call& call, Tensor* destination) {
    struct Position {
        SourceRef source;
        ~Position() { Py_XDECREF(source.code); }
    } position;
    capture_source(&position.source, source_.code);  // makes Python objects
    auto foreign = [&]() -> Storage* {
        auto waits = [&](Tensor* t) { return t && t->storage->pending && t->storage->pending->trace != this; };
        for (size_t i = 0; i < call.operand_count; ++i)
            if (waits(call.operands[i].tensor)) return call.operands[i].tensor->storage.get();
        return waits(destination) ? destination->storage.get() : nullptr;
    };
    bool others_ran = false;
    for (;;) {
        if (wait_until_idle()) {
            others_ran = true;
        } else if (nodes.size() >= kMaxNodes) {
            flush_now(*this, "the size cap of a trace");
            others_ran = true;
        } else if (!goes_by_policy() && ends_before(call, position.source)) {
            end_part();
            others_ran = true;
        } else if (Storage* storage = foreign()) {
            Ref<Storage> held = Ref<Storage>::borrow(storage);
            materialize_hook(storage);
            others_ran = true;
        } else {
            break;
        }
    }
    if (others_ran) infer(call);  // of what the operands are now
    if (others_ran && destination && !(call.results[0].sizes == destination->sizes))
        fail("in-place " + call.op->name + ": another thread changed the tensor's shape meanwhile");
    std::swap(source_, position.source);
}

void Trace::end_call() {
    if (nodes.empty()) gated = is_program_;
}

// Throws if there can't be memory for what it gives.
static void require_possible_results(const Call& call) {
    for (size_t i = 0; i < call.result_count; ++i) {
        const size_t bytes = byte_count(call.results[i].sizes, call.results[i].dtype);
        if (!on_gpu(call.device)) require_possible(bytes);
    }
}

static Value value_of_type(DType dtype) {
    Value type;
    type.tag = Value::Type;
    type.dtype = dtype;
    return type;
}

// What a tensor holds that is a copy of another, or of one number.
ValueRef Trace::assigned(ValueRef source, DType dtype, const Dims& sizes, Device device) {
    static const OpDef* assign_op = find_op("_assign");
    return append(*assign_op, {source}, {value_of(sizes), value_of_type(dtype)}, dtype, sizes, device);
}

// A tensor that is all of a new value. There must be memory for it (require_possible_results).
Ref<Tensor> Trace::pending_tensor(ValueRef value, DType dtype, Device device, const Dims& sizes) {
    Ref<Tensor> made = Tensor::unbacked(sizes, dtype, device);
    Storage* storage = made->storage.get();
    auto* pending = new Pending;
    pending->trace = this;
    pending->node = value.index;
    pending->result = value.result;
    pending->sizes = sizes;
    storage->pending = pending;
    results[nodes[value.index].first_result + value.result].storage = storage;
    return made;
}

void Trace::run(Call& call, Ref<Tensor>* out) {
    static const OpDef* full = find_op("full");
    wake();
    settle(call, nullptr);
    ++calls_;
    require_possible_results(call);
    if (call.op == full && !is_baked(call.params[1].as_scalar())) {
        // As a parameter it would be part of the signature, and another number another program.
        const ResultMeta& meta = call.results[0];
        scalars.push_back({call.params[1].as_scalar(), false});
        const ValueRef number{RefKind::Scalar, 0, static_cast<uint32_t>(scalars.size() - 1)};
        const ValueRef value = assigned(number, meta.dtype, meta.sizes, call.device);
        out[0] = pending_tensor(value, meta.dtype, call.device, meta.sizes);
        note_recorded(call);
        return;
    }
    uint32_t index;
    record(call, &index);
    for (size_t i = 0; i < call.result_count; ++i) {
        const ResultMeta& meta = call.results[i];
        out[i] = pending_tensor({RefKind::Node, static_cast<uint8_t>(i), index}, meta.dtype, call.device, meta.sizes);
    }
    note_recorded(call);
}

void Trace::on_fallback(const Call& call) {
    if (eager_region_) end_eager_region();  // recorded, its operands would be computed now
    if (current_tag.must) refuse_hook(call.op->name.c_str(), "");
    note_beyond_replay("an op runs eagerly on its way");
    if (eager_hook) eager_hook(call.op->name.c_str());
}

ValueRef Trace::whole(Tensor& tensor, Dims* base_sizes) {
    Storage& storage = *tensor.storage;
    if (storage.pending) {
        *base_sizes = storage.pending->sizes;
        return {RefKind::Node, static_cast<uint8_t>(storage.pending->result), storage.pending->node};
    }
    *base_sizes = Dims{storage_elements(storage, tensor.dtype)};
    return input_of(tensor.storage, 0, *base_sizes, Dims{1}, tensor.dtype);
}

void Trace::assign(Tensor& destination, ValueRef value) {
    if (covers_storage(destination)) {
        bind(destination.storage.get(), value, destination.sizes);
        return;
    }
    Dims base_sizes;
    ValueRef base = whole(destination, &base_sizes);
    ValueRef written = append(
        view_write_op(), {base, value},
        {value_of(destination.sizes), value_of(destination.strides), value_of(destination.offset)}, destination.dtype,
        base_sizes, destination.device());
    bind(destination.storage.get(), written, base_sizes);
}

void Trace::run_inplace(Call& call, Tensor& destination) {
    static const OpDef *copy = find_op("copy"), *fill = find_op("fill"), *cast = find_op("cast");
    wake();
    settle(call, &destination);
    ++calls_;
    require_possible_results(call);
    ValueRef value;
    if (call.op == copy || call.op == fill) {
        Operand number;
        number.is_scalar = true;
        if (call.op == fill) number.scalar = call.params[0].as_scalar();
        ValueRef source = add_operand(call.op == copy ? call.operands[1] : number);
        value = assigned(source, destination.dtype, destination.sizes, destination.device());
    } else {
        uint32_t index;
        record(call, &index);
        value = {RefKind::Node, 0, index};
        if (call.results[0].dtype != destination.dtype)
            value = append(*cast, {value}, {value_of_type(destination.dtype)}, destination.dtype, destination.sizes,
                           destination.device());
    }
    assign(destination, value);
    note_recorded(call);
    if (!destination.storage->external()) return;
    if (whole_function) {
        wrote_shared = true;
        if (std::any_of(inputs.begin(), inputs.end(),
                        [&](const TraceInput& input) { return input.storage->overlaps(*destination.storage); }))
            check_open("a write to memory that was read through another tensor");
    } else flush_now(*this, "a write to memory that is shared outside the framework");
}

std::vector<ValueRef> Trace::live_results() const {
    std::vector<ValueRef> live;
    for (size_t n = 0; n < nodes.size(); ++n)
        for (uint32_t r = 0; r < nodes[n].result_count; ++r)
            if (results[nodes[n].first_result + r].storage)
                live.push_back({RefKind::Node, static_cast<uint8_t>(r), static_cast<uint32_t>(n)});
    return live;
}

bool Trace::matters() const {
    return std::any_of(results.begin(), results.end(), [](const ResultInfo& r) { return r.storage; }) ||
           std::any_of(nodes.begin(), nodes.end(), fallible);
}

bool Trace::wait_until_idle() const {
    bool waited = false;
    while (__builtin_expect(runner != 0 && runner != PyThread_get_thread_ident(), 0)) {
        ReleaseGil gil;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        waited = true;
    }
    return waited;
}

void Trace::give_up(ResultInfo& result, std::shared_ptr<const std::string> why) {
    Pending* pending = result.storage->pending;
    pending->trace = nullptr;
    pending->why = std::move(why);
    result.storage = nullptr;
}

void Trace::abandon() {
    for (ResultInfo& result : results)
        if (result.storage) give_up(result, nullptr);
    clear();
    runner = 0;
}

void Trace::take(Trace& other) {
    std::swap(static_cast<Recorded&>(*this), static_cast<Recorded&>(other));
    std::swap(input_table_, other.input_table_);
    std::swap(places, other.places);
    std::swap(snapshots_, other.snapshots_);
    std::swap(stopped, other.stopped);
    for (Trace* trace : {this, &other}) {
        trace->following_.forget();
        trace->follows = false;
    }
    whole_function = other.whole_function;
    owner = other.owner;
    for (ResultInfo& result : results)
        if (result.storage) result.storage->pending->trace = this;
}

void Trace::copy_recording(const Trace& other, std::vector<TraceInput> its_inputs) {
    counts_readers = false;
    nodes = other.nodes;
    for (TraceNode& node : nodes) Py_XINCREF(node.source.code);
    operands = other.operands;
    params = other.params;
    results = other.results;
    for (ResultInfo& result : results) result.storage = nullptr;
    inputs = std::move(its_inputs);
    scalars = other.scalars;
}

void Trace::discard() {
    for (ResultInfo& result : results) {
        if (!result.storage || result.storage->has_memory()) continue;
        give_up(result, nullptr);
    }
    clear();
}

void Trace::finish_signature() {
    signature.push_back(~uint64_t{0});
    std::unordered_map<const Storage*, size_t> first;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const TraceInput& input = inputs[i];
        // Which earlier input shares the storage: writes to it must wait for the reads of both.
        size_t same = i;
        if (auto [known, fresh] = first.try_emplace(input.storage.get(), i); !fresh) same = known->second;
        signature.push_back(static_cast<uint64_t>(input.dtype) << 56 | static_cast<uint64_t>(input.sizes.size()) << 48 |
                            word_of(input.storage->device) << 32 | same);
        for (int64_t size : input.sizes) signature.push_back(static_cast<uint64_t>(size));
        for (int64_t stride : input.strides) signature.push_back(static_cast<uint64_t>(stride));
    }
    signature.push_back(~uint64_t{1});
    for (ValueRef value : live_results()) {
        signature.push_back(value.word());
        const Storage* storage = results[nodes[value.index].first_result + value.result].storage;
        uint64_t home = ~uint64_t{0};
        if (storage->has_memory())
            if (auto known = first.find(storage); known != first.end()) home = known->second;
        signature.push_back(home);
    }
    signature.push_back(options_id());
    signature.push_back(owner);
}

}  // namespace mt::trace
