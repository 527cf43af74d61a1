#include "core/process/parallel.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/process/cpus.h"
#include "core/process/fork.h"
#include "core/process/interrupt.h"
#include "core/process/loop_share.h"
#include "core/process/thread_trial.h"

namespace mt {

void (*signals_callback)() = nullptr;

namespace {

// How long a waiting thread spins before it sleeps: longer than the gap between two kernels of a busy program, short
// enough not to be noticed otherwise.
constexpr std::chrono::microseconds kSpin{100};
constexpr int kMaxThreads = 4096;

thread_local bool t_in_region = false;
thread_local bool t_worker = false;

// How often a long computation asks whether a signal has arrived.
constexpr std::chrono::milliseconds kSignals{100};
thread_local std::chrono::steady_clock::time_point t_asked;
// Set when the pool's present loop is interrupted: nobody needs to finish it.
std::atomic<bool> g_stop{false};
struct Stopped {};
constexpr int64_t kNoError = INT64_MAX;

int initial_num_threads() {
    const char* text = std::getenv("MT_NUM_THREADS");
    if (text == nullptr || *text == '\0') return available_cpus();
    char* end = nullptr;
    errno = 0;
    const long value = std::strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < 1 || value > kMaxThreads) {
        throw std::invalid_argument(std::string("MT_NUM_THREADS=") + text + ": expected a number from 1 to " +
                                    std::to_string(kMaxThreads));
    }
    return static_cast<int>(value);
}

bool initial_wake_always() {
    const char* text = std::getenv("MT_WAKE_THREADS");
    const std::string value = text == nullptr ? "" : text;
    if (value != "" && value != "demand" && value != "always") {
        throw std::invalid_argument("MT_WAKE_THREADS=" + value + ": expected demand or always");
    }
    return value == "always";
}

std::atomic<int>& thread_count() {
    static std::atomic<int> count{initial_num_threads()};
    return count;
}

/// Spins until ready() or until the time is up; returns ready().
template <class Ready>
bool spin_until(Ready ready, bool spin) {
    if (ready()) return true;
    if (!spin) return false;
    const auto deadline = std::chrono::steady_clock::now() + kSpin;
    do {
        for (int i = 0; i < 16; ++i) {
            cpu_relax();
            if (ready()) return true;
        }
    } while (std::chrono::steady_clock::now() < deadline);
    return false;
}

// To wake up a thread costs its caller about 10 us, and the thread is there after 20 to 80 us. A loop of at most so
// many grains takes no longer by itself.
constexpr int64_t kBriefGrains = 16;
// Where a loop of at most so many grains is faster, on one thread or on several, is tried out.
constexpr int64_t kTriedGrains = 64;
// So much work in brief loops is worth being woken up for, and so much of it counts.
constexpr std::chrono::microseconds kEnoughDemand{60}, kMostDemand{240};
// What brief loops took is forgotten by so much of the time that passes: where they take less of it, nobody is woken
// up.
constexpr int64_t kForgotten = 8;

/// Runs a loop on this thread alone.
void run_alone(int64_t n, int64_t grain, RangeFn fn, void* ctx) {
    if (n / grain < 4 * kPieceGrains) return fn(ctx, 0, n);
    const int64_t piece = kPieceGrains * grain;
    for (int64_t begin = 0; begin < n; begin += piece) {
        check_interrupt();
        fn(ctx, begin, std::min(begin + piece, n));
    }
}

/// One worker's mailbox. The caller posts a chunk; whoever moves the state from kPosted to kTaken, the worker or a
/// caller that has nothing else to do, sees to it.
struct alignas(64) Slot {
    enum State : int { kEmpty, kPosted, kTaken };

    std::atomic<int> state{kEmpty};
    std::atomic<bool> sleeping{false};
    std::atomic<int> cpu{-1};  // where the worker ran last
    pthread_t thread{};
    int avoids = -1;  // the CPU that it was last kept away from; the caller's
    int64_t number = 0;
    std::mutex mutex;
    std::condition_variable wake;

    bool take() {
        int expected = kPosted;
        return state.compare_exchange_strong(expected, kTaken, std::memory_order_acq_rel);
    }
};

/// The work in brief loops of late. Threads may note theirs beside each other: an estimate is enough.
class Demand {
  public:
    using Clock = std::chrono::steady_clock;

    bool high(Clock::time_point now) const { return left(now) >= Clock::duration(kEnoughDemand).count(); }

    void note(Clock::time_point begin, Clock::time_point end) {
        const int64_t sum = left(end) + (end - begin).count();
        level_.store(std::min(sum, Clock::duration(kMostDemand).count()), std::memory_order_relaxed);
        at_.store(end.time_since_epoch().count(), std::memory_order_relaxed);
    }

