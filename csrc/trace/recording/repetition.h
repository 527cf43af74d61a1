// Finds out that a program records the same ops again and again, as a loop does whose values nobody reads.
#pragma once

#include <cstddef>

#include "autograd/tape.h"
#include "dispatch/op.h"

namespace mt::trace {

class Trace;

// A trace that repeats itself is run at the beginning of a round, so that all its parts but the first are alike: they
// are compiled once, where the whole would take a compiler time that grows faster than it.
class Repetition {
  public:
    static constexpr size_t kNodes = 128;  // of a trace that is short enough however often it repeats itself
    // Whether the call of `op` at `at`, which `trace` is about to record, begins a round where the trace should end.
    bool ends(const Trace& trace, const OpDef& op, const SourceRef& at);
    // Whether it matters to `ends` that the call is recorded when there are so many nodes.
    bool counts(size_t nodes, const OpDef& op, const SourceRef& at) const {
        return nodes >= next_look_ || (nodes >= kNodes && op_ == &op && lasti_ == at.lasti && code_ == at.code);
    }
    // What begins a round is kept: a trace that begins in the middle of one is to have the same parts.
    void clear();
    // Whether what was recorded before was run because it repeated itself.
    void begin_part() { after_part_ = true; }
    bool after_part() const { return after_part_; }

  private:
    void find(const Trace& trace);

    static constexpr size_t kRounds = 16;  // worth one part,
    static constexpr size_t kLongNodes = 1024;  // or so many ops,
    static constexpr size_t kLongRounds = 4;  // with fewer rounds: the layers of a model are no loop

    struct Call {
        const OpDef* op = nullptr;
        const PyObject* code = nullptr;  // compared, never dereferenced
        int lasti = -1;
    };
    Call last_;
    // The call that begins a round; its source is the trace's.
    const OpDef* op_ = nullptr;
    const PyObject* code_ = nullptr;
    int lasti_ = -1;
    size_t rounds_ = 0;
    size_t next_look_ = kNodes;
    bool after_part_ = false;
};

}  // namespace mt::trace
