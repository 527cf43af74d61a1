#include "trace/recording/repetition.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "trace/recording/trace.h"

namespace mt::trace {

void Repetition::clear() {
    const Call last = last_;
    *this = Repetition();
    last_ = last;
}

bool Repetition::ends(const Trace& trace, const OpDef& op, const SourceRef& at) {
    if (trace.nodes.size() < kNodes) return false;
    if (trace.nodes.size() >= next_look_) {
        find(trace);
        next_look_ = 2 * trace.nodes.size();
    }
    if (op_ != &op || lasti_ != at.lasti || code_ != at.code) return false;
    ++rounds_;  // those that are over
    return rounds_ > kRounds || (trace.nodes.size() >= kLongNodes && rounds_ > kLongRounds);
}

// The first of the calls that come about as often as the most frequent one: what comes before a loop isn't part of it.
void Repetition::find(const Trace& trace) {
    struct Calls {
        size_t first, count;
    };
    std::map<std::tuple<const OpDef*, const PyObject*, int>, Calls> places;
    size_t most = 0;
    for (size_t n = 0; n < trace.nodes.size(); ++n) {
        const TraceNode& node = trace.nodes[n];
        if (!node.called || !node.source.code) continue;
        Calls& calls = places.try_emplace({node.op, node.source.code, node.source.lasti}, Calls{n, 0}).first->second;
        most = std::max(most, ++calls.count);
    }
    op_ = nullptr;
    if (most < 2) return;
    size_t first = trace.nodes.size();
    for (const auto& [place, calls] : places) {
        if (2 * calls.count < most || calls.first >= first) continue;
        std::tie(op_, code_, lasti_) = place;
        first = calls.first;
        rounds_ = calls.count;
    }
    auto last = places.find({last_.op, last_.code, last_.lasti});
    if (last != places.end() && 2 * last->second.count >= most) {
        std::tie(op_, code_, lasti_) = last->first;
        rounds_ = last->second.count;
    }
    last_ = {op_, code_, lasti_};
}

}  // namespace mt::trace
