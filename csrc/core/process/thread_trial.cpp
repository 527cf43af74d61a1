#include "core/process/thread_trial.h"

#include <algorithm>
#include <functional>

namespace mt {

namespace {

/// What tells threads apart.
const void* this_thread() {
    static thread_local char own;
    return &own;
}

/// Keeps other threads out, if none is inside.
class Inside {
  public:
    explicit Inside(std::atomic<bool>& inside) : inside_(inside), entered_(!inside.exchange(true, kAcquire)) {}
    ~Inside() {
        if (entered_) inside_.store(false, std::memory_order_release);
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    explicit operator bool() const { return entered_; }

  private:
    static constexpr auto kAcquire = std::memory_order_acquire;
    std::atomic<bool>& inside_;
    const bool entered_;
};

}  // namespace

ThreadTrial::Choice ThreadTrial::begin(const Kind& kind, Time now, bool frequent, bool brief) {
    if (!frequent && !brief) return Choice::kWake;
    const Choice verdict = verdict_.load(std::memory_order_relaxed);
    const bool due = frequent && now.time_since_epoch().count() >= next_.load(std::memory_order_relaxed);
    if (!due && !trying_.load(std::memory_order_relaxed)) return verdict;
    const Inside inside(inside_);
    if (!inside) return verdict;
    if (!trying_.load(std::memory_order_relaxed)) {
        entries_.fill({});
        last_ = nullptr;
        window_ = 0;
        began_ = now;
        trying_.store(true, std::memory_order_relaxed);
        open(now);
    } else {
        count(now);
        if (now - opened_ > kAbandoned) {
            decide(now);
        } else if (now - opened_ >= kWindow && loops_ >= kLoops) {
            ++window_;
            window_ == kWindows ? decide(now) : open(now);
        }
        if (!trying_.load(std::memory_order_relaxed)) return verdict_.load(std::memory_order_relaxed);
    }
    ++loops_;
    thread_ = this_thread();
    way_ = window_ % 2;
    since_ = now;
    ended_ = false;
    last_ = now - opened_ >= kSettled ? entry(kind) : nullptr;
    return way_ == 0 ? Choice::kAlone : Choice::kWake;
}

void ThreadTrial::end(Time now) {
    if (!trying_.load(std::memory_order_relaxed)) return;
    const Inside inside(inside_);
    if (!inside || thread_ != this_thread()) return;
    until_ = now;
    ended_ = true;
}

void ThreadTrial::open(Time now) {
    opened_ = now;
    loops_ = 0;
}

/// Counts the loop that came last, now that the next one begins.
void ThreadTrial::count(Time now) {
    if (last_ == nullptr || !ended_ || thread_ != this_thread()) return;
    Sum& sum = last_->sums[static_cast<size_t>(way_)];
    ++sum.count;
    sum.time += std::min(now, until_ + kGap) - since_;
    last_ = nullptr;
}

void ThreadTrial::decide(Time now) {
    double alone = 0, together = 0;
    for (const Entry& e : entries_) {
        const auto& [one, all] = e.sums;
        if (one.count < 2 || all.count < 2) continue;
        const double times = static_cast<double>(std::min(one.count, all.count));
        alone += times * static_cast<double>(one.time.count()) / static_cast<double>(one.count);
        together += times * static_cast<double>(all.time.count()) / static_cast<double>(all.count);
    }
    // Threads that save less than that aren't worth their processors.
    if (alone > 0) verdict_.store(together < alone * 63 / 64 ? Choice::kTogether : Choice::kAlone);
    // The time of one that was abandoned was something else's.
    const Clock::duration pause = window_ < kWindows ? kWindows * kWindow : kPause * (now - began_);
    next_.store((now + pause).time_since_epoch().count(), std::memory_order_relaxed);
    trying_.store(false, std::memory_order_relaxed);
}

/// The entry of a kind; nullptr where another kind has its place.
ThreadTrial::Entry* ThreadTrial::entry(const Kind& kind) {
    size_t hash = std::hash<const void*>()(kind.body);
    for (const int64_t k : {kind.n, kind.grain, kind.grains}) hash = hash * 31 + std::hash<int64_t>()(k);
    Entry& e = entries_[(hash * 0x9E3779B97F4A7C15u) >> 58];
    if (e.kind.body == nullptr) e.kind = kind;
    return e.kind == kind ? &e : nullptr;
}

}  // namespace mt
