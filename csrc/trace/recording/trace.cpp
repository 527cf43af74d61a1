// How calls become nodes of a trace.
#include "trace/recording/trace.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "autograd/engine.h"
#include "core/error.h"
#include "core/memory/allocator.h"
#include "trace/plan/plan.h"
#include "trace/plan/stopped.h"

namespace mt::trace {

const OpDef& view_read_op() {
    static const OpDef* op = find_op("_view_read");
    return *op;
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

// With the first words of the node in the signature.
uint32_t Trace::add_node(const OpDef& op, size_t operand_count, Device device) {
    const Tag& tag = current_tag;
    sign_call(op, operand_count, device, tag);
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
            materialize_callback(storage);
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
    if (current_tag.must) refuse_callback(call.op->name.c_str(), "");
    note_beyond_replay("an op runs eagerly on its way");
    if (eager_callback) eager_callback(call.op->name.c_str());
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

}  // namespace mt::trace
