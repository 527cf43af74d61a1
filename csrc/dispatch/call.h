// The call path: inference (errors surface here, at the caller's line), then the current interpreter, then the tape.
#pragma once

#include <atomic>
#include <new>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dispatch/memory/version.h"
#include "dispatch/numbers.h"
#include "dispatch/registry.h"

namespace mt {

// Runs ops: null stands for the eager one; the recorder in trace/ is the other.
class Interpreter {
  public:
    virtual ~Interpreter() = default;
    // `call` has been inferred. Fills `results`.
    virtual void run(Call& call, Ref<Tensor>* results) = 0;
    virtual void run_inplace(Call& call, Tensor& destination) = 0;
    // Told of a call that is about to run eagerly since it can't be recorded; may throw.
    virtual void on_fallback(const Call& call) = 0;
    // Asked before a call while it is `gated`: whether to run that eagerly although it could be recorded. May run
    // what was recorded, and then infers the call again.
    virtual bool prefers_eager(Call& call) = 0;
    // Asked before a call is inferred while it `follows` an earlier recording: whether the call is the one that came
    // then. Then it is recorded, and has what inference would have given it.
    virtual bool follow(Call& call, Ref<Tensor>* results) = 0;
    bool gated = false;
    bool follows = false;
    uint32_t eager_budget = 0;  // so many calls run eagerly before it is asked again, unless it ends that
    bool should_run_eagerly(Call& call) {
        return (eager_budget != 0 && --eager_budget != 0) || (gated && prefers_eager(call));
    }
};
extern MT_THREAD_LOCAL Interpreter* current_interpreter;
// Whether calls are recorded, as far as is known before they are made.
inline bool records_calls() { return current_interpreter && !current_interpreter->eager_budget; }

// vmap, installed by bindings/: how many are nested on this thread, whether a call has mapped tensors, and the run of
// such a call on what is behind them. `results` is null for a call in place.
extern MT_THREAD_LOCAL int vmap_depth;
extern bool (*is_mapped_callback)(const Call& call, const Tensor* destination);
extern void (*run_mapped_callback)(Call& call, Ref<Tensor>* results, Tensor* destination);
// Throws if a tensor is mapped by a vmap that has ended. Asked where there is no memory.
extern void (*refuse_escaped_callback)(const Call& call, const Tensor* destination);

// The tape, installed by autograd/. Of an in-place call `inplace` is the destination, and `results` has, for each
// operand whose memory was written, what it held before if the gradient formula reads it.
extern void (*tape_callback)(Call& call, Ref<Tensor>* results, Tensor* inplace);
// Of a view that is made while nothing is recorded.
extern void (*view_callback)(Tensor& source, Tensor& view);
struct TapedCall {
    bool taped = false;
    uint32_t reads = 0;  // bit i: the gradient formula reads operand i
};
// Refuses what must not be written in place; says whether the tape will have a node for the call.
extern TapedCall (*check_inplace_callback)(Call& call, Tensor& destination);
// While autocast is on: runs the call on operands of other dtypes, if the op wants these; else false.
extern bool (*autocast_callback)(Call& call, Ref<Tensor>* results);
// What a function that is recorded as a whole does with what was there before it.
struct FunctionLog {
    uint32_t number = 0;                  // of the function: its own tensors have it, or a later one's
    std::vector<const uint32_t*> writes;  // each time that a version is counted up: which one
    std::vector<Ref<Tensor>> touched;     // tensors from outside that ops got
    std::unordered_set<const Tensor*> known;
    struct Gradient {         // the .grad of a tensor from outside
        Ref<Tensor> owner;
        Ref<Tensor> before;   // what it was when the function began
        bool read;            // the function sees that, and doesn't just put something else in its place
    };
    std::vector<Gradient> gradients;
    std::unordered_set<const Tensor*> known_owners;
    std::vector<Ref<Tensor>> taken;  // leaves from outside whose gradients it takes, and doesn't store
    Numbers numbers;
    struct Kept {  // a number in a tensor of an optimizer's, such as its count of steps
        Ref<Tensor> keeper;
        uint32_t times, place;  // how often it was written, and the number now
    };
    std::vector<Kept> kept;
    std::vector<uint32_t> used;  // places that operands had
    const char* unclear = nullptr;  // why a number would not be computed again as it was

    // Null, or why a number that is read at each call has gone where it can't be followed.
    const char* lost_number(const std::vector<bool>& landed) const {
        if (unclear) return unclear;
        for (uint32_t place : used)
            if (!landed[place - 1]) return "a number that it reads at each call is not an operand of a recorded op";
        return nullptr;
    }

