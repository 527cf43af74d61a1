// Whether brief parallel loops are faster on several threads, found out by trying both.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace mt {

/// Tries out whether loops of some microseconds each are faster on one thread or on several.
///
/// That can't be known from the loops. What it takes to hand one over, and to move what it wrote from one core's cache
/// to another's, differs by a factor of three between cores that share a cache and others, and a virtual machine's
/// CPUs move from one to another while a program runs. So for some windows of time loops run on one thread and on
/// several in turns. Loops are compared with those of their kind. What a loop costs is the time until the next one
/// begins, since what comes after it finds its data in another core's cache; a long gap is something else and counts in
/// part.
///
/// The times are given by the caller, in its own order. Any thread may call; those that come while another thread is
/// inside aren't counted.
class ThreadTrial {
  public:
    using Clock = std::chrono::steady_clock;
    using Time = Clock::time_point;

    enum class Choice : int {
        kUnknown,   // nothing was tried yet
        kAlone,     // one thread
        kTogether,  // all threads, if they are awake
        kWake,      // all threads, which are woken up
    };

    /// What a loop is compared by.
    struct Kind {
        const void* body = nullptr;
        int64_t n = 0, grain = 0, grains = 0;

        bool operator==(const Kind&) const = default;
    };

    /// How a loop that begins now is to run. A trial begins only where such loops are `frequent`. One that isn't, and
    /// isn't `brief` either, is worth waking threads up for by itself, and no trial's matter.
    Choice begin(const Kind& kind, Time now, bool frequent, bool brief);

    /// The loop that this thread began last has ended.
    void end(Time now);

    // A trial: so many windows, on one thread and on several in turns, each of so much time and so many loops. The
    // begin of a window doesn't count: threads wake up, and caches fill.
    static constexpr int kWindows = 8;
    static constexpr int kLoops = 64;
    static constexpr std::chrono::microseconds kWindow{1500}, kSettled{300};
    // A window that takes longer has no such loops any more.
    static constexpr std::chrono::milliseconds kAbandoned{100};
    // A trial is made again after so many times its own time: if one of the two ways takes half as long again as the
    // other, the trials cost less than half a per cent.
    static constexpr int kPause = 64;
    // So much of the time between two loops counts for the first of them.
    static constexpr std::chrono::microseconds kGap{20};

  private:
    struct Sum {
        int64_t count = 0;
        Clock::duration time{};
    };
    struct Entry {
        Kind kind;
        std::array<Sum, 2> sums;  // alone, together
    };

    void open(Time now);
    void count(Time now);
    void decide(Time now);
    Entry* entry(const Kind& kind);

    std::atomic<bool> inside_{false};  // a thread is, and no other one waits for it
    std::atomic<Choice> verdict_{Choice::kUnknown};
    std::atomic<bool> trying_{false};
    std::atomic<Clock::rep> next_{0};  // when a trial may begin, in the clock's units
    int window_ = 0, loops_ = 0;
    Time began_, opened_;
    // The loop that came last: whose it is, and when it began and ended.
    const void* thread_ = nullptr;
    Entry* last_ = nullptr;
    bool ended_ = false;
    int way_ = 0;
    Time since_, until_;
    std::array<Entry, 64> entries_{};
};

}  // namespace mt
