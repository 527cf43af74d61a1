// What is recorded of calls: the nodes of a trace, and what they refer to.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/tape.h"
#include "dispatch/op.h"

namespace mt::trace {

enum class RefKind : uint8_t { None, Node, Input, Scalar };

// One operand of a node, in 64 bits: also a word of the signature.
struct ValueRef {
    RefKind kind = RefKind::None;
    uint8_t result = 0;
    uint32_t index = 0;
    uint64_t word() const { return static_cast<uint64_t>(kind) << 40 | static_cast<uint64_t>(result) << 32 | index; }
    bool operator==(const ValueRef&) const = default;
};

inline constexpr uint32_t kOwnMemory = ~uint32_t{0};

// A tensor that was there before the trace.
struct TraceInput {
    Ref<Storage> storage;
    int64_t offset;
    Dims sizes, strides;
    DType dtype;
    bool is(const Ref<Storage>& of, int64_t at, const Dims& shape, const Dims& steps, DType type) const {
        return storage == of && offset == at && sizes == shape && strides == steps && dtype == type;
    }
};

// A Python number among the operands. Its value is an input of the compiled code unless it is `baked`: the integers
// from -3 to 3, 0.0, 1.0, -1.0, 2.0 and 0.5 are constants that simplification can use, the rest may change from step to
// step without a new compilation.
struct ScalarInput {
    Scalar scalar;
    bool baked;
};

// What jit_scope says of the ops recorded inside it.
struct Tag {
    int8_t compile = -1;  // _MtCompile: -1 not said, 0 never, 1 yes
    bool must = false;    // a refusal is an error
    // Distinguishes scopes; 0: none. Bits 0-14: which one, in this trace; 15: its gradients, apart; 16-29: what Python
    // decides with, of each op; 30: gradients are to be apart.
    int32_t scope = 0;
    bool operator==(const Tag&) const = default;
};
inline constexpr int32_t kSeparateGradients = 1 << 30;  // in `scope`: gradients have clusters of their own
void set_tag(const Tag& tag);

struct ResultInfo {
    DType dtype;
    Device device;
    Dims sizes;
    Storage* storage;  // borrowed: the living storage of which this is the current value; null: nobody can see it
    // Of a value that was written to a storage, what the storage had before: another value, or its memory, which is a
    // input; kOwnMemory for one that nothing reads. A write that fails leaves that.
    ValueRef before;
};

struct TraceNode {
    const OpDef* op;
    uint32_t first_operand, operand_count;
    uint32_t first_param, param_count;
    uint32_t first_result, result_count;
    DType compute;
    Device device;
    Ambient ambient;  // of its call
    Tag tag;
    uint64_t seed, philox_offset;  // random ops
    SourceRef source;  // owned
    // By the program; others come with reads and writes through views, and with gradients, whose formulas have the
    // sources of their forward calls.
    bool called;
    // Whether the same call is recorded the same way without being inferred: what it is given is what is recorded.
    bool repeatable;
    uint32_t last_word;  // of it, or of what comes before it, in the signature: the index behind
};

// The arrays of a recording, as they are when its last call is recorded.
struct Recorded {
    std::vector<TraceNode> nodes;
    std::vector<ValueRef> operands;
    std::vector<Value> params;
    std::vector<ResultInfo> results;
    std::vector<TraceInput> inputs;
    std::vector<ScalarInput> scalars;
    // Everything that the plan depends on, in words; see finish_signature.
    std::vector<uint64_t> signature;

    void clear() {
        nodes.clear();
        operands.clear();
        params.clear();
        results.clear();
        inputs.clear();
        scalars.clear();
        signature.clear();
    }
};

}  // namespace mt::trace
