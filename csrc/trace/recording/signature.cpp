// The signature of a trace: the words that tell it from others, and by which its plan is found.
#include <cstring>
#include <unordered_map>

#include "trace/plan/plan.h"
#include "trace/recording/trace.h"

namespace mt::trace {

bool is_baked(const Scalar& s) {
    if (s.place) return false;
    if (s.tag == Scalar::Complex) return true;  // rare, and launches take numbers of 8 bytes
    if (s.tag != Scalar::Float) return s.tag == Scalar::Bool || (s.i >= -3 && s.i <= 3);
    // What the kernels, pow above all, treat apart.
    return s.f == 0.0 || s.f == 1.0 || s.f == -1.0 || s.f == 2.0 || s.f == -2.0 || s.f == 0.5 || s.f == -0.5;
}

namespace {

uint64_t word_of(Device device) {
    if (device.type == DeviceType::CPU) return 0;
    return static_cast<uint64_t>(device.type) << 8 | static_cast<uint8_t>(device.index);
}

uint64_t bits_of(const Scalar& s) {
    uint64_t word;
    std::memcpy(&word, &s.i, sizeof word);
    return word;
}

uint64_t word_of(const OpDef& op, size_t operand_count, const Tag& tag) {
    return static_cast<uint64_t>(op.id) << 48 | static_cast<uint64_t>(operand_count & 0xFFF) << 36 |
           static_cast<uint64_t>(static_cast<uint8_t>(tag.compile + 1)) << 33 | static_cast<uint64_t>(tag.must) << 32 |
           static_cast<uint32_t>(tag.scope);
}

}  // namespace

// The first words of a node.
void Trace::sign_call(const OpDef& op, size_t operand_count, Device device, const Tag& tag) {
    signature.push_back(word_of(op, operand_count, tag));
    // No op has a number as high as this.
    if (device.type != DeviceType::CPU) signature.push_back(uint64_t{0xFFFF} << 48 | word_of(device));
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
