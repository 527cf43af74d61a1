#include "trace/trace.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/engine.h"
#include "core/allocator.h"
#include "core/error.h"
#include "trace/plan.h"

namespace mt::trace {

MT_THREAD_LOCAL Trace* current = nullptr;
MT_THREAD_LOCAL Tag current_tag;

namespace {

MT_THREAD_LOCAL int recording_depth = 0;

// The thread's own trace. It outlives the thread: its values may be read later, and the GIL isn't held when a thread
// ends.
struct ThreadTrace {
    Trace* trace = nullptr;
    ~ThreadTrace() {
        if (trace) trace->orphaned.store(true, std::memory_order_release);
    }
};
thread_local ThreadTrace thread_trace;

// As many as threads ever recorded at the same time.
std::vector<Trace*>& all_traces() {
    static auto* traces = new std::vector<Trace*>;
    return *traces;
}

const OpDef& view_read_op() {
    static const OpDef* op = find_op("_view_read");
    return *op;
}
const OpDef& view_write_op() {
    static const OpDef* op = find_op("_view_write");
    return *op;
}

constexpr int32_t kGradientScope = 1 << 15, kSeparateGradients = 1 << 30;

uint64_t word_of(const Tag& tag) {
    return static_cast<uint64_t>(static_cast<uint8_t>(tag.compile)) << 40 | static_cast<uint64_t>(tag.must) << 32 |
           static_cast<uint32_t>(tag.scope);
}
Tag tag_of(uint64_t word) {
    return {static_cast<int8_t>(word >> 40), (word >> 32 & 1) != 0, static_cast<int32_t>(word)};
}

// A formula's ops belong to the scope of the forward call, unless something is said of them where backward runs.
uint64_t begin_formula(uint64_t mark) {
    uint64_t previous = word_of(current_tag);
    Tag tag = tag_of(mark);
    if (current_tag.compile != -1) return previous;
    tag.must = false;
    if (tag.scope & kSeparateGradients) tag.scope |= kGradientScope;
    current_tag = tag;
    return previous;
}
void end_formula(uint64_t previous) { current_tag = tag_of(previous); }

// With what tensors still reach behind a storage that was made shorter.
int64_t storage_elements(const Storage& storage, DType dtype) {
    return static_cast<int64_t>(std::max(storage.nbytes, storage.held) / itemsize(dtype));
}

// Whether `tensor` shows its whole storage in order.
bool covers_storage(const Tensor& tensor) {
    return tensor.offset == 0 && tensor.numel == storage_elements(*tensor.storage, tensor.dtype) && tensor.contiguous();
}

bool is_baked(const Scalar& s) {
    if (s.tag == Scalar::Complex) return true;  // rare, and launches take numbers of 8 bytes
    if (s.tag != Scalar::Float) return s.tag == Scalar::Bool || (s.i >= -3 && s.i <= 3);
    // What the kernels, pow above all, treat apart.
    return s.f == 0.0 || s.f == 1.0 || s.f == -1.0 || s.f == 2.0 || s.f == -2.0 || s.f == 0.5 || s.f == -0.5;
}

uint64_t bits_of(const Scalar& s) {
    uint64_t word;
    std::memcpy(&word, &s.i, sizeof word);
    return word;
}

}  // namespace

void set_tag(const Tag& tag) {
    current_tag = tag;
    // What must be compiled is a function as a whole, not what becomes of its results.
    call_mark = tag.compile == -1 || tag.must ? 0 : word_of(tag);
    begin_formula_hook = begin_formula;
    end_formula_hook = end_formula;
}

Trace::Trace() : leaf_table_(64, -1) {}

Trace::~Trace() {
    clear();
    Py_XDECREF(source_.code);
}

void Trace::clear() {
    for (ResultInfo& r : results) {
        if (!r.storage) continue;
        delete r.storage->pending;
        r.storage->pending = nullptr;
    }
    std::vector<TraceNode> dying_nodes = std::exchange(nodes, std::move(spare_nodes_));
    operands.clear();
    params.clear();
    results.clear();
    scalars.clear();
    signature.clear();
    scopes = 0;
    leaf_table_.assign(64, -1);
    repetition_.clear();
    ended_as_part_ = false;
    auto snapshots = std::move(snapshots_);
    snapshots_.clear();
    std::vector<Leaf> dying = std::move(leaves);
    leaves.clear();
    // Last, since code objects and the owners of storages may run code when they die.
    for (TraceNode& node : dying_nodes) Py_XDECREF(node.source.code);
    for (const Snapshot& snapshot : snapshots) Py_XDECREF(snapshot.place.code);
    dying_nodes.clear();
    if (spare_nodes_.capacity() < dying_nodes.capacity()) spare_nodes_ = std::move(dying_nodes);
    for (Leaf& leaf : dying)
        if (leaf.storage && counts_readers) --leaf.storage->readers;
    dying.clear();
}

ValueRef Trace::leaf_of(const Ref<Storage>& storage, int64_t offset, const Dims& sizes, const Dims& strides,
                        DType dtype) {
    if (leaves.size() * 2 >= leaf_table_.size()) {
        leaf_table_.assign(leaf_table_.size() * 2, -1);
        for (size_t i = 0; i < leaves.size(); ++i) {
            size_t at = (reinterpret_cast<uintptr_t>(leaves[i].storage.get()) >> 5) & (leaf_table_.size() - 1);
            while (leaf_table_[at] >= 0) at = (at + 1) & (leaf_table_.size() - 1);
            leaf_table_[at] = static_cast<int32_t>(i);
        }
    }
    size_t at = (reinterpret_cast<uintptr_t>(storage.get()) >> 5) & (leaf_table_.size() - 1);
    for (; leaf_table_[at] >= 0; at = (at + 1) & (leaf_table_.size() - 1)) {
        const Leaf& leaf = leaves[static_cast<size_t>(leaf_table_[at])];
        if (leaf.is(storage, offset, sizes, strides, dtype))
            return {RefKind::Leaf, 0, static_cast<uint32_t>(leaf_table_[at])};
    }
    leaf_table_[at] = static_cast<int32_t>(leaves.size());
    ++storage->readers;
    leaves.push_back({storage, offset, sizes, strides, dtype});
    return {RefKind::Leaf, 0, static_cast<uint32_t>(leaves.size() - 1)};
}

namespace {

// The dimensions along which there are different elements, from the largest stride to the smallest.
std::vector<size_t> dims_by_stride(const Dims& sizes, const Dims& strides) {
    std::vector<size_t> order;
    for (size_t d = 0; d < sizes.size(); ++d)
        if (strides[d] != 0 && sizes[d] != 1) order.push_back(d);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return std::abs(strides[a]) > std::abs(strides[b]); });
    return order;
}

