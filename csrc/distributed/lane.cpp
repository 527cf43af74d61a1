#include "distributed/lane.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "core/error.h"
#include "core/process/fork.h"
#include "core/process/interrupt.h"

namespace mt::distributed {

namespace {

constexpr int64_t kRest = 20'000'000;  // nanoseconds between looks at signals, the clock and the others
constexpr int64_t kExamine = 50'000'000;

}  // namespace

int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

std::string seconds_text(int64_t nanoseconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g s", static_cast<double>(nanoseconds) * 1e-9);
    return text;
}

std::string Failure::text() {
    std::lock_guard lock(mutex_);
    return text_;
}

void Failure::set(const std::string& text) {
    std::lock_guard lock(mutex_);
    if (set_) return;
    text_ = text;
    set_.store(true, std::memory_order_release);
}

Lane::Lane(std::unique_ptr<Channel> channel, int rank, int size, std::shared_ptr<Failure> failure)
    : channel_(std::move(channel)), rank_(rank), size_(size), failure_(std::move(failure)), made_in_(forks()),
      wants_(size) {}

void Lane::close() {
    if (made_in_ == forks()) leave("the process group was destroyed");
    else if (thread_.joinable()) thread_.detach();  // it is the parent's
}

// One thread at a time.
class Lane::Driving {
  public:
    explicit Driving(Lane& lane) : lane_(lane) { lane_.driven_ = true; }
    ~Driving() {
        lane_.driven_ = false;
        lane_.changed_.notify_all();
    }
    Driving(const Driving&) = delete;

  private:
    Lane& lane_;
};

void Lane::finish(Pending& call, const std::string& error) {
    call.error = error;
    call.done.store(true, std::memory_order_release);
    changed_.notify_all();
}

std::unique_lock<std::mutex> Lane::if_free() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && (made_in_ != forks() || driven_ || stopping_ || !idle() || failure_->is_set() ||
                 !channel_->announced().empty()))
        lock.unlock();
    return lock;
}

void Lane::post(const std::shared_ptr<Pending>& call, bool alone) {
    if (made_in_ != forks()) fail("a process group that was made before a fork can't be used in the child");
    std::unique_lock lock(mutex_);
    if (!failure_->is_set())
        if (std::string told = channel_->announced(); !told.empty()) failure_->set(told);
    if (failure_->is_set()) {
        finish(*call, failure_->text());
        return;
    }
    if (stopping_) {
        finish(*call, "the process group was destroyed");
        return;
    }
    add(call);
    if (!alone) return;
    // Much is done at once: what is short, or was waited for.
    if (!driven_) {
        progress();
        channel_->notify();
    }
    if (call->done) return;
    if (!thread_.joinable()) {
        // Signals are for Python's threads.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        thread_ = std::thread([this] { run(); });
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    changed_.notify_all();
    channel_->wake();
}

void Lane::drive(std::unique_lock<std::mutex>& lock, bool spin, int64_t rest) {
    Driving driving(*this);
    const uint32_t mark = channel_->mark();
    const bool moved = progress();
    channel_->notify();
    const int64_t now = now_ns();
    if (moved) {
        moved_ = now;
        if (now - examined_ < 10 * kExamine) return;
    }
    if (now - std::max(examined_, moved_) >= kExamine) examine(now);
    if (moved || idle()) return;
    std::fill(wants_.begin(), wants_.end(), 0);
    wanted(wants_);
    lock.unlock();
    channel_->rest(mark, rest, spin, wants_);
    lock.lock();
}

void Lane::examine(int64_t now) {
    examined_ = now;
    if (!failure_->is_set()) {
        std::string text = conflict(now);
        if (std::string told; text.empty() && !(told = channel_->announced()).empty()) failure_->set(told);
        else if (!text.empty() || !(text = trouble(now)).empty()) {
            failure_->set(text);
            channel_->announce("rank " + std::to_string(rank_) + ": " + text);
        }
    }
    if (failure_->is_set()) end_all(failure_->text());
}

bool Lane::wait(const std::shared_ptr<Pending>& call, int64_t nanoseconds) {
    if (call->done.load(std::memory_order_acquire)) return true;
    if (made_in_ != forks())
        fail("a call of a process group that was made before a fork can't be waited for in the child");
    const int64_t begun = now_ns();
    std::unique_lock lock(mutex_);
    struct Waiting {
        Lane& lane;
        std::unique_lock<std::mutex>& lock;
        Waiting(Lane& lane_, std::unique_lock<std::mutex>& lock_) : lane(lane_), lock(lock_) { ++lane.waiting_; }
        ~Waiting() {
            if (!lock.owns_lock()) lock.lock();
            --lane.waiting_;
            lane.changed_.notify_all();
        }
    } waiting(*this, lock);
    if (driven_) channel_->wake();
    bool spin = true;
    int64_t looked = begun;
    while (!call->done) {
        if (driven_) changed_.wait_for(lock, std::chrono::nanoseconds(kRest));
        else drive(lock, spin, std::min(kRest, nanoseconds));
        const int64_t now = now_ns();
        spin = now - moved_ < kRest;
        if (now - looked < kRest / 2) continue;
        looked = now;
        if (failure_->is_set()) end_all(failure_->text());
        if (call->done) break;
        if (now - begun > nanoseconds) return false;
        lock.unlock();
        check_interrupt();
        lock.lock();
    }
    return true;
}

void Lane::abort(const std::string& why, bool tell) {
    std::unique_lock lock(mutex_);
    failure_->set(why);
    if (tell) channel_->announce("rank " + std::to_string(rank_) + ": " + why);
    end_all(failure_->text());
    changed_.notify_all();
    channel_->wake();
    // Nobody touches the memory of the calls any more.
    changed_.wait(lock, [&] { return !driven_; });
}

void Lane::leave(const std::string& why) {
    {
        std::unique_lock lock(mutex_);
        if (!stopping_) {
            stopping_ = true;
            end_all(why);
            changed_.notify_all();
            channel_->wake();
            channel_->leave();
        }
    }
    if (thread_.joinable()) thread_.join();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !driven_ && !waiting_; });
}

void Lane::forget() { channel_->forget(); }

void Lane::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return stopping_ || (!idle() && !driven_ && !waiting_); });
        if (stopping_) return;
        drive(lock, false, kRest);
        if (failure_->is_set()) end_all(failure_->text());
    }
}

}  // namespace mt::distributed
