// Calls that wait for other processes: who drives them, how long, and what ends them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "distributed/channel.h"

namespace mt::distributed {

// A call that has begun. Guarded by its lane, but for `done`.
struct Pending {
    virtual ~Pending() = default;
    std::atomic<bool> done{false};
    std::string error;  // of one that is done; empty: it went well
    int source = -1;  // the rank that a message came from
    int64_t limit = 0;  // nanoseconds, from when it is its turn
    int64_t begun = 0;  // when that was; 0: not yet
};

// Why a group can't go on; of all its lanes.
class Failure {
  public:
    bool is_set() const { return set_.load(std::memory_order_acquire); }
    std::string text();
    void set(const std::string& text);  // the first one stays

  private:
    std::mutex mutex_;
    std::string text_;
    std::atomic<bool> set_{false};
};

// A channel and the calls that use it. Whoever waits for a call drives them all; while nobody does, and calls have been
// left to themselves, a thread of the lane's own.
class Lane {
  public:
    Lane(std::unique_ptr<Channel> channel, int rank, int size, std::shared_ptr<Failure> failure);
    virtual ~Lane() = default;
    Lane(const Lane&) = delete;

    // Begins a call. With `alone`, it goes on while nobody waits for it.
    void post(const std::shared_ptr<Pending>& call, bool alone);
    // Waits until it is done, for `nanoseconds` at most (none: as long as the call may take); returns whether it is.
    // Handlers of signals run meanwhile, and what they throw comes out of here.
    bool wait(const std::shared_ptr<Pending>& call, int64_t nanoseconds = INT64_MAX);
    // Ends all calls with an error; those of the other processes too if they are to be told.
    void abort(const std::string& why, bool tell);
    // Ends the lane's thread. Calls that go on are errors. In a forked child there is no such thread.
    void leave(const std::string& why);
    void forget();
    // What this process last asked for, and the others, as far as it is known.
    virtual std::string last_calls() = 0;

  protected:
    // Called with the mutex held:
    virtual void add(const std::shared_ptr<Pending>& call) = 0;
    virtual bool progress() = 0;  // whether anything moved
    virtual bool idle() = 0;
    virtual void wanted(std::vector<uint8_t>& wants) = 0;
    // The text of an error if the ranks' calls don't go together, as far as this one knows.
    virtual std::string conflict(int64_t now) = 0;
    // The text of an error if a call has taken too long or waits for a process that is gone.
    virtual std::string trouble(int64_t now) = 0;
    virtual void end_all(const std::string& error) = 0;

    void finish(Pending& call, const std::string& error = {});
    // The mutex, held, if a call can be made at once: nothing goes on, has failed or has ended. Never waits.
    std::unique_lock<std::mutex> if_free();
    void close();  // for destructors

    std::unique_ptr<Channel> channel_;
    int rank_, size_;

  private:
    class Driving;
    void drive(std::unique_lock<std::mutex>& lock, bool spin, int64_t rest);
    void examine(int64_t now);
    void run();

    std::shared_ptr<Failure> failure_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool driven_ = false, stopping_ = false;
    int waiting_ = 0;  // threads in `wait`
    int64_t examined_ = 0, moved_ = 0;
    std::thread thread_;
    uint64_t made_in_;
    std::vector<uint8_t> wants_;
};

int64_t now_ns();
std::string seconds_text(int64_t nanoseconds);  // 30 s

}  // namespace mt::distributed