  private:
    int64_t left(Clock::time_point now) const {
        const int64_t passed = now.time_since_epoch().count() - at_.load(std::memory_order_relaxed);
        return std::max<int64_t>(0, level_.load(std::memory_order_relaxed) - passed / kForgotten);
    }

    std::atomic<int64_t> level_{0}, at_{0};  // in the clock's units
};

/// Workers and their mailboxes. A pool is never destroyed: its detached workers may outlive static destructors, and
/// after a fork the child leaves the parent's pool alone and makes its own.
class Pool {
  public:
    /// Runs the loop over `chunks` chunks of `step` elements. False if another thread has the pool, if there is no
    /// memory, or if workers sleep who may not be woken up. Where `woken` is given, it is set to the time when those
    /// are woken up that slept.
    bool run(int64_t n, int64_t grain, int64_t step, int64_t chunks, RangeFn fn, void* ctx, bool may_wake,
             std::chrono::steady_clock::time_point* woken = nullptr) {
        std::unique_lock<std::mutex> owner(owner_, std::try_to_lock);
        if (!owner.owns_lock() || !(may_wake || awake(chunks - 1))) return false;
        spin_.store(chunks <= cpus_, std::memory_order_relaxed);
        int64_t helpers;
        try {
            helpers = std::min<int64_t>(chunks - 1, start_workers(chunks - 1));
            if (room_ < chunks) {
                chunks_ = std::make_unique<Chunk[]>(static_cast<size_t>(chunks));
                room_ = chunks;
            }
        } catch (const std::bad_alloc&) { return false; }
        fn_ = fn;
        ctx_ = ctx;
        count_ = chunks;
        error_at_.store(kNoError, std::memory_order_relaxed);
        // Where arrays are larger than the last cache, a loop over the same ones begins with what this one leaves in
        // it.
        if (step / grain >= kLongShare) backwards_ = !backwards_;
        for (int64_t c = 0; c < chunks; ++c) chunks_[c].set(c * step, std::min(n, (c + 1) * step), grain, backwards_);

        const int cpu = current_cpu();
        caller_cpu_.store(cpu, std::memory_order_relaxed);
        pending_.store(helpers, std::memory_order_relaxed);
        bool woke = false;
        for (int64_t w = 0; w < helpers; ++w) woke |= post(*slots_[w], cpu);
        if (woke && woken != nullptr) *woken = std::chrono::steady_clock::now();
        const uint64_t forked = forks();
        t_in_region = true;
        run_chunks(0);
        // Who has not woken up yet needn't.
        for (int64_t w = 0; w < helpers; ++w) {
            Slot& slot = *slots_[w];
            if (slot.state.load(std::memory_order_relaxed) == Slot::kPosted && slot.take()) finish();
        }
        t_in_region = false;
        wait_for_workers(helpers, cpu, forked);
        g_stop.store(false, std::memory_order_relaxed);
        for (int64_t w = 0; w < helpers; ++w) slots_[w]->state.store(Slot::kEmpty, std::memory_order_relaxed);
        if (error_) {
            std::exception_ptr error = std::move(error_);
            error_ = nullptr;
            owner.unlock();
            std::rethrow_exception(error);
        }
        return true;
    }

    Demand demand;
    ThreadTrial trial;

  private:
    bool awake(int64_t wanted) const {
        if (static_cast<int64_t>(slots_.size()) < wanted) return false;
        return std::none_of(slots_.begin(), slots_.begin() + wanted,
                            [](const auto& slot) { return slot->sleeping.load(std::memory_order_relaxed); });
    }

    /// Starts workers until there are `wanted`; returns how many there are.
    int64_t start_workers(int64_t wanted) {
        slots_.reserve(wanted);
        while (static_cast<int64_t>(slots_.size()) < wanted) {
            auto slot = std::make_unique<Slot>();
            slot->number = static_cast<int64_t>(slots_.size());
            // Signals belong to the program's own threads.
            sigset_t all, before;
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, &before);
            bool started = true;
            try {
                std::thread worker([this, s = slot.get()] { work(*s); });
                slot->thread = worker.native_handle();
                worker.detach();
            } catch (const std::system_error&) { started = false; }
            pthread_sigmask(SIG_SETMASK, &before, nullptr);
            if (!started) break;
            slots_.push_back(std::move(slot));
        }
        return static_cast<int64_t>(slots_.size());
    }

