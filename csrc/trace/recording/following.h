// A recording that repeats an earlier one follows it: its calls are compared with the nodes that came then, before
// anything is inferred, and the nodes are copied.
#pragma once

#include <array>
#include <optional>

#include "trace/recording/nodes.h"

namespace mt::trace {

class Following {
  public:
    // The call that a recording begins with.
    struct Start {
        const OpDef* op = nullptr;
        const PyObject* code = nullptr;  // compared, never dereferenced
        int lasti = -1;
        bool operator==(const Start&) const = default;
    };
    // The first call of a recording is recorded.
    void begin(const Start& start);
    // Whether the nodes that `now` has got since it was asked are the expected ones; from the first other one on,
    // nothing is expected.
    bool keeps_up(const Recorded& now);
    // What the next call may be, if all that `now` has is as expected; else null.
    const Recorded* expected(const Recorded& now) {
        const bool asked = nodes_ == now.nodes.size() && inputs_ == now.inputs.size();
        return asked || keeps_up(now) ? expected_ : nullptr;
    }
    // What `now` has got since was copied.
    void advance(const Recorded& now) {
        nodes_ = now.nodes.size();
        inputs_ = now.inputs.size();
    }
    // The recording is over. Where it began if the next one that begins there should follow it.
    std::optional<Start> end(const Recorded& over);
    // Has it followed; takes what `over` has, and gives it arrays that may be used again.
    void keep(const Start& start, Recorded& over);
    // What was recorded is another's now.
    void forget();
    // Differs whenever what is expected may have become another recording's.
    uint64_t begun() const { return begun_count_; }

    static inline uint64_t followed = 0;  // calls in this process
    // Where MT_VERIFY_FOLLOWING is set, nothing is copied: what is recorded is compared with what would have been.
    static bool verifies();

  private:
    struct Known {
        Start start;
        bool repeated = false;  // what began there once only isn't kept
        Recorded recorded;
    };
    Known& known_at(const Start& start);

    static constexpr size_t kStarts = 16;
    static constexpr size_t kMostNodes = 8192;  // of all together: some 3 MB
    std::array<Known, kStarts> known_;
    Start start_;
    bool began_ = false;
    uint64_t begun_count_ = 0;
    const Recorded* expected_ = nullptr;
    size_t nodes_ = 0, inputs_ = 0;  // of the recording, that are as expected
};

}  // namespace mt::trace
