// The rest of a run in which something went wrong: all ops that do not depend on what failed. A storage that was to be
// written with what does has what it had when the op that failed was called, as if its error had come there.
#include <algorithm>
#include <unordered_set>

#include "core/process/interrupt.h"
#include "trace/plan/stopped.h"

namespace mt::trace {

namespace {

using Reason = std::shared_ptr<const std::string>;

class Rest {
  public:
    Rest(Trace& trace, const Plan& plan, Progress& run, const std::vector<uint32_t>& refused)
        : trace_(trace), plan_(plan), run_(run), buffers_(*run.buffers), refused_(refused),
          states_(trace.results.size()), causes_(trace.results.size()) {
        for (size_t s = 0; s < run.step; ++s) done(plan.steps[s]);
    }

    void run(std::optional<Failure> failure) {
        for (; run_.step < plan_.steps.size(); ++run_.step) {
            const Step& step = plan_.steps[run_.step];
            if (failure) fail(step, std::move(*failure));
            else attempt(step);
            failure.reset();
        }
        settle();
        run_.over = true;
        if (error_) error_.raise();
    }

  private:
    // What failed, and which node that was.
    struct Cause {
        uint32_t node = UINT32_MAX;
        Reason why;
    };

    enum class State : uint8_t {
        Unknown,
        There,
        Never,
        Lost,  // with what its storage had before
    };

    size_t flat(ValueRef value) const { return buffers_.flat(value); }

    template <class F>
    void results_of(const Step& step, F&& body) {
        if (step.type == Step::Type::Launch) {
            for (ValueRef value : step.outputs) body(value);
        } else {
            for (uint32_t r = 0; r < trace_.nodes[step.node].result_count; ++r)
                body({RefKind::Node, static_cast<uint8_t>(r), step.node});
        }
    }

    // What it gave is there, unless it was freed since.
    void done(const Step& step) {
        results_of(step, [&](ValueRef value) {
            if (buffers_.has(value)) states_[flat(value)] = State::There;
            if (buffers_.in_place(value)) overwritten_.insert(trace_.results[flat(value)].storage);
        });
    }

    void note(Failure failure, uint32_t node) {
        if (error_ && first_ <= node) return;
        first_ = node;
        error_ = std::move(failure);
    }

    bool is_refused(const Step& step) const {
        return std::any_of(step.inputs.begin(), step.inputs.end(), [&](const InputSlot& slot) {
            return slot.value.kind == RefKind::Input &&
                   std::find(refused_.begin(), refused_.end(), slot.value.index) != refused_.end();
        });
    }

    void attempt(const Step& step) {
        if (step.type == Step::Type::Op) return run_op(step.node);
        const bool lacks = std::any_of(step.inputs.begin(), step.inputs.end(), [&](const InputSlot& slot) {
            return slot.value.kind == RefKind::Node && !slot.random && states_[flat(slot.value)] != State::There;
        });
        if (lacks || is_refused(step)) return run_ops(step);
        try {
            if (run_step(trace_, step, run_)) done(step);
            else run_ops(step);
        } catch (const std::exception&) { fail(step, Failure::current()); }
    }

    void fail(const Step& step, Failure failure) {
        if (step.type == Step::Type::Op) return fail(step.node, std::move(failure));
        const bool lost = failure && run_.entered && writes_in_place(trace_, step, buffers_);
        const uint32_t node = step.inside.empty() ? 0 : *std::min_element(step.inside.begin(), step.inside.end());
        const Cause cause = failure ? cause_of(failure, node) : Cause();
        if (failure && run_.left) {  // the observer raised it
            note(std::move(failure), node);
            return done(step);
        }
        // Op by op less memory may do.
        if (failure && (lost || !failure.is_memory_error())) note(std::move(failure), node);
        if (!lost) return run_ops(step);
        // Some of what it read is gone, and with it what its results might fall back to.
        results_of(step, [&](ValueRef value) {
            states_[flat(value)] = State::Lost;
            causes_[flat(value)] = cause;
        });
    }

    static Cause cause_of(const Failure& failure, uint32_t node) {
        return {node, std::make_shared<const std::string>(failure.text())};
    }

    void fail(uint32_t n, Failure failure) {
        fail(n, cause_of(failure, n));
        note(std::move(failure), n);
    }
    void fail(uint32_t n, const Cause& cause) {
        const TraceNode& node = trace_.nodes[n];
        for (uint32_t i = node.first_result; i < node.first_result + node.result_count; ++i) {
            states_[i] = State::Never;
            causes_[i] = cause;
        }
    }

    ValueRef before(ValueRef value) const {
        return states_[flat(value)] == State::Lost ? ValueRef{} : trace_.results[flat(value)].before;
    }

    void run_ops(const Step& step) {
        std::vector<uint32_t> nodes = step.inside;
        std::sort(nodes.begin(), nodes.end());
        for (uint32_t n : nodes) run_op(n);
    }