    /// Returns whether that woke up the worker.
    static bool post(Slot& slot, int cpu) {
        if (slot.avoids != cpu) {
            move_away(slot.thread, cpu);
            slot.avoids = cpu;
        }
        // Sequentially consistent with the worker's store to `sleeping` and load of `state`: one of the two sees the
        // other.
        slot.state.store(Slot::kPosted, std::memory_order_seq_cst);
        if (!slot.sleeping.load(std::memory_order_seq_cst)) return false;
        // From here on it counts as awake: nobody pays for waking it up again while it gets there.
        {
            std::lock_guard<std::mutex> lock(slot.mutex);
            slot.sleeping.store(false, std::memory_order_relaxed);
        }
        slot.wake.notify_one();
        return true;
    }

    /// Runs the present loop's chunk of this number, then what is left of the others.
    void run_chunks(int64_t first) noexcept {
        for (int64_t k = 0; k < count_ && !g_stop.load(std::memory_order_relaxed); ++k) {
            Chunk& chunk = chunks_[first + k < count_ ? first + k : first + k - count_];
            for (int64_t begin, end; chunk.take(begin, end);) {
                // What comes before a piece that failed runs all the same: the error is always the first one.
                if (begin > error_at_.load(std::memory_order_relaxed)) continue;
                try {
                    fn_(ctx_, begin, end);
                    check_interrupt();
                } catch (const Stopped&) {  // another thread says why
                    return;
                } catch (...) {
                    const bool stopped = g_stop.load(std::memory_order_relaxed);
                    if (stopped && t_worker) return;  // the caller, which is interrupted, throws that
                    fail(stopped ? -1 : begin, std::current_exception());
                }
            }
        }
    }

    /// Keeps the error of the first piece.
    void fail(int64_t at, std::exception_ptr error) {
        std::lock_guard<std::mutex> lock(error_mutex_);
        if (at >= error_at_.load(std::memory_order_relaxed)) return;
        error_ = std::move(error);
        error_at_.store(at, std::memory_order_relaxed);
    }

    /// One worker's part is done. Returns whether that woke up the caller.
    bool finish() {
        if (pending_.fetch_sub(1, std::memory_order_seq_cst) != 1 || !caller_sleeping_.load(std::memory_order_seq_cst))
            return false;
        { std::lock_guard<std::mutex> lock(done_mutex_); }
        done_.notify_one();
        return true;
    }

    void wait_for_workers(int64_t helpers, int cpu, uint64_t forked) {
        auto done = [this] { return pending_.load(std::memory_order_seq_cst) == 0; };
        bool spin = spin_.load(std::memory_order_relaxed);
        for (int64_t w = 0; w < helpers && spin; ++w) {
            spin = cpu < 0 || slots_[w]->cpu.load(std::memory_order_relaxed) != cpu;
        }
        if (spin_until(done, spin)) return;
        check_threads(forked);
        std::unique_lock<std::mutex> lock(done_mutex_);
        caller_sleeping_.store(true, std::memory_order_seq_cst);
        while (!done_.wait_for(lock, kSignals, done)) {
            lock.unlock();
            try {
                if (!g_stop.load(std::memory_order_relaxed)) check_interrupt();
            } catch (...) {
                g_stop.store(true, std::memory_order_relaxed);
                fail(-1, std::current_exception());
            }
            check_threads(forked);
            lock.lock();
        }
        caller_sleeping_.store(false, std::memory_order_relaxed);
    }

    // The handler of a signal may fork, and return in the child.
    static void check_threads(uint64_t forked) {
        if (forks() != forked)
            mt::fail(
                "this process was forked by the handler of a signal in the middle of a computation: the threads that "
                "take part in it are its parent's");
    }

    [[noreturn]] void work(Slot& slot) {
        t_in_region = t_worker = true;
        auto posted = [&slot] { return slot.state.load(std::memory_order_seq_cst) == Slot::kPosted; };
        bool woke_caller = false;
        for (;;) {
            const int cpu = current_cpu();
            slot.cpu.store(cpu, std::memory_order_relaxed);
            // The system likes to let a thread that is woken up run where it was woken: then this one is in its way.
            if (!spin_until(posted, !woke_caller && may_spin(cpu))) {
                std::unique_lock<std::mutex> lock(slot.mutex);
                slot.sleeping.store(true, std::memory_order_seq_cst);
                // Woken up too late, it waits for the next loop: where one was worth it, others follow.
                slot.wake.wait(lock, [&] { return posted() || !slot.sleeping.load(std::memory_order_relaxed); });
                slot.sleeping.store(false, std::memory_order_relaxed);
                woke_caller = false;
            }
            if (slot.take()) {
                slot.cpu.store(current_cpu(), std::memory_order_relaxed);
                run_chunks(slot.number + 1);
                woke_caller = finish();
            }
        }
    }

