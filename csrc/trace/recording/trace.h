// Recording: calls become nodes of a trace; tensors they would have computed have a pending storage. A flush runs the
// trace.
//
// Every storage that the trace writes has one current value, the contents of the whole storage in row-major order.
// Views are metadata, so reading through one is a read of the base's value (a `_view_read` node unless the view is the
// whole base), and writing through one is an update of it (`_view_write`). So the graph is in SSA form and no aliasing
// is left in it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "dispatch/generator.h"
#include "trace/policy/policy.h"
#include "trace/recording/following.h"
#include "trace/recording/nodes.h"
#include "trace/recording/repetition.h"

namespace mt::trace {

class Trace;
struct Stopped;

// What a storage waits for: the value `node`.`result`, which is all of it, row-major, of shape `sizes`.
struct Pending {
    Trace* trace = nullptr;
    uint32_t node = 0;
    uint32_t result = 0;
    Dims sizes;
    // Where `trace` is null: what failed, in words. The value will never be there.
    std::shared_ptr<const std::string> why;

    static void* operator new(size_t) { return Pool<sizeof(Pending)>::take(); }
    static void operator delete(void* memory) { Pool<sizeof(Pending)>::give(memory); }
};

class Trace final : public Interpreter, public Recorded {
  public:
    Trace();
    ~Trace() override;
    void run(Call& call, Ref<Tensor>* results) override;
    void run_inplace(Call& call, Tensor& destination) override;
    void on_fallback(const Call& call) override;
    bool prefers_eager(Call& call) override;
    bool follow(Call& call, Ref<Tensor>* results) override;

    // The value of what `tensor` shows, as an operand.
    ValueRef read(Tensor& tensor);
    bool empty() const { return nodes.empty(); }
    void clear();
    // Forgets what was recorded, as if it had not been: memory that was to be written is what it was. Values that only
    // the recording has can't be read.
    void discard();
    // Ends a run of which nothing is known any more: reading its values says so, instead of showing memory that was
    // never written.
    void abandon();
    // Takes over what another recorded, with the run that it is in the middle of, if any.
    void take(Trace& other);
    // A result will never be computed, for the reason given.
    void give_up(ResultInfo& result, std::shared_ptr<const std::string> why);
    // What an exception from outside has stopped; the next read of a value goes on with it.
    std::unique_ptr<Stopped> stopped;
    // Storages that only this trace holds are read by nobody afterwards: what it writes to them is not a result.
    void drop_unreachable();
    // Has the trace read `storage` from a copy from here on, since its memory is about to change. False if it had to
    // wait for the trace instead, so that other threads ran.
    bool keep_input(Storage* storage);
    bool reads(const Storage* storage) const;
    // Returns when no other thread is running this trace; true if it had to wait, so that other threads ran.
    bool wait_until_idle() const;
    // Runs what follows parts of a loop if the program reads a value after all. The value may be in an earlier part;
    // but each step of a program that observes once a step is then recorded from its beginning on, with the same parts.
    void observe(const char* what);
    // Whether it is a part of a loop, or what follows its parts.
    bool is_part() const { return ended_as_part_ || repetition_.after_part(); }
    // Records a whole program from here on, or not any more: what of it is recorded, the policy says.
    void set_program(bool is_program);
    bool in_eager_region() const { return eager_region_; }
    // Where something begins that is to be recorded whatever the policy says.
    void wake();
    // Calls of the framework's own that are a run each, such as a backward pass. Whether one may begin,
    bool may_begin_call() const;
    // the end of the run before it: false if the program goes on as it was,
    bool end_run(const char* why);
    // and how it runs. Recorded: what was kept of it may run instead.
    enum class CallRuns : uint8_t { AsEver, Eagerly, Recorded };
    CallRuns begin_call(const OpDef& kind, uint64_t work);
    void end_call();  // of a recorded one
    // Whether the policy decides what becomes of it.
    bool goes_by_policy() const;
    Policy& policy() { return policy_; }
    bool ends_as_part() const { return ended_as_part_; }
    size_t calls() const { return calls_; }
    int nested = 0;  // recordings within the program's own
    unsigned long runner = 0;  // the thread that runs it
    std::atomic<bool> orphaned = false;  // its thread has ended; another may take it over once it's empty
    bool counts_readers = true;  // false for a program's own copy, which may run after any change of its inputs

    // Where nodes draw from PyTorch's generator; their seeds are the numbers of these.
    std::vector<std::shared_ptr<const StreamPlace>> places;
    // The scopes so far, to number them alike in every run of the program.
    int32_t scopes = 0;
    // Set for a function that is compiled as a whole: memory from outside is read when it runs, not copied now.
    bool whole_function = false;
    // The compiled function that is being recorded, 0 for none: its plans are its own, and go when it goes.
    uint64_t owner = 0;
    // Of a function's call: how many nodes were run so far, whether parts were because they repeat themselves, and
    // whether no such parts are made of it, since its calls are short.
    size_t function_nodes = 0;
    bool was_cut = false, uncut = false;
    static constexpr size_t kShortCall = 2048;
    // Set when the program does what a replay of the trace would not: store gradients, flush on the way.
    bool effects = false;
    bool wrote_shared = false;  // to memory that others than tensors see, when it runs