// Strides without gaps, in the order of the given ones; what is repeated stays repeated.
Dims packed_strides(const Dims& sizes, const Dims& strides) {
    const std::vector<size_t> order = dims_by_stride(sizes, strides);
    Dims packed = strides;
    int64_t step = 1;
    for (size_t k = order.size(); k-- > 0;) {
        packed[order[k]] = step;
        step *= sizes[order[k]];
    }
    return packed;
}

// The different elements of a tensor, as packed_strides lays them out. Plain loops: nothing here may run other code.
void pack(char* to, const Tensor& tensor) {
    const std::vector<size_t> order = dims_by_stride(tensor.sizes, tensor.strides);
    const size_t item = itemsize(tensor.dtype);
    size_t depth = order.size(), run = item;
    if (depth > 0 && tensor.strides[order[depth - 1]] == 1) run *= static_cast<size_t>(tensor.sizes[order[--depth]]);
    std::vector<int64_t> at(depth, 0);
    for (const char* from = static_cast<const char*>(tensor.data());; to += run) {
        std::memcpy(to, from, run);
        size_t k = depth;
        for (; k > 0; --k) {
            const int64_t step = tensor.strides[order[k - 1]] * static_cast<int64_t>(item);
            const int64_t size = tensor.sizes[order[k - 1]];
            if (++at[k - 1] < size) {
                from += step;
                break;
            }
            at[k - 1] = 0;
            from -= step * (size - 1);
        }
        if (k == 0) return;
    }
}

}  // namespace