    void run_op(uint32_t n) {
        const TraceNode& node = trace_.nodes[n];
        bool known = true;
        for (uint32_t r = 0; r < node.result_count; ++r) known &= states_[node.first_result + r] != State::Unknown;
        if (known) return;  // by another step that needs it too
        Cause first;
        for (uint32_t i = 0; i < node.operand_count; ++i) {
            const ValueRef operand = trace_.operands[node.first_operand + i];
            if (operand.kind == RefKind::Node && !is_there(operand) && causes_[flat(operand)].node < first.node)
                first = causes_[flat(operand)];
        }
        if (first.why) return fail(n, first);
        try {
            for (uint32_t r = 0; r < node.result_count; ++r) {
                const ValueRef value{RefKind::Node, static_cast<uint8_t>(r), n};
                // Others may yet need what is there.
                if (buffers_.in_place(value)) buffers_.keep_apart(value);
            }
            run_node(trace_, n, buffers_);
            for (uint32_t r = 0; r < node.result_count; ++r) states_[node.first_result + r] = State::There;
        } catch (const std::exception&) { fail(n, Failure::current()); }
    }

    bool is_there(ValueRef value) {
        if (states_[flat(value)] == State::Unknown) compute(value.index);
        return states_[flat(value)] == State::There;
    }

    // A value that no step was to give: what a storage had before a write that failed.
    void compute(uint32_t wanted) {
        std::vector<uint32_t> nodes;
        std::unordered_set<uint32_t> seen{wanted};
        std::vector<uint32_t> open{wanted};
        while (!open.empty()) {
            const uint32_t n = open.back();
            open.pop_back();
            nodes.push_back(n);
            const TraceNode& node = trace_.nodes[n];
            for (uint32_t i = 0; i < node.operand_count; ++i) {
                const ValueRef value = trace_.operands[node.first_operand + i];
                if (value.kind == RefKind::Node && states_[flat(value)] == State::Unknown &&
                    seen.insert(value.index).second)
                    open.push_back(value.index);
            }
        }
        std::sort(nodes.begin(), nodes.end());
        static const Reason gone = std::make_shared<const std::string>("what it is made of has been overwritten");
        for (uint32_t n : nodes) {
            const TraceNode& node = trace_.nodes[n];
            bool intact = true;
            for (uint32_t i = 0; i < node.operand_count; ++i) {
                const ValueRef value = trace_.operands[node.first_operand + i];
                intact &= value.kind != RefKind::Input ||
                          !overwritten_.contains(trace_.inputs[value.index].storage.get());
            }
            if (intact) run_op(n);
            else fail(n, Cause{n, gone});
        }
    }

    // Storages get what they were to have, or what they had before; those that get nothing are given up.
    void settle() {
        struct Copy {
            size_t result;
            ValueRef from;
        };
        std::vector<Copy> copies;
        for (uint32_t n = 0; n < trace_.nodes.size(); ++n)
            for (uint32_t r = 0; r < trace_.nodes[n].result_count; ++r) {
                const ValueRef value{RefKind::Node, static_cast<uint8_t>(r), n};
                if (trace_.results[flat(value)].storage) copies.push_back({flat(value), value});
            }
        std::erase_if(copies, [&](Copy& copy) {
            ValueRef& at = copy.from;
            while (at.kind == RefKind::Node && !is_there(at)) {
                uint32_t failed = UINT32_MAX;
                for (; at.kind == RefKind::Node && !is_there(at); at = before(at)) failed = causes_[flat(at)].node;
                while (at.kind == RefKind::Node && at.index > failed) at = before(at);
            }
            if (at.kind == RefKind::None) give_up(copy.result, causes_[copy.result].why);
            return at.kind != RefKind::Node;  // an input is its memory, which is as it was
        });
        for (const Copy& copy : copies) {
            ResultInfo& result = trace_.results[copy.result];
            if (!result.storage) continue;  // dropped meanwhile
            const Ref<Storage> storage = Ref<Storage>::borrow(result.storage);
            try {
                storage->ensure_memory();
                const DeviceAddress from = buffers_.input(copy.from), to = storage->place();
                if (from.data != to.data || from.address != to.address)
                    copy_bytes(to, from, buffers_.bytes(copy.result));
            } catch (const std::exception&) {
                Failure failure = Failure::current();
                give_up(copy.result, std::make_shared<const std::string>(failure.text()));
                note(std::move(failure), UINT32_MAX);
            }
        }
    }

    void give_up(size_t i, const Reason& why) {
        ResultInfo& result = trace_.results[i];
        if (result.storage && result.storage->pending) trace_.give_up(result, why);
    }

    Trace& trace_;
    const Plan& plan_;
    Progress& run_;
    Buffers& buffers_;
    const std::vector<uint32_t>& refused_;
    std::vector<State> states_;  // of every result
    std::vector<Cause> causes_;
    std::unordered_set<const Storage*> overwritten_;
    Failure error_;  // of the op that was called first
    uint32_t first_ = 0;
};

}  // namespace

void finish_run(Trace& trace, const Plan& plan, Progress& run, std::optional<Failure> failure,
                const std::vector<uint32_t>& refused) {
    HandlersWait wait;
    Rest(trace, plan, run, refused).run(std::move(failure));
}

}  // namespace mt::trace
