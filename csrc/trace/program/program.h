// A whole function as one program: a recorded trace with its plan, whose inputs and results are bound anew at every
// call.
#pragma once

#include <memory>
#include <vector>

#include "trace/plan/plan.h"
#include "trace/program/history.h"

namespace mt::trace {

// Says that a function is recorded from here on, of which a program may be made; and that it has ended.
void begin_function();
void end_function();

// The gradients that tensors from outside had when it began. A program takes what they are at a call for them.
std::vector<Tensor*> gradients_before();
// The function also reaches one of them by itself: programs are for the very tensor, as for any other from outside.
void pin_gradient(const Tensor& gradient);

// Why no program is kept of a function whose clusters wait to be compiled, or are on trial: a later call may be.
extern const char* const kUnsettled;

// A recording reads copies of memory that NumPy or another framework may change before it runs. A program runs when it
// is called, and reads the memory itself: its inputs become those. Returns why it can't.
const char* read_in_place(const std::vector<Trace::Snapshot>& snapshots, std::vector<TraceInput>& inputs);

class Program {
  public:
    // Takes over a recorded trace after `plan` is known. `arguments` are the tensors that the function was called with,
    // `results` those that it returned. Null if a later call could not be the same without running the Python function:
    // see `why`.
    static std::unique_ptr<Program> freeze(Trace& trace, std::shared_ptr<Plan> plan,
                                           const std::vector<Tensor*>& arguments, const std::vector<Tensor*>& results,
                                           const char** why);

    // Whether a call with these tensors is what was recorded.
    bool accepts(Tensor* const* given, size_t count) const;
    // Whether no call can be what was recorded any more: nobody has a tensor that was read, so the function must have
    // another one in its place.
    bool outdated() const;
    // `out` gets one tensor for each result. False if the program is running on another thread at this moment.
    bool run(Tensor* const* given, Ref<Tensor>* out);
    size_t result_count() const { return result_count_; }

  private:
    struct ArgumentMeta {
        DType dtype;
        Device device;
        Dims sizes, strides;
        // Set where the program reads or writes more of the storage than the argument shows: it must be as it was.
        bool whole_storage = false;
        int64_t offset = 0;
        size_t nbytes = 0;
        bool differentiated = false;  // it wants a gradient, for the function to compute with
        bool leaf = true;
        uint8_t traits = 0;
        uint32_t first = 0;     // of the arguments that share its memory, and how far after it this one begins
        int64_t after_first = 0;
    };
    struct ArgumentInput {
        uint32_t input, argument;
        int64_t offset;  // from the argument's first element
    };
    struct Written {  // a recorded value that goes to memory which exists
        uint32_t result;
        int32_t argument;      // -1: `memory`
        Ref<Storage> memory;
    };
    struct Version {  // of memory that exists: how often a call writes it
        uint32_t writes;
        int32_t argument;  // -1: `memory`
        Ref<Storage> memory;
        Ref<VersionCounter> counter{};  // instead of the memory's
    };
    struct Held {  // a tensor from outside, as it was
        Ref<Tensor> tensor;
        Storage* storage;
        Dims sizes, strides;
        int64_t offset;
        bool differentiated;
        uint8_t traits;
        bool named;  // somebody in Python had it
    };
    struct Returned {
        enum class Type : uint8_t { Argument, Captured, Fresh, Made, Same } type;
        uint32_t argument = 0;
        Ref<Tensor> captured;
        // Fresh: the value whose memory it shows. Made: its number in the history. Same: an earlier result,
        // which is the very tensor
        uint32_t result = 0;
        DType dtype{};
        Dims sizes, strides;
        int64_t offset = 0;
        bool is_inference = false;
    };

    // The .grad of a leaf. What it is when a call begins, if the function sees it, is an argument more; what it is
    // when it ends is a result more.
    struct Gradient {
        enum class Before : uint8_t { Any, Absent, Argument, Pinned } before;
        enum class After : uint8_t { Unchanged, Absent, Result } after;
        uint32_t before_argument, after_result;
        int32_t argument;  // whose it is; -1: `owner`
        Ref<Tensor> owner;
        Ref<Tensor> pinned{};  // what it must be
        Tensor& of(Tensor* const* arguments) const {
            return argument < 0 ? *owner : *arguments[static_cast<size_t>(argument)];
        }
    };
    using Arguments = SmallVector<Tensor*, 64>;

    void hold(const Ref<Tensor>& t);
    void draw_again(uint32_t node);
    // All arguments, the given ones first. False if a leaf has a gradient and should have none, or the reverse.
    bool gather(Tensor* const* given, Arguments& arguments) const;

    Trace trace_;
    std::shared_ptr<Plan> plan_;
    std::vector<ArgumentMeta> arguments_;
    std::vector<ArgumentInput> argument_inputs_;
    std::vector<Written> written_;
    std::vector<Returned> results_;
    std::vector<Gradient> gradients_;
    std::vector<Ref<Tensor>> taken_;  // leaves from outside whose gradients it takes, and doesn't store
    bool takes_gradients_ = false;  // nodes of the backward graph were made, whether or not any is left
    // Numbers that are read at each call, which of the trace's scalars they are, and those that it writes to tensors.
    Numbers numbers_;
    std::vector<std::pair<uint32_t, uint32_t>> bound_scalars_;  // scalar, place
    std::vector<FunctionLog::Kept> kept_;
    std::vector<double> values_;
    size_t given_count_ = 0, result_count_ = 0;  // without those of gradients
    std::vector<uint32_t> fresh_;  // recorded values that need new memory, each once, and
    std::vector<uint32_t> fresh_versions_;
    // Memory that the function fills from Python's data, and returns: calls have copies, whose numbers as values follow
    // the recorded ones.
    std::vector<Ref<Storage>> constants_;
    std::vector<Version> versions_;
    std::vector<Held> held_;
    History history_;  // of results that are views or require grad
    std::vector<uint32_t> random_;  // nodes that take a place of the default generator's stream at every run
    bool draws_as_torch_ = false;
    bool busy_ = false;
};

}  // namespace mt::trace