ValueRef Trace::leaf_of_copy(Tensor& tensor) {
    if (tensor.numel == 0) return leaf_of(tensor.storage, tensor.offset, tensor.sizes, tensor.strides, tensor.dtype);
    const auto [low, high] = element_span(tensor.sizes, tensor.strides, tensor.offset);
    const auto item = static_cast<int64_t>(itemsize(tensor.dtype));
    int64_t distinct = 1;
    for (size_t d = 0; d < tensor.sizes.size(); ++d) distinct *= tensor.strides[d] == 0 ? 1 : tensor.sizes[d];
    // A view with large gaps is copied without them.
    const bool packed = high - low > 2 * distinct && !on_gpu(tensor.device());
    const Dims strides = packed ? packed_strides(tensor.sizes, tensor.strides) : tensor.strides;
    const int64_t offset = packed ? 0 : tensor.offset - low;
    auto copy = [&] {
        Ref<Storage> made = Storage::allocate(static_cast<size_t>((packed ? distinct : high - low) * item),
                                              tensor.storage->device);
        if (packed) pack(static_cast<char*>(made->data), tensor);
        else copy_bytes(made->place(), tensor.storage->place().plus(low * item), made->nbytes);
        return made;
    };
    auto unchanged = [&](const Storage& taken) {
        if (on_gpu(taken.device)) return false;
        if (packed) return std::memcmp(taken.data, copy()->data, taken.nbytes) == 0;
        return std::memcmp(taken.data, static_cast<char*>(tensor.storage->data) + low * item, taken.nbytes) == 0;
    };
    for (const Snapshot& known : snapshots_)
        if (known.source.is(tensor.storage, tensor.offset, tensor.sizes, tensor.strides, tensor.dtype) &&
            unchanged(*known.copy))
            return leaf_of(known.copy, offset, tensor.sizes, strides, tensor.dtype);
    snapshots_.push_back({{tensor.storage, tensor.offset, tensor.sizes, tensor.strides, tensor.dtype},
                          copy(),
                          {Py_XNewRef(source_.code), source_.lasti}});
    return leaf_of(snapshots_.back().copy, offset, tensor.sizes, strides, tensor.dtype);
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
    if (storage.external() && !whole_function) {
        // NumPy or another framework may change these bytes before the flush: what the program reads is what is there
        // now.
        return leaf_of_copy(tensor);
    }
    return leaf_of(tensor.storage, tensor.offset, tensor.sizes, tensor.strides, tensor.dtype);
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
    else signature.push_back(static_cast<uint64_t>(value.i));
    if (value.tag == Value::Complex) signature.push_back(__builtin_bit_cast(uint64_t, value.imag));
}