    /// A thread that shares its CPU with the one that it waits for must not spin: it would keep the other from running.
    bool may_spin(int cpu) const {
        return spin_.load(std::memory_order_relaxed) && cpu != caller_cpu_.load(std::memory_order_relaxed);
    }

    const int64_t cpus_ = available_cpus();
    std::mutex owner_;
    // The present loop: written before it is posted, and while no worker has taken a part of it.
    RangeFn fn_ = nullptr;
    void* ctx_ = nullptr;
    std::unique_ptr<Chunk[]> chunks_;
    int64_t room_ = 0, count_ = 0;
    bool backwards_ = false;
    std::mutex error_mutex_;
    std::exception_ptr error_;
    std::atomic<int64_t> error_at_{kNoError};  // the begin of the piece that it comes from; -1: an interrupt
    std::vector<std::unique_ptr<Slot>> slots_;
    std::atomic<int> caller_cpu_{-2};
    std::atomic<bool> spin_{true};  // off while there are more threads than CPUs
    alignas(64) std::atomic<int64_t> pending_{0};
    std::atomic<bool> caller_sleeping_{false};
    std::mutex done_mutex_;
    std::condition_variable done_;
};

std::atomic<Pool*> g_pool{nullptr};

// Only the forking thread exists in the child: the pool's workers do not, and its locks may be held for ever.
void forget_pool_in_child() {
    g_pool.store(nullptr, std::memory_order_relaxed);
    g_stop.store(false, std::memory_order_relaxed);  // of another thread's loop
    t_in_region = false;
}
[[maybe_unused]] const bool forgotten = at_fork_in_child(forget_pool_in_child);

Pool& pool() {
    Pool* current = g_pool.load(std::memory_order_acquire);
    if (current != nullptr) return *current;
    auto fresh = std::make_unique<Pool>();
    if (g_pool.compare_exchange_strong(current, fresh.get(), std::memory_order_acq_rel)) current = fresh.release();
    return *current;
}

}  // namespace

int num_threads() { return thread_count().load(std::memory_order_relaxed); }

void set_num_threads(int n) {
    if (n < 1 || n > kMaxThreads) {
        throw std::invalid_argument("set_num_threads: expected a number from 1 to " + std::to_string(kMaxThreads) +
                                    ", got " + std::to_string(n));
    }
    thread_count().store(n, std::memory_order_relaxed);
}

bool wakes_threads_always() {
    static const bool always = initial_wake_always();
    return always;
}

bool in_parallel_region() noexcept { return t_in_region; }

void parallel_for(int64_t n, int64_t grain, RangeFn fn, void* ctx, int64_t grains) {
    if (n <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    const int64_t threads = n > grain && !t_in_region ? num_threads() : 1;
    if (threads == 1) return run_alone(n, grain, fn, ctx);

    const int64_t parts = (n - 1) / grain + 1;
    const int64_t step = ((parts - 1) / std::min(threads, parts) + 1) * grain;
    const int64_t chunks = (n - 1) / step + 1;
    Pool& workers = pool();
    const int64_t of_work = grains != 0 ? grains : grain > 1 ? parts : INT64_MAX;
    if (of_work > kTriedGrains || wakes_threads_always()) {
        if (!workers.run(n, grain, step, chunks, fn, ctx, true)) run_alone(n, grain, fn, ctx);
        return;
    }
    auto begin = Demand::Clock::now();
    const bool frequent = workers.demand.high(begin);
    const ThreadTrial::Kind kind{reinterpret_cast<const void*>(fn), n, grain, grains};
    const auto choice = workers.trial.begin(kind, begin, frequent, of_work <= kBriefGrains);
    const bool may_wake = frequent || choice == ThreadTrial::Choice::kWake;
    // What it costs to wake somebody up is no work: it would go on being a reason for itself.
    const bool alone = choice == ThreadTrial::Choice::kAlone;
    if (alone || !workers.run(n, grain, step, chunks, fn, ctx, may_wake, &begin)) run_alone(n, grain, fn, ctx);
    const auto end = Demand::Clock::now();
    workers.demand.note(begin, end);
    workers.trial.end(end);
}

void check_interrupt() {
    if (t_worker) {
        if (g_stop.load(std::memory_order_relaxed)) throw Stopped{};
        return;
    }
    if (!signals_callback) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - t_asked < kSignals) return;
    t_asked = now;
    struct Inside {
        Inside() { ++t_handlers; }
        ~Inside() { --t_handlers; }
    } inside;
    try {
        signals_callback();
    } catch (...) {
        if (t_in_region) g_stop.store(true, std::memory_order_relaxed);
        throw;
    }
}

}  // namespace mt
