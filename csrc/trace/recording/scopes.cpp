// What is said of the ops that are recorded now, and of those of their gradients.
#include "autograd/engine.h"
#include "trace/recording/trace.h"

namespace mt::trace {

MT_THREAD_LOCAL Tag current_tag;

namespace {

constexpr int32_t kGradientScope = 1 << 15;

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
    if (current && tag.compile != -1) current->wake();
    tag.must = false;
    if (tag.scope & kSeparateGradients) tag.scope |= kGradientScope;
    current_tag = tag;
    return previous;
}
void end_formula(uint64_t previous) { current_tag = tag_of(previous); }

}  // namespace

void set_tag(const Tag& tag) {
    if (current && tag.compile != -1) current->wake();
    current_tag = tag;
    // What must be compiled is a function as a whole, not what becomes of its results.
    call_mark = tag.compile == -1 || tag.must ? 0 : word_of(tag);
    begin_formula_callback = begin_formula;
    end_formula_callback = end_formula;
}

}  // namespace mt::trace