namespace {

uint64_t word_of(const OpDef& op, size_t operand_count, const Tag& tag) {
    return static_cast<uint64_t>(op.id) << 48 | static_cast<uint64_t>(operand_count & 0xFFF) << 36 |
           static_cast<uint64_t>(static_cast<uint8_t>(tag.compile + 1)) << 33 | static_cast<uint64_t>(tag.must) << 32 |
           static_cast<uint32_t>(tag.scope);
}

uint64_t word_of(Device device) {
    if (device.type == DeviceType::CPU) return 0;
    return static_cast<uint64_t>(device.type) << 8 | static_cast<uint8_t>(device.index);
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
}

ValueRef Trace::append(const OpDef& op, std::initializer_list<ValueRef> inputs, std::initializer_list<Value> values,
                       DType dtype, const Dims& sizes, Device device) {
    uint32_t index = add_node(op, inputs.size(), device);
    for (const ValueRef& input : inputs) push_operand(input);
    for (const Value& value : values) push_value(value);
    TraceNode& node = nodes[index];
    node.operand_count = static_cast<uint32_t>(inputs.size());
    node.param_count = static_cast<uint32_t>(values.size());
    node.result_count = 1;
    node.compute = dtype;
    add_result(dtype, device, sizes);
    return {RefKind::Node, 0, index};
}

void Trace::record(Call& call, uint32_t* node_index) {
    SmallVector<ValueRef, 8> inputs;
    for (size_t i = 0; i < call.operand_count; ++i) inputs.push_back(add_operand(call.operands[i]));
    uint32_t index = add_node(*call.op, inputs.size(), call.device);
    for (const ValueRef& input : inputs) push_operand(input);
    for (size_t i = 0; i < call.param_count; ++i) push_value(call.params[i]);
    TraceNode& node = nodes[index];
    node.operand_count = static_cast<uint32_t>(inputs.size());
    node.param_count = static_cast<uint32_t>(call.param_count);
    node.result_count = static_cast<uint32_t>(call.result_count);
    node.compute = call.compute;
    node.called = backward_id() == 0;
    node.seed = call.seed;
    node.philox_offset = call.philox_offset;
    for (size_t i = 0; i < call.result_count; ++i)
        add_result(call.results[i].dtype, call.device, call.results[i].sizes);
    *node_index = index;
}

void Trace::bind(Storage* storage, ValueRef value, const Dims& sizes) {
    if (!storage->pending) storage->pending = new Pending;
    else results[nodes[storage->pending->node].first_result + storage->pending->result].storage = nullptr;
    storage->pending->trace = this;
    storage->pending->node = value.index;
    storage->pending->result = value.result;
    storage->pending->sizes = sizes;
    results[nodes[value.index].first_result + value.result].storage = storage;
}

void Trace::check_size() {
    if (nodes.size() >= kMaxNodes) flush_now(*this, "the size cap of a trace");
}

// Compiled functions are one trace, whatever they do. A pass of gradients is a part of a round.
bool Trace::ends_before(const Call& call, const SourceRef& source) {
    return owner == 0 && !whole_function && !current_tag.must && !backward_id() &&
           repetition_.ends(*this, *call.op, source);
}

void Trace::look(const char* what) {
    if (repetition_.after_part() && !current_tag.must) flush_now(*this, what);
}

// Everything that may let other threads run, collect garbage or flush happens here, before the call is recorded: the
// nodes that its operands refer to would be gone. Afterwards nothing waits for another trace, and the position is
// noted.
void Trace::settle(Call& call, Tensor* destination) {
    struct Position {
        SourceRef source;
        ~Position() { Py_XDECREF(source.code); }
    } position;
    capture_source(&position.source);  // makes Python objects
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
        } else if (ends_before(call, position.source)) {
            ended_as_part_ = true;
            flush_now(*this, "the trace repeats itself");
            repetition_.begin_part();
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

// The bytes of a result, if there can be memory for it.
static size_t possible_bytes(const Call& call, size_t result) {
    const ResultMeta& meta = call.results[result];
    const size_t bytes = byte_count(meta.sizes, meta.dtype);
    if (!on_gpu(call.device)) require_possible(bytes);
    return bytes;
}

void Trace::run(Call& call, Ref<Tensor>* out) {
    settle(call, nullptr);
    size_t bytes[kMaxResults];
    for (size_t i = 0; i < call.result_count; ++i) bytes[i] = possible_bytes(call, i);
    uint32_t index;
    record(call, &index);
    for (size_t i = 0; i < call.result_count; ++i) {
        const ResultMeta& meta = call.results[i];
        Ref<Storage> storage = Storage::unbacked(bytes[i], call.device);
        bind(storage.get(), {RefKind::Node, static_cast<uint8_t>(i), index}, meta.sizes);
        out[i] = Tensor::make(std::move(storage), meta.dtype, meta.sizes, contiguous_strides(meta.sizes), 0);
    }
    check_size();
}

void Trace::passing_by(const Call& call) {
    if (current_tag.must) refuse_hook(call.op->name.c_str(), "");
    if (eager_hook) eager_hook(call.op->name.c_str());
}

ValueRef Trace::whole(Tensor& tensor, Dims* base_sizes) {
    Storage& storage = *tensor.storage;
    if (storage.pending) {
        *base_sizes = storage.pending->sizes;
        return {RefKind::Node, static_cast<uint8_t>(storage.pending->result), storage.pending->node};
    }
    *base_sizes = Dims{storage_elements(storage, tensor.dtype)};
    return leaf_of(tensor.storage, 0, *base_sizes, Dims{1}, tensor.dtype);
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
    static const OpDef *copy = find_op("copy"), *fill = find_op("fill"), *cast = find_op("cast"),
                       *assign_op = find_op("_assign");
    settle(call, &destination);
    for (size_t i = 0; i < call.result_count; ++i) possible_bytes(call, i);
    ValueRef value;
    Value dtype;
    dtype.tag = Value::Type;
    dtype.dtype = destination.dtype;
    if (call.op == copy || call.op == fill) {
        Operand number;
        number.is_scalar = true;
        if (call.op == fill) number.scalar = call.params[0].as_scalar();
        ValueRef source = add_operand(call.op == copy ? call.operands[1] : number);
        value = append(*assign_op, {source}, {value_of(destination.sizes), dtype}, destination.dtype, destination.sizes,
                       destination.device());
    } else {
        uint32_t index;
        record(call, &index);
        value = {RefKind::Node, 0, index};
        if (call.results[0].dtype != destination.dtype)
            value = append(*cast, {value}, {dtype}, destination.dtype, destination.sizes, destination.device());
    }
    assign(destination, value);
    if (destination.storage->external() && !whole_function)
        flush_now(*this, "a write to memory that is shared outside the framework");
    check_size();
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

void Trace::abandon() {
    for (ResultInfo& result : results) {
        if (!result.storage) continue;
        result.storage->pending->trace = nullptr;
        result.storage = nullptr;
    }
    clear();
    runner = 0;
}

void Trace::discard() {
    for (ResultInfo& result : results) {
        if (!result.storage || result.storage->has_memory()) continue;
        result.storage->pending->trace = nullptr;
        result.storage = nullptr;
    }
    clear();
}

void Trace::drop_unreachable() {
    std::unordered_map<Storage*, uint32_t> held;
    for (const Leaf& leaf : leaves)
        if (leaf.storage->pending) ++held[leaf.storage.get()];
    for (const auto& [storage, count] : held) {
        if (storage->refcount != count || storage->pending->trace != this) continue;
        results[nodes[storage->pending->node].first_result + storage->pending->result].storage = nullptr;
        delete storage->pending;
        storage->pending = nullptr;
    }
}

bool Trace::reads(const Storage* storage) const {
    return std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) { return leaf.storage.get() == storage; });
}

bool Trace::keep_leaf(Storage* storage) {
    if (!reads(storage)) return true;
    if (wait_until_idle()) return false;
    Ref<Storage> copy = Storage::copy(*storage);
    for (Leaf& leaf : leaves) {
        if (leaf.storage.get() != storage) continue;
        --storage->readers;
        leaf.storage = copy;
        ++copy->readers;
    }
    return true;
}

void Trace::finish_signature() {
    signature.push_back(~uint64_t{0});
    std::unordered_map<const Storage*, size_t> first;
    for (size_t i = 0; i < leaves.size(); ++i) {
        const Leaf& leaf = leaves[i];
        // Which earlier leaf shares the storage: writes to it must wait for the reads of both.
        size_t same = i;
        if (auto [known, fresh] = first.try_emplace(leaf.storage.get(), i); !fresh) same = known->second;
        signature.push_back(static_cast<uint64_t>(leaf.dtype) << 56 | static_cast<uint64_t>(leaf.sizes.size()) << 48 |
                            word_of(leaf.storage->device) << 32 | same);
        for (int64_t size : leaf.sizes) signature.push_back(static_cast<uint64_t>(size));
        for (int64_t stride : leaf.strides) signature.push_back(static_cast<uint64_t>(stride));
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

Suspend::Suspend() : interpreter_(current_interpreter), trace_(current), capture_(capture_sources) {
    current_interpreter = nullptr;
    current = nullptr;
    capture_sources = false;
}

Suspend::~Suspend() {
    current_interpreter = interpreter_;
    current = trace_;
    capture_sources = capture_;
}

bool recording() { return current != nullptr; }

bool keep_leaves(Storage* storage, const Trace* except) {
    bool waited = false;
    // While it waits, other threads record new reads and begin new traces.
    for (size_t i = 0; i < all_traces().size();) {
        Trace* trace = all_traces()[i];
        if (trace == except || trace->keep_leaf(storage)) {
            ++i;
        } else {
            waited = true;
            i = 0;
        }
    }
    return waited;
}

void abandon_other_threads() {
    for (Trace* trace : all_traces()) {
        if (trace == thread_trace.trace) continue;
        if (trace->runner) trace->abandon();
        trace->orphaned.store(true, std::memory_order_relaxed);
    }
}

Trace& thread_own_trace() {
    Trace*& own = thread_trace.trace;
    for (Trace* trace : all_traces())
        if (!own && trace->orphaned.load(std::memory_order_acquire) && trace->empty() && !trace->runner) {
            trace->orphaned.store(false, std::memory_order_relaxed);
            trace->clear();
            trace->whole_function = trace->effects = false;
            trace->owner = 0;
            own = trace;
        }
    if (!own) all_traces().push_back(own = new Trace);
    return *own;
}

namespace {
// As many as calls on cards ever ran within each other on the thread. Later threads take them over.
struct PrivateTraces {
    std::vector<Trace*> spare;
    ~PrivateTraces() {
        for (Trace* trace : spare) trace->orphaned.store(true, std::memory_order_release);
    }
};
thread_local PrivateTraces private_traces;
}  // namespace

PrivateTrace::PrivateTrace() {
    std::vector<Trace*>& spare = private_traces.spare;
    if (spare.empty()) {
        all_traces().push_back(trace_ = new Trace);
    } else {
        trace_ = spare.back();
        spare.pop_back();
    }
}

PrivateTrace::~PrivateTrace() {
    trace_->clear();
    private_traces.spare.push_back(trace_);
}

void begin_recording() {
    if (recording_depth++ > 0 && current) return;
    current = &thread_own_trace();
    current_interpreter = current;
    capture_sources = true;
}

void end_recording(const char* reason) {
    if (--recording_depth > 0) return;
    struct Stop {
        ~Stop() {
            current = nullptr;
            current_interpreter = nullptr;
            capture_sources = false;
        }
    } stop;
    flush(reason);
}

}  // namespace mt::trace