    bool has_made(const Tensor& tensor) const { return tensor.made_in >= number; }
    void touch(Tensor& tensor) {
        if (!has_made(tensor) && known.insert(&tensor).second) touched.push_back(Ref<Tensor>::borrow(&tensor));
    }
};
// Whether anybody has named a dtype of eight-bit floats: then each call is checked, since few ops take them.
extern std::atomic<bool> float8_was_named;
extern MT_THREAD_LOCAL FunctionLog* function_log;  // null: none is recorded

// Called around every eager kernel and launch while a profile is being taken.
extern void (*profile_callback)(const OpDef* op, const Call& call, int64_t start_ns, int64_t end_ns);
int64_t now_ns();

// A Python kernel as one that writes the outputs that there are.
extern void (*python_step_callback)(Call& call);
// Runs `op`'s Python kernel for `device`; installed by bindings/, which knows how to wrap tensors.
extern void (*python_kernel_callback)(Call& call, Device device, Ref<Tensor>* results);
// Runs a call with an operand in a sparse layout, in Python, or throws that the op doesn't know it.
extern void (*sparse_callback)(Call& call, Ref<Tensor>* results);

// Runs a call that gives new tensors, below the tape, while Python watches this thread's calls; installed by bindings/.
extern MT_THREAD_LOCAL bool calls_are_watched;
extern void (*run_watched_callback)(Call& call, Ref<Tensor>* results);
// The same without being watched: what has been inferred is interpreted, its results in the order of memory it keeps.
void run_inferred(Call& call, Ref<Tensor>* results);

inline constexpr size_t kMaxResults = 3;

void dispatch(Call& call, Ref<Tensor>* results);
// The same without autocast.
void dispatch_as_given(Call& call, Ref<Tensor>* results);
// result = op(operands) written into `destination`, which is one of the operands for arithmetic (x += y).
void dispatch_inplace(Call& call, Tensor& destination);

// Runs a kernel that takes fewer dtypes than the call has; installed by kernels/cpu/loops/widen.cpp.
extern void (*widen_callback)(Call& call);

// NotImplementedError: the op has no kernel for the dtype.
[[noreturn]] void refuse_dtype(const OpDef& op, DType dtype);

// The kernel alone, inputs and outputs in place; used by the eager interpreter and by plan replay.
void run_kernel(Call& call);
// The same for compiled code, which may run without the GIL: no profile, and the GIL stays as it is.
void run_bare_kernel(Call& call);
std::string device_text(Device device);  // cuda:0
// Inference alone.
void infer(Call& call);

// Frees the GIL for its lifetime. No Python object, reference count or tensor may be touched meanwhile.
class ReleaseGil {
  public:
    ReleaseGil() : state_(PyEval_SaveThread()) {}
    ~ReleaseGil() { take_back(state_); }
    ReleaseGil(const ReleaseGil&) = delete;

    static void take_back(PyThreadState* state) noexcept;

  private:
    PyThreadState* state_;
};

// Frees it for a kernel when that is `large`, and no HoldGil is in force.
class MaybeReleaseGil {
  public:
    explicit MaybeReleaseGil(bool large) : state_(large && !gil_held ? PyEval_SaveThread() : nullptr) {}
    ~MaybeReleaseGil() {
        if (state_) ReleaseGil::take_back(state_);
    }
    MaybeReleaseGil(const MaybeReleaseGil&) = delete;

  private:
    friend class HoldGil;
    static MT_THREAD_LOCAL bool gil_held;
    PyThreadState* state_;
};

// Has kernels keep the GIL: for a sequence of calls that other threads must see as one.
class HoldGil {
  public:
    HoldGil() : previous_(std::exchange(MaybeReleaseGil::gil_held, true)) {}
    ~HoldGil() { MaybeReleaseGil::gil_held = previous_; }
    HoldGil(const HoldGil&) = delete;

  private:
    bool previous_;
};

// A convenience for C++ callers: ops by name on tensors.
// The parameters of one call: copies, which inference may change. Room that isn't used is never touched.
class ParamCopies {
  public:
    ParamCopies(const Value* values, size_t count) : count_(count) {
        for (size_t i = 0; i < count; ++i) new (&storage_[sizeof(Value) * i]) Value(values[i]);
    }
    ~ParamCopies() {
        for (size_t i = 0; i < count_; ++i) data()[i].~Value();
    }
    ParamCopies(const ParamCopies&) = delete;
    Value* data() { return std::launder(reinterpret_cast<Value*>(storage_)); }

  private:
    alignas(Value) unsigned char storage_[sizeof(Value) * kMaxCallParams];
    size_t count_;
};

Ref<Tensor> call_op(const OpDef& op, std::initializer_list<Tensor*> operands, std::initializer_list<Value> params = {});
Ref<Tensor> call_op(const OpDef& op, std::initializer_list<Tensor*> operands, std::span<const Value> params);
void call_op_inplace(const OpDef& op, Tensor& destination, std::initializer_list<Operand> operands,
                     std::initializer_list<Value> params = {});
Value value_of(const Dims& ints);
Value value_of(int64_t i);

}  // namespace mt