    // Appends what is known only at the flush: inputs, which results live and where they go.
    void finish_signature();
    std::vector<ValueRef> live_results() const;
    // A copy of memory that is shared outside the framework, of what was read of it.
    struct Snapshot {
        TraceInput source;
        Ref<Storage> copy;
        SourceRef place;  // of the call that read it; owned
    };
    const std::vector<Snapshot>& snapshots() const { return snapshots_; }
    // Has what another recorded, with these inputs, for a program of it: nobody waits for its results.
    void copy_recording(const Trace& other, std::vector<TraceInput> its_inputs);
    // Whether anything that was recorded matters: a result that lives, or an error that may come of it.
    bool matters() const;
    // Whether a node may fail by the values of its operands: it runs although nobody reads its results.
    static bool fallible(const TraceNode& node) {
        return node.op->fallible && (node.op->kind != Kind::Elementwise || !is_floating(node.compute));
    }

  private:
    uint32_t add_node(const OpDef& op, size_t operand_count, Device device);
    ValueRef add_operand(const Operand& operand);
    ValueRef input_over(const Storage* storage) const;
    ValueRef input_of(const Ref<Storage>& storage, int64_t offset, const Dims& sizes, const Dims& strides, DType dtype);
    ValueRef append(const OpDef& op, std::initializer_list<ValueRef> refs, std::initializer_list<Value> values,
                    DType dtype, const Dims& sizes, Device device);
    ValueRef assigned(ValueRef source, DType dtype, const Dims& sizes, Device device);
    ValueRef whole(Tensor& tensor, Dims* base_sizes);
    void assign(Tensor& destination, ValueRef value);
    void bind(Storage* storage, ValueRef value, const Dims& sizes);
    void record(Call& call, uint32_t* node_index);
    void add_result(DType dtype, Device device, const Dims& sizes);
    void push_operand(ValueRef input);
    void push_value(const Value& value);
    void sign_call(const OpDef& op, size_t operand_count, Device device, const Tag& tag);
    void sign_results(TraceNode& node);
    Ref<Tensor> pending_tensor(ValueRef value, DType dtype, Device device, const Dims& sizes);
    bool is_expected(const Operand& operand, ValueRef wanted, const Recorded& then, size_t& read, size_t call);
    void note_recorded(const Call& call);
    void settle(Call& call, Tensor* destination);
    bool ends_before(const Call& call, const SourceRef& source);

    ValueRef input_of_copy(Tensor& tensor);
    bool end_eager_region();
    void end_part();
    bool asks_policy(Call& call, const SourceRef& at);

    Policy policy_;
    bool is_program_ = false;
    bool eager_region_ = false;  // it runs eagerly
    size_t calls_ = 0;  // of the program, that are recorded
    Repetition repetition_;
    bool ended_as_part_ = false;
    SourceRef source_;  // of the call that is being recorded; owned
    Recorded spare_;  // arrays to use again
    Following following_;
    size_t promised_ = 0;  // how many nodes there should be after the call at hand; 0: nothing is known
    std::vector<int32_t> input_table_;
    std::vector<Snapshot> snapshots_;
};

// How often calls of the framework's own that are runs by themselves have run in which way, in this process.
struct CallCounts {
    uint64_t recorded = 0, eager = 0, programs = 0;
};
extern CallCounts call_counts;

const OpDef& view_read_op();
bool is_baked(const Scalar& scalar);

// Per thread: the trace being recorded, the tag of what is recorded now.
extern MT_THREAD_LOCAL Trace* current;
extern MT_THREAD_LOCAL Tag current_tag;

// Recording nests; the outermost end flushes.
void begin_recording();
// Records all that follows as a program, as far as the policy says. No other recording may have begun.
void begin_program();
void end_recording(const char* reason);
// Stops recording without running what was recorded, for a scope left by an exception that must not compile.
bool recording();
// Suspends recording for its lifetime.
class Suspend {
  public:
    Suspend();
    ~Suspend();

  private:
    Interpreter* interpreter_;
    Trace* trace_;
    bool capture_;
};

// Has every trace but `except` read `storage` from a copy, since its memory is about to be written. True if it had to
// wait for one, so that other threads ran.
bool keep_inputs(Storage* storage, const Trace* except);
// Has a trace of its own for what an exception from outside has stopped, so that the thread may go on recording.
void put_aside(Trace& trace);
// Of a process that was forked while other threads recorded: what they were running has no value.
void abandon_other_threads();

// Runs what is recorded on this thread; no-op when nothing is.
void flush(const char* reason);

// The Python frame of the user's call: the innermost one outside the framework's own files.
// `known_code` is code that is known not to be.
void capture_source(SourceRef* source, const PyObject* known_code);
inline void capture_source(SourceRef* source) { capture_source(source, nullptr); }
void set_internal_prefixes(std::vector<std::string> prefixes);

constexpr size_t kMaxNodes = 8192;

// A trace of its own, for a call on a GPU that is recorded and run at once.
class PrivateTrace {
  public:
    PrivateTrace();
    ~PrivateTrace();
    PrivateTrace(const PrivateTrace&) = delete;
    Trace& operator*() const { return *trace_; }
    Trace* operator->() const { return trace_; }

  private:
    Trace* trace_;
};

// The trace of this thread, whether it is recording or not.
Trace& thread_own_trace();

void install();
void install_jit_device();
void install_gpu();
void install_whole_backward();

}  // namespace mt::trace
